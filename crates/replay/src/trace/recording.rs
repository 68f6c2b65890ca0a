//! Properties of the allocator recorded in a snapshot.

use std::fmt;

use cubeyard_units::Bytes;

/// Properties of the allocator recorded in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Recorded allocator.
    pub by: RecordedBy,
    /// Peak of the reserved bytes; `None` if history and segments contradict each other.
    pub reserved: Option<Bytes>,
    /// Extent of the history in the file.
    pub history: HistoryExtent,
    /// Whether PyTorch had `expandable_segments:True`.
    pub expandable: bool,
    /// PyTorch settings that differ from the defaults and that its models do not support.
    pub other_settings: Vec<&'static str>,
    /// Calls of `empty_cache()` in the history.
    pub emptied_cache: EmptiedCache,
    /// Requests that failed for lack of memory, in order.
    pub out_of_memory: Vec<OutOfMemory>,
}

impl Recording {
    /// Returns whether `expandable_segments` could still be turned on.
    pub(crate) fn can_expand(&self) -> bool {
        self.by == RecordedBy::PyTorch && !self.expandable
    }
}

/// Calls of `torch.cuda.empty_cache()` that are known from a history: those that returned memory, and that no growth
/// followed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmptiedCache {
    /// Number of calls.
    pub calls: u32,
    /// Bytes that they returned to the device.
    pub bytes: Bytes,
}

/// Allocator that writes snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedBy {
    /// PyTorch's caching allocator.
    PyTorch,
    /// Flex allocator of this project.
    Cubeyard,
}

impl fmt::Display for RecordedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PyTorch => "PyTorch",
            Self::Cubeyard => "Cubeyard",
        })
    }
}

/// Extent of the history in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryExtent {
    /// Complete history, from the first reserved byte.
    Whole,
    /// No history: only the blocks that were live when the snapshot was taken.
    Missing,
    /// Only the end of the history: recording began late, or the ring of entries lost the oldest ones.
    Begun {
        /// Live bytes at the start of the history.
        live: Bytes,
        /// Reserved bytes at the start of the history.
        reserved: Bytes,
    },
}

/// Request that failed for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Number of events of the trace before the request.
    pub event: usize,
    /// Requested size.
    pub size: Bytes,
    /// Number of the requesting stream.
    pub stream: u32,
    /// Requesting call site, 0 if unknown.
    pub site: u32,
    /// Bytes available to the allocator: its reserved bytes plus the free bytes of the device. `None` if the file does
    /// not record them.
    pub capacity: Option<Bytes>,
}
