//! The segment table, through which a program on the device finds a region.
//!
//! The table has the same number of entries as the firmware's table. A launch carries a copy of it to the device, so
//! the entry of a released region is reused only when no launch holds it.

use std::fmt;

use crate::Bytes;
use crate::device::RegionId;

/// Index of a region in the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId(pub usize);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.0)
    }
}

/// One entry of a [`SegmentTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Name of the region.
    pub region_id: RegionId,
    /// Start in the flat address space that snapshots and programs use.
    pub base: u64,
    /// Length in bytes.
    pub size: Bytes,
}

impl Segment {
    fn flat_end(&self) -> u64 {
        self.base + self.size.align_up(STEP).expect("its end was checked").get()
    }
}

/// A copy of the segment table at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentTable {
    entries: Vec<Option<Segment>>,
}

impl SegmentTable {
    /// Returns the segment of a region.
    pub fn get(&self, region_id: RegionId) -> Option<(SegmentId, Segment)> {
        let mut entries = self.entries.iter().enumerate();
        entries.find_map(|(place, entry)| {
            entry
                .filter(|segment| segment.region_id == region_id)
                .map(|segment| (SegmentId(place), segment))
        })
    }

    /// Returns all entries in order; `None` for an entry without a region.
    pub fn entries(&self) -> &[Option<Segment>] {
        &self.entries
    }
}

/// Alignment of region starts in the flat address space, and the lowest start. Compilers set address registers slightly
/// below a tensor, and such an address must not wrap around.
const STEP: Bytes = Bytes::gib(16);

/// The segment table of an allocator, with the launches that hold its entries.
#[derive(Debug)]
pub(crate) struct Segments {
    entries: Vec<TableEntry>,
    /// Flat address after the most recent region.
    next: u64,
}

#[derive(Clone, Debug, Default)]
struct TableEntry {
    /// Current or most recent region of the entry.
    segment: Option<Segment>,
    /// Whether the region has not been released.
    live: bool,
    /// Number of launches that have the entry in their copy of the table.
    launches: usize,
}

impl TableEntry {
    fn is_free(&self) -> bool {
        !self.live && self.launches == 0
    }
}

impl Segments {
    pub(crate) fn new(entries: usize) -> Self {
        Self { entries: vec![TableEntry::default(); entries], next: STEP.get() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether an entry is free for another region.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.iter().any(TableEntry::is_free)
    }

    /// Returns whether a region is in the table.
    pub(crate) fn has(&self, region_id: RegionId) -> bool {
        let mut live = self.entries.iter().filter(|entry| entry.live);
        live.any(|entry| entry.segment.is_some_and(|segment| segment.region_id == region_id))
    }

    /// Returns the number of entries that are free for more regions.
    pub(crate) fn vacant(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_free()).count()
    }

    /// Returns whether launches hold entries without a region.
    pub(crate) fn is_held(&self) -> bool {
        self.entries.iter().any(|entry| !entry.live && entry.launches > 0)
    }

    /// Enters a region at the first free entry; returns `None` if no entry is free or the flat address space has no
    /// room for it.
    pub(crate) fn push(&mut self, region_id: RegionId, size: Bytes) -> Option<Segment> {
        let base = self.free_base(size)?;
        let entry = self.entries.iter_mut().find(|entry| entry.is_free())?;
        let segment = Segment { region_id, base, size };
        *entry = TableEntry { segment: Some(segment), live: true, launches: 0 };
        self.next = segment.flat_end();
        Some(segment)
    }

    /// Removes a released region; its entry becomes free as soon as no launch holds it.
    pub(crate) fn retire(&mut self, region_id: RegionId) {
        let of_region = |entry: &&mut TableEntry| {
            entry.live && entry.segment.is_some_and(|segment| segment.region_id == region_id)
        };
        if let Some(entry) = self.entries.iter_mut().find(of_region) {
            entry.live = false;
        }
    }

