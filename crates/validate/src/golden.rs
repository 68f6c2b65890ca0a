//! Golden values of ASTRA-sim's analytical network library, on our own networks.
//!
//! ASTRA-sim's links are in GiB/s. In the congestion-aware library a node stores and forwards messages, and the delay
//! of each hop is truncated to whole nanoseconds: 1 MiB at 50 GiB/s takes 19 531 ns instead of 19 531.25. Our links get
//! the bandwidth that takes exactly that long, and a message is one flit. The congestion-unaware library charges the
//! bytes once and the latency of each hop. We use one link of its bandwidth, followed by links too fast to matter; its
//! sum is truncated to whole nanoseconds, and so is ours. (That also removes the minimum of one picosecond at our
//! store-and-forward nodes.)

use cubeyard_sim::{Forwarding, NodeSpec, Span, Time};

use super::wires::{Packet, Wire, Wires};
use super::{Check, CheckKind, Expected};
use cubeyard_device::topology::Topology;

const AWARE: &str = "astra-network-analytical, congestion-aware (sources.md#astra-sim)";
const UNAWARE: &str = "astra-network-analytical, congestion-unaware (sources.md#astra-sim)";
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const NPUS: usize = 16;
/// ASTRA-sim's regression: a ring of 8 NPUs, and 1 MiB in four chunks, each sent in eighths.
const SMALL: usize = 8;
const CHUNKS: u64 = 4;
const CHUNK: u64 = MIB / CHUNKS / SMALL as u64;
const REGRESSION: &str = "astra-sim, regression, ring of 8 (sources.md#astra-sim)";
const ENDPOINTS: &str =
    "theirs includes endpoints and memories, which the network alone does not have";
/// Bandwidth of a link whose serialisation time is negligible, in bytes per second.
const INSTANT: u64 = 1 << 62;

pub(super) fn checks(_: &Topology) -> Vec<Check<'_>> {
    let exact = |name: &str, value, source, ours: Box<dyn Fn() -> f64>| {
        Check::new(CheckKind::Exact, name, Expected::ns(value), source, ours)
    };
    let aware = |wires: fn(u64) -> Wires, way: &'static [usize]| -> Box<dyn Fn() -> f64> {
        Box::new(move || whole_ns(one(&wires(truncated(MIB)), way)))
    };
    let unaware = |gib: u64, hops: &'static [u64]| -> Box<dyn Fn() -> f64> {
        Box::new(move || whole_ns(pipelined(gib * GIB, hops)))
    };
    vec![
        exact("ring of 16, 1 MiB from 1 to 4", 60_093.0, AWARE, aware(ring, &[1, 2, 3, 4])),
        exact("fully connected 16, the same", 20_031.0, AWARE, aware(pairs, &[1, 4])),
        exact("switch with 16, the same", 40_062.0, AWARE, aware(switch, &[1, NPUS, 4])),
        exact(
            "ring of 16, all-gather of 240 messages of 1 MiB",
            704_116.0,
            AWARE,
            Box::new(|| whole_ns(all_gather(&ring(truncated(MIB))))),
        ),
        Check::new(
            CheckKind::Predicted,
            "the same all-gather at 50 GiB/s to the picosecond",
            Expected::ns(704_116.0),
            AWARE,
            || all_gather(&ring(50 * GIB)).ns(),
        ),
        exact(
            "ring of 8, all-reduce of 1 MiB in 4 chunks: 56 steps of 610 + 500 ns",
            62_160.0,
            "arithmetic of the regression's network",
            Box::new(|| whole_ns(all_reduce())),
        )
        .own(),
        Check::new(
            CheckKind::Indicative,
            "the same with endpoints and memories",
            Expected::ns(117_780.0),
            REGRESSION,
            || whole_ns(all_reduce()),
        )
        .because(ENDPOINTS),
        exact("ring of 16, 3 hops", 21_031.0, UNAWARE, unaware(50, &[500; 3])),
        exact("fully connected 16, 1 hop", 20_031.0, UNAWARE, unaware(50, &[500])),
        exact("switch with 16, 2 hops", 20_531.0, UNAWARE, unaware(50, &[500; 2])),
        exact("ring(2) of ring x full x switch", 4932.0, UNAWARE, unaware(200, &[50])),
        exact("full(8) of ring x full x switch", 10_265.0, UNAWARE, unaware(100, &[500])),
        exact("switch(4) of ring x full x switch", 23_531.0, UNAWARE, unaware(50, &[2000; 2])),
    ]
}

