//! Streams of a replica. They pass work as the history says, or when the replica waits for them.

use std::collections::BTreeMap;

use crate::flex::stream::{EventId, StreamEvents};
use crate::sync::{Mutex, lock};

/// Streams whose events are numbered over all streams.
#[derive(Debug, Default)]
pub(super) struct ReplayedStreams(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// Stream of each event.
    streams: Vec<u32>,
    /// For each stream, the event before which it has passed all of its own.
    passed: BTreeMap<u32, u64>,
}

impl ReplayedStreams {
    /// Returns the number of events recorded so far.
    pub(super) fn recorded(&self) -> u64 {
        lock(&self.0).streams.len() as u64
    }

    /// Makes a stream pass its events before `end`.
    pub(super) fn pass(&self, stream: u32, end: u64) {
        let mut progress = lock(&self.0);
        let passed = progress.passed.entry(stream).or_default();
        *passed = end.max(*passed);
    }
}

impl Progress {
    fn stream(&self, event: EventId) -> Option<u32> {
        self.streams.get(usize::try_from(event.0).ok()?).copied()
    }
}

impl StreamEvents for ReplayedStreams {
    fn record(&self, stream: u32) -> EventId {
        let mut progress = lock(&self.0);
        progress.streams.push(stream);
        EventId(progress.streams.len() as u64 - 1)
    }

    fn is_complete(&self, event: EventId) -> bool {
        let progress = lock(&self.0);
        let passed = progress.stream(event).and_then(|stream| progress.passed.get(&stream));
        passed.is_some_and(|&end| event.0 < end)
    }

    fn wait(&self, event: EventId) {
        let stream = lock(&self.0).stream(event);
        stream.into_iter().for_each(|stream| self.pass(stream, event.0 + 1));
    }
}
