//! The memory of a device as the HBM of a SIP, and the placements of its blocks.

use std::sync::Arc;

use cubeyard_capi::{Failure, Status};
use cubeyard_device::shared_memory::{BlockParts, SharedBlock, SharedMemory};
use cubeyard_memory::flex::Action;
use cubeyard_memory::{Bytes, VirtualAddress};

use crate::devices::Device;
use crate::placements::lock;

impl Device {
    /// Places the block that starts at a pointer in parts, until it is freed; `None` deals its pages again.
    pub fn place(&self, pointer: u64, parts: Option<BlockParts>) -> Result<(), Failure> {
        self.placements.watched.get_or_init(|| self.watch());
        let is_live =
            self.allocator.live_blocks().iter().any(|block| self.pointer(block) == pointer);
        if !is_live {
            let message = format!("{pointer:#x} is not the first address of a block");
            return Err(Failure::new(Status::Argument, message));
        }
        let mut placed = lock(&self.placements.parts);
        match parts {
            Some(parts) => placed.insert(pointer, Arc::new(parts)),
            None => placed.remove(&pointer),
        };
        Ok(())
    }

    /// Forgets the placement of each block that is freed from now on.
    fn watch(&self) {
        let (parts, memory) = (Arc::clone(&self.placements.parts), Arc::clone(&self.memory));
        let forget = move |event: &cubeyard_memory::flex::Event| {
            if let (Action::FreeRequested, Some(at)) = (event.action, event.address) {
                lock(&parts).remove(&memory.pointer(at.region_id, at.offset));
            }
        };
        self.allocator.subscribe(forget).keep();
    }

    fn pointer(&self, (address, _): &(VirtualAddress, Bytes)) -> u64 {
        self.memory.pointer(address.region_id, address.offset)
    }
}

impl SharedMemory for &'static Device {
    fn blocks(&self) -> Vec<SharedBlock> {
        // The allocator may deliver events, which take this lock too.
        let live = self.allocator.live_blocks();
        let placed = lock(&self.placements.parts);
        let shared = |block: &(VirtualAddress, Bytes)| {
            let start = self.pointer(block);
            SharedBlock {
                addresses: start..start + block.1.get(),
                parts: placed.get(&start).cloned(),
            }
        };
        let mut blocks: Vec<_> = live.iter().map(shared).collect();
        blocks.sort_by_key(|block| block.addresses.start);
        blocks
    }

    fn read(&self, address: u64, into: &mut [u8]) {
        self.memory.copy_out(address, into);
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.copy_in(address, bytes);
    }
}