/// Returns the bandwidth at which a message takes its time at 50 GiB/s, truncated to whole nanoseconds.
fn truncated(message: u64) -> u64 {
    let ns = u128::from(message) * 1_000_000_000 / u128::from(50 * GIB);
    let bandwidth = (u128::from(message) * 1_000_000_000).div_ceil(ns);
    u64::try_from(bandwidth).expect("about 50 GiB/s")
}

fn whole_ns(span: Span) -> f64 {
    (span.ps() / 1000) as f64
}

fn storing(nodes: usize, bandwidth: u64, ends: impl Iterator<Item = (usize, usize)>) -> Wires {
    storing_messages(MIB, nodes, bandwidth, ends)
}

/// Builds a network of nodes that store and forward messages of this size.
fn storing_messages(
    message: u64,
    nodes: usize,
    bandwidth: u64,
    ends: impl Iterator<Item = (usize, usize)>,
) -> Wires {
    let node = NodeSpec { forwarding: Forwarding::StoreAndForward, ..NodeSpec::default() };
    let wires = ends.map(|(from, to)| (from, to, bandwidth, Span::from_ps(500_000)));
    Wires::new(message, vec![node; nodes], wires.collect())
}

fn ring(bandwidth: u64) -> Wires {
    let both = |npu| [(npu, (npu + 1) % NPUS), ((npu + 1) % NPUS, npu)];
    storing(NPUS, bandwidth, (0..NPUS).flat_map(both))
}

fn pairs(bandwidth: u64) -> Wires {
    let all = (0..NPUS).flat_map(|from| (0..NPUS).map(move |to| (from, to)));
    storing(NPUS, bandwidth, all.filter(|(from, to)| from != to))
}

fn switch(bandwidth: u64) -> Wires {
    storing(NPUS + 1, bandwidth, (0..NPUS).flat_map(|npu| [(npu, NPUS), (NPUS, npu)]))
}

fn one(wires: &Wires, way: &[usize]) -> Span {
    let packet = Packet { at: Time::ZERO, route: wires.route(way), bytes: MIB };
    wires.carry(&[packet])[0].latency()
}

/// Sends a message from each node to each other node, all at once, in the shorter direction; upwards if both are
/// equally long.
fn all_gather(wires: &Wires) -> Span {
    let packet = |from: usize, to: usize| {
        let up = (to + NPUS - from) % NPUS;
        let step = if up <= NPUS / 2 { 1 } else { NPUS - 1 };
        let mut way = vec![from];
        while way.last() != Some(&to) {
            way.push((way[way.len() - 1] + step) % NPUS);
        }
        Packet { at: Time::ZERO, route: wires.route(&way), bytes: MIB }
    };
    let others = (0..NPUS).flat_map(|from| (0..NPUS).map(move |to| (from, to)));
    let packets: Vec<_> =
        others.filter(|(from, to)| from != to).map(|(from, to)| packet(from, to)).collect();
    assert_eq!(packets.len(), 240, "each of 16 to each other");
    let last = wires.carry(&packets).into_iter().map(|arrival| arrival.at).max();
    last.unwrap_or_default() - Time::ZERO
}

/// Sends chunk after chunk in `2 (n − 1)` steps around a ring; a step begins when all nodes have received the previous
/// one.
fn all_reduce() -> Span {
    let next = |npu: usize| (npu + 1) % SMALL;
    let ends = (0..SMALL).map(|npu| (npu, next(npu)));
    let wires = storing_messages(CHUNK, SMALL, truncated(CHUNK), ends);
    let mut now = Time::ZERO;
    for _ in 0..CHUNKS * 2 * (SMALL as u64 - 1) {
        let packet = |npu| Packet { at: now, route: wires.route(&[npu, next(npu)]), bytes: CHUNK };
        let arrivals = wires.carry(&(0..SMALL).map(packet).collect::<Vec<_>>());
        now = arrivals.into_iter().map(|arrival| arrival.at).max().unwrap_or(now);
    }
    now - Time::ZERO
}

/// Sends 1 MiB over hops with these latencies in nanoseconds; only the first hop has the given bandwidth.
fn pipelined(bandwidth: u64, hops: &[u64]) -> Span {
    let wire = |(hop, &ns): (usize, &u64)| -> Wire {
        let bandwidth = if hop == 0 { bandwidth } else { INSTANT };
        (hop, hop + 1, bandwidth, Span::from_ps(ns * 1000))
    };
    let wires = hops.iter().enumerate().map(wire).collect();
    let wires = Wires::new(MIB, vec![NodeSpec::default(); hops.len() + 1], wires);
    one(&wires, &(0..=hops.len()).collect::<Vec<_>>())
}
