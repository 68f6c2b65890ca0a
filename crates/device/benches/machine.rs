//! Speed of the simulation: flit-hops and requests per second, the gain of trains, and the cost of building a machine.
//!
//! `cargo bench -p cubeyard-device --bench machine [-- NAME]`, with `traffic`, `lone`, `build` or `small` for one
//! part. Times are CPU time of the one thread; each is the best of several rounds, in which the contestants
//! take turns. Only the ratios travel.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

#[path = "../../runtime/benches/clock/mod.rs"]
mod clock;

use std::hint::black_box;

use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::{Direction, RequestId};
use cubeyard_device::request::{PeRef, Request};
use cubeyard_device::topology::Topology;
use cubeyard_sim::{EngineConfig, Span, Stop, Time};

use clock::cpu;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const ROUNDS: usize = 5;
const FLITS: EngineConfig = EngineConfig { trains: false, buffers: None };
const TRAINS: EngineConfig = EngineConfig { trains: true, buffers: None };

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|name| name != "--bench").collect();
    let wants = |name: &str| chosen.is_empty() || chosen.iter().any(|other| other == name);
    // First, while the process has no freed memory of other parts to reuse.
    if wants("build") {
        build();
    }
    if wants("traffic") {
        traffic();
    }
    if wants("lone") {
        lone();
    }
    if wants("small") {
        small();
    }
}

/// A xorshift: the same traffic on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

/// Requests of a machine, and the results of the run.
struct Run {
    seconds: f64,
    flit_hops: u64,
    order_hash: u64,
    latencies: Vec<Span>,
}

/// Makes a machine, submits the requests, and runs them. The construction of the machine is not timed.
fn run(config: EngineConfig, requests: &[(Time, Request)]) -> Run {
    let mut machine = MachineBuilder::new(Topology::embedded()).config(config).build();
    let start = cpu();
    let ids: Vec<RequestId> = requests
        .iter()
        .map(|(at, request)| machine.submit_with(request.clone().at(*at)).expect("sound"))
        .collect();
    assert_eq!(machine.run(), Stop::Idle);
    let seconds = cpu() - start;
    let latency = |&id: &RequestId| machine.completion(id).expect("idle means done").latency();
    Run {
        seconds,
        flit_hops: machine.view().engine().flit_hops(),
        order_hash: machine.view().engine().order_hash(),
        latencies: ids.iter().map(latency).collect(),
    }
}

/// Returns the best of several rounds with and without trains, whose results must agree.
fn both(requests: &[(Time, Request)]) -> [Run; 2] {
    let mut best = [run(FLITS, requests), run(TRAINS, requests)];
    assert_eq!(best[0].latencies, best[1].latencies, "trains give the same times");
    assert_eq!(best[0].order_hash, best[1].order_hash, "and the same order");
    assert_eq!(best[0].flit_hops, best[1].flit_hops);
    for _ in 1..ROUNDS {
        for (best, config) in best.iter_mut().zip([FLITS, TRAINS]) {
            let next = run(config, requests);
            best.seconds = best.seconds.min(next.seconds);
        }
    }
    best
}

/// Returns the PEs of the first SIP.
fn pes(machine: &Machine) -> Vec<PeRef> {
    let topology = machine.topology();
    let sip = topology.sips().next().expect("a machine has a SIP");
    let cube = |cube| topology.pes().map(move |pe| PeRef { sip, cube, pe });
    topology.cubes().flat_map(cube).collect()
}

/// Returns `each` requests of every PE to random PEs of its SIP, begun within the first `window` picoseconds.
fn random_requests(each: usize, bytes: u64, window: usize) -> Vec<(Time, Request)> {
    let machine = Machine::new(Topology::embedded());
    let (pes, mut random) = (pes(&machine), Random(0x9e37_79b9_7f4a_7c15));
    let mut requests = Vec::new();
    for _ in 0..each {
        for &from in &pes {
            let to = pes[random.below(pes.len())];
            let offset = random.below(1000) as u64 * bytes;
            let address = machine.view().hbm_address(to, offset).expect("within its memory");
            let direction = [Direction::Read, Direction::Write][random.below(2)];
            let at = Time::from_ps(random.below(window) as u64);
            requests.push((at, Request::PeDma { from, direction, address, bytes }));
        }
    }
    requests
}

