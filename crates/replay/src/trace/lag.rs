//! Completion of the work of streams: as recorded, or as a stated lag behind the host.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::{Event, Trace, TraceId};
use thiserror::Error;

/// Rule by which the work of streams completes in a replay.
///
/// A launch is an allocation of nonzero size on a stream: the kernel that writes the block. It is submitted after its
/// allocation, and the launches of one stream complete in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// Work completes as recorded: when the free of a block that other streams use was completed. Other work completes
    /// only when it is waited for.
    Recorded,
    /// Each stream lags behind the host by this number of launches: all its launches but the last ones are complete.
    Launches(u64),
}

impl Default for Lag {
    fn default() -> Self {
        Self::Launches(0)
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded => f.write_str("recorded"),
            Self::Launches(count) => write!(f, "{count}"),
        }
    }
}

/// Error for a text that is no [`Lag`]. Correct it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("lag is `{0}`: expected a number of launches, such as 0 or 50, or `recorded`")]
pub struct BadLag(pub String);

impl FromStr for Lag {
    type Err = BadLag;

    fn from_str(text: &str) -> Result<Self, BadLag> {
        match text {
            "recorded" => Ok(Self::Recorded),
            _ => text.parse().map(Self::Launches).map_err(|_| BadLag(text.to_owned())),
        }
    }
}

/// Free of a block that other streams use, which completes later than it is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedFree {
    /// Number of the allocation.
    pub id: TraceId,
    /// Number of allocations before the request; the number of the next one.
    pub before: u32,
    /// Time of the request, in microseconds since the start of the trace.
    pub time_us: u64,
}

impl Trace {
    /// Returns this trace, as it was read, under another rule of completion.
    ///
    /// Under a stated lag, shared blocks are freed when that was requested, and the lag determines when they can be
    /// reused. A trace of one stream stays as it is, because the lag does not concern it.
    #[must_use]
    pub fn with_lag(self, lag: Lag) -> Self {
        let as_recorded = self.lag == Lag::Recorded;
        let mut trace = Self { lag, ..self };
        if trace.streams().len() < 2 {
            trace.shared.clear();
        } else if as_recorded && lag != Lag::Recorded {
            trace.free_at_requests();
        }
        trace
    }

    /// Moves the frees of shared blocks to their requests.
    fn free_at_requests(&mut self) {
        let shared: BTreeSet<_> = self.shared.iter().map(|free| free.id).collect();
        let mut requests = self.shared.iter().peekable();
        let mut failures =
            self.recording.iter_mut().flat_map(|it| &mut it.out_of_memory).peekable();
        let mut events = Vec::with_capacity(self.events.len() + self.shared.len());
        for (place, event) in self.events.iter().enumerate() {
            while let Some(failure) = failures.next_if(|failure| failure.event == place) {
                failure.event = events.len();
            }
            match event {
                Event::Free { id, .. } if shared.contains(id) => continue,
                Event::Free { .. } => {}
                Event::Allocate(request) => {
                    while let Some(free) = requests.next_if(|free| free.before <= request.id.0) {
                        events.push(Event::Free { id: free.id, time_us: free.time_us });
                    }
                }
            }
            events.push(*event);
        }
        failures.for_each(|failure| failure.event = events.len());
        events.extend(requests.map(|free| Event::Free { id: free.id, time_us: free.time_us }));
        self.events = events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Allocate, EmptiedCache, HistoryExtent, OutOfMemory, RecordedBy, Recording};
    use cubeyard_units::Bytes;

    fn allocate(id: u32, stream: u32) -> Event {
        let (id, size) = (TraceId(id), Bytes::new(1));
        Event::Allocate(Allocate { id, size, stream, site: 0, time_us: 0 })
    }

    fn free(id: u32, time_us: u64) -> Event {
        Event::Free { id: TraceId(id), time_us }
    }

    /// Block 0 is freed after block 1 was allocated, completed after block 2; the free of block 1 is never completed.
    fn recorded(streams: [u32; 3]) -> Trace {
        let [first, second, third] = streams;
        let events = vec![
            allocate(0, first),
            allocate(1, second),
            allocate(2, third),
            free(0, 7),
            free(2, 8),
        ];
        let shared = [(0, 2, 5), (1, 3, 9)];
        let shared =
            shared.map(|(id, before, time_us)| SharedFree { id: TraceId(id), before, time_us });
        let failed =
            |event| OutOfMemory { event, size: Bytes::new(1), stream: 0, site: 0, capacity: None };
        let recording = Recording {
            by: RecordedBy::PyTorch,
            reserved: None,
            history: HistoryExtent::Whole,
            expandable: false,
            other_settings: Vec::new(),
            emptied_cache: EmptiedCache::default(),
            out_of_memory: [2, 4, 5].map(failed).into(),
        };
        let (shared, recording) = (shared.into(), Some(recording));
        Trace { events, allocations: 3, lag: Lag::Recorded, shared, recording, ..Trace::default() }
    }

    #[test]
    fn under_a_stated_lag_shared_blocks_are_freed_at_their_requests() {
        let trace = recorded([1, 0, 0]).with_lag(Lag::Launches(3));
        let expected =
            [allocate(0, 1), allocate(1, 0), free(0, 5), allocate(2, 0), free(2, 8), free(1, 9)];
        assert_eq!((trace.events, trace.lag), (expected.to_vec(), Lag::Launches(3)));
        let failures = trace.recording.unwrap().out_of_memory;
        assert_eq!(failures.iter().map(|it| it.event).collect::<Vec<_>>(), [2, 4, 5]);
    }

    #[test]
    fn as_recorded_and_with_one_stream_frees_stay_where_they_are() {
        let given = recorded([1, 0, 0]);
        assert_eq!(given.clone().with_lag(Lag::Recorded), given);
        let alone = recorded([4, 4, 4]);
        assert_eq!(alone.clone().with_lag(Lag::Launches(50)).events, alone.events);
    }

    #[test]
    fn a_lag_is_a_number_or_recorded() {
        for (text, lag) in
            [("recorded", Lag::Recorded), ("0", Lag::default()), ("50", Lag::Launches(50))]
        {
            assert_eq!((text.parse(), lag.to_string().as_str()), (Ok(lag), text));
        }
        for bad in ["", "-1", "1.5", "Recorded", "18446744073709551616"] {
            let message = bad.parse::<Lag>().unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("lag is `{bad}`: expected a number")),
                "{message}"
            );
        }
    }
}
