//! Channels between the cubes that share a head, and between the PEs of a cube.

use cubeyard_device::request::PeRef;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Channel, ChannelEnd, Context, RingConfig};

use super::cut::{Cut, Phase};
use cubeyard_tl::Port;

/// First port to the other cubes that share a head; the ports below it belong to the all-reduce.
const CUBES: u16 = 1 << 14;
/// First port to the other PEs of a cube.
const PES: u16 = 1 << 15;

/// Returns the port to the PE at the same position in another cube that shares a head.
pub(super) fn to_cube(cube: u64) -> Port {
    Port(CUBES + u16::try_from(cube).expect("few cubes"))
}

/// Returns the port to another PE of a cube.
pub(super) fn to_pe(pe: u64) -> Port {
    Port(PES + u16::try_from(pe).expect("few PEs"))
}

/// Returns channels between all PEs of each cube.
pub(super) fn within_cubes(context: &Context, sips: &[SipId], ports: u16) -> Vec<Channel> {
    let (cubes, pes): (Vec<_>, Vec<_>) = context.machine(|machine| {
        (machine.topology().cubes().collect(), machine.topology().pes().collect())
    });
    let pairs = || (0..pes.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let mut channels = Vec::new();
    for (&sip, &cube) in sips.iter().flat_map(|sip| cubes.iter().map(move |cube| (sip, cube))) {
        let end = |pe: usize, other: usize| ChannelEnd {
            pe: PeRef { sip, cube, pe: pes[pe] },
            port: to_pe(other as u64).of_group(ports),
        };
        channels.extend(pairs().map(|(a, b)| Channel { ends: [end(a, b), end(b, a)] }));
    }
    channels
}

/// Returns channels between the PEs at equal positions in the cubes that share a head.
pub(super) fn channels(context: &Context, cut: &Cut, sips: &[SipId], ports: u16) -> Vec<Channel> {
    let (cubes, pes): (Vec<_>, Vec<_>) = context.machine(|machine| {
        (machine.topology().cubes().collect(), machine.topology().pes().collect())
    });
    let each = usize::try_from(cut.group_cubes).unwrap_or(usize::MAX);
    let port = |cube: usize| to_cube(cube as u64).of_group(ports);
    let mut channels = Vec::new();
    for (&sip, group) in sips.iter().flat_map(|sip| cubes.chunks(each).map(move |it| (sip, it))) {
        for (b, a) in (0..group.len()).flat_map(|b| (0..b).map(move |a| (b, a))) {
            let end = |cube: usize, other, pe| ChannelEnd {
                pe: PeRef { sip, cube: group[cube], pe },
                port: port(other),
            };
            channels.extend(pes.iter().map(|&pe| Channel { ends: [end(a, b, pe), end(b, a, pe)] }));
        }
    }
    channels
}

/// Returns ring settings for messages that only signal progress.
pub(super) fn signs() -> RingConfig {
    RingConfig { slot_bytes: Bytes::new(256), ..RingConfig::default() }
}

/// Returns ring settings with slots that hold the longest message.
pub(super) fn ring(cut: &Cut) -> RingConfig {
    let element = cut.work.dtype.size();
    let projected = cut.rows() * cut.qkv() * element;
    let rows = if cut.work.phase == Phase::Prefill { cut.unit_rows() } else { 1 };
    let attended = rows * cut.attended() * element;
    let slot_bytes = projected.max(attended).max(256).next_multiple_of(256);
    RingConfig { slot_bytes: Bytes::new(slot_bytes), ..RingConfig::default() }
}
