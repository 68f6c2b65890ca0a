//! The segment table: how a program on the device finds a region.

use std::fmt;

use crate::Bytes;
use crate::device::RegionId;

/// The place of a region in the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId(pub usize);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.0)
    }
}

/// One entry of a [`SegmentTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The region.
    pub region_id: RegionId,
    /// Where it begins in the flat address space that snapshots and programs use.
    pub base: u64,
    /// How long it is.
    pub size: Bytes,
}

/// One entry for every region that was ever acquired, in that order.
///
/// Entries are only ever added. That of a region that was given back stays, empty, so no entry
/// changes its meaning under a launch that uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentTable {
    entries: Vec<Option<Segment>>,
    next: u64,
}

/// Regions begin at multiples of this in the flat address space, and not at its start: compilers set
/// address registers a little before a tensor, which must not wrap.
const STEP: Bytes = Bytes::gib(16);

impl SegmentTable {
    /// Adds an entry, or nothing where the flat address space has come to its end.
    pub(super) fn push(&mut self, region_id: RegionId, size: Bytes) -> Option<Segment> {
        let base = self.next.checked_add(STEP.get())?;
        let end = base.checked_add(size.align_up(STEP)?.get())?;
        self.next = end - STEP.get();
        let segment = Segment { region_id, base, size };
        self.entries.push(Some(segment));
        Some(segment)
    }

    pub(super) fn clear(&mut self, region_id: RegionId) {
        let live = |entry: &&mut Option<Segment>| {
            entry.is_some_and(|segment| segment.region_id == region_id)
        };
        if let Some(entry) = self.entries.iter_mut().find(live) {
            *entry = None;
        }
    }

    /// The segment of a region.
    pub fn find(&self, region_id: RegionId) -> Option<(SegmentId, Segment)> {
        let mut entries = self.entries.iter().enumerate();
        entries.find_map(|(place, entry)| {
            entry
                .filter(|segment| segment.region_id == region_id)
                .map(|segment| (SegmentId(place), segment))
        })
    }

    /// All entries in order; `None` where a region was given back.
    pub fn entries(&self) -> &[Option<Segment>] {
        &self.entries
    }
}
