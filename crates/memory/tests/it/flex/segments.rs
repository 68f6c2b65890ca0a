//! The segment table, the firmware's table, and the resources of a launch.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{
    AllocateError, Allocation, Argument, FlexAllocator, FreeError, LaunchError, RegionLimit,
    SegmentId, VirtualAddress,
};

use super::{allocator, card};

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

/// Returns a virtual function with regions of 64 MiB and a table of `entries` entries.
fn vf(entries: usize) -> Arc<Card> {
    Arc::new(Card::new(CardSpec::virtual_function(Bytes::gib(1), entries)))
}

/// Every released region left an entry behind, so the table outgrew any firmware table.
#[test]
fn the_segment_table_is_as_long_as_the_firmwares() {
    let allocator = allocator(vf(3), "fallback_sizes:[64MiB]");
    let _kept = allocator.allocate(mib(64)).unwrap();
    for _ in 0..20 {
        drop(allocator.allocate(mib(64)).unwrap());
        allocator.trim();
    }
    assert_eq!(allocator.segment_table().entries().len(), 3);
}

/// A program had room for the addresses of only one launch, and the next launch overwrote them while the first was
/// still running.
#[test]
fn two_launches_of_one_program_have_corrections_of_their_own() {
    let allocator = allocator(vf(8), "fallback_sizes:[64MiB]");
    let program = allocator.load_program(Bytes::kib(4), 1).unwrap();
    let (a, b) = (allocator.allocate(mib(1)).unwrap(), allocator.allocate(mib(1)).unwrap());
    let first = allocator.launch(&program, [&a]).unwrap();
    let second = allocator.launch(&program, [&b]).unwrap();
    assert_ne!(first.corrections().0, second.corrections().0);
    assert_ne!(first.corrections().1.bytes(), second.corrections().1.bytes());
}

/// One operand for three parameters was accepted, and the program read stale addresses.
#[test]
fn a_launch_takes_as_many_operands_as_its_program_declares() {
    let allocator = allocator(vf(8), "fallback_sizes:[64MiB]");
    let program = allocator.load_program(Bytes::kib(4), 3).unwrap();
    let a = allocator.allocate(mib(1)).unwrap();
    let error = allocator.launch(&program, [&a]).unwrap_err().to_string();
    assert!(error.contains("3 operands") && error.contains("1 was"), "{error}");
    assert!(allocator.launch(&program, [&a, &a, &a, &a]).is_err(), "the edge from the other side");
    assert!(allocator.launch(&program, [&a, &a, &a]).is_ok());
}

fn segment(allocator: &FlexAllocator, block: &Allocation) -> SegmentId {
    allocator.segment_table().get(block.address().region_id).unwrap().0
}

/// The entry of a released region is reused only when no launch holds it. Until then the table can be full with fewer
/// regions than entries, and the report must say so.
#[test]
fn an_entry_that_a_launch_knows_is_not_used_again() {
    let allocator = allocator(vf(2), "fallback_sizes:[64MiB]");
    let program = allocator.load_program(mib(40), 0).unwrap();
    let gone = allocator.allocate(mib(60)).unwrap();
    let launch = allocator.launch(&program, Vec::<&Allocation>::new()).unwrap();
    let known = launch.segment_table().clone();
    drop(gone);
    assert_eq!(allocator.trim(), mib(64));
    assert!(allocator.regions_locked(), "the launch knows both entries");
    let Err(AllocateError::OutOfMemory(report)) = allocator.allocate(mib(60)) else {
        panic!("no entry is free")
    };
    assert_eq!(report.limit, RegionLimit::Launches(2));
    assert!(report.advice().contains("drop launches"), "{}", report.advice());
    assert_eq!(*launch.segment_table(), known, "nothing changes under a launch");
    drop(launch);
    assert!(!allocator.regions_locked());
    let next = allocator.allocate(mib(60)).unwrap();
    assert_eq!(segment(&allocator, &next), SegmentId(1), "the entry is in use again");
}

