//! The HBM of a SIP as a source of regions.

use std::sync::{Mutex, PoisonError};

use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PhysAddr, SipId};
use cubeyard_memory::device::{
    AddressMode, DeviceMemory, FirmwareTable, MemoryInfo, RegionHandle, RegionId, TableInfo,
};
use cubeyard_memory::free_list::{Checking, FreeList};

/// PCIe function through which a SIP is used; it determines the ids of regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SipFunction {
    /// Physical function: the id of a region is its physical address.
    #[default]
    Physical,
    /// Virtual function: the id of a region is its index in the firmware's table, which the machine resolves.
    Virtual {
        /// Number of entries of the table, which limits the number of regions.
        entries: usize,
    },
}

/// HBM of a SIP as a [`DeviceMemory`]: each region lies in one cube.
#[derive(Debug)]
pub struct SipMemory {
    sip: SipId,
    state: Mutex<SipState>,
}

#[derive(Debug)]
struct SipState {
    cubes: Vec<(CubeId, FreeList)>,
    /// Firmware's table of a virtual function.
    table: Option<FirmwareTable>,
    /// Number of allocated regions.
    regions: usize,
}

impl SipMemory {
    /// Creates the memory of a SIP, all free.
    pub fn new(sip: SipId, function: SipFunction, topology: &Topology) -> Self {
        let capacity = topology.spec().hbm.capacity;
        let cube = |cube| (cube, FreeList::new(capacity, Checking::Checked));
        let table = match function {
            SipFunction::Physical => None,
            SipFunction::Virtual { entries } => Some(FirmwareTable::new(entries)),
        };
        let state = SipState { cubes: topology.cubes().map(cube).collect(), table, regions: 0 };
        Self { sip, state: Mutex::new(state) }
    }

    /// Returns the number of allocated regions.
    pub fn regions(&self) -> usize {
        self.with(|state| state.regions)
    }

    fn with<T>(&self, act: impl FnOnce(&mut SipState) -> T) -> T {
        // The lists are consistent whenever a panic can occur.
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SipState {
    fn take(&mut self, sip: SipId, size: Bytes) -> Option<PhysAddr> {
        let mut cubes = self.cubes.iter_mut();
        let (cube, offset) =
            cubes.find_map(|(cube, list)| Some((*cube, list.allocate(size).ok()?)))?;
        Some(PhysAddr::cube_hbm(sip, cube, offset).expect("an offset within the cube's HBM"))
    }

    fn give_back(&mut self, address: PhysAddr, size: Bytes) {
        let offset = address.hbm_offset().expect("a region of ours");
        let cube = address.cube();
        let list = self.cubes.iter_mut().find(|(other, _)| Some(*other) == cube);
        let (_, list) = list.expect("a region of ours");
        list.free(offset, size).expect("a region of ours");
    }
}

impl DeviceMemory for SipMemory {
    fn mode(&self) -> AddressMode {
        let is_virtual = self.with(|state| state.table.is_some());
        if is_virtual { AddressMode::Virtual } else { AddressMode::Physical }
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.with(|state| {
            if state.table.as_ref().is_some_and(|table| table.info().free == 0) {
                return None;
            }
            let address = state.take(self.sip, size)?.to_bits();
            let id = match &mut state.table {
                None => RegionId::new(address),
                Some(table) => table.insert(address).expect("an entry is free"),
            };
            state.regions += 1;
            Some(RegionHandle { id, size })
        })
    }

    fn release(&self, region: RegionHandle) {
        self.with(|state| {
            let address = match &mut state.table {
                None => region.id.get(),
                Some(table) => table.remove(region.id).expect("a region of ours"),
            };
            state.give_back(PhysAddr::from_bits(address).expect("a region of ours"), region.size);
            state.regions -= 1;
        });
    }

    fn info(&self) -> MemoryInfo {
        self.with(|state| {
            let sum = |of: fn(&FreeList) -> Bytes| {
                Bytes::new(state.cubes.iter().map(|(_, list)| of(list).get()).sum())
            };
            MemoryInfo { free: sum(FreeList::free_bytes), total: sum(FreeList::capacity) }
        })
    }

    fn table(&self) -> Option<TableInfo> {
        self.with(|state| state.table.as_ref().map(FirmwareTable::info))
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        self.with(|state| match &state.table {
            None => Some(region.get()),
            Some(table) => table.physical_address(region),
        })
    }
}
