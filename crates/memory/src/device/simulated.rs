//! A simulated accelerator card: memory is counted, not stored.

use std::collections::BTreeMap;

use super::{
    AddressMode, DeviceMemory, ExportHandle, FirmwareTable, MemoryInfo, RegionHandle, RegionId,
    TableInfo,
};
use crate::Bytes;
use crate::sync::{Mutex, lock};

/// Properties of a simulated [`Card`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardSpec {
    /// Memory in bytes.
    pub memory: Bytes,
    /// Meaning of the region ids.
    pub mode: AddressMode,
    /// Number of entries in the firmware's table; only for a virtual function.
    pub table: usize,
    /// Granule of reserved regions.
    pub granule: Bytes,
}

impl CardSpec {
    /// Describes a physical function with `memory` bytes.
    pub const fn physical(memory: Bytes) -> Self {
        Self { memory, mode: AddressMode::Physical, table: 0, granule: Bytes::mib(2) }
    }

    /// Describes a virtual function with `memory` bytes and a firmware table of `table` entries (8 to 16 on
    /// the cards that the RFC describes).
    pub const fn virtual_function(memory: Bytes, table: usize) -> Self {
        Self { memory, mode: AddressMode::Virtual, table, granule: Bytes::mib(2) }
    }
}

/// A simulated card, which counts memory but stores none.
///
/// ```
/// use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
/// use cubeyard_memory::Bytes;
///
/// let card = Card::new(CardSpec::virtual_function(Bytes::gib(16), 8));
/// let region = card.try_acquire(Bytes::gib(12)).unwrap();
/// assert!(card.try_acquire(Bytes::gib(12)).is_none(), "4 GiB are left");
/// assert_eq!(region.id.get(), 0, "an index into the firmware's table");
/// assert_eq!(card.physical_address(region.id), Some(1 << 34), "what the table has there");
/// card.release(region);
/// assert_eq!(card.info().free, Bytes::gib(16));
/// ```
#[derive(Debug)]
pub struct Card {
    spec: CardSpec,
    state: Mutex<CardState>,
}

#[derive(Debug)]
struct CardState {
    used: Bytes,
    /// Physical address of the next region. No address is used twice, so a stale address is never mistaken for a new
    /// one.
    top: u64,
    /// Firmware's table of a virtual function.
    table: Option<FirmwareTable>,
    /// Memory of each live region.
    regions: BTreeMap<RegionId, Bytes>,
}

/// Physical address of the first region; nonzero, since zero would look like a null pointer.
const BASE: u64 = 1 << 34;

impl Card {
    /// Creates a card with all its memory free.
    pub fn new(spec: CardSpec) -> Self {
        let table = (spec.mode == AddressMode::Virtual).then(|| FirmwareTable::new(spec.table));
        let state = CardState { used: Bytes::ZERO, top: BASE, table, regions: BTreeMap::new() };
        Self { spec, state: Mutex::new(state) }
    }

    /// Returns the number of live regions.
    pub fn regions(&self) -> usize {
        lock(&self.state).regions.len()
    }

    fn hand_out(&self, size: Bytes, memory: Bytes) -> Option<RegionHandle> {
        let mut state = lock(&self.state);
        let used = state.used.checked_add(memory).filter(|&used| used <= self.spec.memory)?;
        let start = state.top;
        let end =
            size.align_up(self.spec.granule).and_then(|size| start.checked_add(size.get()))?;
        let id = match &mut state.table {
            None => RegionId::new(start),
            Some(table) => table.insert(start)?,
        };
        state.top = end;
        state.used = used;
        state.regions.insert(id, memory);
        Some(RegionHandle { id, size })
    }

    fn exchange(&self, region: &RegionHandle, more: Bytes, less: Bytes) -> bool {
        let mut state = lock(&self.state);
        let Some(used) = state.used.checked_add(more).filter(|&used| used <= self.spec.memory)
        else {
            return false;
        };
        state.used = used - less;
        let held = state.regions.get_mut(&region.id).expect("a region that was given out");
        *held = *held + more - less;
        true
    }
}

impl DeviceMemory for Card {
    fn mode(&self) -> AddressMode {
        self.spec.mode
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.hand_out(size, size)
    }

    fn release(&self, region: RegionHandle) {
        let mut state = lock(&self.state);
        let held = state.regions.remove(&region.id).expect("a region that was given out");
        state.used -= held;
        if let Some(table) = &mut state.table {
            table.remove(region.id);
        }
    }

    fn info(&self) -> MemoryInfo {
        MemoryInfo { free: self.spec.memory - lock(&self.state).used, total: self.spec.memory }
    }

    fn table(&self) -> Option<TableInfo> {
        lock(&self.state).table.as_ref().map(FirmwareTable::info)
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        let state = lock(&self.state);
        let held = state.regions.contains_key(&region).then(|| region.get());
        state.table.as_ref().map_or(held, |table| table.physical_address(region))
    }

    fn granule(&self) -> Option<Bytes> {
        Some(self.spec.granule)
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.hand_out(size, Bytes::ZERO)
    }

    fn commit(&self, region: &RegionHandle, _offset: Bytes, size: Bytes) -> bool {
        self.exchange(region, size, Bytes::ZERO)
    }

    fn decommit(&self, region: &RegionHandle, _offset: Bytes, size: Bytes) {
        self.exchange(region, Bytes::ZERO, size);
    }

    /// Returns the physical address of the region's start, eight bytes in little-endian order.
    fn export(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> Option<ExportHandle> {
        let end = offset.checked_add(size).filter(|&end| end <= region.size);
        let start = self.physical_address(region.id).filter(|_| end.is_some())?;
        Some(ExportHandle { bytes: start.to_le_bytes().to_vec(), offset })
    }
}