/// The firmware of a virtual function finds a region's memory by its index; the simulated card had indices without
/// addresses.
#[test]
fn a_region_id_of_a_virtual_function_resolves_through_the_cards_table() {
    let card = vf(2);
    let allocator = allocator(card.clone(), "fallback_sizes:[64MiB]");
    let first = allocator.allocate(mib(64)).unwrap();
    let second = allocator.allocate(mib(1)).unwrap();
    let third = allocator.allocate(mib(1)).unwrap();
    let physical = |block: &Allocation| allocator.physical_address(block.address()).unwrap();
    assert_eq!(second.address().region_id.get(), 1);
    assert_ne!(physical(&first), physical(&second));
    assert_eq!(physical(&third), physical(&second) + mib(1).get());
    assert_eq!(card.physical_address(second.address().region_id), Some(physical(&second)));
    assert_eq!(card.table().unwrap().free, 0);
    let old = (first.address(), physical(&first));
    drop(first);
    allocator.trim();
    assert_eq!(allocator.physical_address(old.0), None, "the entry is free");
    let next = allocator.allocate(mib(64)).unwrap();
    assert_eq!(next.address(), old.0, "the index is used again");
    assert_ne!(physical(&next), old.1, "for another place in memory");
}

#[test]
fn a_region_id_of_a_physical_function_is_its_address() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let block = allocator.allocate(mib(1)).unwrap();
    let VirtualAddress { region_id, offset } = block.address();
    let physical = allocator.physical_address(block.address());
    assert_eq!(physical, Some(region_id.get() + offset.get()));
}

#[test]
fn an_operand_may_be_a_part_of_a_block_and_a_token() {
    let allocator = allocator(vf(8), "fallback_sizes:[64MiB]");
    let program = allocator.load_program(Bytes::kib(4), 2).unwrap();
    let block = allocator.allocate(mib(4)).unwrap();
    let token = allocator.allocate(mib(1)).unwrap().into_token();
    let part = Argument::from(&block).part(mib(1), mib(2));
    let launch = allocator.launch(&program, [part, Argument::from(token)]).unwrap();
    let [first, second] = launch.operands() else { panic!("two operands") };
    assert_eq!((first.offset, first.size), (block.address().offset + mib(1), mib(2)));
    assert_eq!(second.offset, allocator.address_of(token).unwrap().offset);
    let tiles = launch.tiles(0, mib(1), mib(1)).unwrap().unwrap();
    assert_eq!(tiles.count(), 2, "tiles step through the part");
    let launch = |argument: Argument<'_>| allocator.launch(&program, [argument, argument]).err();
    for (offset, size) in [(mib(3), mib(2)), (Bytes::ZERO, Bytes::ZERO), (Bytes::MAX, mib(1))] {
        let error = launch(Argument::from(&block).part(offset, size));
        assert!(matches!(error, Some(LaunchError::BadPart { operand: 0, .. })), "{error:?}");
    }
    allocator.free_token(token).unwrap();
    let stale = LaunchError::BadToken { operand: 0, source: FreeError::Stale };
    assert_eq!(launch(Argument::from(token)), Some(stale));
}

/// The block for the corrections belongs to one launch, and is freed with it.
#[test]
fn corrections_go_with_their_launch() {
    let allocator = allocator(vf(8), "fallback_sizes:[64MiB]");
    let program = allocator.load_program(Bytes::kib(4), 1).unwrap();
    let block = allocator.allocate(mib(1)).unwrap();
    let before = allocator.stats().allocated();
    let launches: Vec<_> = (0..5).map(|_| allocator.launch(&program, [&block]).unwrap()).collect();
    assert_eq!(allocator.stats().allocated(), before + Bytes::new(5 * 128));
    drop(launches);
    assert_eq!(allocator.stats().allocated(), before);
}

#[test]
fn a_launch_without_room_for_its_corrections_pins_nothing() {
    let allocator = allocator(card(mib(2)), "fallback_sizes:[2MiB]");
    let program = allocator.load_program(mib(1), 1).unwrap();
    let block = allocator.allocate(mib(1)).unwrap();
    let error = allocator.launch(&program, [&block]).unwrap_err();
    assert!(matches!(error, LaunchError::Corrections(AllocateError::OutOfMemory(_))), "{error}");
    drop((program, block));
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}
