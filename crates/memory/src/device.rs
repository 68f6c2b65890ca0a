//! Where regions come from: the devices below an allocator.
//!
//! A device hands out *regions*, contiguous ranges of its memory, and takes them back. That is all
//! the allocator asks for; [`DeviceMemory`] says it precisely. A device with virtual memory can also
//! *reserve* a region, which is addresses only, and put memory behind it granule by granule.

mod faulty;
mod host;
mod simulated;
mod table;

pub use faulty::{Fault, Faulty};
pub use host::HostMemory;
pub use simulated::{Card, CardSpec};
pub use table::{FirmwareTable, TableInfo};

use std::fmt;

use crate::Bytes;

/// Names a region, as programs on the device see it.
///
/// With a physical function ([`AddressMode::Physical`]) it is the physical address of the region's
/// start; with a virtual function ([`AddressMode::Virtual`]) it is an index into the firmware's
/// table, which maps to that address. A small value to be copied around; the region itself belongs
/// to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u64);

impl RegionId {
    /// The region that a device calls `id`.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// The bare number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a [`RegionId`] of a device means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// Physical function, one tenant: the region's physical address.
    Physical,
    /// Virtual function, several tenants: an index into the firmware's table.
    Virtual,
}

/// A region that a device has handed out. It is given back by value, so it cannot be used after
/// that, nor given back twice.
#[derive(Debug, PartialEq, Eq)]
pub struct RegionHandle {
    /// Its name.
    pub id: RegionId,
    /// How long it is.
    pub size: Bytes,
}

impl RegionHandle {
    /// A second handle to the same region, for a call that only looks at it.
    pub(crate) fn duplicate(&self) -> Self {
        Self { id: self.id, size: self.size }
    }
}

/// How much memory a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What nobody has acquired or committed.
    pub free: Bytes,
    /// All of it.
    pub total: Bytes,
}

/// The source of regions.
///
/// The allocator calls these with no lock held, so an implementation may block, and may even free
/// blocks of the allocator and look at it. It may also allocate from it, but finds only room that is
/// there: a request that would need a region is refused
/// ([`Reentrant`](crate::flex::AllocateError::Reentrant)), and a trim is put off until the call has
/// returned. It must not wait for another thread that allocates or trims. The allocator never calls
/// two of `try_acquire`, `try_reserve` and `release` at a time, nor two of `commit` and `decommit`
/// at a time for one region; several allocators may share a device.
pub trait DeviceMemory: Send + Sync {
    /// How the ids of this device's regions are meant.
    fn mode(&self) -> AddressMode;

    /// A region of exactly `size` bytes of memory, or nothing where the device has none to give.
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle>;

    /// Takes a region back, acquired or reserved, with whatever is committed in it.
    fn release(&self, region: RegionHandle);

    /// How much memory there is.
    fn info(&self) -> MemoryInfo;

    /// Returns the state of the firmware's table, for a device that can have only so many regions
    /// out as it has entries. The segment table of an allocator has as many.
    fn table(&self) -> Option<TableInfo> {
        None
    }

    /// Returns the physical address of a region's start: the id itself in a physical function, what
    /// the firmware's table has for it in a virtual one. `None` for a region that is not out, where
    /// the device can tell, and for a virtual function that does not know its table.
    fn physical_address(&self, region: RegionId) -> Option<u64> {
        match self.mode() {
            AddressMode::Physical => Some(region.get()),
            AddressMode::Virtual => None,
        }
    }

    /// The granule in which memory can be committed to a reserved region (a power of two), or
    /// nothing for a device that cannot do so.
    fn granule(&self) -> Option<Bytes> {
        None
    }

    /// A region of `size` bytes of addresses with no memory behind them.
    fn try_reserve(&self, _size: Bytes) -> Option<RegionHandle> {
        None
    }

    /// Puts memory behind a part of a reserved region, and says whether there was enough. Both
    /// numbers are multiples of the granule, and none of the part is committed yet. On `false`
    /// nothing has changed.
    fn commit(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) -> bool {
        false
    }

    /// Takes the memory behind a part of a reserved region away; all of it is committed.
    fn decommit(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) {}
}
