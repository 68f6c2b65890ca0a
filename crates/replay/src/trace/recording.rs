//! Properties of the allocator that a snapshot was taken of.

use std::fmt;

use cubeyard_units::Bytes;

/// Properties of the allocator that a snapshot was taken of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The recorded allocator.
    pub by: RecordedBy,
    /// Peak of the reserved bytes; `None` if history and segments contradict each other.
    pub reserved: Option<Bytes>,
    /// Extent of the history in the file.
    pub history: HistoryExtent,
    /// Whether PyTorch had `expandable_segments:True`.
    pub expandable: bool,
    /// Settings of PyTorch that differ from its defaults and that its models do not support.
    pub other_settings: Vec<&'static str>,
    /// Requests that failed for lack of memory, in order.
    pub out_of_memory: Vec<OutOfMemory>,
}

impl Recording {
    /// Returns whether `expandable_segments` could still be turned on.
    pub(crate) fn can_expand(&self) -> bool {
        self.by == RecordedBy::PyTorch && !self.expandable
    }
}

/// An allocator that writes snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedBy {
    /// PyTorch's caching allocator.
    PyTorch,
    /// The Flex allocator of this project.
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
    /// The whole history, from the first reserved byte.
    Whole,
    /// No history: only the blocks that were live when the snapshot was taken.
    Missing,
    /// The end of the history: recording began late, or the ring of entries lost the oldest.
    Begun {
        /// Live bytes at the start of the history.
        live: Bytes,
        /// Reserved bytes at the start of the history.
        reserved: Bytes,
    },
}

/// A request that failed for lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Number of events of the trace before it.
    pub event: usize,
    /// Requested size in bytes.
    pub size: Bytes,
    /// Number of the stream that requested it.
    pub stream: u32,
    /// Call site that requested it, 0 if unknown.
    pub site: u32,
    /// Bytes available to the allocator: those it had reserved and those free on the device. `None` if the file
    /// does not say.
    pub capacity: Option<Bytes>,
}
