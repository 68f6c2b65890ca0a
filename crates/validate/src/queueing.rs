//! Laws of queueing: waiting times, exclusive use of links, and conservation of flits.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Crossing, NodeSpec, Observer, Span, Time};

use super::mesh::Grid;
use super::wires::{Dice, Packet, Wires};
use super::{Check, CheckKind, Expected};
use cubeyard_device::topology::Topology;

const SCATTER: &str = "random arrivals, from a fixed seed: 400 000 packets scatter by about 1 %";
const PACKETS: u32 = 400_000;
/// Serialisation time of a packet, in picoseconds.
const SERVICE: u64 = 1_000_000;

pub(super) fn checks(_: &Topology) -> Vec<Check<'_>> {
    let waits = [(50, 0.5), (80, 2.0)].map(|(percent, services)| {
        Check::new(
            CheckKind::Predicted,
            format!("one link, random arrivals, {percent} % busy: wait"),
            Expected::equal(services, "services"),
            "M/D/1: load / 2 (1 - load)",
            move || mean_wait(percent),
        )
        .because(SCATTER)
    });
    waits.into_iter().chain(laws()).collect()
}

/// Returns the mean wait for a link of this utilisation, in units of the serialisation time.
fn mean_wait(percent: u64) -> f64 {
    let bytes = 64;
    let speed = bytes * 1_000_000_000_000 / SERVICE;
    let wires = Wires::new(bytes, vec![NodeSpec::default(); 2], vec![(0, 1, speed, Span::ZERO)]);
    let (mut dice, mut now) = (Dice::new(1), 0_u128);
    let mean_gap = u128::from(SERVICE * 100 / percent);
    let packet = |_| {
        now += u128::from(dice.exponential()) * mean_gap;
        let at = u64::try_from(now >> 32).expect("less than a second");
        Packet { at: Time::from_ps(at), route: wires.route(&[0, 1]), bytes }
    };
    let packets: Vec<_> = (0..PACKETS).map(packet).collect();
    let arrivals = wires.carry(&packets);
    let waited: u64 = arrivals.iter().map(|arrival| arrival.latency().ps() - SERVICE).sum();
    waited as f64 / (u64::from(PACKETS) * SERVICE) as f64
}

/// An observer that records all link crossings.
#[derive(Debug, Default)]
struct Clerk {
    crossings: Vec<Crossing>,
}

impl Observer<(usize, Packet)> for Clerk {
    const FLITS: bool = true;

    fn crossed(&mut self, crossing: Crossing) {
        self.crossings.push(crossing);
    }
}

/// A run of a mesh at 0.3 flits per node and cycle, in packets of 4 flits.
struct Seen {
    wires: Wires,
    packets: Vec<Packet>,
    clerk: Clerk,
    busy: Vec<Span>,
}

const FLITS: u64 = 4;

fn observe() -> Seen {
    let wires = Grid::Mesh.wires();
    let packets = Grid::Mesh.uniform(&wires, 30_000, FLITS, 2000);
    let (_, mut engine) = wires.carry_observed(&packets, Clerk::default());
    let (busy, clerk) = (engine.busy(), std::mem::take(engine.observer_mut()));
    assert!(clerk.crossings.len() > 100_000, "there was traffic to see");
    Seen { wires, packets, clerk, busy }
}

fn laws() -> [Check<'static>; 3] {
    // All checks use the same run, which is executed on first use.
    let seen = Rc::new(LazyCell::new(observe as fn() -> Seen));
    let law = |name: &'static str, source, broken: fn(&Seen) -> usize| {
        let seen = Rc::clone(&seen);
        let expected = Expected::equal(0.0, "");
        Check::new(CheckKind::Exact, name, expected, source, move || broken(&seen) as f64)
    };
    [
        law("busy mesh: links with two flits at once", "a link carries one at a time", overlaps),
        law("busy mesh: nodes that lose or double flits", "flow conservation", leaks),
        law("busy mesh: links not busy as their flits say", "utilisation: flits x service", idle),
    ]
}

fn overlaps(seen: &Seen) -> usize {
    let mut free = vec![Time::ZERO; seen.busy.len()];
    let mut crossings = seen.clerk.crossings.clone();
    crossings.sort_by_key(|crossing| crossing.start);
    let overlap = |crossing: &&Crossing| {
        let before = std::mem::replace(&mut free[crossing.link.index()], crossing.end);
        crossing.start < before || crossing.start < crossing.asked
    };
    crossings.iter().filter(overlap).count()
}

/// Counts the nodes at which flits in minus flits out differs from flits consumed minus flits injected.
fn leaks(seen: &Seen) -> usize {
    let mut balance: BTreeMap<usize, i64> = BTreeMap::new();
    let mut add = |node: usize, flits: i64| *balance.entry(node).or_default() += flits;
    let link = |link| seen.wires.network().link(link);
    for crossing in &seen.clerk.crossings {
        add(link(crossing.link).to.index(), 1);
        add(link(crossing.link).from.index(), -1);
    }
    let flits = i64::try_from(FLITS).expect("four");
    for Packet { route, .. } in &seen.packets {
        add(link(route[route.len() - 1]).to.index(), -flits);
        add(link(route[0]).from.index(), flits);
    }
    balance.values().filter(|&&flits| flits != 0).count()
}

/// Counts the links whose busy time differs from one cycle per flit routed over them.
fn idle(seen: &Seen) -> usize {
    let mut expected = vec![0; seen.busy.len()];
    let links = seen.packets.iter().flat_map(|packet| packet.route.iter());
    links.for_each(|link| expected[link.index()] += FLITS * 1000);
    expected.iter().zip(&seen.busy).filter(|(expected, busy)| **expected != busy.ps()).count()
}
