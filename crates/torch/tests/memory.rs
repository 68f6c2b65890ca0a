//! The memory of devices: two views of the same bytes, up to a limit.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use cubeyard_memory::device::{AddressMode, DeviceMemory as _};
use cubeyard_memory::{Bytes, FlexAllocator};
use cubeyard_torch::memory::SipMemory;
use cubeyard_torch::space::Space;

fn memory(mode: AddressMode, total: Bytes) -> (Arc<Space>, Arc<SipMemory>) {
    let space = Arc::new(Space::reserve(2).unwrap());
    (Arc::clone(&space), Arc::new(SipMemory::new(space, 1, mode, total, "a test".to_owned())))
}

/// Returns bytes of device memory as seen by another process that maps the file.
fn bytes(space: &Space, pointer: u64, length: usize) -> Vec<u8> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = vec![0; length];
    space.file().read_exact_at(&mut bytes, pointer - space.base()).unwrap();
    bytes
}

#[test]
fn pointers_are_physical_addresses_of_the_device_in_both_modes() {
    for mode in [AddressMode::Physical, AddressMode::Virtual] {
        let (space, memory) = memory(mode, Bytes::gib(1));
        let first = memory.try_acquire(Bytes::mib(512)).unwrap();
        let second = memory.try_acquire(Bytes::mib(256)).unwrap();
        for region in [&first, &second] {
            let physical = memory.physical_address(region.id).unwrap();
            let pointer = memory.pointer(region.id, Bytes::new(300));
            assert_eq!(pointer, space.base() + space.span() + physical + 300);
            memory.write(region.id, Bytes::new(300), b"device");
            assert_eq!(bytes(&space, pointer, 6), b"device");
        }
        let is_index = second.id.get() == 1;
        assert_eq!(is_index, mode == AddressMode::Virtual);
    }
}

#[test]
fn regions_have_no_more_than_the_limit_together() {
    let (_, memory) = memory(AddressMode::Physical, Bytes::gib(1));
    let region = memory.try_acquire(Bytes::mib(768)).unwrap();
    assert!(memory.try_acquire(Bytes::mib(512)).is_none());
    memory.set_limit(Bytes::mib(800));
    assert!(memory.try_acquire(Bytes::mib(33)).is_none());
    assert_eq!(memory.info().free, Bytes::mib(32));
    memory.release(region);
    let reserved = memory.try_reserve(Bytes::gib(4)).unwrap();
    assert!(memory.commit(&reserved, Bytes::gib(3), Bytes::mib(800)));
    assert!(!memory.commit(&reserved, Bytes::ZERO, Bytes::mib(2)));
    memory.decommit(&reserved, Bytes::gib(3), Bytes::mib(2));
    assert!(memory.commit(&reserved, Bytes::ZERO, Bytes::mib(2)));
    memory.release(reserved);
    assert_eq!(memory.info().free, Bytes::mib(800));
}

#[test]
fn memory_that_is_given_back_is_zero_when_it_comes_again() {
    let (space, memory) = memory(AddressMode::Physical, Bytes::gib(1));
    let region = memory.try_acquire(Bytes::mib(4)).unwrap();
    let pointer = memory.pointer(region.id, Bytes::ZERO);
    memory.write(region.id, Bytes::ZERO, b"secret");
    memory.release(region);
    let again = memory.try_acquire(Bytes::mib(4)).unwrap();
    assert_eq!(memory.pointer(again.id, Bytes::ZERO), pointer);
    assert_eq!(bytes(&space, pointer, 6), [0; 6]);
}

#[test]
fn a_table_without_a_free_entry_refuses_and_keeps_the_memory() {
    let (_, memory) = memory(AddressMode::Virtual, Bytes::gib(1));
    let regions: Vec<_> = (0..16).map(|_| memory.try_acquire(Bytes::mib(2)).unwrap()).collect();
    let free = memory.info().free;
    assert!(memory.try_acquire(Bytes::mib(2)).is_none());
    assert_eq!((memory.info().free, memory.table().unwrap().free), (free, 0));
    regions.into_iter().for_each(|region| memory.release(region));
    assert_eq!(memory.info().free, Bytes::gib(1));
}

#[test]
fn blocks_of_growable_regions_have_memory_where_their_pointers_say() {
    let (space, memory) = memory(AddressMode::Virtual, Bytes::mib(64));
    let config = "growth:recycle(1GiB),block:best-fit".parse().unwrap();
    let allocator =
        FlexAllocator::builder(Arc::clone(&memory) as _).config(config).build().unwrap();
    let blocks: Vec<_> = (0_u8..20).map(|_| allocator.allocate(Bytes::mib(3)).unwrap()).collect();
    for (number, block) in (0..).zip(&blocks) {
        let address = block.address();
        memory.write(address.region_id, address.offset, &[number; 100]);
    }
    for (number, block) in (0..).zip(&blocks) {
        let address = block.address();
        let pointer = memory.pointer(address.region_id, address.offset);
        assert_eq!(bytes(&space, pointer, 100), [number; 100]);
    }
    assert!(allocator.allocate(Bytes::mib(8)).is_err(), "the device has 64 MiB");
    drop(blocks);
    assert!(allocator.allocate(Bytes::mib(60)).is_ok());
}
