//! The most recent events of an allocator, for its snapshots.

use std::collections::{BTreeMap, VecDeque};

use crate::Bytes;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// Kind of an event, in PyTorch's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// A block was allocated.
    Alloc,
    /// A block was freed by its owner.
    FreeRequested,
    /// A freed block can be allocated again, because its streams have passed.
    FreeCompleted,
    /// A region was acquired. (A reserved region counts only the memory mapped into it.)
    SegmentAlloc,
    /// A region was released.
    SegmentFree,
    /// Memory was committed to a part of a region.
    SegmentMap,
    /// Memory was decommitted from a part of a region.
    SegmentUnmap,
    /// A request failed. The address field of the entry holds the device's free memory in bytes.
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
    /// Number of bytes affected.
    pub size: Bytes,
    /// Stream of the block; 0 for events about regions.
    pub stream: u32,
    /// Time of the event in microseconds, from the allocator's clock; without a clock, the event's number.
    pub time_us: u64,
    /// Call site of the block's allocation; 0 if unknown.
    pub site: u32,
}

pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The history of an allocator, if it keeps one, and the clock for its timestamps.
pub(crate) struct Journal {
    ring: Mutex<Ring>,
    /// Whether the ring has a nonzero capacity; read without the lock.
    kept: AtomicBool,
    clock: Option<Clock>,
    now_us: AtomicU64,
}

struct Ring {
    entries: VecDeque<HistoryEntry>,
    limit: usize,
    recorded: u64,
    /// Call sites of live blocks by address, where known.
    sites: BTreeMap<u64, u32>,
}

impl Journal {
    /// Creates a history of the last `limit` events; 0 disables it.
    pub(crate) fn new(limit: usize, clock: Option<Clock>) -> Self {
        let ring = Ring { entries: VecDeque::new(), limit, recorded: 0, sites: BTreeMap::new() };
        let kept = AtomicBool::new(limit > 0);
        Self { ring: Mutex::new(ring), kept, clock, now_us: AtomicU64::new(0) }
    }

    /// Starts a new history of the last `limit` events.
    pub(crate) fn restart(&self, limit: usize) {
        let mut ring = lock(&self.ring);
        self.kept.store(limit > 0, Ordering::Relaxed);
        ring.limit = limit;
        ring.entries = VecDeque::new();
        ring.sites = BTreeMap::new();
    }

    /// Returns whether events are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// Reads the clock. It is called with no lock held, since the clock is user code.
    pub(crate) fn tick(&self) {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.is_kept()) {
            self.now_us.fetch_max(clock(), Ordering::Relaxed);
        }
    }

    pub(crate) fn record(&self, action: Action, address: u64, size: Bytes, stream: u32) {
        if !self.is_kept() {
            return;
        }
        let mut ring = lock(&self.ring);
        if ring.limit == 0 {
            return;
        }
        let known = match action {
            Action::FreeRequested => ring.sites.get(&address).copied(),
            Action::FreeCompleted => ring.sites.remove(&address),
            _ => None,
        };
        let now_us = || self.now_us.load(Ordering::Relaxed);
        let time_us = self.clock.as_ref().map_or(ring.recorded, |_| now_us());
        if ring.entries.len() >= ring.limit {
            ring.entries.pop_front();
        }
        let entry =
            HistoryEntry { action, address, size, stream, time_us, site: known.unwrap_or(0) };
        ring.entries.push_back(entry);
        ring.recorded += 1;
    }

    /// Records the call site of a block whose allocation was recorded, before the owner receives the block.
    pub(crate) fn note_site(&self, address: u64, site: u32) {
        let mut ring = lock(&self.ring);
        if ring.limit == 0 {
            return;
        }
        ring.sites.insert(address, site);
        let mut latest = ring.entries.iter_mut().rev();
        let placed =
            |entry: &&mut HistoryEntry| entry.action == Action::Alloc && entry.address == address;
        if let Some(entry) = latest.find(placed) {
            entry.site = site;
        }
    }

    /// Returns the entries, and the call sites of live blocks by address.
    pub(crate) fn entries(&self) -> (Vec<HistoryEntry>, BTreeMap<u64, u32>) {
        let ring = lock(&self.ring);
        (ring.entries.iter().copied().collect(), ring.sites.clone())
    }
}
