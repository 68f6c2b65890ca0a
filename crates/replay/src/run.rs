//! One pass of a trace over one target, counting bytes.

use thiserror::Error;

use super::held::LIVE_GRANULE;
use super::{Target, Timeline};
use crate::trace::{Allocate, Event, Trace};
use cubeyard_units::Bytes;

/// Number of events between two progress reports.
pub(super) const BATCH: usize = 4096;

/// Memory that a target needed for a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Number of events replayed: all, or those before the failure.
    pub events: usize,
    /// Maximum number of live bytes: requested sizes, each rounded up to a multiple of 128.
    pub peak_live: Bytes,
    /// Maximum number of bytes of device memory that the target held.
    pub peak_reserved: Bytes,
    /// Bytes that the target held when the live bytes first reached their maximum.
    pub reserved_at_peak: Bytes,
    /// Number of times that the target waited for work of a stream that was not complete.
    pub waits: u64,
    /// Live and reserved bytes over the trace.
    pub timeline: Timeline,
    /// Request that the target could not serve, which ended the replay.
    pub failed: Option<Failure>,
}

impl Outcome {
    /// Returns the peak reserved bytes divided by the peak live bytes; `None` if the replay failed or had no live
    /// bytes.
    pub fn waste(&self) -> Option<f64> {
        let comparable = self.failed.is_none() && !self.peak_live.is_zero();
        comparable.then(|| self.peak_reserved.get() as f64 / self.peak_live.get() as f64)
    }
}

/// Request that a target could not serve. It ends only this replay.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("event {event}: {message}")]
pub struct Failure {
    /// Number of the event in the trace, from 1.
    pub event: usize,
    /// Error message of the target.
    pub message: String,
}

/// Maximum memory of any policy per allocation of a trace, in bytes.
const MEMORY_PER_ALLOCATION: u64 = 512;
/// Maximum memory of any policy per stream of a trace, in bytes.
const MEMORY_PER_STREAM: u64 = 16 << 10;
/// Fixed memory of a replay, in bytes: timelines, and tables of a minimum size.
const MEMORY_ALWAYS: u64 = 16 << 20;

/// Returns the maximum memory of a replay of `trace` under any policy.
///
/// The memory is proportional to the numbers of allocations and streams: in the worst case all are live at once.
pub fn memory_needed(trace: &Trace) -> Bytes {
    let streams = MEMORY_PER_STREAM * trace.streams().len() as u64;
    Bytes::new(MEMORY_ALWAYS + MEMORY_PER_ALLOCATION * u64::from(trace.allocations) + streams)
}

/// Replays the events of `trace` on `target`, in order, until one fails.
///
/// Allocations of zero bytes and their frees are skipped. `progress` receives the number of events replayed since the
/// previous call.
pub fn run(trace: &Trace, target: &mut dyn Target, progress: &mut dyn FnMut(usize)) -> Outcome {
    let mut run = Run::new(trace);
    for (batch, events) in trace.events.chunks(BATCH).enumerate() {
        for (index, event) in (batch * BATCH..).zip(events) {
            if let Err(message) = run.step(target, event) {
                run.outcome.failed = Some(Failure { event: index + 1, message });
                run.outcome.waits = target.waits();
                return run.outcome;
            }
            run.note(target.reserved(), event);
        }
        progress(events.len());
    }
    run.outcome.waits = target.waits();
    run.outcome
}

struct Run {
    outcome: Outcome,
    live: Bytes,
    /// Token and rounded size of each live allocation.
    blocks: Vec<Option<(u64, Bytes)>>,
}

impl Run {
    fn new(trace: &Trace) -> Self {
        let outcome = Outcome {
            events: 0,
            peak_live: Bytes::ZERO,
            peak_reserved: Bytes::ZERO,
            reserved_at_peak: Bytes::ZERO,
            waits: 0,
            timeline: Timeline::new(trace),
            failed: None,
        };
        Self { outcome, live: Bytes::ZERO, blocks: vec![None; trace.allocations as usize] }
    }

