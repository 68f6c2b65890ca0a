use std::io::{self, Write};

use cubeyard_units::Time;

use super::{Arg, CounterUnit, Lanes, TraceError, TraceEvent, TraceFlow, TraceWriter};

fn ps(ps: u64) -> Time {
    Time::from_ps(ps)
}

fn sample() -> Vec<u8> {
    let mut trace = TraceWriter::new(Vec::new());
    let pe = trace.track("PE 0", None).unwrap();
    let traffic = trace.counter_track("traffic", CounterUnit::Named("GB/s"), Some(pe)).unwrap();
    let args = [("bytes", Arg::Uint(256)), ("to", "HBM".into())];
    let event =
        TraceEvent::new("write").args(&args).flows(&[TraceFlow::Step(1), TraceFlow::End(2)]);
    trace.slice(pe, ps(10), ps(20), event).unwrap();
    trace.instant(pe, ps(20), "done").unwrap();
    trace.counter(traffic, ps(10), 25.6).unwrap();
    trace.counter(traffic, ps(20), 0i64).unwrap();
    trace.finish().unwrap()
}

#[test]
fn same_calls_give_same_bytes() {
    assert_eq!(sample(), sample());
}

#[test]
fn names_are_written_once() {
    let mut trace = TraceWriter::new(Vec::new());
    let pe = trace.track("PE 0", None).unwrap();
    for at in 0..100 {
        let args = [("an argument", at.into())];
        trace.slice(pe, ps(at), ps(at + 1), TraceEvent::new("an operation").args(&args)).unwrap();
    }
    let bytes = trace.finish().unwrap();
    for text in ["an argument", "an operation"] {
        let count = bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        assert_eq!(count, 1, "{text}");
    }
}

#[test]
fn slices_may_touch_and_nest_but_not_overlap() {
    let mut trace = TraceWriter::new(Vec::new());
    let pe = trace.track("PE 0", None).unwrap();
    let mut slice = |start, end| trace.slice(pe, ps(start), ps(end), "step");
    slice(0, 100).unwrap();
    slice(0, 40).unwrap();
    slice(40, 100).unwrap();
    slice(50, 60).unwrap();
    slice(60, 60).unwrap();
    let error = slice(60, 101).unwrap_err();
    assert!(matches!(error, TraceError::Overlap { outer, .. } if outer == ps(100)), "{error}");
    slice(60, 100).unwrap();
    slice(100, 101).unwrap();
}

#[test]
fn times_that_mean_nothing_are_refused_and_change_nothing() {
    let mut trace = TraceWriter::new(Vec::new());
    let pe = trace.track("PE 0", None).unwrap();
    let counter = trace.counter_track("bytes", CounterUnit::Bytes, None).unwrap();
    trace.slice(pe, ps(5), ps(9), "step").unwrap();
    let before = trace.buffer.bytes().to_vec();
    let backwards = trace.slice(pe, ps(9), ps(8), "step").unwrap_err();
    assert!(matches!(backwards, TraceError::EndsBeforeStart { .. }), "{backwards}");
    let unordered = trace.slice(pe, ps(4), ps(5), "step").unwrap_err();
    assert!(matches!(unordered, TraceError::OutOfOrder { .. }), "{unordered}");
    for late in [
        trace.slice(pe, ps(9), Time::NEVER, "step"),
        trace.instant(pe, Time::NEVER, "step"),
        trace.counter(counter, ps(1 << 63), 1i64),
    ] {
        assert!(matches!(late, Err(TraceError::BeyondRange { .. })), "{late:?}");
    }
    assert_eq!(trace.buffer.bytes(), before);
    trace.slice(pe, ps(9), ps((1 << 63) - 1), "step").unwrap();
}

#[test]
fn each_operation_gets_the_first_free_lane() {
    let mut trace = TraceWriter::new(Vec::new());
    let mut lanes = Lanes::new(&mut trace, "DMA", None).unwrap();
    let operations =
        [(0, 30), (10, 20), (15, 16), (16, 17), (20, 40), (30, 31), (31, 31), (31, 50)];
    let mut places = Vec::new();
    for (start, end) in operations {
        let lane = lanes.lane(&mut trace, ps(start), ps(end)).unwrap();
        trace.slice(lane, ps(start), ps(end), "read").unwrap();
        places.push(lanes.tracks().iter().position(|track| *track == lane).unwrap());
    }
    assert_eq!(places, [0, 1, 2, 2, 1, 0, 0, 0]);
    assert!(lanes.lane(&mut trace, ps(30), ps(60)).is_err());
}

#[test]
fn a_sink_that_fails_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut trace = TraceWriter::new(Full);
    let pe = trace.track("PE 0", None).unwrap();
    let failed = (0..10_000).position(|at| trace.instant(pe, ps(at), "step").is_err());
    assert!(failed.is_some_and(|count| count > 1000), "{failed:?}");
    assert!(matches!(trace.finish(), Err(TraceError::Io(_))));
}
