//! Streams that run behind the host, for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::{EventId, StreamEvents};

/// Streams that run behind the host: work has a number on its stream, in the order of submission.
#[derive(Debug, Default)]
pub(super) struct Lagging {
    state: Mutex<LaggingState>,
}

#[derive(Debug, Default)]
pub(super) struct LaggingState {
    submitted: BTreeMap<u32, u64>,
    done: BTreeMap<u32, u64>,
    /// Stream, last submitted work, and time of recording.
    pub(super) events: Vec<(u32, u64, u64)>,
    /// Host time: the number of steps so far.
    now: u64,
    pub(super) waits: u64,
}

impl LaggingState {
    pub(super) fn is_done(&self, stream: u32, work: u64) -> bool {
        self.done.get(&stream).copied().unwrap_or(0) >= work
    }

    fn submitted(&self, stream: u32) -> u64 {
        self.submitted.get(&stream).copied().unwrap_or(0)
    }

    fn finish(&mut self, stream: u32, work: u64) {
        let done = self.done.entry(stream).or_default();
        *done = work.max(*done);
    }
}

impl Lagging {
    pub(super) fn state(&self) -> MutexGuard<'_, LaggingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits work to a stream, and returns the number of the work.
    pub(super) fn submit(&self, stream: u32) -> u64 {
        let mut state = self.state();
        let work = state.submitted.entry(stream).or_default();
        *work += 1;
        *work
    }

    /// Lets a stream do its work up to a number.
    pub(super) fn finish(&self, stream: u32, work: u64) {
        self.state().finish(stream, work);
    }

    /// Lets a stream do `by` more pieces of its work.
    pub(super) fn advance(&self, stream: u32, by: u64) {
        let mut state = self.state();
        let most = state.submitted(stream);
        let done = state.done.entry(stream).or_default();
        *done = most.min(*done + by);
    }

    pub(super) fn tick(&self) -> u64 {
        let mut state = self.state();
        state.now += 1;
        state.now
    }
}

impl StreamEvents for Lagging {
    fn record(&self, stream: u32) -> EventId {
        let mut state = self.state();
        let event = (stream, state.submitted(stream), state.now);
        state.events.push(event);
        EventId(state.events.len() as u64 - 1)
    }

    fn is_complete(&self, event: EventId) -> bool {
        let state = self.state();
        let (stream, work, _) = state.events[event.0 as usize];
        state.is_done(stream, work)
    }

    fn wait(&self, event: EventId) {
        let mut state = self.state();
        state.waits += 1;
        let (stream, work, _) = state.events[event.0 as usize];
        state.finish(stream, work);
    }
}
