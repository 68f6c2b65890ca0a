//! A binary heap: slower than the wheel, but obviously correct.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Entry;
use crate::Time;

/// A queue as a binary heap, as a reference.
#[derive(Debug)]
pub(super) struct Heap<E> {
    entries: BinaryHeap<Numbered<E>>,
    pushed: u64,
}

#[derive(Debug)]
struct Numbered<E> {
    key: Reverse<(Time, u32, u64)>,
    event: E,
}

impl<E> Default for Heap<E> {
    fn default() -> Self {
        Self { entries: BinaryHeap::new(), pushed: 0 }
    }
}

impl<E> Heap<E> {
    pub(super) fn push(&mut self, time: Time, rank: u32, event: E) {
        self.entries.push(Numbered { key: Reverse((time, rank, self.pushed)), event });
        self.pushed += 1;
    }

    pub(super) fn pop_until(&mut self, deadline: Time) -> Option<Entry<E>> {
        self.next_time().filter(|&time| time <= deadline)?;
        let Numbered { key: Reverse((time, rank, _)), event } = self.entries.pop()?;
        Some(Entry { time, rank, event })
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.entries.peek().map(|next| next.key.0.0)
    }
}

impl<E> PartialEq for Numbered<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Numbered<E> {}

impl<E> PartialOrd for Numbered<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Numbered<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}
