//! Committed granules of a growable region.

use std::ops::Range;

use crate::Bytes;
use crate::index::Hole;

#[derive(Clone, Debug)]
pub(crate) struct Granules {
    /// Size of a granule as a power of two: `1 << shift` bytes.
    shift: u32,
    bits: Vec<u64>,
    committed: u64,
}

impl Granules {
    pub(crate) fn new(granule: Bytes) -> Self {
        Self { shift: granule.get().trailing_zeros(), bits: Vec::new(), committed: 0 }
    }

    pub(crate) fn size(&self) -> Bytes {
        Bytes::new(1 << self.shift)
    }

    pub(crate) fn committed(&self) -> Bytes {
        Bytes::new(self.committed << self.shift)
    }

    /// Returns whether all granules under `offset .. offset + size` are committed.
    pub(crate) fn is_backed(&self, offset: Bytes, size: Bytes) -> bool {
        let granules = self.under(offset, size);
        self.next(granules.clone(), false) == granules.end
    }

    /// Returns the uncommitted parts of the granules under `offset .. offset + size`, as offsets and sizes in bytes.
    pub(crate) fn missing(&self, offset: Bytes, size: Bytes) -> Vec<(Bytes, Bytes)> {
        self.runs(self.under(offset, size), false)
    }

    fn under(&self, offset: Bytes, size: Bytes) -> Range<u64> {
        let last = (offset.get() + size.get() - 1) >> self.shift;
        offset.get() >> self.shift..last + 1
    }

    /// Returns the committed granules that lie entirely in a free range.
    pub(crate) fn idle(&self, hole: Hole) -> Vec<(Bytes, Bytes)> {
        let first = (hole.offset.get() + (1 << self.shift) - 1) >> self.shift;
        let end = (hole.offset + hole.size).get() >> self.shift;
        // Nothing beyond the bits was ever committed, although a free range may be as long as the region.
        self.runs(first..end.min(64 * self.bits.len() as u64), true)
    }

    /// Returns the committed granules under `offset .. offset + size` that lie entirely in a run.
    pub(crate) fn idle_under(&self, offset: Bytes, size: Bytes, run: Hole) -> Vec<(Bytes, Bytes)> {
        let under = self.under(offset, size);
        let first = (run.offset.get() + (1 << self.shift) - 1) >> self.shift;
        let end = (run.offset + run.size).get() >> self.shift;
        self.runs(under.start.max(first)..under.end.min(end), true)
    }

    /// Returns the committed parts of a free range.
    pub(crate) fn backed_in(&self, hole: Hole) -> Vec<(Bytes, Bytes)> {
        let end = hole.offset + hole.size;
        let last = (end.get() - 1) >> self.shift;
        let granules = hole.offset.get() >> self.shift..(last + 1).min(64 * self.bits.len() as u64);
        let clip = |(start, size): (Bytes, Bytes)| {
            let (low, high) = (start.max(hole.offset), (start + size).min(end));
            (low, high - low)
        };
        self.runs(granules, true).into_iter().map(clip).collect()
    }

    pub(crate) fn backed(&self) -> Vec<(Bytes, Bytes)> {
        self.runs(0..64 * self.bits.len() as u64, true)
    }

    /// Marks a part as committed or not; `offset` and `size` are multiples of the granule.
    pub(crate) fn mark(&mut self, offset: Bytes, size: Bytes, committed: bool) {
        let granules = offset.get() >> self.shift..(offset + size).get() >> self.shift;
        let words =
            usize::try_from(granules.end.div_ceil(64)).expect("a region's granules can be counted");
        if committed && self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        debug_assert_eq!(self.next(granules.clone(), committed), granules.end, "granules change");
        let count = granules.end - granules.start;
        self.committed = if committed { self.committed + count } else { self.committed - count };
        let mut at = granules.start;
        while at < granules.end {
            let end = granules.end.min((at / 64 + 1) * 64);
            let mask = u64::MAX >> (64 - (end - at)) << (at % 64);
            self.bits[word(at)] ^= mask;
            at = end;
        }
    }

    /// Returns the first of `granules` whose state is `committed`, or the end of `granules` if there is none. It checks
    /// 64 granules at a time, since a region may have millions.
    fn next(&self, granules: Range<u64>, committed: bool) -> u64 {
        let mut at = granules.start;
        while at < granules.end {
            let Some(&bits) = self.bits.get(word(at)) else {
                return if committed { granules.end } else { at };
            };
            let wanted = (if committed { bits } else { !bits }) >> (at % 64);
            if wanted != 0 {
                return granules.end.min(at + u64::from(wanted.trailing_zeros()));
            }
            at = (at / 64 + 1) * 64;
        }
        granules.end
    }

    fn runs(&self, granules: Range<u64>, committed: bool) -> Vec<(Bytes, Bytes)> {
        let mut runs = Vec::new();
        let mut start = self.next(granules.clone(), committed);
        while start < granules.end {
            let end = self.next(start..granules.end, !committed);
            runs.push((Bytes::new(start << self.shift), Bytes::new((end - start) << self.shift)));
            start = self.next(end..granules.end, committed);
        }
        runs
    }
}

fn word(granule: u64) -> usize {
    usize::try_from(granule / 64).expect("a region's granules can be counted")
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_at_a_time_give_the_answers_of_one_by_one(
            parts in prop::collection::vec((0_u64..300, 1_u64..200), 1..20),
        ) {
            let mut granules = Granules::new(Bytes::new(1));
            let mut one_by_one = vec![false; 500];
            for (start, length) in parts {
                let missing = granules.missing(Bytes::new(start), Bytes::new(length));
                let range = start as usize..(start + length) as usize;
                let expected = one_by_one[range.clone()].iter().filter(|&&committed| !committed).count();
                prop_assert_eq!(missing.iter().map(|&(_, size)| size.get()).sum::<u64>(), expected as u64);
                missing.iter().for_each(|&(offset, size)| granules.mark(offset, size, true));
                one_by_one[range].fill(true);
                let backed = granules.backed();
                let inside = |at: u64| backed.iter().any(|&(offset, size)| (offset.get()..(offset + size).get()).contains(&at));
                prop_assert!((0..500).all(|at| inside(at) == one_by_one[at as usize]));
                prop_assert_eq!(granules.committed().get(), one_by_one.iter().filter(|&&it| it).count() as u64);
            }
        }
    }

    #[test]
    fn only_granules_without_memory_are_missing_and_only_whole_ones_idle() {
        let mut granules = Granules::new(Bytes::new(4));
        assert_eq!(granules.missing(Bytes::new(3), Bytes::new(6)), [(Bytes::ZERO, Bytes::new(12))]);
        granules.mark(Bytes::new(4), Bytes::new(4), true);
        let ends = [(Bytes::ZERO, Bytes::new(4)), (Bytes::new(8), Bytes::new(4))];
        assert_eq!(granules.missing(Bytes::new(3), Bytes::new(6)), ends);
        let mut index = crate::index::FreeIndex::new(Bytes::new(64), Bytes::new(1));
        let whole = index.hole_at(Bytes::ZERO).unwrap();
        assert_eq!(granules.idle(whole), [(Bytes::new(4), Bytes::new(4))]);
        index.allocate_at(Bytes::new(5), Bytes::new(1), 0).unwrap();
        let below = index.hole_at(Bytes::ZERO).unwrap();
        assert_eq!(granules.idle(below), [], "half a granule cannot be taken away");
        granules.mark(Bytes::new(4), Bytes::new(4), false);
        assert_eq!(granules.committed(), Bytes::ZERO);
    }
}