    fn step(&mut self, target: &mut dyn Target, event: &Event) -> Result<(), String> {
        match event {
            Event::Allocate(request) if request.size.is_zero() => {}
            Event::Allocate(request) => {
                let (size, live) = self.live_with(request).ok_or_else(|| beyond(request))?;
                let token = target.allocate(request)?;
                self.blocks[request.id.index()] = Some((token, size));
                self.live = live;
            }
            Event::Free { id, .. } => {
                if let Some((token, size)) = self.blocks[id.index()].take() {
                    target.free(token);
                    self.live -= size;
                }
            }
        }
        Ok(())
    }

    /// Returns the rounded size of a request, and the live bytes including it; `None` if they exceed 64 bits.
    fn live_with(&self, request: &Allocate) -> Option<(Bytes, Bytes)> {
        let size = request.size.align_up(LIVE_GRANULE)?;
        Some((size, self.live.checked_add(size)?))
    }

    fn note(&mut self, reserved: Bytes, event: &Event) {
        let outcome = &mut self.outcome;
        outcome.events += 1;
        if self.live > outcome.peak_live {
            (outcome.peak_live, outcome.reserved_at_peak) = (self.live, reserved);
        }
        outcome.peak_reserved = outcome.peak_reserved.max(reserved);
        outcome.timeline.push(event.time_us(), self.live, reserved);
    }
}

fn beyond(request: &Allocate) -> String {
    format!("out of memory: with {} more, 64 bits cannot count the live bytes", request.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pytorch::PyTorch;
    use crate::trace::script::Script;

    /// Holds exactly what was asked for, up to a limit.
    struct Exact {
        held: Vec<Bytes>,
        limit: Bytes,
    }

    impl Target for Exact {
        fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
            self.held.push(request.size);
            if self.reserved() > self.limit { Err("full".to_owned()) } else { Ok(0) }
        }

        fn free(&mut self, _: u64) {
            self.held.pop();
        }

        fn reserved(&self) -> Bytes {
            self.held.iter().copied().sum()
        }
    }

    fn replay(script: &str, limit: u64) -> Outcome {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        run(&trace, &mut Exact { held: Vec::new(), limit: Bytes::new(limit) }, &mut |_| {})
    }

    #[test]
    fn live_bytes_are_rounded_up_to_128_and_nothing_takes_nothing() {
        let outcome = replay("alloc a 1\nalloc none 0\nalloc b 129\nfree a\nfree none\n", 1000);
        assert_eq!((outcome.events, outcome.peak_live.get()), (5, 384));
        assert_eq!((outcome.peak_reserved.get(), outcome.failed), (130, None));
    }

    #[test]
    fn a_replay_ends_with_the_request_that_cannot_be_served() {
        let outcome = replay("alloc a 100\nfree a\nalloc b 101\nalloc c 1\n", 100);
        let failed = outcome.failed.clone().unwrap();
        assert_eq!(failed.to_string(), "event 3: full");
        assert_eq!((outcome.events, outcome.peak_reserved.get()), (2, 100));
        assert_eq!(outcome.waste(), None);
    }

    #[test]
    fn waste_is_peak_reserved_over_peak_live() {
        assert_eq!(replay("alloc a 256\nfree a\n", 1000).waste(), Some(1.0));
        assert_eq!(replay("alloc a 0\n", 1000).waste(), None);
        assert_eq!(replay("", 1000).waste(), None);
    }

    #[test]
    fn sums_beyond_64_bits_fail_like_any_other_want_of_memory() {
        for script in
            ["alloc a 18446744073709551615\n", "alloc a 1\nalloc b 18446744073709551487\n"]
        {
            let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
            let outcome = run(&trace, &mut PyTorch::native(None), &mut |_| {});
            assert!(outcome.failed.unwrap().message.contains("64 bits"));
        }
    }

    #[test]
    fn progress_adds_up_to_the_events() {
        let script: Vec<_> = (0..BATCH + 5).map(|it| format!("alloc a{it} 1\n")).collect();
        let trace = Script::parse(&script.concat()).unwrap().to_trace("test").unwrap();
        let mut told = Vec::new();
        run(&trace, &mut PyTorch::native(None), &mut |events| told.push(events));
        assert_eq!(told, [BATCH, 5]);
    }
}
