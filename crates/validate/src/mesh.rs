//! Closed forms of meshes and tori, and figures of `BookSim2` for an 8×8 network.
//!
//! A router takes 4 cycles, a link 1 (2 in the folded torus), and injection and ejection 3 together. On an idle network
//! a packet of `f` flits over `H` links takes `4 (H + 1) + H · link + 3 + (f − 1)` cycles in any simulator. Under load
//! the models differ: `BookSim2` has routers with 8 buffers of 8 flits and an arbiter; ours reserves links in the order
//! of requests, with unlimited buffers. The difference is shown and not tuned away.

use cubeyard_sim::{NodeSpec, Span, Time};

use super::wires::{Arrival, Dice, Packet, Wires};
use super::{Check, CheckKind, Expected};
use cubeyard_device::topology::Topology;

const ZERO_LOAD: &str = "4 per router + link + 3; BookSim2 at zero load (sources.md#booksim2)";
const BOOKSIM: &str = "BookSim2, 8x8, uniform (sources.md#booksim2)";
const BUFFERS: &str = "BookSim2 has small buffers and arbiters, ours unlimited room and links \
                       that are reserved: never tuned to agree";

/// Number of nodes in a row and in a column.
const K: usize = 8;
const NODES: usize = K * K;
/// Duration of a cycle, in picoseconds.
const CYCLE: u64 = 1000;
const FLIT: u64 = 64;
/// Bandwidth of a link in bytes per second: one flit per cycle.
const SPEED: u64 = 64_000_000_000;
/// Number of cycles in which packets are injected; packets of the first `WARM` cycles are not counted.
const CYCLES: u64 = 5500;
const WARM: u64 = 500;

/// An 8×8 network of routers, each with a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grid {
    /// A grid without wrap-around links.
    Mesh,
    /// A grid with wrap-around links, folded, so that links are twice as long.
    Torus,
}

impl Grid {
    pub(super) fn wires(self) -> Wires {
        let router = NodeSpec { overhead: Span::from_ps(4 * CYCLE), ..NodeSpec::default() };
        let nodes = [vec![NodeSpec::default(); NODES], vec![router; NODES]].concat();
        let wire =
            |from, to, propagation: u64| (from, to, SPEED, Span::from_ps(propagation * CYCLE));
        // Injection takes 1 cycle, ejection 2.
        let ends = (0..NODES).flat_map(|at| [wire(at, NODES + at, 0), wire(NODES + at, at, 1)]);
        let beside = (0..NODES).flat_map(|at| {
            let (x, y) = (at % K, at / K);
            let ahead = [(x + 1, y), (x, y + 1)].into_iter();
            let inside = move |&(x, y): &(usize, usize)| self == Self::Torus || x < K && y < K;
            ahead.filter(inside).map(move |(x, y)| (at, y % K * K + x % K))
        });
        let link = u64::from(self == Self::Torus);
        let both = beside.flat_map(|(a, b)| {
            [wire(NODES + a, NODES + b, link), wire(NODES + b, NODES + a, link)]
        });
        Wires::new(FLIT, nodes, ends.chain(both).collect())
    }

    /// Returns the nodes of a route: along the row, then along the column, in the shorter direction.
    fn way(self, from: usize, to: usize) -> Vec<usize> {
        let step = |at: usize, to: usize| match (to + K - at) % K {
            _ if self == Self::Mesh && to > at => at + 1,
            _ if self == Self::Mesh => at - 1,
            ahead if ahead <= K / 2 => (at + 1) % K,
            _ => (at + K - 1) % K,
        };
        let (mut x, mut y) = (from % K, from / K);
        let mut way = vec![from, NODES + from];
        while (x, y) != (to % K, to / K) {
            if x == to % K {
                y = step(y, to / K);
            } else {
                x = step(x, to % K);
            }
            way.push(NODES + y * K + x);
        }
        way.push(to);
        way
    }

