//! Remedies for a request that found no room, as results of trials.

use std::fmt;

use super::VirtualAddress;
use crate::Bytes;
use crate::policy::PoolId;

/// A remedy under which a request that found no room fits. It was tried on a replica of the allocator.
///
/// ```
/// # use std::sync::Arc;
/// # use cubeyard_memory::device::{Card, CardSpec};
/// # use cubeyard_memory::flex::{AllocateError, FlexAllocator, RemedyStep};
/// # use cubeyard_memory::Bytes;
/// let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(4))));
/// let allocator = FlexAllocator::new(card);
/// let mut blocks: Vec<_> = (0..4).map(|_| allocator.allocate(Bytes::gib(1)).unwrap()).collect();
/// blocks.remove(2);
/// blocks.remove(0);
/// let Err(AllocateError::OutOfMemory(report)) = allocator.allocate(Bytes::gib(2)) else { panic!() };
/// assert!(matches!(report.remedies()[0].step, RemedyStep::Compact { trim: false, .. }));
/// allocator.compact().commit();
/// allocator.allocate(Bytes::gib(2)).expect("the remedy was tried");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remedy {
    /// Step to take.
    pub step: RemedyStep,
    /// Evidence that the request then fits.
    pub basis: RemedyBasis,
    /// Memory of all regions once the request is placed.
    pub reserved: Bytes,
    /// Longest free range that is left once the request is placed.
    pub largest: Bytes,
}

/// A step that makes room for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemedyStep {
    /// Make the request again: the failed one has returned idle memory to the device.
    Retry,
    /// Wait for streams with [`synchronize`](super::FlexAllocator::synchronize).
    Synchronize,
    /// Call [`trim`](super::FlexAllocator::trim).
    Trim {
        /// Number of bytes that it returns to the device.
        bytes: Bytes,
    },
    /// Commit the plan of [`compact`](super::FlexAllocator::compact).
    Compact {
        /// Number of bytes that move.
        bytes: Bytes,
        /// Whether a [`trim`](super::FlexAllocator::trim) must follow.
        trim: bool,
    },
    /// Drop launches that the device is done with.
    DropLaunches,
    /// Raise the limit of the request's pool with [`set_limit`](super::Pool::set_limit).
    RaiseLimit {
        /// Number of the pool.
        pool: PoolId,
        /// Name of the pool.
        name: String,
        /// Limit under which the request fits.
        limit: Bytes,
    },
    /// Free these adjacent blocks of one region, and let their streams pass.
    Free {
        /// Addresses of the blocks in ascending order.
        blocks: Vec<VirtualAddress>,
        /// Length of the blocks together.
        bytes: Bytes,
    },
    /// Use this setting from the start of the program: `key:value,…` for [`FlexConfig::update`](super::FlexConfig::update).
    Configure(String),
}

/// Evidence for a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemedyBasis {
    /// The blocks as they lie now.
    Layout,
    /// The live blocks, placed anew. Blocks of the oldest region come first, in the order of their allocation. The present
    /// settings, tried in the same way, leave no room.
    LiveBlocks,
    /// The recorded history of this number of events, replayed. The present settings, tried in the same way, leave no
    /// room.
    History(usize),
}

/// Outcome of all trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) remedies: Vec<Remedy>,
    /// Number of remedies tried.
    pub(crate) count: usize,
    /// Reason why strategies were not tried, if they were not.
    pub(crate) unjudged: Option<&'static str>,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, basis, reserved, largest } = self;
        match basis {
            RemedyBasis::Layout => write!(f, "{step}: ")?,
            RemedyBasis::LiveBlocks => {
                write!(f, "{step} (as the blocks live now would be placed): ")?;
            }
            RemedyBasis::History(events) => {
                write!(f, "{step} (replayed from the history of {events} events): ")?;
            }
        }
        write!(f, "{reserved} reserved, longest free range {largest}")
    }
}

impl fmt::Display for RemedyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry => write!(f, "request it again, now that idle memory was returned"),
            Self::Synchronize => write!(f, "synchronize(), which waits for streams"),
            Self::Trim { bytes } => write!(f, "trim(), which gives back {bytes}"),
            Self::Compact { bytes, trim: false } => write!(f, "compact(), which moves {bytes}"),
            Self::Compact { bytes, trim: true } => {
                write!(f, "compact(), which moves {bytes}, and then trim()")
            }
            Self::DropLaunches => write!(f, "drop launches that the device is done with"),
            Self::RaiseLimit { name, limit, .. } => {
                write!(f, "raise the limit of pool `{name}` to {limit}")
            }
            Self::Free { blocks, bytes } => {
                write!(f, "free {} blocks of {bytes} in all", blocks.len())?;
                blocks.first().map_or(Ok(()), |first| write!(f, ", from {first} on"))
            }
            Self::Configure(setting) => write!(f, "`{setting}` from the start"),
        }
    }
}
