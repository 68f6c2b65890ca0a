//! Why an event was not written.

use std::io;

use cubeyard_sim::Time;

/// Why an event was not written. All but [`Io`](Self::Io) leave the trace as it was.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The sink failed. The trace is of no use any more.
    #[error("the trace could not be written")]
    Io(#[from] io::Error),
    /// A slice ends before it starts: leave it out, or find out where its times come from.
    #[error("a slice ends at {end}, before it starts at {start}")]
    EndsBeforeStart {
        /// When it starts.
        start: Time,
        /// When it ends.
        end: Time,
    },
    /// A slice starts before the one written before it on the same track: sort them by their starts.
    #[error("a slice starts at {start}, before the last one of its track, which starts at {last}")]
    OutOfOrder {
        /// When it starts.
        start: Time,
        /// When the last one started.
        last: Time,
    },
    /// A slice starts within another one of its track and ends after it: put it on another track, as
    /// [`Lanes`](super::Lanes) does.
    #[error(
        "a slice from {start} to {end} overlaps another one of its track, which ends at {outer}"
    )]
    Overlap {
        /// When it starts.
        start: Time,
        /// When it ends.
        end: Time,
        /// When the slice that it starts in ends.
        outer: Time,
    },
    /// An instant is more than 2⁶³ picoseconds (106 days) after the start, as [`Time::NEVER`] is.
    #[error("{at} is later than a trace can say")]
    BeyondRange {
        /// The instant.
        at: Time,
    },
}
