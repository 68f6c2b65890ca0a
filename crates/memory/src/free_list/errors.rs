//! Errors of free lists, and of the memories and address ranges built on them.

use std::fmt;

use crate::Bytes;
use crate::address::{CubeId, DeviceVa, PeId, PhysAddr, SipId};

/// An address space with its own free list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Space {
    /// A free list that stands alone.
    List,
    /// The HBM slice of a PE.
    Hbm(SipId, CubeId, PeId),
    /// The TCM of a PE.
    Tcm(SipId, CubeId, PeId),
    /// The SRAM of a cube.
    Sram(SipId, CubeId),
    /// The range of virtual addresses that starts here.
    Virtual(DeviceVa),
}

/// Formats the space as the prefix of an error, with a colon at the end.
impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => Ok(()),
            Self::Hbm(sip, cube, pe) => write!(f, "HBM of {sip}.{cube}.{pe}: "),
            Self::Tcm(sip, cube, pe) => write!(f, "TCM of {sip}.{cube}.{pe}: "),
            Self::Sram(sip, cube) => write!(f, "SRAM of {sip}.{cube}: "),
            Self::Virtual(base) => write!(f, "virtual space from {base}: "),
        }
    }
}

/// A refused allocation. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{space}{cause}")]
pub struct AllocateError {
    /// Space of the allocation.
    pub space: Space,
    /// Reason for the refusal.
    pub cause: AllocateCause,
}

/// Reason why an allocation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateCause {
    /// Zero bytes were requested. Never succeeds; request the bytes that are needed.
    #[error("an allocation of 0 bytes has no address")]
    ZeroBytes,
    /// No free range is long enough. The remedy depends on the [shortage](NoRoom::shortage).
    #[error("{0}")]
    NoRoom(NoRoom),
}

/// Figures of a space without room for an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Number of bytes requested.
    pub asked: Bytes,
    /// Number of bytes requested, rounded up to pages if the space has pages; [`Bytes::MAX`] beyond 64 bits.
    pub wanted: Bytes,
    /// Total number of free bytes.
    pub free: Bytes,
    /// Length of the longest free range.
    pub largest: Bytes,
    /// Length of the space.
    pub capacity: Bytes,
}

/// Kind of shortage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The request exceeds the size of the space, or of any region. Never succeeds.
    TooLarge,
    /// The request exceeds the free bytes. May succeed once other blocks are freed.
    Full,
    /// Enough is free, but not contiguously. May succeed once blocks in between are freed or moved.
    Fragmented,
}

impl NoRoom {
    /// Returns the kind of shortage.
    pub fn shortage(&self) -> Shortage {
        if self.wanted > self.capacity {
            Shortage::TooLarge
        } else if self.wanted > self.free {
            Shortage::Full
        } else {
            Shortage::Fragmented
        }
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.asked != self.wanted {
            write!(f, "asked for {}, in whole pages: ", Exact(self.asked))?;
        }
        write!(f, "wanted {}", Exact(self.wanted))?;
        write!(f, ", free {}, largest free range {}", Exact(self.free), Exact(self.largest))?;
        match self.shortage() {
            Shortage::TooLarge => write!(f, ": the space has only {}", Exact(self.capacity)),
            Shortage::Full => f.write_str(": full"),
            Shortage::Fragmented => f.write_str(": fragmented"),
        }
    }
}

/// A refused free. Nothing was changed, and the space remains usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{space}{cause}")]
pub struct FreeError {
    /// Space of the free.
    pub space: Space,
    /// Reason for the refusal.
    pub cause: FreeCause,
}

/// Reason why a free was refused. Offsets count from the start of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeCause {
    /// The size of the free is zero.
    #[error("a free of 0 bytes at {:#x} names nothing", offset.get())]
    ZeroBytes {
        /// The offset given.
        offset: Bytes,
    },
    /// The range does not lie entirely in the space.
    #[error("{} is outside the space of {}", ByteRange(*offset, *size), Exact(*capacity))]
    Outside {
        /// Start of the range.
        offset: Bytes,
        /// Length of the range.
        size: Bytes,
        /// Length of the space.
        capacity: Bytes,
    },
    /// No byte of the range is allocated: it was freed before, or never allocated. (Checked mode.)
    #[error("{} is not allocated: it was freed before, or never handed out", ByteRange(*offset, *size))]
    NotAllocated {
        /// Start of the range.
        offset: Bytes,
        /// Length of the range.
        size: Bytes,
    },
    /// An allocation starts there, but has another size. (Checked mode.)
    #[error("{} has the wrong size: the allocation is {} long", ByteRange(*offset, *size), Exact(*live_size))]
    WrongSize {
        /// Start of the range and of the allocation.
        offset: Bytes,
        /// The size given.
        size: Bytes,
        /// Size of the allocation.
        live_size: Bytes,
    },
    /// The range overlaps an allocation that starts elsewhere. (Checked mode.)
    #[error("{} overlaps the allocation {}", ByteRange(*offset, *size), ByteRange(*live_offset, *live_size))]
    Overlap {
        /// Start of the range.
        offset: Bytes,
        /// Length of the range.
        size: Bytes,
        /// Start of the allocation; if several overlap, of the last one.
        live_offset: Bytes,
        /// Length of the allocation.
        live_size: Bytes,
    },
    /// The address belongs to another space. Free it there.
    #[error("{address} is not part of it")]
    Foreign {
        /// The address given.
        address: PhysAddr,
    },
    /// The virtual address is below the range.
    #[error("{va} is below the range")]
    Below {
        /// The address given.
        va: DeviceVa,
    },
    /// The virtual address is inside a page, but allocations start at page boundaries.
    #[error("{va} is not the start of a page of {page}")]
    InsidePage {
        /// The address given.
        va: DeviceVa,
        /// Size of a page.
        page: Bytes,
    },
}

/// A size, formatted to the byte. In the rounded form alone, 6 GiB and one byte would not appear to exceed 6 GiB.
pub(crate) struct Exact(pub(crate) Bytes);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get() {
            count @ 0..1024 => write!(f, "{count} B"),
            count => write!(f, "{count} B ({})", self.0),
        }
    }
}

struct ByteRange(Bytes, Bytes);

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{:#x}", self.0.get(), self.1.get())
    }
}
