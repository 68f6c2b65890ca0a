//! The HBM of a SIP as a source of regions.

use std::sync::{Mutex, PoisonError};

use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PhysAddr, SipId};
use cubeyard_memory::device::{AddressMode, DeviceMemory, MemoryInfo, RegionHandle, RegionId};
use cubeyard_memory::free_list::{Checking, FreeList};

/// The HBM of a SIP: each region lies in one cube, and its name is its physical address.
#[derive(Debug)]
pub struct SipMemory {
    sip: SipId,
    cubes: Mutex<Vec<(CubeId, FreeList)>>,
}

impl SipMemory {
    /// All of a SIP's HBM.
    pub fn new(sip: SipId, topology: &Topology) -> Self {
        let capacity = topology.spec().hbm.capacity;
        let cube = |cube| (cube, FreeList::new(capacity, Checking::Checked));
        Self { sip, cubes: Mutex::new(topology.cubes().map(cube).collect()) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<(CubeId, FreeList)>) -> T) -> T {
        // The lists are whole again before a panic can pass through here.
        act(&mut self.cubes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DeviceMemory for SipMemory {
    fn mode(&self) -> AddressMode {
        AddressMode::Physical
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.with(|cubes| {
            let (cube, offset) = cubes
                .iter_mut()
                .find_map(|(cube, list)| Some((*cube, list.allocate(size).ok()?)))?;
            let address = PhysAddr::cube_hbm(self.sip, cube, offset).ok()?;
            Some(RegionHandle { id: RegionId::new(address.to_bits()), size })
        })
    }

    fn release(&self, region: RegionHandle) {
        let address = PhysAddr::from_bits(region.id.get()).expect("a region of ours");
        let offset = address.hbm_offset().expect("a region of ours");
        self.with(|cubes| {
            let cube = address.cube();
            let list = cubes.iter_mut().find(|(other, _)| Some(*other) == cube);
            let (_, list) = list.expect("a region of ours");
            list.free(offset, region.size).expect("a region of ours");
        });
    }

    fn info(&self) -> MemoryInfo {
        self.with(|cubes| {
            let sum = |of: fn(&FreeList) -> Bytes| {
                Bytes::new(cubes.iter().map(|(_, list)| of(list).get()).sum())
            };
            MemoryInfo { free: sum(FreeList::free_bytes), total: sum(FreeList::capacity) }
        })
    }
}
