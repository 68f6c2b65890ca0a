//! Progress of an engine with the parts of a pipeline.

use std::collections::VecDeque;

use cubeyard_sim::Time;

/// Parts of one kind: loads, computations or stores.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) total: u32,
    /// Number of leading parts that are done and whose times are no longer needed.
    base: u32,
    /// For each part from `base` on, the time at which it and all parts before it were done.
    times: VecDeque<RecordedTime>,
    /// Parts that were done before an earlier part.
    early: Vec<(u32, RecordedTime)>,
}

/// End of a part, and its record if records are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordedTime {
    pub(super) time: Time,
    pub(super) record: Option<u32>,
}

impl Progress {
    pub(super) fn new(total: u32) -> Self {
        Self { total, ..Self::default() }
    }

    /// Returns the number of leading parts that are done.
    fn done(&self) -> u32 {
        self.base + u32::try_from(self.kept()).expect("as many as parts")
    }

    /// Returns the time at which the first `count` parts were done; `None` if one is pending.
    pub(super) fn until(&self, count: u32) -> Option<RecordedTime> {
        if count <= self.base {
            return Some(RecordedTime::default());
        }
        self.times.get((count - self.base - 1) as usize).copied()
    }

    pub(super) fn finish(&mut self, index: u32, mark: RecordedTime) {
        let mut next = self.done();
        if index != next {
            self.early.push((index, mark));
            return;
        }
        self.push(mark);
        next += 1;
        while let Some(place) = self.early.iter().position(|&(index, _)| index == next) {
            let (_, mark) = self.early.swap_remove(place);
            self.push(mark);
            next += 1;
        }
    }

    /// Discards the times of all parts before `count`.
    pub(super) fn forget(&mut self, count: u32) {
        while self.base + 1 < count && self.times.len() > 1 {
            self.times.pop_front();
            self.base += 1;
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.times.len()
    }

    fn push(&mut self, mark: RecordedTime) {
        let last = self.times.back().copied().unwrap_or_default();
        self.times.push_back(if mark.time > last.time { mark } else { last });
    }
}
