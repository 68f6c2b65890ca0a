//! How far an engine is with the parts of a command.

use std::collections::VecDeque;

use cubeyard_sim::Time;

/// The parts of one kind of a command: loads, computations or stores.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The next to begin.
    pub(super) next: u32,
    pub(super) total: u32,
    /// Those before this one are done, and it is not asked when.
    base: u32,
    /// When those from `base` on were done, and all before them; never earlier than the one before.
    times: VecDeque<Mark>,
    /// Those that were done before one that was begun earlier.
    early: Vec<(u32, Mark)>,
}

/// When a part was done, and its record if records are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) time: Time,
    pub(super) record: Option<u32>,
}

impl Progress {
    /// None of so many has begun.
    pub(super) fn new(total: u32) -> Self {
        Self { total, ..Self::default() }
    }

    /// How many are done, without a gap.
    fn done(&self) -> u32 {
        self.base + u32::try_from(self.kept()).expect("as many as parts")
    }

    pub(super) fn is_begun(&self) -> bool {
        self.next == self.total
    }

    /// When the first `count` were done; none if they are not.
    pub(super) fn until(&self, count: u32) -> Option<Mark> {
        if count <= self.base {
            return Some(Mark::default());
        }
        self.times.get((count - self.base - 1) as usize).copied()
    }

    /// One is done.
    pub(super) fn finish(&mut self, index: u32, mark: Mark) {
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

    /// Forgets the times of all before `count`, which nobody asks for any more.
    pub(super) fn forget(&mut self, count: u32) {
        while self.base + 1 < count && self.times.len() > 1 {
            self.times.pop_front();
            self.base += 1;
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.times.len()
    }

    fn push(&mut self, mark: Mark) {
        let last = self.times.back().copied().unwrap_or_default();
        self.times.push_back(if mark.time > last.time { mark } else { last });
    }
}
