//! Cost of a slice in a trace, in nanoseconds and bytes, compared with Chrome's JSON.
//!
//! `cargo bench -p cubeyard-perfetto --bench perfetto`. Each figure is the lower quartile of the chunks of
//! all rounds; the ratio is within one run.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::io::Write;
use std::time::Instant;

use cubeyard_perfetto::{Lanes, TraceEvent, TraceFlow, TraceWriter, TrackId};
use cubeyard_units::Time;

const CHUNK: u64 = 2000;
const CHUNKS: u64 = 100;
const ROUNDS: usize = 20;
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

/// An operation of a few nanoseconds. The operations of all tracks cover about 40 µs of simulated time.
#[derive(Clone, Copy)]
struct Operation {
    nth: u64,
    name: &'static str,
    start: Time,
    end: Time,
}

impl Operation {
    fn new(nth: u64) -> Self {
        let name = NAMES[usize::try_from(nth % 12).expect("small")];
        let (start, end) = (Time::from_ps(nth * 200), Time::from_ps(nth * 200 + 3500));
        Self { nth, name, start, end }
    }
}

/// A trace in memory, and where slices go.
struct Trace {
    writer: TraceWriter<Vec<u8>>,
    tracks: Vec<TrackId>,
    lanes: Lanes,
}

impl Trace {
    fn new(bytes: Vec<u8>) -> Self {
        let mut writer = TraceWriter::new(bytes);
        let mut track = |nth| writer.track(&format!("PE {nth}"), None).expect("a vector");
        let tracks = (0..TRACKS).map(&mut track).collect();
        let lanes = Lanes::new(&mut writer, "DMA", None).expect("a vector");
        Self { writer, tracks, lanes }
    }

    fn slice(&mut self, operation: Operation, event: TraceEvent<'_>) {
        let track = self.tracks[usize::try_from(operation.nth % TRACKS).expect("small")];
        self.writer.slice(track, operation.start, operation.end, event).expect("in order");
    }
}

fn main() {
    println!("{:28}{:>10}{:>13}{:>8}", "a slice with", "ns/slice", "bytes/slice", "ratio");
    let with_name = perfetto(|trace, operation| {
        trace.slice(operation, operation.name.into());
    });
    let with_argument = perfetto(|trace, operation| {
        let args = [("bytes", (operation.nth % 4096).into())];
        trace.slice(operation, TraceEvent::new(operation.name).args(&args));
    });
    let with_flow = perfetto(|trace, operation| {
        let args = [("bytes", (operation.nth % 4096).into())];
        let flows = [TraceFlow::Step(operation.nth / 2)];
        trace.slice(operation, TraceEvent::new(operation.name).args(&args).flows(&flows));
    });
    let on_lane = perfetto(|trace, operation| {
        let Operation { name, start, end, nth } = operation;
        let lane = trace.lanes.lane(&mut trace.writer, start, end).expect("in order");
        let args = [("bytes", (nth % 4096).into())];
        trace.writer.slice(lane, start, end, TraceEvent::new(name).args(&args)).expect("in order");
    });
    let as_json = measure(|bytes| bytes, json, |bytes| bytes);
    for (what, (ns, bytes)) in [
        ("a name", with_name),
        ("and one argument", with_argument),
        ("and a flow", with_flow),
        ("one argument, on a lane", on_lane),
        ("one argument, as JSON", as_json),
    ] {
        println!("{what:28}{ns:>10.1}{bytes:>13.1}{:>8.2}", ns / with_argument.0);
    }
}

/// Writes a slice in Chrome's format, whose times are microseconds with decimals.
fn json(bytes: &mut Vec<u8>, Operation { nth, name, start, end }: Operation) {
    let (track, start, length) = (nth % TRACKS, start.ns() / 1e3, (end - start).ns() / 1e3);
    write!(bytes, r#"{{"ph":"X","pid":1,"tid":{track},"name":"{name}","ts":{start},"#)
        .expect("a vector");
    let size = nth % 4096;
    writeln!(bytes, r#""dur":{length},"args":{{"bytes":{size}}}}},"#).expect("a vector");
}

fn perfetto(slice: impl FnMut(&mut Trace, Operation)) -> (f64, f64) {
    measure(Trace::new, slice, |trace| trace.writer.finish().expect("a vector"))
}

/// Nanoseconds and bytes of a slice.
fn measure<T>(
    mut begin: impl FnMut(Vec<u8>) -> T,
    mut slice: impl FnMut(&mut T, Operation),
    mut finish: impl FnMut(T) -> Vec<u8>,
) -> (f64, f64) {
    let mut times = Vec::new();
    let mut bytes = Vec::new();
    for round in 0..ROUNDS {
        // The memory of the last round, so that only the first one waits for new pages.
        bytes.clear();
        let mut trace = begin(bytes);
        for chunk in 0..CHUNKS {
            let start = Instant::now();
            for nth in chunk * CHUNK..(chunk + 1) * CHUNK {
                slice(&mut trace, Operation::new(nth));
            }
            if round > 0 {
                times.push(start.elapsed().as_nanos() as f64 / CHUNK as f64);
            }
        }
        bytes = finish(trace);
    }
    times.sort_by(f64::total_cmp);
    (times[times.len() / 4], bytes.len() as f64 / (CHUNK * CHUNKS) as f64)
}
