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
    /// Apart, because only pipelines have them, and a core goes through many commands.
    marks: Option<Box<Marks>>,
}

#[derive(Debug, Default)]
struct Marks {
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
    /// Begins anew, with so many parts. What it has of memory is used again.
    pub(super) fn restart(&mut self, total: u32) {
        (self.next, self.total, self.base) = (0, total, 0);
        if let Some(marks) = &mut self.marks {
            marks.times.clear();
            marks.early.clear();
        }
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
        self.marks.as_ref()?.times.get((count - self.base - 1) as usize).copied()
    }

    /// One is done.
    pub(super) fn finish(&mut self, index: u32, mark: Mark) {
        let mut next = self.done();
        let marks = self.marks.get_or_insert_default();
        if index != next {
            marks.early.push((index, mark));
            return;
        }
        marks.push(mark);
        next += 1;
        while let Some(place) = marks.early.iter().position(|&(index, _)| index == next) {
            let (_, mark) = marks.early.swap_remove(place);
            marks.push(mark);
            next += 1;
        }
    }

    /// Forgets the times of all before `count`, which nobody asks for any more.
    pub(super) fn forget(&mut self, count: u32) {
        let Some(marks) = &mut self.marks else { return };
        while self.base + 1 < count && marks.times.len() > 1 {
            marks.times.pop_front();
            self.base += 1;
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.marks.as_ref().map_or(0, |marks| marks.times.len())
    }
}

impl Marks {
    fn push(&mut self, mark: Mark) {
        let last = self.times.back().copied().unwrap_or_default();
        self.times.push_back(if mark.time > last.time { mark } else { last });
    }
}
