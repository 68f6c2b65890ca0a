//! What a slice costs in a trace: nanoseconds and bytes.
//!
//! `cargo bench -p cubeyard-device --bench perfetto`. Each figure is the lower quartile of the rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::time::Instant;

use cubeyard_device::perfetto::{Event, Flow, Lanes, TraceWriter, TrackId};
use cubeyard_sim::Time;

const SLICES: u64 = 200_000;
const ROUNDS: usize = 25;
const TRACKS: u64 = 256;
const NAMES: [&str; 12] = [
    "dma.read",
    "dma.write",
    "dot",
    "exp",
    "load",
    "store",
    "recv",
    "send",
    "wait",
    "launch",
    "map",
    "barrier",
];

fn main() {
    println!("{:28}{:>10}{:>13}", "a slice with", "ns/slice", "bytes/slice");
    measure("a name", |trace, _, track, start, end, nth| {
        trace.slice(track, start, end, name(nth)).expect("in order");
    });
    measure("and one argument", |trace, _, track, start, end, nth| {
        let args = [("bytes", (nth % 4096).into())];
        trace.slice(track, start, end, Event::new(name(nth)).args(&args)).expect("in order");
    });
    measure("and a flow", |trace, _, track, start, end, nth| {
        let (args, flow) = ([("bytes", (nth % 4096).into())], [Flow::Step(nth / 2)]);
        let event = Event::new(name(nth)).args(&args).flows(&flow);
        trace.slice(track, start, end, event).expect("in order");
    });
    measure("one argument, on a lane", |trace, lanes, _, start, end, nth| {
        let args = [("bytes", (nth % 4096).into())];
        let lane = lanes.lane(trace, start, end).expect("in order");
        trace.slice(lane, start, end, Event::new(name(nth)).args(&args)).expect("in order");
    });
}

fn name(nth: u64) -> &'static str {
    NAMES[usize::try_from(nth % 12).expect("small")]
}

/// Operations of a few nanoseconds each on every track, over some 40 µs of simulated time.
fn measure(
    what: &str,
    mut slice: impl FnMut(&mut TraceWriter<Vec<u8>>, &mut Lanes, TrackId, Time, Time, u64),
) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let mut trace = TraceWriter::new(Vec::with_capacity(32 << 20));
        let tracks: Vec<TrackId> =
            (0..TRACKS).map(|n| trace.track(&format!("PE {n}"), None).expect("a vector")).collect();
        let mut lanes = Lanes::new(&mut trace, "DMA", None).expect("a vector");
        let begin = Instant::now();
        for nth in 0..SLICES {
            let start = Time::from_ps(nth * 200);
            let end = Time::from_ps(nth * 200 + 3500);
            let pe = tracks[usize::try_from(nth % TRACKS).expect("small")];
            slice(&mut trace, &mut lanes, pe, start, end, nth);
        }
        bytes = trace.finish().expect("a vector").len();
        times.push(begin.elapsed().as_nanos() as f64 / SLICES as f64);
    }
    times.sort_by(f64::total_cmp);
    println!("{what:28}{:>10.1}{:>13.1}", times[ROUNDS / 4], bytes as f64 / SLICES as f64);
}
