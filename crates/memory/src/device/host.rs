//! Host memory as a device: pages of this process. Unix only.

#![expect(
    clippy::cast_possible_truncation,
    reason = "addresses and lengths of mappings fit a pointer"
)]
#![allow(
    unsafe_code,
    reason = "mapping memory is a call to the operating system; each call says why it is sound"
)]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};

use super::{AddressMode, DeviceMemory, MemoryInfo, RegionHandle, RegionId};
use crate::Bytes;
use crate::sync::{Mutex, lock};

/// Advice that returns pages to the system. Systems other than Linux may keep them for a while.
#[cfg(target_os = "linux")]
const FORGET: Advice = Advice::LinuxDontNeed;
#[cfg(not(target_os = "linux"))]
const FORGET: Advice = Advice::DontNeed;
/// Granule of reserved regions: the granule of the accelerators, and a multiple of every page size.
const GRANULE: Bytes = Bytes::mib(2);

/// A device whose memory belongs to this process: a region's id is the address of its first byte.
///
/// A region is first mapped without access (reserve). `mprotect` makes parts of it usable (commit) and returns their
/// pages (decommit). An access to memory that is not committed faults.
///
/// ```
/// use cubeyard_memory::device::{DeviceMemory, HostMemory};
/// use cubeyard_memory::Bytes;
///
/// let host = HostMemory::new(Bytes::mib(64));
/// let region = host.try_acquire(Bytes::mib(4)).unwrap();
/// host.write(region.id, Bytes::new(128), b"hello");
/// assert_eq!(host.read(region.id, Bytes::new(128), 5), Some(b"hello".to_vec()));
/// host.release(region);
/// ```
#[derive(Debug)]
pub struct HostMemory {
    limit: Bytes,
    state: Mutex<HostState>,
}

#[derive(Debug, Default)]
struct HostState {
    used: Bytes,
    regions: BTreeMap<RegionId, Mapping>,
}

#[derive(Debug)]
struct Mapping {
    size: Bytes,
    /// Size of each committed part, by offset.
    committed: BTreeMap<Bytes, Bytes>,
}

impl Mapping {
    fn holds(&self, offset: Bytes, size: Bytes) -> bool {
        let end = offset.checked_add(size);
        let part = self.committed.range(..=offset).next_back();
        part.is_some_and(|(&start, &part)| end.is_some_and(|end| end <= start + part))
    }

    /// Adds a part and merges it with adjacent parts.
    fn add(&mut self, offset: Bytes, size: Bytes) {
        let (mut start, mut end) = (offset, offset + size);
        if let Some((&low, &part)) = self.committed.range(..offset).next_back()
            && low + part == offset
        {
            start = low;
        }
        if let Some(part) = self.committed.remove(&end) {
            end += part;
        }
        self.committed.insert(start, end - start);
    }

    /// Removes a range from the part that contains it.
    fn cut(&mut self, offset: Bytes, size: Bytes) {
        let held = self.committed.range(..=offset).next_back().map(|(&start, &part)| (start, part));
        let (start, part) = held.expect("only committed memory is decommitted");
        self.committed.remove(&start);
        for (from, to) in [(start, offset), (offset + size, start + part)] {
            if from < to {
                self.committed.insert(from, to - from);
            }
        }
    }
}

impl HostMemory {
    /// Creates a device that commits at most `limit` bytes.
    pub fn new(limit: Bytes) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Copies `data` into a region. Returns `None`, and changes nothing, unless the whole range is committed memory of
    /// a region of this device.
    pub fn write(&self, region: RegionId, offset: Bytes, data: &[u8]) -> Option<()> {
        let state = lock(&self.state);
        let target = state.at(region, offset, data.len())?;
        // SAFETY: `at` checked that the range is committed, and the lock keeps it committed. `data` is ordinary memory,
        // which cannot overlap the mapping.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), target, data.len()) };
        Some(())
    }

    /// Copies `length` bytes out of a region, under the same condition as [`write`](Self::write).
    pub fn read(&self, region: RegionId, offset: Bytes, length: usize) -> Option<Vec<u8>> {
        let state = lock(&self.state);
        let source = state.at(region, offset, length)?;
        let mut data = vec![0; length];
        // SAFETY: as in `write`, with source and target swapped.
        unsafe { ptr::copy_nonoverlapping(source, data.as_mut_ptr(), length) };
        Some(data)
    }

