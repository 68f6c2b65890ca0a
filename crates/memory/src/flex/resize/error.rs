//! Reasons why a block is not resized.

use crate::Bytes;
use crate::flex::VirtualAddress;
use crate::flex::error::FreeError;
use crate::policy::TagId;

/// A refused resize. The block is as it was. Idle granules may have been decommitted for its growth, as for an
/// allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The new size is zero. Free the block instead.
    #[error("a block cannot be resized to zero bytes")]
    ZeroBytes,
    /// The range behind the block is too short. Allocate a new block and copy, or free what is behind this one.
    #[error(
        "the block needs {needed} more, but {available} behind it can be taken, up to {obstacle}"
    )]
    NoRoom {
        /// Number of bytes that the block lacks.
        needed: Bytes,
        /// Number of bytes behind the block that its stream may take.
        available: Bytes,
        /// End of these bytes.
        obstacle: Obstacle,
    },
    /// The device has no memory for the range behind the block. Free or trim some memory and try again.
    #[error("the device has no memory to commit for {needed} behind the block")]
    NoMemory {
        /// Number of bytes that the block lacks.
        needed: Bytes,
    },
    /// The block's tag would exceed its hard budget. Free blocks of the tag, or raise the budget.
    #[error("{tag} would have {needed}, and its hard budget is {budget}")]
    Budget {
        /// Tag of the block.
        tag: TagId,
        /// Hard budget of the tag.
        budget: Bytes,
        /// Bytes of the tag with the growth.
        needed: Bytes,
    },
    /// The block is pinned and cannot become shorter, since a launch may use all of it. Drop the pins first.
    #[error("the block at {address} is pinned, so its end cannot be freed")]
    Pinned {
        /// Address of the block.
        address: VirtualAddress,
    },
    /// The block is paused, so it has no memory. Resume it first.
    #[error("the block at {address} is paused")]
    Paused {
        /// Address of the block.
        address: VirtualAddress,
    },
    /// The device made the request while the allocator was calling it on this thread, and memory would have to be
    /// committed. Make it after that call.
    #[error(
        "the allocator is calling its device on this thread; no memory can be committed until that call returns"
    )]
    Reentrant,
    /// Another thread moved, freed or resized the block at the same time. Try again if the block is live.
    #[error("another thread moved, freed or resized the block at the same time")]
    Changed,
    /// The token names no live block of this allocator.
    #[error(transparent)]
    Token(#[from] FreeError),
}

/// End of the range behind a block that the block may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// A block in use, or freed and waiting for other streams than its own.
    Block,
    /// A freed range that another stream may still access. Synchronize that stream, or wait until its event has passed.
    Stream,
    /// The end of the region.
    EndOfRegion,
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Block => "another block",
            Self::Stream => "a range that another stream may still access",
            Self::EndOfRegion => "the end of the region",
        })
    }
}
