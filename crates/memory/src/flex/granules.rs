//! Which granules of a growable region have memory behind them.

use std::ops::Range;

use crate::Bytes;
use crate::index::Hole;

/// The committed granules of a region, a bit each.
#[derive(Clone, Debug)]
pub(crate) struct Granules {
    /// A granule is `1 << shift` bytes.
    shift: u32,
    bits: Vec<u64>,
    committed: u64,
}

impl Granules {
    pub(crate) fn new(granule: Bytes) -> Self {
        Self { shift: granule.get().trailing_zeros(), bits: Vec::new(), committed: 0 }
    }

    /// The granule.
    pub(crate) fn size(&self) -> Bytes {
        Bytes::new(1 << self.shift)
    }

    /// How much is committed.
    pub(crate) fn committed(&self) -> Bytes {
        Bytes::new(self.committed << self.shift)
    }

    /// The parts of the granules under `offset .. offset + size` that are not committed, as offsets
    /// and sizes in bytes.
    pub(crate) fn missing(&self, offset: Bytes, size: Bytes) -> Vec<(Bytes, Bytes)> {
        let first = offset.get() >> self.shift;
        let last = (offset.get() + size.get() - 1) >> self.shift;
        self.runs(first..last + 1, false)
    }

    /// The granules that lie wholly in a free range and are committed.
    pub(crate) fn idle(&self, hole: Hole) -> Vec<(Bytes, Bytes)> {
        let first = (hole.offset.get() + (1 << self.shift) - 1) >> self.shift;
        let end = (hole.offset + hole.size).get() >> self.shift;
        // Beyond the bits nothing was ever committed; a free range may be as long as the region.
        self.runs(first..end.min(64 * self.bits.len() as u64), true)
    }

    /// The parts of a free range that are committed.
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

    /// All parts that are committed.
    pub(crate) fn backed(&self) -> Vec<(Bytes, Bytes)> {
        self.runs(0..64 * self.bits.len() as u64, true)
    }

    /// Marks a part, both numbers multiples of the granule, as committed or not.
    pub(crate) fn mark(&mut self, offset: Bytes, size: Bytes, committed: bool) {
        let granules = offset.get() >> self.shift..(offset + size).get() >> self.shift;
        let words =
            usize::try_from(granules.end.div_ceil(64)).expect("a region's granules can be counted");
        if committed && self.bits.len() < words {
            self.bits.resize(words, 0);
        }
        for granule in granules {
            debug_assert_ne!(
                self.is_committed(granule),
                committed,
                "granules change when they are marked"
            );
            self.bits[word(granule)] ^= 1 << (granule % 64);
            if committed {
                self.committed += 1;
            } else {
                self.committed -= 1;
            }
        }
    }

    fn is_committed(&self, granule: u64) -> bool {
        self.bits.get(word(granule)).is_some_and(|word| word >> (granule % 64) & 1 == 1)
    }

    fn runs(&self, granules: Range<u64>, committed: bool) -> Vec<(Bytes, Bytes)> {
        let mut runs: Vec<(Bytes, Bytes)> = Vec::new();
        for granule in granules.filter(|&granule| self.is_committed(granule) == committed) {
            let (offset, size) = (Bytes::new(granule << self.shift), Bytes::new(1 << self.shift));
            match runs.last_mut() {
                Some(run) if run.0 + run.1 == offset => run.1 += size,
                _ => runs.push((offset, size)),
            }
        }
        runs
    }
}

fn word(granule: u64) -> usize {
    usize::try_from(granule / 64).expect("a region's granules can be counted")
}

#[cfg(test)]
mod tests {
    use super::*;

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
