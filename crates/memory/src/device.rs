//! Devices: the source of an allocator's regions.
//!
//! A device gives out *regions*, contiguous ranges of its memory, and takes them back. That is all
//! the allocator asks for; [`DeviceMemory`] is the contract. A device with virtual memory can also
//! *reserve* a region, which is addresses only, and commit memory to it granule by granule.
//!
//! `HostMemory` exists on Unix only.

mod faulty;
#[cfg(unix)]
mod host;
mod simulated;
mod table;

pub use faulty::{Fault, Faulty};
#[cfg(unix)]
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
    /// Creates the name of the region that a device calls `id`.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// Returns the name as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Meaning of the [`RegionId`]s of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// Physical function, one tenant: the region's physical address.
    Physical,
    /// Virtual function, several tenants: an index into the firmware's table.
    Virtual,
}

/// A region that a device has given out. It is released by value, so it can be neither used after
/// that nor released twice.
#[derive(Debug, PartialEq, Eq)]
pub struct RegionHandle {
    /// Name of the region.
    pub id: RegionId,
    /// Length in bytes.
    pub size: Bytes,
}

impl RegionHandle {
    /// Returns a second handle to the same region, for a call that only reads it.
    pub(crate) fn duplicate(&self) -> Self {
        Self { id: self.id, size: self.size }
    }
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that are neither acquired nor committed.
    pub free: Bytes,
    /// Bytes in all.
    pub total: Bytes,
}

/// A source of regions.
///
/// The allocator calls these with no lock held, so an implementation may block, and may even free
/// blocks of the allocator and read its statistics. It may also allocate from it where there is room:
/// a request that would need a region is refused
/// ([`Reentrant`](crate::flex::AllocateError::Reentrant)), and a trim is put off until the call has
/// returned. It must not wait for another thread that allocates or trims. The allocator never calls
/// two of `try_acquire`, `try_reserve` and `release` at a time, nor two of `commit` and `decommit`
/// at a time for one region; several allocators may share a device.
pub trait DeviceMemory: Send + Sync {
    /// Returns the meaning of the ids of its regions.
    fn mode(&self) -> AddressMode;

    /// Acquires a region of exactly `size` bytes of memory; `None` where the device has none.
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle>;

    /// Releases a region, acquired or reserved, with all memory that is committed to it.
    fn release(&self, region: RegionHandle);

    /// Returns its free and its total memory.
    fn info(&self) -> MemoryInfo;

    /// Returns why it has no more memory, in words for reports; `None` if that is what it was built with.
    fn bound(&self) -> Option<String> {
        None
    }

    /// Returns the state of the firmware's table, for a device whose regions each take an entry. The
    /// segment table of an allocator has as many entries.
    fn table(&self) -> Option<TableInfo> {
        None
    }

    /// Returns the physical address of a region's start: the id itself in a physical function, the
    /// address in the firmware's table in a virtual one. `None` for an unknown region, where the device
    /// can tell, and for a virtual function that does not know its table.
    fn physical_address(&self, region: RegionId) -> Option<u64> {
        match self.mode() {
            AddressMode::Physical => Some(region.get()),
            AddressMode::Virtual => None,
        }
    }

    /// Returns the granule in which memory can be committed to a reserved region (a power of two);
    /// `None` for a device that cannot do so.
    fn granule(&self) -> Option<Bytes> {
        None
    }

    /// Reserves a region of `size` bytes of addresses without memory.
    fn try_reserve(&self, _size: Bytes) -> Option<RegionHandle> {
        None
    }

    /// Commits memory to a part of a reserved region, and returns whether there was enough; if not,
    /// nothing has changed. Both numbers are multiples of the granule, and none of the part is
    /// committed yet.
    fn commit(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) -> bool {
        false
    }

    /// Decommits the memory of a part of a reserved region, all of which is committed.
    fn decommit(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) {}
}