    /// Returns the table for a launch, which holds all its entries until [`forget`](Self::forget).
    pub(crate) fn learn(&mut self) -> SegmentTable {
        for entry in self.entries.iter_mut().filter(|entry| entry.live) {
            entry.launches += 1;
        }
        self.table()
    }

    /// Ends the hold of a launch on `table`. Returns whether an entry became free.
    pub(crate) fn forget(&mut self, table: &SegmentTable) -> bool {
        let mut freed = false;
        for (entry, known) in self.entries.iter_mut().zip(&table.entries) {
            if known.is_some() {
                entry.launches -= 1;
                freed |= entry.is_free();
            }
        }
        freed
    }

    pub(crate) fn table(&self) -> SegmentTable {
        let entries = self.entries.iter().map(|entry| entry.segment.filter(|_| entry.live));
        SegmentTable { entries: entries.collect() }
    }

    /// Returns the start of a new region in the flat address space: after the most recent region, so that addresses are
    /// reused as late as possible. When the space is used up, it is the lowest gap.
    fn free_base(&self, size: Bytes) -> Option<u64> {
        let length = size.align_up(STEP)?.get();
        let kept = self.entries.iter().filter(|entry| !entry.is_free());
        let mut kept: Vec<_> = kept.filter_map(|entry| entry.segment).collect();
        kept.sort_unstable_by_key(|segment| segment.base);
        let fits = |base: u64| {
            let end = base.checked_add(length)?;
            let apart = |other: &Segment| end <= other.base || other.flat_end() <= base;
            kept.iter().all(apart).then_some(base)
        };
        let gaps = kept.iter().map(Segment::flat_end);
        std::iter::once(self.next).chain([STEP.get()]).chain(gaps).find_map(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(id: u64) -> RegionId {
        RegionId::new(id)
    }

    fn bases(segments: &Segments) -> Vec<Option<u64>> {
        let table = segments.table();
        table.entries().iter().map(|entry| entry.map(|segment| segment.base >> 34)).collect()
    }

    #[test]
    fn an_entry_is_used_again_only_when_no_launch_knows_it() {
        let mut segments = Segments::new(2);
        segments.push(region(7), Bytes::gib(4)).unwrap();
        segments.push(region(8), Bytes::gib(20)).unwrap();
        assert!(!segments.has_room() && segments.push(region(9), Bytes::gib(4)).is_none());
        let (first, second) = (segments.learn(), segments.learn());
        segments.retire(region(7));
        assert!(!segments.has_room() && segments.is_held());
        assert!(!segments.forget(&first), "another launch knows it");
        assert!(segments.forget(&second));
        segments.push(region(9), Bytes::gib(4)).unwrap();
        assert_eq!(segments.table().get(region(9)).unwrap().0, SegmentId(0));
        assert_eq!(bases(&segments), [Some(4), Some(2)], "flat addresses go on");
    }

    #[test]
    fn a_launch_does_not_keep_entries_that_came_after_it() {
        let mut segments = Segments::new(2);
        let before = segments.learn();
        segments.push(region(7), Bytes::gib(4)).unwrap();
        segments.retire(region(7));
        assert!(segments.has_room() && !segments.is_held());
        segments.forget(&before);
    }

    #[test]
    fn at_the_end_of_the_flat_addresses_gaps_are_used() {
        let mut segments = Segments::new(3);
        let half = Bytes::new(1 << 63);
        segments.push(region(1), Bytes::gib(16)).unwrap();
        segments.push(region(2), half).unwrap();
        segments.retire(region(1));
        segments.push(region(3), Bytes::new((1 << 63) - (48 << 30))).unwrap();
        assert_eq!(segments.push(region(4), Bytes::gib(16)).unwrap().base, STEP.get());
        segments.retire(region(2));
        assert_eq!(segments.push(region(5), half).unwrap().base, 2 * STEP.get());
        segments.retire(region(5));
        assert!(
            segments.push(region(6), Bytes::new(half.get() + 1)).is_none(),
            "one step too long"
        );
    }
}