    /// Returns the number of links between the routers of two terminals.
    fn distance(self, from: usize, to: usize) -> u64 {
        let along = |a: usize, b: usize| {
            let straight = a.abs_diff(b);
            if self == Self::Torus { straight.min(K - straight) } else { straight }
        };
        (along(from % K, to % K) + along(from / K, to / K)) as u64
    }

    fn alone_cycles(self, from: usize, to: usize, flits: u64) -> u64 {
        let (hops, link) = (self.distance(from, to), if self == Self::Torus { 2 } else { 1 });
        4 * (hops + 1) + link * hops + 3 + (flits - 1)
    }

    /// Returns packets from each terminal to random others, at a load of `load` flits per terminal and 100 000 cycles.
    pub(super) fn uniform(self, wires: &Wires, load: u64, flits: u64, cycles: u64) -> Vec<Packet> {
        let routes: Vec<_> = (0..NODES * NODES)
            .map(|pair| wires.route(&self.way(pair / NODES, pair % NODES)))
            .collect();
        let mut dice = Dice::new(1);
        let slots = (0..cycles).flat_map(|cycle| (0..NODES).map(move |from| (cycle, from)));
        slots
            .filter_map(|(cycle, from)| {
                let route = &routes[from * NODES + dice.below(NODES)];
                let at = Time::from_ps(cycle * CYCLE);
                let packet = || Packet { at, route: route.clone(), bytes: flits * FLIT };
                dice.hit(load / flits).then(packet)
            })
            .collect()
    }
}

pub(super) fn checks(_: &Topology) -> Vec<Check<'_>> {
    [zero_load(), under_load(), capacity()].into_iter().flatten().collect()
}

/// Sends a packet between every pair, one at a time. Returns the arrivals and the number of flit crossings.
fn every_pair(grid: Grid, flits: u64) -> (Vec<Arrival>, u64) {
    let wires = grid.wires();
    let packet = |pair: usize| Packet {
        at: Time::from_ps(pair as u64 * 1000 * CYCLE),
        route: wires.route(&grid.way(pair / NODES, pair % NODES)),
        bytes: flits * FLIT,
    };
    let packets: Vec<_> = (0..NODES * NODES).map(packet).collect();
    let (arrivals, engine) = wires.carry_observed(&packets, cubeyard_sim::NullObserver);
    (arrivals, engine.flit_hops())
}

fn mean_cycles<'a>(arrivals: impl Iterator<Item = &'a Arrival>) -> f64 {
    let (count, sum) = arrivals
        .fold((0_u64, 0), |(count, sum), arrival| (count + 1, sum + arrival.latency().ps()));
    sum as f64 / (count * CYCLE) as f64
}

fn zero_load() -> Vec<Check<'static>> {
    let means = [(Grid::Mesh, "mesh", 5.25, 33.25), (Grid::Torus, "torus", 4.0, 31.0)];
    let checks = means.into_iter().flat_map(|(grid, name, hops, cycles)| {
        let mean_hops = move || {
            // Each flit also enters and leaves the network.
            every_pair(grid, 1).1 as f64 / (NODES * NODES) as f64 - 2.0
        };
        let mean = move || mean_cycles(every_pair(grid, 1).0.iter());
        let hops_form = match grid {
            Grid::Mesh => "2 (k^2 - 1) / 3k with k = 8",
            Grid::Torus => "k / 2 with k = 8",
        };
        let hops = Expected::equal(hops, "links");
        let cycles = Expected::equal(cycles, "cycles");
        let name = |what: &str| format!("{name}, all 4096 pairs: {what}");
        vec![
            Check::new(CheckKind::Exact, name("mean distance"), hops, hops_form, mean_hops),
            Check::new(CheckKind::Exact, name("mean latency of a flit"), cycles, ZERO_LOAD, mean),
            on_the_form(grid, 1, name("as the form, 1 flit")),
            on_the_form(grid, 4, name("as the form, 4 flits")),
        ]
    });
    checks.collect()
}

