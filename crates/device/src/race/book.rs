//! Most recent accesses to each byte of a memory.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Agent;
use crate::message::Direction;

/// Disjoint ranges, by first byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    ranges: BTreeMap<u64, BookEntry>,
}

/// Range with its last writer, and the readers since then.
#[derive(Clone, Debug, Default)]
struct BookEntry {
    end: u64,
    writer: Option<Agent>,
    readers: Vec<Agent>,
}

impl Book {
    /// Adds an access, and reports each earlier access to the same bytes if one of the two writes.
    pub(super) fn access(
        &mut self,
        range: Range<u64>,
        by: Agent,
        found: &mut dyn FnMut(Range<u64>, Agent),
    ) {
        self.cut(range.start);
        self.cut(range.end);
        let mut at = range.start;
        let mut gaps = Vec::new();
        for (&start, entry) in self.ranges.range_mut(range.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            entry.check(start, by, found);
            entry.note(by);
            at = entry.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        for gap in gaps {
            let mut entry = BookEntry { end: gap.end, ..BookEntry::default() };
            entry.note(by);
            self.ranges.insert(gap.start, entry);
        }
    }

    pub(super) fn forget(&mut self, range: Range<u64>) {
        self.cut(range.start);
        self.cut(range.end);
        let inside: Vec<_> = self.ranges.range(range).map(|(&start, _)| start).collect();
        for start in inside {
            self.ranges.remove(&start);
        }
    }

    /// Splits the range that contains an address at that address.
    fn cut(&mut self, at: u64) {
        let Some((_, entry)) = self.ranges.range_mut(..at).next_back() else { return };
        if entry.end > at {
            let rest = entry.clone();
            entry.end = at;
            self.ranges.insert(at, rest);
        }
    }
}

impl BookEntry {
    fn check(&self, start: u64, by: Agent, found: &mut dyn FnMut(Range<u64>, Agent)) {
        let readers = self.readers.iter().filter(|_| by.direction == Direction::Write);
        for &earlier in self.writer.iter().chain(readers) {
            found(start..self.end, earlier);
        }
    }

    fn note(&mut self, by: Agent) {
        if by.direction == Direction::Write {
            self.writer = Some(by);
            self.readers.clear();
            return;
        }
        match self.place_of(by) {
            Some(place) => self.readers[place] = by,
            None => self.readers.push(by),
        }
    }

    /// Returns the reader that a new one replaces: of the same part of a program, or the later of two. Two readers of a PE
    /// are enough, because a writer is in another part than one of them.
    fn place_of(&self, by: Agent) -> Option<usize> {
        let is_own = |&place: &usize| {
            let reader = &self.readers[place];
            reader.launch == by.launch && reader.pe == by.pe
        };
        let mut own = (0..self.readers.len()).rev().filter(is_own);
        let later = own.next()?;
        if self.readers[later].part == by.part {
            return Some(later);
        }
        let earlier = own.next()?;
        Some(if self.readers[earlier].part == by.part { earlier } else { later })
    }
}

#[cfg(test)]
mod tests {
    use cubeyard_sim::NodeId;
    use proptest::prelude::*;

    use super::*;
    use crate::message::RequestId;

    /// Byte by byte: which of the PEs of one launch race.
    fn naive(accesses: &[(u64, u64, usize, bool)]) -> Vec<(usize, u64)> {
        let mut bytes = vec![(None, Vec::new()); 64];
        let mut races = Vec::new();
        for (index, &(from, length, pe, writes)) in accesses.iter().enumerate() {
            for at in from..(from + length).min(64) {
                let (writer, readers): &mut (Option<usize>, Vec<usize>) =
                    &mut bytes[usize::try_from(at).unwrap()];
                let others = readers.iter().filter(|_| writes).chain(writer.iter());
                if others.clone().any(|other| *other != pe) {
                    races.push((index, at));
                }
                if writes {
                    (*writer, *readers) = (Some(pe), Vec::new());
                } else {
                    readers.push(pe);
                }
            }
        }
        races
    }

    proptest! {
        #[test]
        fn it_finds_what_a_book_of_bytes_finds(
            accesses in proptest::collection::vec((0..64_u64, 1..20_u64, 0..3_usize, any::<bool>()), 1..40),
        ) {
            let mut book = Book::default();
            let launch = RequestId::new(0);
            let mut races = Vec::new();
            for (index, &(from, length, pe, writes)) in accesses.iter().enumerate() {
                let direction = if writes { Direction::Write } else { Direction::Read };
                let pe = Some(NodeId::new(pe));
                let by = Agent { launch, pe, command: 0, direction, is_atomic: false, part: 0 };
                book.access(from..(from + length).min(64), by, &mut |range, earlier| {
                    if earlier.pe != by.pe {
                        races.extend(range.map(|at| (index, at)));
                    }
                });
            }
            races.sort_unstable();
            races.dedup();
            prop_assert_eq!(races, naive(&accesses));
        }
    }
}
