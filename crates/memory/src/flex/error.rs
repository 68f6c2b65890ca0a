//! What can go wrong, with the numbers that say why.

use std::fmt;

use crate::Bytes;
use crate::device::RegionId;
use crate::flex::VirtualAddress;

/// A request that could not be served. No block was changed by it; memory that was wholly free may
/// have been given back to the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No bytes were asked for; there is no block to return. Use a null address instead.
    #[error("a block of zero bytes was asked for")]
    ZeroBytes,
    /// The alignment is no power of two. Correct it.
    #[error("an alignment of {0} was asked for, which is no power of two")]
    BadAlignment(Bytes),
    /// There is no room. The report says of which kind the shortage is and what would help.
    #[error("{0}")]
    OutOfMemory(Box<OutOfMemory>),
}

/// Why there was no room, and what would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// More than any region could ever hold was asked for. Waiting and freeing do not help; larger
    /// regions would.
    TooBigForAnyRegion,
    /// Less is free than was asked for. Freeing something, or a larger device, would help.
    Full,
    /// Enough is free, but in parts. Compaction, or another policy, would help.
    Fragmented,
}

/// A report on a request for which there was no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The bytes asked for.
    pub requested: Bytes,
    /// The same, rounded to the granule.
    pub rounded: Bytes,
    /// Which kind of shortage it is.
    pub shortage: Shortage,
    /// What is free in all regions that the request may use.
    pub free: Bytes,
    /// The longest free range in any of them.
    pub largest: Bytes,
    /// What the device says it has left.
    pub device_free: Bytes,
    /// All that the device has.
    pub device_total: Bytes,
    /// The longest block that a region could hold, were it empty.
    pub longest_block: Bytes,
    /// Whether the allocator has stopped to acquire regions.
    pub regions_locked: bool,
    /// The regions, the oldest first.
    pub regions: Vec<RegionReport>,
    /// Freed bytes that wait for a stream.
    pub pending: Bytes,
}

/// One region in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionReport {
    /// Its name.
    pub id: RegionId,
    /// Its memory: what was acquired, or what is committed of a growable region.
    pub size: Bytes,
    /// What is free of that.
    pub free: Bytes,
    /// The longest free range of that.
    pub largest: Bytes,
    /// How many blocks are live.
    pub blocks: usize,
}

impl OutOfMemory {
    /// What would help, in a sentence.
    pub fn advice(&self) -> String {
        let missing = self.rounded.saturating_sub(self.free);
        match self.shortage {
            Shortage::TooBigForAnyRegion if self.longest_block.is_zero() => format!(
                "no region can be had: the device has {}, less than any of the fallback sizes; use smaller ones or \
                 growable regions",
                self.device_total
            ),
            Shortage::TooBigForAnyRegion => format!(
                "no region can ever hold it: the longest block is {}; use larger fallback sizes or growable regions",
                self.longest_block
            ),
            Shortage::Fragmented => format!(
                "memory is fragmented: {} are free in all, but the longest range is {}; compact(), best-fit or \
                 lifetime placement, or growable regions would help",
                self.free, self.largest
            ),
            Shortage::Full if !self.pending.is_zero() => {
                format!(
                    "memory is full: {missing} more would be needed, and {} wait for streams to finish",
                    self.pending
                )
            }
            Shortage::Full => {
                format!("memory is full: free at least {missing}, or use a device with more")
            }
        }
    }
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
pub enum FreeError {
    /// No region of this allocator has that name: the address belongs to another device or
    /// allocator, or its region was given back.
    #[error("{address} is in no region of this allocator")]
    UnknownRegion {
        /// The address as given.
        address: VirtualAddress,
    },
    /// Nothing live starts at that address: it was freed before, or points into a block.
    #[error("no live block starts at {address}: it was freed before, or points inside a block")]
    NotLive {
        /// The address as given.
        address: VirtualAddress,
    },
    /// The token's block was freed before.
    #[error("the token is stale: its block was freed before")]
    Stale,
    /// A handle owns the block, and frees it when it is dropped; leak the handle first.
    #[error("the block belongs to a handle, which frees it when it is dropped")]
    Owned,
}
