//! Numbering of allocations, streams and times for readers of traces.

use std::collections::BTreeMap;

use super::{Allocate, Event, Trace, TraceId};
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::{Budget, map_entry};
use cubeyard_units::Bytes;

/// Trace under construction, and the memory left for it.
#[derive(Debug)]
pub(super) struct Recorder {
    trace: Trace,
    pub(super) budget: Budget,
}

impl Recorder {
    pub(super) fn new(name: &str, budget: Budget) -> Self {
        Self { trace: Trace { name: name.to_owned(), ..Trace::default() }, budget }
    }

    /// Appends an allocation without a call site; `None` if its number would not fit into 32 bits.
    pub(super) fn allocate(
        &mut self,
        size: Bytes,
        stream: u32,
        time_us: u64,
    ) -> Result<Option<TraceId>, MemoryLimit> {
        let id = TraceId(self.trace.allocations);
        let Some(allocations) = self.trace.allocations.checked_add(1) else { return Ok(None) };
        self.trace.allocations = allocations;
        let event = Event::Allocate(Allocate { id, size, stream, site: 0, time_us });
        self.budget.push(&mut self.trace.events, event)?;
        Ok(Some(id))
    }

    /// Appends the free of a live allocation.
    pub(super) fn free(&mut self, id: TraceId, time_us: u64) -> Result<(), MemoryLimit> {
        self.budget.push(&mut self.trace.events, Event::Free { id, time_us })
    }

    pub(super) fn finish(self) -> Trace {
        self.trace
    }
}

/// Assigns numbers to streams in the order of their first use.
///
/// Files often identify a stream by the address of its object in the recorded process.
#[derive(Debug, Default)]
pub(super) struct Streams {
    numbers: BTreeMap<i128, u32>,
}

impl Streams {
    /// Returns the number of the stream that the file calls `raw`; `None` beyond 32 bits.
    pub(super) fn number(
        &mut self,
        raw: i128,
        budget: &mut Budget,
    ) -> Result<Option<u32>, MemoryLimit> {
        if let Some(&number) = self.numbers.get(&raw) {
            return Ok(Some(number));
        }
        let Ok(next) = u32::try_from(self.numbers.len()) else { return Ok(None) };
        budget.charge(map_entry::<i128, u32>())?;
        self.numbers.insert(raw, next);
        Ok(Some(next))
    }
}

/// Converts the times of a file to microseconds since its first event.
///
/// Threads that log concurrently can swap neighbouring lines, and the wall clock can be set back or pass midnight. A
/// time before its predecessor is replaced by the predecessor's: the order of events is authoritative.
#[derive(Debug, Default)]
pub(super) struct Clock {
    first_us: Option<u64>,
    latest_us: u64,
}

impl Clock {
    /// Returns the time to record for an event at `raw_us` on the file's clock.
    pub(super) fn advance(&mut self, raw_us: u64) -> u64 {
        let first = *self.first_us.get_or_insert(raw_us);
        self.latest_us = self.latest_us.max(raw_us.saturating_sub(first));
        self.latest_us
    }

    /// Returns the time of the last event, for an event without a time.
    pub(super) fn latest(&self) -> u64 {
        self.latest_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_stands_still() {
        let mut clock = Clock::default();
        let times: Vec<u64> = [50, 70, 60, 20, 71].map(|raw| clock.advance(raw)).into();
        assert_eq!(times, [0, 20, 20, 20, 21]);
    }

    #[test]
    fn streams_are_numbered_as_they_come() {
        let mut streams = Streams::default();
        let budget = &mut Budget::new(Bytes::kib(1), 0).unwrap();
        let numbers = [7000, 0, 7000, -1].map(|raw| streams.number(raw, budget).unwrap());
        assert_eq!(numbers, [Some(0), Some(1), Some(0), Some(2)]);
    }
}
