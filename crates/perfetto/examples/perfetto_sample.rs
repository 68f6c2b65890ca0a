//! Writes two traces into the folder given: `sample.pftrace` with something of everything, and
//! `many.pftrace` with slices that say themselves from when to when they last.
//!
//! `python/tests/test_perfetto.py` asks Perfetto's trace processor what is in them.

use std::fs::File;
use std::path::Path;

use cubeyard_perfetto::{
    Arg, CounterUnit, Lanes, TraceError, TraceEvent, TraceFlow, TraceWriter, TrackId,
};
use cubeyard_units::Time;

fn main() -> Result<(), TraceError> {
    let folder = std::env::args_os().nth(1).expect("the folder to write into");
    sample(&Path::new(&folder).join("sample.pftrace"))?;
    many(&Path::new(&folder).join("many.pftrace"))
}

fn sample(path: &Path) -> Result<(), TraceError> {
    let mut trace = TraceWriter::new(File::create(path)?);
    // Named so that neither their alphabet nor their first events give the order they are made in.
    let host = trace.track("host", None)?;
    let cube = trace.track("cube 0", None)?;
    let pe = trace.track("PE 10", Some(cube))?;
    let twins = [trace.track("PE 2", Some(cube))?, trace.track("PE 2", Some(cube))?];
    let mut dma = Lanes::new(&mut trace, "DMA", Some(cube))?;
    let live = trace.counter_track("live", CounterUnit::Bytes, Some(cube))?;
    let traffic = trace.counter_track("traffic", CounterUnit::Named("GB/s"), Some(cube))?;
    let waiting = trace.counter_track("waiting", CounterUnit::Count, Some(cube))?;

    // Slices that nest and touch, one of no length, and one with every kind of argument.
    let args = [
        ("bytes", Arg::Uint(1 << 40)),
        ("offset", Arg::Int(-3)),
        ("share", Arg::Float(0.25)),
        ("posted", Arg::Bool(true)),
        ("path", Arg::Text("PCIe → NOC → HBM")),
    ];
    let launch = TraceEvent::new("launch").args(&args).flows(&[TraceFlow::Step(7)]);
    trace.slice(host, Time::ZERO, ps(999), launch)?;
    trace.slice(pe, ps(999), ps(5001), TraceEvent::new("kernel").flows(&[TraceFlow::Step(7)]))?;
    trace.slice(pe, ps(999), ps(1500), "load")?;
    trace.slice(pe, ps(1500), ps(5001), "dot")?;
    trace.slice(pe, ps(2000), ps(2000), "nothing")?;
    trace.slice(pe, ps(5001), ps(5002), TraceEvent::new("store").flows(&[TraceFlow::End(7)]))?;
    for (twin, name) in twins.into_iter().zip(["left", "right"]) {
        trace.slice(twin, ps(10), ps(20), name)?;
    }
    trace.instant(host, ps(6000), "interrupt")?;

    // Operations that overlap.
    for (tag, (start, end)) in (0u64..).zip([(0, 30), (10, 20), (15, 40), (20, 50), (30, 35)]) {
        let lane = dma.lane(&mut trace, ps(start), ps(end))?;
        trace.slice(
            lane,
            ps(start),
            ps(end),
            TraceEvent::new("read").args(&[("tag", tag.into())]),
        )?;
    }

    for (at, bytes) in [(0, 0), (1000, 4096), (2000, 1 << 40)] {
        trace.counter(live, ps(at), bytes)?;
    }
    trace.counter(traffic, ps(1), 25.6)?;
    trace.counter(waiting, ps(1), -1i64)?;

    // Later than 32 bits can say, to the picosecond, and with a name longer than one byte can say.
    let hour = 3_600_000_000_000_000;
    trace.slice(host, ps(hour), ps(hour + 1), "x".repeat(300).as_str())?;
    trace.finish()?;
    Ok(())
}

/// Operations on lanes, each of parts, which nest; many start or end at the same picosecond.
fn many(path: &Path) -> Result<(), TraceError> {
    let mut trace = TraceWriter::new(File::create(path)?);
    let mut lanes = Lanes::new(&mut trace, "lane", None)?;
    let mut dice = Dice(1);
    let mut start = 0;
    for _ in 0..5000 {
        start += dice.below(4);
        let end = start + dice.below(20);
        let lane = lanes.lane(&mut trace, ps(start), ps(end))?;
        parts(&mut trace, lane, (start, end), &mut dice)?;
    }
    trace.finish()?;
    Ok(())
}

/// A slice, then what lies in it from left to right.
fn parts(
    trace: &mut TraceWriter<File>,
    lane: TrackId,
    (start, end): (u64, u64),
    dice: &mut Dice,
) -> Result<(), TraceError> {
    let args = [("start", start.into()), ("end", end.into())];
    trace.slice(lane, ps(start), ps(end), TraceEvent::new("part").args(&args))?;
    let mut at = start;
    while at < end && dice.below(3) > 0 {
        let from = at + dice.below(end - at + 1);
        at = from + dice.below(end - from + 1);
        parts(trace, lane, (from, at), dice)?;
    }
    Ok(())
}

/// Numbers that look random and are the same each time: Knuth's linear congruential generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn ps(ps: u64) -> Time {
    Time::from_ps(ps)
}
