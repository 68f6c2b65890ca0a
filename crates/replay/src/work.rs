//! Completion of the work of streams in a replay.

mod evidence;
mod held_back;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::trace::{Lag, Trace};
use cubeyard_memory::flex::{EventId, StreamEvents};
use evidence::Evidence;
pub(super) use held_back::{HeldBack, Users, completed};

/// Streams of a replay: the work that is submitted to them, and the work that is complete.
///
/// A target calls [`begin`](Self::begin) before it serves a request and [`launch`](Self::launch) after it. Points of a
/// stream are numbers: of its launches under a stated lag, of all launches as recorded. An event holds the stream and
/// the last point of the work submitted to it.
#[derive(Debug)]
pub(super) struct Work {
    /// Launches by which each stream lags; `None` as recorded.
    lag: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<u32, Progress>,
    /// Number of requests so far.
    requests: u64,
    /// Observations that were not reached yet, the last one first.
    evidence: Vec<Evidence>,
    waits: u64,
}

/// Points of the last launch, and of the last launch that is complete.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    submitted: u64,
    passed: u64,
}

impl Work {
    /// Creates the streams of a trace before its first event.
    pub(super) fn of(trace: &Trace) -> Arc<Self> {
        let (lag, evidence) = match trace.lag {
            Lag::Launches(count) => (Some(count), Vec::new()),
            Lag::Recorded => (None, evidence::of(trace)),
        };
        Arc::new(Self { lag, state: Mutex::new(State { evidence, ..State::default() }) })
    }

    /// Notes that the host arrives at the next request.
    pub(super) fn begin(&self) {
        let state = &mut *self.state();
        while let Some(seen) = state.evidence.pop_if(|seen| seen.request <= state.requests) {
            state.streams.entry(seen.stream).or_default().pass(seen.point);
        }
        state.requests += 1;
    }

    /// Submits a launch to a stream, for the request that began last.
    pub(super) fn launch(&self, stream: u32) {
        let state = &mut *self.state();
        let progress = state.streams.entry(stream).or_default();
        match self.lag {
            None => progress.submitted = state.requests,
            Some(lag) => {
                progress.submitted += 1;
                progress.pass(progress.submitted.saturating_sub(lag));
            }
        }
    }

    /// Returns the number of waits for work that was not complete.
    pub(super) fn waits(&self) -> u64 {
        self.state().waits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_passed(&self, (stream, point): (u32, u64)) -> bool {
        self.streams.get(&stream).copied().unwrap_or_default().passed >= point
    }
}

impl Progress {
    fn pass(&mut self, point: u64) {
        self.passed = self.passed.max(point);
    }
}

/// Returns the stream and the point of an event.
fn parts(event: EventId) -> (u32, u64) {
    let stream = u32::try_from(event.0 >> 32).expect("32 bits remain");
    (stream, event.0 & u64::from(u32::MAX))
}

impl StreamEvents for Work {
    fn record(&self, stream: u32) -> EventId {
        // A trace has fewer than 2^32 allocations, and no more launches.
        let submitted = self.state().streams.get(&stream).map_or(0, |it| it.submitted);
        EventId(u64::from(stream) << 32 | submitted)
    }

    fn is_complete(&self, event: EventId) -> bool {
        self.state().has_passed(parts(event))
    }

    fn wait(&self, event: EventId) {
        let (stream, point) = parts(event);
        let state = &mut *self.state();
        if !state.has_passed((stream, point)) {
            state.waits += 1;
            state.streams.entry(stream).or_default().pass(point);
        }
    }
}

#[cfg(test)]
mod tests;
