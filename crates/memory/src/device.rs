//! Devices: the source of an allocator's regions.
//!
//! A device hands out *regions*, contiguous ranges of its memory, and takes them back. The allocator needs nothing
//! else; [`DeviceMemory`] is the contract. A device with virtual memory can also *reserve* a region, which has
//! addresses only, and commit memory to it granule by granule.
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

/// Name of a region, as programs on the device see it.
///
/// With a physical function ([`AddressMode::Physical`]) it is the physical address of the region's start. With a
/// virtual function ([`AddressMode::Virtual`]) it is an index into the firmware's table, which maps to that address.
/// The name is a small value that can be copied; the region itself belongs to the allocator.
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
    /// Physical function with one tenant: the id is the region's physical address.
    Physical,
    /// Virtual function with several tenants: the id is an index into the firmware's table.
    Virtual,
}

/// A region that a device has handed out. It is released by value, so it can be neither used afterwards nor released
/// twice.
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

/// A handle with which another process or another API can open memory of a device. Its bytes have a meaning for the
/// device only: a handle of an operating system or a driver, for example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportHandle {
    /// The handle of a piece of memory.
    pub bytes: Vec<u8>,
    /// Offset of the exported range in that piece of memory.
    pub offset: Bytes,
}

/// Free and total memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that are neither acquired nor committed.
    pub free: Bytes,
    /// Total memory in bytes.
    pub total: Bytes,
}

/// A source of regions.
///
/// The allocator calls these functions with no lock held, so an implementation may block. It may also free blocks of
/// the allocator and read its statistics, and it may allocate if there is room. A request that would need a region is
/// refused ([`Reentrant`](crate::flex::AllocateError::Reentrant)), and a trim is deferred until the call has returned.
/// The implementation must not wait for another thread that allocates or trims. The allocator never runs two of
/// `try_acquire`, `try_reserve` and `release` at the same time, nor two of `commit` and `decommit` on one region.
/// Several allocators may share a device.
pub trait DeviceMemory: Send + Sync {
    /// Returns the meaning of the device's region ids.
    fn mode(&self) -> AddressMode;

    /// Acquires a region of exactly `size` bytes of memory; returns `None` if the device has not enough.
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle>;

    /// Releases an acquired or reserved region, with all memory committed to it.
    ///
    /// While a program uses one stream, work that was submitted before the call may still access the region. A device
    /// whose calls are not ordered after such work waits for it first, as `cudaFree` does. From the second stream on,
    /// the allocator has waited (see [`StreamEvents`](crate::flex::StreamEvents)). The same holds for
    /// [`decommit`](Self::decommit).
    fn release(&self, region: RegionHandle);

    /// Returns the device's free and total memory.
    fn info(&self) -> MemoryInfo;

    /// Returns why the device has no more memory, as text for reports; `None` if the limit is the physical memory.
    fn bound(&self) -> Option<String> {
        None
    }

    /// Returns the state of the firmware's table, if each region of the device occupies an entry. The allocator's
    /// segment table has the same number of entries.
    fn table(&self) -> Option<TableInfo> {
        None
    }

    /// Returns the physical address of a region's start: the id itself for a physical function, the entry of the
    /// firmware's table for a virtual one. Returns `None` for a region that the device does not know, and for a virtual
    /// function without access to its table.
    fn physical_address(&self, region: RegionId) -> Option<u64> {
        match self.mode() {
            AddressMode::Physical => Some(region.get()),
            AddressMode::Virtual => None,
        }
    }

    /// Returns the granule in which memory can be committed to a reserved region (a power of two); `None` if the device
    /// cannot commit.
    fn granule(&self) -> Option<Bytes> {
        None
    }

    /// Reserves a region of `size` bytes of addresses without memory.
    fn try_reserve(&self, _size: Bytes) -> Option<RegionHandle> {
        None
    }

    /// Commits memory to a part of a reserved region, and returns whether there was enough; if not, nothing changes.
    /// `offset` and `size` are multiples of the granule, and nothing in the part is committed yet.
    fn commit(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) -> bool {
        false
    }

    /// Decommits a part of a reserved region; the whole part is committed.
    fn decommit(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) {}

    /// Returns a handle with which another process or API can open `offset .. offset + size` of a region; `None` if the
    /// device has none. The range has memory, and keeps it and its place as long as the program keeps the
    /// [`Export`](crate::flex::Export). This function may run at the same time as every other one.
    fn export(&self, _region: &RegionHandle, _offset: Bytes, _size: Bytes) -> Option<ExportHandle> {
        None
    }
}
