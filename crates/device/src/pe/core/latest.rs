//! The latest of several times.

use cubeyard_sim::Time;

use super::progress::RecordedTime;
use crate::pe::{OpCause, Reason};

/// The latest of several times, with its cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    pub(super) time: Time,
    pub(super) record: Kept,
    pub(super) cause: OpCause,
}

const _: () = assert!(size_of::<Latest>() == 16, "each slot has two");

/// Index of a record, if records are kept; half the size of an `Option`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept(u32);

const NONE: u32 = u32::MAX;

impl Default for Kept {
    fn default() -> Self {
        Self(NONE)
    }
}

impl From<Option<u32>> for Kept {
    fn from(record: Option<u32>) -> Self {
        Self(record.unwrap_or(NONE))
    }
}

impl From<Kept> for Option<u32> {
    fn from(kept: Kept) -> Self {
        (kept.0 != NONE).then_some(kept.0)
    }
}

impl Latest {
    pub(super) fn new(time: Time, cause: OpCause, record: impl Into<Kept>) -> Self {
        Self { time, record: record.into(), cause }
    }

    /// Returns the later of two times; `self` if they are equal.
    pub(super) fn or(self, time: Time, cause: OpCause, record: impl Into<Kept>) -> Self {
        if time > self.time { Self::new(time, cause, record) } else { self }
    }

    pub(super) fn reason(self) -> Reason {
        Reason { cause: self.cause, before: self.record.into() }
    }

    pub(super) fn mark(self) -> RecordedTime {
        RecordedTime { time: self.time, record: self.record.into() }
    }
}
