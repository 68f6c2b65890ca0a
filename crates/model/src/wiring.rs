//! Channels between the cubes that share a head.

use cubeyard_device::request::PeRef;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Channel, Context, End, RingConfig};

use super::cut::{Cut, Phase};
use cubeyard_tl::Port;

/// Returns channels between the PEs at equal positions of the cubes that share a head.
pub(super) fn channels(context: &Context, cut: &Cut, sips: &[SipId], ports: u16) -> Vec<Channel> {
    let (cubes, pes): (Vec<_>, Vec<_>) = context.machine(|machine| {
        (machine.topology().cubes().collect(), machine.topology().pes().collect())
    });
    let each = usize::try_from(cut.group_cubes).unwrap_or(usize::MAX);
    let port = |cube: usize| Port(u16::try_from(cube).expect("few cubes")).of_group(ports);
    let mut channels = Vec::new();
    for (&sip, group) in sips.iter().flat_map(|sip| cubes.chunks(each).map(move |it| (sip, it))) {
        for (b, a) in (0..group.len()).flat_map(|b| (0..b).map(move |a| (b, a))) {
            let end = |cube: usize, other, pe| End {
                pe: PeRef { sip, cube: group[cube], pe },
                port: port(other),
            };
            channels.extend(pes.iter().map(|&pe| Channel { ends: [end(a, b, pe), end(b, a, pe)] }));
        }
    }
    channels
}

/// Returns ring settings whose slots hold the longest message.
pub(super) fn ring(cut: &Cut) -> RingConfig {
    let element = cut.work.dtype.size();
    let projected = cut.rows() * cut.qkv() * element;
    let rows = if cut.work.phase == Phase::Prefill { cut.unit_rows() } else { 1 };
    let attended = rows * cut.attended() * element;
    let slot_bytes = projected.max(attended).max(256).next_multiple_of(256);
    RingConfig { slot_bytes: Bytes::new(slot_bytes), ..RingConfig::default() }
}
