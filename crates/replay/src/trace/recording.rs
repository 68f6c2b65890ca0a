//! `Recording`: what a snapshot says about the allocator that it was taken of.

use std::fmt;

use cubeyard_units::Bytes;

/// What a snapshot says about the allocator that it was taken of, beside what was asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The allocator.
    pub by: RecordedBy,
    /// The most that it had reserved; nothing where history and segments contradict each other.
    pub reserved: Option<Bytes>,
    /// How much of its history is in the file.
    pub history: HistoryExtent,
    /// Whether PyTorch had `expandable_segments:True`.
    pub expandable: bool,
    /// Settings of PyTorch that are not its defaults, and that its models do not follow.
    pub other_settings: Vec<&'static str>,
    /// Requests that failed for want of memory, in their order.
    pub out_of_memory: Vec<OutOfMemory>,
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

/// How much of an allocator's history a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryExtent {
    /// All of it, from the first byte that was reserved.
    Whole,
    /// Nothing: only what was live when the snapshot was taken.
    Missing,
    /// The end of it: recording began late, or the ring of entries was full and lost the oldest.
    Begun {
        /// Bytes of the blocks that were live by then.
        live: Bytes,
        /// Bytes that were reserved by then.
        reserved: Bytes,
    },
}

/// A request that failed for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// How many events of the trace came before it.
    pub event: usize,
    /// The bytes that were asked for.
    pub size: Bytes,
    /// The stream that they were asked for on.
    pub stream: u32,
    /// All that the allocator could have had: what it had reserved, and what the device had free. Nothing
    /// where the file does not say.
    pub capacity: Option<Bytes>,
}
