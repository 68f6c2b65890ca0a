//! The memory of a device, as its allocator sees it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubeyard_memory::device::{
    AddressMode, DeviceMemory, FirmwareTable, MemoryInfo, RegionHandle, RegionId, TableInfo,
};
use cubeyard_memory::{Bytes, Checking, FreeList};

use crate::space::Space;

/// First physical address of a region.
const FIRST: u64 = 16 << 30;
/// Granule of reserved regions, and alignment of all regions.
const GRANULE: Bytes = Bytes::mib(2);
/// Number of entries of the firmware's table of a virtual function.
const ENTRIES: usize = 16;
/// Value of a free entry.
const NONE: u64 = u64::MAX;

/// The memory of a device: ranges of its addresses, up to a limit.
#[derive(Debug)]
pub struct SipMemory {
    space: Arc<Space>,
    device: u32,
    mode: AddressMode,
    total: Bytes,
    /// Reason for the limit of the total, as text.
    bound: String,
    limit: AtomicU64,
    state: Mutex<State>,
    /// Physical addresses of regions by their index in the firmware's table; read without a lock.
    starts: [AtomicU64; ENTRIES],
}

#[derive(Debug)]
struct State {
    addresses: FreeList,
    table: FirmwareTable,
    used: Bytes,
    /// Memory of each region in bytes, by its physical address.
    regions: BTreeMap<u64, Bytes>,
}

impl SipMemory {
    /// Creates the memory of a device with `total` bytes; `bound` states the reason for this limit.
    pub fn new(
        space: Arc<Space>,
        device: u32,
        mode: AddressMode,
        total: Bytes,
        bound: String,
    ) -> Self {
        let addresses = FreeList::new(Bytes::new(space.span() - FIRST), Checking::Trusted);
        let table = FirmwareTable::new(ENTRIES);
        let regions = BTreeMap::new();
        let state = Mutex::new(State { addresses, table, used: Bytes::ZERO, regions });
        let limit = AtomicU64::new(total.get());
        Self {
            space,
            device,
            mode,
            total,
            bound,
            limit,
            state,
            starts: [const { AtomicU64::new(NONE) }; ENTRIES],
        }
    }

    /// Returns the pointer to a byte of a region.
    pub fn pointer(&self, region: RegionId, offset: Bytes) -> u64 {
        let start = match self.mode {
            AddressMode::Physical => region.get(),
            AddressMode::Virtual => {
                let index = usize::try_from(region.get()).unwrap_or(usize::MAX);
                self.starts.get(index).map_or(NONE, |start| start.load(Ordering::Acquire))
            }
        };
        self.space.pointer(self.device, start.wrapping_add(offset.get()))
    }

    /// Writes bytes to a region.
    pub fn write(&self, region: RegionId, offset: Bytes, bytes: &[u8]) {
        if let Some(start) = self.physical_address(region) {
            self.space.write(self.device, start + offset.get(), bytes);
        }
    }

    /// Reads bytes at a pointer of the device.
    pub(crate) fn copy_out(&self, pointer: u64, into: &mut [u8]) {
        self.space.read(self.device, pointer - self.space.pointer(self.device, 0), into);
    }

    /// Writes bytes at a pointer of the device.
    pub(crate) fn copy_in(&self, pointer: u64, bytes: &[u8]) {
        self.space.write(self.device, pointer - self.space.pointer(self.device, 0), bytes);
    }

    /// Sets the maximum memory of all regions together.
    pub fn set_limit(&self, limit: Bytes) {
        self.limit.store(limit.min(self.total).get(), Ordering::Relaxed);
    }

    /// Returns the maximum memory of all regions together.
    pub fn limit(&self) -> Bytes {
        Bytes::new(self.limit.load(Ordering::Relaxed))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out addresses for a region with `memory` bytes of memory.
    fn hand_out(&self, size: Bytes, memory: Bytes) -> Option<RegionHandle> {
        let mut state = self.state();
        if state.used.checked_add(memory)? > self.limit() {
            return None;
        }
        let length = size.get().checked_next_multiple_of(GRANULE.get())?;
        let offset = state.addresses.allocate(Bytes::new(length)).ok()?;
        let start = FIRST + offset.get();
        let id = match self.mode {
            AddressMode::Physical => RegionId::new(start),
            AddressMode::Virtual => {
                let Some(id) = state.table.insert(start) else {
                    state
                        .addresses
                        .free(offset, Bytes::new(length))
                        .expect("it was just allocated");
                    return None;
                };
                let index = usize::try_from(id.get()).expect("an index of the table is small");
                self.starts[index].store(start, Ordering::Release);
                id
            }
        };
        state.used += memory;
        state.regions.insert(start, memory);
        Some(RegionHandle { id, size })
    }

    /// Changes the memory of a region with `change`.
    fn change(
        &self,
        region: &RegionHandle,
        change: impl FnOnce(Bytes, Bytes) -> Option<(Bytes, Bytes)>,
    ) -> Option<u64> {
        let start = self.physical_address(region.id)?;
        let mut state = self.state();
        let memory = *state.regions.get(&start)?;
        let (used, memory) = change(state.used, memory)?;
        state.used = used;
        state.regions.insert(start, memory);
        Some(start)
    }
}

impl DeviceMemory for SipMemory {
    fn mode(&self) -> AddressMode {
        self.mode
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.hand_out(size, size)
    }

    fn release(&self, region: RegionHandle) {
        let Some(start) = self.physical_address(region.id) else { return };
        // Done before the addresses can belong to another region.
        self.space.forget(self.device, start, region.size);
        let mut state = self.state();
        let memory = state.regions.remove(&start).unwrap_or(Bytes::ZERO);
        state.used -= memory;
        if self.mode == AddressMode::Virtual {
            state.table.remove(region.id);
        }
        let length = Bytes::new(region.size.get().next_multiple_of(GRANULE.get()));
        state.addresses.free(Bytes::new(start - FIRST), length).expect("the region was handed out");
    }

    fn info(&self) -> MemoryInfo {
        MemoryInfo { free: self.limit().saturating_sub(self.state().used), total: self.total }
    }

    fn bound(&self) -> Option<String> {
        let limit = self.limit();
        if limit == self.total {
            return Some(self.bound.clone());
        }
        Some(format!("a limit of {limit}, and by {}", self.bound))
    }

    fn table(&self) -> Option<TableInfo> {
        (self.mode == AddressMode::Virtual).then(|| self.state().table.info())
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        match self.mode {
            AddressMode::Physical => Some(region.get()),
            AddressMode::Virtual => self.state().table.physical_address(region),
        }
    }

    fn granule(&self) -> Option<Bytes> {
        Some(GRANULE)
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.hand_out(size, Bytes::ZERO)
    }

    fn commit(&self, region: &RegionHandle, _offset: Bytes, size: Bytes) -> bool {
        let limit = self.limit();
        let more = |used: Bytes, memory: Bytes| {
            let used = used.checked_add(size).filter(|&used| used <= limit)?;
            Some((used, memory + size))
        };
        self.change(region, more).is_some()
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        let less = |used: Bytes, memory: Bytes| Some((used - size, memory - size));
        if let Some(start) = self.change(region, less) {
            self.space.forget(self.device, start + offset.get(), size);
        }
    }
}
