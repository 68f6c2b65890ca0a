//! The latest of several times.

use cubeyard_sim::Time;

use super::progress::Mark;
use crate::pe::{Cause, Reason};

/// The latest of several times, and what it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    pub(super) time: Time,
    pub(super) cause: Cause,
    pub(super) record: Option<u32>,
}

impl Default for Latest {
    fn default() -> Self {
        Self { time: Time::ZERO, cause: Cause::Start, record: None }
    }
}

impl Latest {
    /// The later of the two; this one, if they are equal.
    pub(super) fn or(self, time: Time, cause: Cause, record: Option<u32>) -> Self {
        if time > self.time { Self { time, cause, record } } else { self }
    }

    pub(super) fn reason(self) -> Reason {
        Reason { cause: self.cause, before: self.record }
    }

    pub(super) fn mark(self) -> Mark {
        Mark { time: self.time, record: self.record }
    }
}
