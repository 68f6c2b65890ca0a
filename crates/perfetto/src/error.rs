//! Errors of the trace writer.

use std::io;

use cubeyard_units::Time;

/// Error that prevented an event from being written. All errors except [`Io`](Self::Io) leave the trace unchanged.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The sink failed. The trace is unusable.
    #[error("the trace could not be written")]
    Io(#[from] io::Error),
    /// A slice ends before it starts. Omit it, or correct its times.
    #[error("a slice ends at {end}, before it starts at {start}")]
    EndsBeforeStart {
        /// Start of the slice.
        start: Time,
        /// End of the slice.
        end: Time,
    },
    /// A slice starts before the previous slice of its track. Sort slices by start.
    #[error("a slice starts at {start}, before the last one of its track, which starts at {last}")]
    OutOfOrder {
        /// Start of the slice.
        start: Time,
        /// Start of the previous slice.
        last: Time,
    },
    /// A slice starts within another slice of its track and ends after it. Put it on another track, as
    /// [`Lanes`](super::Lanes) does.
    #[error(
        "a slice from {start} to {end} overlaps another one of its track, which ends at {outer}"
    )]
    Overlap {
        /// Start of the slice.
        start: Time,
        /// End of the slice.
        end: Time,
        /// End of the slice in which this one starts.
        outer: Time,
    },
    /// An instant is more than 2⁶³ picoseconds (106 days) after the start, such as [`Time::NEVER`].
    #[error("{at} is later than a trace can say")]
    BeyondRange {
        /// Time of the event.
        at: Time,
    },
}
