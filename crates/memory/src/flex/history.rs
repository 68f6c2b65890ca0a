//! The last events of an allocator, for its snapshots.

use std::collections::VecDeque;

use crate::Bytes;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// Kind of an event, in PyTorch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// A block was allocated.
    Alloc,
    /// A block was freed by its owner.
    FreeRequested,
    /// A freed block can be allocated again, because its streams have passed.
    FreeCompleted,
    /// A region was acquired. (A reserved region counts only as the memory that is mapped into it.)
    SegmentAlloc,
    /// A region was released.
    SegmentFree,
    /// Memory was committed to a part of a region.
    SegmentMap,
    /// Memory was decommitted from a part of a region.
    SegmentUnmap,
    /// A request failed; the address of the entry is the device's free memory in bytes.
    OutOfMemory,
    /// A snapshot was taken.
    Snapshot,
}

impl Action {
    /// Returns the name of the action in snapshots.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
        }
    }
}

/// One event of an allocator's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Kind of the event.
    pub action: Action,
    /// Address in the flat address space of snapshots.
    pub address: u64,
    /// Number of bytes concerned.
    pub size: Bytes,
    /// Stream of the block; 0 for events about regions.
    pub stream: u32,
    /// Time in microseconds of the allocator's clock; without a clock, the number of the event.
    pub time_us: u64,
}

pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The history that an allocator keeps, if it keeps any, and the clock that dates its entries.
pub(crate) struct Journal {
    ring: Option<Mutex<Ring>>,
    clock: Option<Clock>,
    now_us: AtomicU64,
}

struct Ring {
    entries: VecDeque<HistoryEntry>,
    limit: usize,
    recorded: u64,
}

impl Journal {
    /// Creates a history of the last `limit` events; of none where that is 0.
    pub(crate) fn new(limit: usize, clock: Option<Clock>) -> Self {
        let ring = || Mutex::new(Ring { entries: VecDeque::new(), limit, recorded: 0 });
        Self { ring: (limit > 0).then(ring), clock, now_us: AtomicU64::new(0) }
    }

    /// Returns whether events are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.ring.is_some()
    }

    /// Reads the clock. Called with no lock held, since the clock is the user's code.
    pub(crate) fn tick(&self) {
        if let (Some(clock), Some(_)) = (&self.clock, &self.ring) {
            self.now_us.fetch_max(clock(), Ordering::Relaxed);
        }
    }

    pub(crate) fn record(&self, action: Action, address: u64, size: Bytes, stream: u32) {
        let Some(ring) = &self.ring else { return };
        let mut ring = lock(ring);
        let now_us = || self.now_us.load(Ordering::Relaxed);
        let time_us = self.clock.as_ref().map_or(ring.recorded, |_| now_us());
        if ring.entries.len() == ring.limit {
            ring.entries.pop_front();
        }
        ring.entries.push_back(HistoryEntry { action, address, size, stream, time_us });
        ring.recorded += 1;
    }

    pub(crate) fn entries(&self) -> Vec<HistoryEntry> {
        let ring = self.ring.as_ref();
        ring.map(|ring| lock(ring).entries.iter().copied().collect()).unwrap_or_default()
    }
}
