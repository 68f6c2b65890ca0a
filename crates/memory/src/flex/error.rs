//! Errors of allocating and freeing, with the numbers that explain them.

use std::fmt;
use std::sync::Arc;

use crate::Bytes;
use crate::device::RegionId;
use crate::flex::budgets::BudgetExceeded;
use crate::flex::pools::PoolReport;
use crate::flex::still::Still;
use crate::flex::{Growth, VirtualAddress};
pub use crate::free_list::Shortage;
use crate::policy::{PoolId, TagId};

/// A request that could not be served. No block was changed. Idle granules may have been decommitted, and idle regions
/// released unless the configuration has `release:never`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// Zero bytes were requested; there is no block to return. Use a null address instead.
    #[error("a block of zero bytes was requested")]
    ZeroBytes,
    /// The alignment is not a power of two. Correct it.
    #[error("an alignment of {0} was requested, which is not a power of two")]
    BadAlignment(Bytes),
    /// The device or the streams made the request while the allocator was calling them on this thread, and it would
    /// need another region or have to wait for a stream. Make it after that call, or on another thread that the call
    /// does not wait for.
    #[error(
        "the allocator is calling its device or streams on this thread; until that call returns, only memory that is \
        already available can be allocated"
    )]
    Reentrant,
    /// The device has returned a region that it had already provided and that was not released. The second handle is
    /// ignored: releasing it would release the first region, which holds blocks. Correct the device.
    #[error(
        "the device has returned region {region_id} twice, although it was not released; the second one is ignored"
    )]
    RepeatedRegion {
        /// Name of the region.
        region_id: RegionId,
    },
    /// The allocator has no pool of this number, or its last handle was dropped. Use the number of a pool of this
    /// allocator.
    #[error("the allocator has no {0}: it is of another allocator, or was dropped")]
    UnknownPool(PoolId),
    /// The allocator has no tag of this number. Register the name.
    #[error("the allocator has no {0}; register its name first")]
    UnknownTag(TagId),
    /// The hard budget of the request's tag refuses it. Free blocks of the tag, or raise the budget.
    #[error("{0}")]
    Budget(Box<BudgetExceeded>),
    /// There is no room. The report states the kind of shortage and the remedies.
    #[error("{0}")]
    OutOfMemory(Box<OutOfMemory>),
}

/// Limit that keeps an allocator from acquiring another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionLimit {
    /// No limit so far: a region for the request can be acquired when the device has room.
    Open,
    /// The number of regions has reached `max_regions`, the value given here.
    MaxRegions(usize),
    /// The firmware's table is full; its number of entries is given here.
    Table(usize),
    /// The segment table is full: launches hold the entries without a region. Its number of entries is given here.
    Launches(usize),
    /// The device has refused a region of every size.
    Device,
}

impl fmt::Display for RegionLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => write!(f, "regions can be acquired"),
            Self::MaxRegions(count) => write!(f, "max_regions reached, which is {count}"),
            Self::Table(entries) => {
                write!(f, "the firmware's table has {entries} entries, all of them in use")
            }
            Self::Launches(entries) => write!(
                f,
                "the segment table has {entries} entries, and launches hold those of released regions"
            ),
            Self::Device => write!(f, "the device has refused all sizes of a region"),
        }
    }
}

/// A report on a request that found no room.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Number of bytes requested.
    pub requested: Bytes,
    /// Number of bytes requested, rounded up to the granule.
    pub rounded: Bytes,
    /// Kind of the shortage.
    pub shortage: Shortage,
    /// Free bytes in all regions that the request may use.
    pub free: Bytes,
    /// Length of the longest free range in any of these regions.
    pub largest: Bytes,
    /// Free memory of the device.
    pub device_free: Bytes,
    /// Total memory of the device.
    pub device_total: Bytes,
    /// Reason for the limit of the device's memory, if the device states one.
    pub device_bound: Option<String>,
    /// Length of the longest block that fits an empty region.
    pub longest_block: Bytes,
    /// Whether no more regions are acquired.
    pub regions_locked: bool,
    /// Limit that prevents the allocator from acquiring more regions.
    pub limit: RegionLimit,
    /// Figures of the regions, oldest first.
    pub regions: Vec<RegionReport>,
    /// Freed bytes that wait for a stream.
    pub pending: Bytes,
    /// Memory of idle regions of any kind, which a trim would return to the device.
    pub idle: Bytes,
    /// Whether free memory is fragmented and compaction could move a block. Blocks that are pinned, used by several
    /// streams, or known by their address alone cannot move.
    pub movable: bool,
    /// Growth of regions, as configured.
    pub growth: Growth,
    /// Granule in which the device can commit memory; `None` if it cannot.
    pub granule: Option<Bytes>,
    /// Pool of the request; `None` for the default pool.
    pub pool: Option<PoolReport>,
    /// Budget that the request exceeds, in a report to a callback that is called because of the budget; there may be
    /// room otherwise.
    pub budget: Option<BudgetExceeded>,
    /// The allocator as it was, for trials; `None` in a report to a callback, and if there are too many blocks.
    pub(super) still: Option<Arc<Still>>,
}

/// Figures of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionReport {
    /// Name of the region.
    pub id: RegionId,
    /// Memory of the region: acquired, or committed where it is growable.
    pub size: Bytes,
    /// Free bytes of the region's memory.
    pub free: Bytes,
    /// Length of the region's longest free range.
    pub largest: Bytes,
    /// Number of live blocks.
    pub blocks: usize,
    /// Pool of the region.
    pub pool: PoolId,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested, rounded, free, largest, .. } = self;
        writeln!(
            f,
            "out of memory: wanted {requested} ({} B, rounded to {} B)",
            requested.get(),
            rounded.get()
        )?;
        writeln!(
            f,
            "  free {free}, longest free range {largest}, in {} regions",
            self.regions.len()
        )?;
        let locked = if self.regions_locked {
            "no more regions are acquired"
        } else {
            "regions can be acquired"
        };
        writeln!(f, "  device: {} of {} free; {locked}", self.device_free, self.device_total)?;
        if let Some(bound) = &self.device_bound {
            writeln!(f, "  its memory is bounded by {bound}")?;
        }
        if let Some(pool) = &self.pool {
            writeln!(f, "  {pool}")?;
        }
        for region in &self.regions {
            let RegionReport { id, size, free, largest, blocks, .. } = region;
            writeln!(
                f,
                "  region {id}: {size}, {free} free, longest range {largest}, {blocks} blocks"
            )?;
        }
        write!(f, "  {}", self.advice().replace('\n', "\n  "))
    }
}

/// A refused free or other operation on a block. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeError {
    /// The address is in no region of this allocator: it belongs to another device or allocator, or its region was
    /// released.
    #[error("{address} is in no region of this allocator")]
    UnknownRegion {
        /// The address given.
        address: VirtualAddress,
    },
    /// No live block starts at the address: the block was freed before, or the address points into a block.
    #[error("no live block starts at {address}: it was freed before, or points inside a block")]
    NotLive {
        /// The address given.
        address: VirtualAddress,
    },
    /// The token's block belongs to another allocator, where it may be live. Use that allocator.
    #[error("the token's block belongs to another allocator")]
    Foreign,
    /// The token's block was freed before.
    #[error("the token is stale: its block was freed before")]
    Stale,
    /// A handle owns the block and frees it when dropped. Leak the handle first.
    #[error("the block belongs to a handle, which frees it when dropped")]
    Owned,
}