fn traffic() {
    println!("traffic: every PE of a SIP reads and writes 64 KiB at a random PE of it\n");
    println!("{:16}{:>12}{:>14}{:>10}{:>18}", "", "requests", "flit-hops", "s", "M flit-hops/s");
    for each in [1, 4] {
        let requests = random_requests(each, 64 * KIB, 1_000_000);
        for (name, run) in ["flit by flit", "trains"].into_iter().zip(both(&requests)) {
            let rate = run.flit_hops as f64 / run.seconds / 1e6;
            let (requests, hops, seconds) = (requests.len(), run.flit_hops, run.seconds);
            println!("{name:16}{requests:>12}{hops:>14}{seconds:>10.3}{rate:>18.1}");
        }
    }
    println!();
}

fn lone() {
    println!("lone: 16 MiB with nothing in the way, ms\n");
    println!("{:24}{:>14}{:>10}{:>10}", "", "flit by flit", "trains", "ratio");
    let machine = Machine::new(Topology::embedded());
    let pe = |name| machine.view().pe(name).expect("it is there");
    let from = pe("sip0.cube0.pe0");
    for (place, to) in [("own HBM", "sip0.cube0.pe0"), ("6 cubes away", "sip0.cube15.pe7")] {
        for direction in [Direction::Read, Direction::Write] {
            let address = machine.view().hbm_address(pe(to), 0).expect("within its memory");
            let request = Request::PeDma { from, direction, address, bytes: 16 * MIB };
            let [flits, trains] = both(&[(Time::ZERO, request)]).map(|run| run.seconds * 1e3);
            let name = format!("{direction}, {place}");
            println!("{name:24}{flits:>14.2}{trains:>10.2}{:>10.1}", flits / trains);
        }
    }
    println!();
}

fn small() {
    println!("small: transfers of 256 B between random PEs of a SIP\n");
    let requests = random_requests(200, 256, 20_000_000);
    for (name, run) in ["flit by flit", "trains"].into_iter().zip(both(&requests)) {
        let rate = requests.len() as f64 / run.seconds / 1e6;
        let hops = run.flit_hops as f64 / requests.len() as f64;
        println!("{name:16}{rate:>8.2} M requests/s, {hops:.1} flit-hops each");
    }
    println!();
}

fn build() {
    println!("build: from the text of a topology to a machine at time zero\n");
    let large = "sips: {count: 16, topology: torus_2d}\n";
    println!("{:36}{:>10}{:>10}{:>10}{:>8}", "", "nodes", "links", "ms", "MiB");
    for (name, text) in [("default: 2 × 16 × 8 PEs", ""), ("16 SIPs × 16 cubes × 8 PEs", large)]
    {
        let mut best = f64::INFINITY;
        let mut figures = (0, 0, 0.0);
        for _ in 0..ROUNDS {
            let (start, before) = (cpu(), resident_mib());
            let topology = Topology::read("bench.yaml", text).expect("a machine");
            let machine = black_box(Machine::new(topology));
            best = best.min(cpu() - start);
            let (nodes, links) =
                (machine.view().network().nodes().len(), machine.view().network().links().len());
            figures = (nodes, links, f64::max(figures.2, resident_mib() - before));
        }
        let ((nodes, links, mib), ms) = (figures, best * 1e3);
        println!("{name:36}{nodes:>10}{links:>10}{ms:>10.1}{mib:>8.0}");
    }
    println!();
}

/// Returns the resident memory of this process in MiB; 0 if the system does not report it.
fn resident_mib() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or_default() as f64 / 256.0
}
