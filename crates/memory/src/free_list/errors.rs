//! Why an allocation or a free was refused.

use std::fmt;

use crate::Bytes;

/// Why nothing was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No bytes were asked for. Never succeeds; ask for what is needed.
    #[error("an allocation of 0 bytes has no address")]
    ZeroBytes,
    /// No free range is long enough. What helps depends on its [kind](Shortage::kind).
    #[error("{0}")]
    NoRoom(Shortage),
}

/// What was wanted and what there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// How much was asked for.
    pub wanted: Bytes,
    /// How much was free, in however many ranges.
    pub free: Bytes,
    /// The longest free range.
    pub largest: Bytes,
    /// How long the space is.
    pub capacity: Bytes,
}

/// What a [`Shortage`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortageKind {
    /// More was wanted than the space has. Never succeeds.
    TooLarge,
    /// Less was free than was wanted. May succeed once something is freed.
    Full,
    /// Enough was free, but not in one piece. May succeed once something in between is freed.
    Fragmented,
}

impl Shortage {
    /// What the shortage comes from.
    pub fn kind(&self) -> ShortageKind {
        if self.wanted > self.capacity {
            ShortageKind::TooLarge
        } else if self.wanted > self.free {
            ShortageKind::Full
        } else {
            ShortageKind::Fragmented
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wanted {}", Exact(self.wanted))?;
        write!(f, ", free {}, largest free range {}", Exact(self.free), Exact(self.largest))?;
        match self.kind() {
            ShortageKind::TooLarge => write!(f, ": the space has only {}", Exact(self.capacity)),
            ShortageKind::Full => f.write_str(": full"),
            ShortageKind::Fragmented => f.write_str(": fragmented"),
        }
    }
}

/// Why nothing was freed. Whatever it is, nothing has changed and the space can be used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// No bytes were to be freed.
    #[error("a free of 0 bytes at {:#x} names nothing", offset.get())]
    ZeroBytes {
        /// Where.
        offset: Bytes,
    },
    /// The range does not lie in the space.
    #[error("{} is outside the space of {}", Range(*offset, *size), Exact(*capacity))]
    Outside {
        /// Where the range starts.
        offset: Bytes,
        /// How long it is.
        size: Bytes,
        /// How long the space is.
        capacity: Bytes,
    },
    /// No byte of the range is allocated: it was freed before, or never handed out. (Checked mode.)
    #[error("{} is not allocated: it was freed before, or never handed out", Range(*offset, *size))]
    NotAllocated {
        /// Where the range starts.
        offset: Bytes,
        /// How long it is.
        size: Bytes,
    },
    /// An allocation starts there, but is of another size. (Checked mode.)
    #[error("{} has the wrong size: the allocation is {} long", Range(*offset, *size), Exact(*live_size))]
    WrongSize {
        /// Where both start.
        offset: Bytes,
        /// The size given.
        size: Bytes,
        /// The size of the allocation.
        live_size: Bytes,
    },
    /// The range overlaps an allocation that starts elsewhere. (Checked mode.)
    #[error("{} overlaps the allocation {}", Range(*offset, *size), Range(*live_offset, *live_size))]
    Overlap {
        /// Where the range starts.
        offset: Bytes,
        /// How long it is.
        size: Bytes,
        /// Where the allocation starts; of several, the last one.
        live_offset: Bytes,
        /// How long it is.
        live_size: Bytes,
    },
}

/// A size to the byte: with the rounded form alone, 6 GiB and a byte would not seem to exceed 6 GiB.
pub(crate) struct Exact(pub(crate) Bytes);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get() {
            count @ 0..1024 => write!(f, "{count} B"),
            count => write!(f, "{count} B ({})", self.0),
        }
    }
}

/// A range as its offset and size.
struct Range(Bytes, Bytes);

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{:#x}", self.0.get(), self.1.get())
    }
}