    fn map(&self, size: Bytes) -> Option<RegionHandle> {
        let length =
            usize::try_from(size.align_up(GRANULE)?.get()).ok().filter(|&length| length > 0)?;
        #[cfg(target_os = "linux")]
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        #[cfg(not(target_os = "linux"))]
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address of the system's choice touches no other memory.
        let address =
            unsafe { mmap_anonymous(ptr::null_mut(), length, ProtFlags::empty(), flags) }.ok()?;
        let id = RegionId::new(address as u64);
        let size = Bytes::new(length as u64);
        lock(&self.state).regions.insert(id, Mapping { size, committed: BTreeMap::new() });
        Some(RegionHandle { id, size })
    }
}

impl HostState {
    fn at(&self, region: RegionId, offset: Bytes, length: usize) -> Option<*mut u8> {
        let held =
            self.regions.get(&region).filter(|held| held.holds(offset, Bytes::new(length as u64)));
        held.map(|_| ptr::with_exposed_provenance_mut((region.get() + offset.get()) as usize))
    }
}

fn part(region: RegionId, offset: Bytes, size: Bytes) -> (*mut c_void, usize) {
    (ptr::with_exposed_provenance_mut((region.get() + offset.get()) as usize), size.get() as usize)
}

impl DeviceMemory for HostMemory {
    fn mode(&self) -> AddressMode {
        AddressMode::Physical
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        let region = self.map(size)?;
        if self.commit(&region, Bytes::ZERO, region.size) {
            return Some(RegionHandle { id: region.id, size });
        }
        self.release(region);
        None
    }

    fn release(&self, region: RegionHandle) {
        let mut state = lock(&self.state);
        let held = state.regions.remove(&region.id).expect("a region that was given out");
        state.used -= held.committed.values().copied().sum();
        let (address, length) = part(region.id, Bytes::ZERO, held.size);
        // SAFETY: the mapping is ours and has exactly this length. It is no longer in the table, so this device does
        // not access it again.
        unsafe { munmap(address, length) }.expect("unmapping a mapping of ours");
    }

    fn info(&self) -> MemoryInfo {
        MemoryInfo { free: self.limit.saturating_sub(lock(&self.state).used), total: self.limit }
    }

    fn granule(&self) -> Option<Bytes> {
        Some(GRANULE)
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.map(size)
    }

    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        let mut state = lock(&self.state);
        let Some(used) = state.used.checked_add(size).filter(|&used| used <= self.limit) else {
            return false;
        };
        let Some(held) =
            state.regions.get_mut(&region.id).filter(|held| offset + size <= held.size)
        else {
            return false;
        };
        let (address, length) = part(region.id, offset, size);
        // SAFETY: the range lies in one of our mappings and has no access yet; granting access cannot invalidate
        // anything.
        if unsafe { mprotect(address, length, MprotectFlags::READ | MprotectFlags::WRITE) }.is_err()
        {
            return false;
        }
        held.add(offset, size);
        state.used = used;
        true
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        let mut state = lock(&self.state);
        let held = state.regions.get_mut(&region.id).expect("a region that was given out");
        held.cut(offset, size);
        state.used -= size;
        let (address, length) = part(region.id, offset, size);
        // SAFETY: the range lies in one of our mappings and is no longer in the table of committed parts, so `read` and
        // `write` refuse it. Its contents are discarded on purpose.
        unsafe {
            madvise(address, length, FORGET).expect("giving pages of ours back");
            mprotect(address, length, MprotectFlags::empty())
                .expect("protecting a mapping of ours");
        }
    }
}

/// Unmaps the regions that were not released.
impl Drop for HostMemory {
    fn drop(&mut self) {
        for (id, region) in std::mem::take(&mut lock(&self.state).regions) {
            let (address, length) = part(id, Bytes::ZERO, region.size);
            // SAFETY: as in `release`; the device is being dropped, so no handle can be used any more.
            let _ = unsafe { munmap(address, length) };
        }
    }
}
