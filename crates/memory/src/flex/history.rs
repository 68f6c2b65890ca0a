//! The last events of an allocator, for its snapshots.

use std::collections::VecDeque;

use crate::Bytes;

/// What happened, in PyTorch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Alloc,
    /// Its owner let it go.
    FreeRequested,
    /// It is free.
    FreeCompleted,
    /// A region was acquired. (A reserved one is nothing but the memory that is mapped into it.)
    SegmentAlloc,
    /// It was given back.
    SegmentFree,
    /// Memory was committed to a part of a region.
    SegmentMap,
    /// It was taken away again.
    SegmentUnmap,
    /// A request failed for good; the address stands for what the device had left.
    OutOfMemory,
    /// A snapshot was taken.
    Snapshot,
}

impl Action {
    /// The word for it in snapshots.
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

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// What happened.
    pub action: Action,
    /// Where, in the address space of snapshots.
    pub address: u64,
    /// How many bytes it was about.
    pub size: Bytes,
    /// On which stream.
    pub stream: u32,
    /// When, in microseconds of the clock that the allocator was given; without one, the number of
    /// the event.
    pub time_us: u64,
}

/// A ring of the last events.
#[derive(Debug)]
pub(crate) struct History {
    entries: VecDeque<HistoryEntry>,
    limit: usize,
    pub(crate) recorded: u64,
}

impl History {
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), limit, recorded: 0 }
    }

    pub(crate) fn push(&mut self, entry: HistoryEntry) {
        if self.entries.len() == self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
        self.recorded += 1;
    }

    pub(crate) fn entries(&self) -> Vec<HistoryEntry> {
        self.entries.iter().copied().collect()
    }
}
