//! Errors of allocating and freeing, with the numbers that explain them.

use std::fmt;

use crate::Bytes;
use crate::device::RegionId;
use crate::flex::{Growth, VirtualAddress};
pub use crate::free_list::Shortage;

/// A request that could not be served. No block was changed by it; idle granules may have been
/// decommitted, and, unless the configuration says `release:never`, idle regions released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// No bytes were asked for; there is no block to return. Use a null address instead.
    #[error("a block of zero bytes was asked for")]
    ZeroBytes,
    /// The alignment is no power of two. Correct it.
    #[error("an alignment of {0} was asked for, which is no power of two")]
    BadAlignment(Bytes),
    /// The request was made by the device or the streams while the allocator was calling them on this
    /// thread, and would need another region, or a stream to pass. Make it after that call, or on
    /// another thread that the call does not wait for.
    #[error(
        "the allocator is calling its device or streams on this thread; until that call has returned, only \
         room that is there can be allocated"
    )]
    Reentrant,
    /// There is no room. The report says of which kind the shortage is and what would help.
    #[error("{0}")]
    OutOfMemory(Box<OutOfMemory>),
}

/// Limit that keeps an allocator from acquiring another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionLimit {
    /// No limit so far: a region that suits the request may be had when the device has room.
    Open,
    /// There are as many regions as `max_regions` allows, which is this number.
    MaxRegions(usize),
    /// The firmware's table has this many entries, all of them in use.
    Table(usize),
    /// The segment table has this many entries, and launches hold those without a region.
    Launches(usize),
    /// The device has refused every size of a region.
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

/// A report on a request for which there was no room.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// Number of bytes asked for.
    pub requested: Bytes,
    /// The same, rounded up to the granule.
    pub rounded: Bytes,
    /// Kind of the shortage.
    pub shortage: Shortage,
    /// Free bytes in all regions that the request may use.
    pub free: Bytes,
    /// Length of the longest free range in any of them.
    pub largest: Bytes,
    /// Free memory of the device.
    pub device_free: Bytes,
    /// Memory of the device in all.
    pub device_total: Bytes,
    /// Bound of that memory, in words, if the device gives one.
    pub device_bound: Option<String>,
    /// Length of the longest block that an empty region could hold.
    pub longest_block: Bytes,
    /// Whether no more regions are acquired.
    pub regions_locked: bool,
    /// Limit that keeps the allocator from acquiring more.
    pub limit: RegionLimit,
    /// Figures of the regions, the oldest first.
    pub regions: Vec<RegionReport>,
    /// Freed bytes that wait for a stream.
    pub pending: Bytes,
    /// Memory of idle regions of any kind, which a trim would give back.
    pub idle: Bytes,
    /// Whether memory is in pieces and compaction could move a block: not one that is pinned, used by
    /// several streams, or known by its address alone.
    pub movable: bool,
    /// Growth of regions in the configuration.
    pub growth: Growth,
    /// Granule in which the device can commit memory, if it can.
    pub granule: Option<Bytes>,
    /// Names of block policies that fragment memory less than the one in use.
    pub fragments_less: &'static [&'static str],
}

/// Figures of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionReport {
    /// Name of the region.
    pub id: RegionId,
    /// Memory of the region: acquired, or committed where it is growable.
    pub size: Bytes,
    /// Free bytes of that memory.
    pub free: Bytes,
    /// Length of the longest free range of it.
    pub largest: Bytes,
    /// Number of live blocks.
    pub blocks: usize,
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
        for region in &self.regions {
            let RegionReport { id, size, free, largest, blocks } = region;
            writeln!(
                f,
                "  region {id}: {size}, {free} free, longest range {largest}, {blocks} blocks"
            )?;
        }
        write!(f, "  {}", self.advice())
    }
}

/// A free, or another call about a block, that was refused. Nothing was changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeError {
    /// No region of this allocator has that name: the address belongs to another device or
    /// allocator, or its region was released.
    #[error("{address} is in no region of this allocator")]
    UnknownRegion {
        /// The address given.
        address: VirtualAddress,
    },
    /// No live block starts at that address: it was freed before, or points into a block.
    #[error("no live block starts at {address}: it was freed before, or points inside a block")]
    NotLive {
        /// The address given.
        address: VirtualAddress,
    },
    /// The token's block belongs to another allocator, where it may be live. Use that one.
    #[error("the token's block belongs to another allocator")]
    Foreign,
    /// The token's block was freed before.
    #[error("the token is stale: its block was freed before")]
    Stale,
    /// A handle owns the block, and frees it when it is dropped; leak the handle first.
    #[error("the block belongs to a handle, which frees it when it is dropped")]
    Owned,
}