fn on_the_form(grid: Grid, flits: u64, name: String) -> Check<'static> {
    let ours = move || {
        let on = |arrival: &&Arrival| {
            let (from, to) = (arrival.packet / NODES, arrival.packet % NODES);
            arrival.latency().ps() == grid.alone_cycles(from, to, flits) * CYCLE
        };
        every_pair(grid, flits).0.iter().filter(on).count() as f64
    };
    let form = "4 (H + 1) + H x link + 3 + (flits - 1)";
    Check::new(CheckKind::Exact, name, Expected::equal(4096.0, "pairs"), form, ours).own()
}

fn under_load() -> Vec<Check<'static>> {
    let rows = [
        (Grid::Mesh, "mesh, 1 flit", 1, [33.3, 33.8, 34.8]),
        (Grid::Mesh, "mesh, 4 flits", 4, [37.0, 37.5, 39.9]),
        (Grid::Torus, "torus, 1 flit", 1, [31.1, 31.3, 31.7]),
        (Grid::Torus, "torus, 4 flits", 4, [34.0, 34.8, 36.3]),
    ];
    let loads = [(1000, "0.01"), (10_000, "0.10"), (20_000, "0.20")];
    let cases = rows.into_iter().flat_map(move |(grid, name, flits, latencies)| {
        loads
            .into_iter()
            .zip(latencies)
            .map(move |(load, cycles)| (grid, name, flits, load, cycles))
    });
    let check =
        |(grid, name, flits, (load, shown), cycles): (Grid, &str, u64, (u64, &str), f64)| {
            let ours = move || {
                let wires = grid.wires();
                let arrivals = wires.carry(&grid.uniform(&wires, load, flits, CYCLES));
                mean_cycles(arrivals.iter().filter(|arrival| arrival.made.ps() >= WARM * CYCLE))
            };
            let name = format!("{name}, latency at {shown} flits/node/cycle");
            let expected = Expected::equal(cycles, "cycles");
            Check::new(CheckKind::Indicative, name, expected, BOOKSIM, ours).because(BUFFERS)
        };
    cases.map(check).collect()
}

fn capacity() -> Vec<Check<'static>> {
    let accepted = || {
        let wires = Grid::Mesh.wires();
        let arrivals = wires.carry(&Grid::Mesh.uniform(&wires, 40_000, 1, CYCLES));
        let window = Time::from_ps(WARM * CYCLE)..Time::from_ps(CYCLES * CYCLE);
        let came = arrivals.iter().filter(|arrival| window.contains(&arrival.at)).count();
        came as f64 / (NODES as u64 * (CYCLES - WARM)) as f64
    };
    let across = || {
        let wires = Grid::Mesh.wires();
        let packets = Grid::Mesh.uniform(&wires, 90_000, 1, CYCLES);
        let node = |packet: &Packet, link: usize| wires.network().link(packet.route[link]);
        let west = |terminal: usize| terminal % K < K / 2;
        let crosses = |arrival: &&Arrival| {
            let packet = &packets[arrival.packet];
            let last = packet.route.len() - 1;
            west(node(packet, 0).from.index()) && !west(node(packet, last).to.index())
        };
        let arrivals = wires.carry(&packets);
        let in_time = arrivals.iter().filter(|arrival| arrival.at.ps() <= CYCLES * CYCLE);
        in_time.filter(crosses).count() as f64 / CYCLES as f64
    };
    vec![
        Check::new(
            CheckKind::Predicted,
            "mesh, flits a node and cycle accepted of 0.40 (capacity 4 / k = 0.50)",
            Expected::equal(0.4, "flits"),
            "below capacity, all is accepted",
            accepted,
        )
        .because("random traffic, from a fixed seed: 128 000 packets scatter by 0.2 %"),
        Check::new(
            CheckKind::Exact,
            "mesh, flits a cycle from west to east with 0.90 offered",
            Expected::at_most(K as f64, "flits"),
            "bisection: k links of a flit a cycle",
            across,
        ),
    ]
}
