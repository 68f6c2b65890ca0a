//! The memories of ADR-0048, decision by decision. `docs/pe-memory.md` lists the test for each decision.

mod histories;
mod refusals;
mod seed;

use cubeyard_memory::address::{CubeId, PeId, SipId, Window};
use cubeyard_memory::free_list::{AllocateCause, Shortage};
use cubeyard_memory::pe::{AddressLayout, AddressSpec};
use cubeyard_memory::virtual_space::VirtualSpec;
use cubeyard_memory::{
    Bytes, Checking, CubeSram, DeviceVa, FreeList, PeMemory, PhysAddr, VirtualAllocator,
};

const SPEC: AddressSpec = AddressSpec {
    hbm_bytes_per_cube: Bytes::gib(48),
    hbm_slices_per_cube: 8,
    tcm_bytes_per_pe: Bytes::mib(16),
    tcm_scheduler_reserved_bytes: Bytes::mib(1),
    sram_bytes_per_cube: Bytes::mib(32),
};

fn layout() -> AddressLayout {
    SPEC.resolve().unwrap()
}

fn place(sip: u32, cube: u32, pe: u32) -> (SipId, CubeId, PeId) {
    (SipId::new(sip).unwrap(), CubeId::new(cube).unwrap(), PeId::new(pe).unwrap())
}

fn pe_memory(checking: Checking) -> PeMemory {
    let (sip, cube, pe) = place(0, 3, 2);
    PeMemory::new(sip, cube, pe, &layout(), checking).unwrap()
}

fn cube_sram(checking: Checking) -> CubeSram {
    let (sip, cube, _) = place(0, 3, 0);
    CubeSram::new(sip, cube, &layout(), checking)
}

/// Returns the free ranges as `(offset, size)`.
fn holes(list: &FreeList) -> Vec<(u64, u64)> {
    list.holes().map(|hole| (hole.offset.get(), hole.size.get())).collect()
}

/// Returns a list of 1,000 bytes with allocations of 100, 200 and 300 bytes, in this order.
fn three_of(checking: Checking) -> FreeList {
    let mut list = FreeList::new(Bytes::new(1000), checking);
    for (size, offset) in [(100, 0), (200, 100), (300, 300)] {
        assert_eq!(list.allocate(Bytes::new(size)), Ok(Bytes::new(offset)));
    }
    list
}

// First action: the whole space is one free range.
#[test]
fn a_new_space_is_one_free_range() {
    let list = FreeList::new(Bytes::new(1000), Checking::Trusted);
    assert_eq!((list.used(), list.largest()), (Bytes::ZERO, list.capacity()));
    assert_eq!(holes(&list), [(0, 1000)]);
    let memory = pe_memory(Checking::Trusted);
    assert_eq!(holes(memory.hbm()), [(0, 6 << 30)]);
    assert_eq!(holes(memory.tcm()), [(0, 15 << 20)]);
}

// D1
#[test]
fn the_lowest_range_that_is_long_enough_is_taken_from_its_front() {
    let mut list = three_of(Checking::Trusted);
    list.free(Bytes::ZERO, Bytes::new(100)).unwrap();
    list.free(Bytes::new(300), Bytes::new(300)).unwrap();
    assert_eq!(list.allocate(Bytes::new(101)), Ok(Bytes::new(300)), "too long for the first");
    assert_eq!(list.allocate(Bytes::new(40)), Ok(Bytes::ZERO), "the first one, not the best one");
    assert_eq!(list.allocate(Bytes::new(60)), Ok(Bytes::new(40)), "an exact match goes away");
    assert_eq!(holes(&list), [(401, 599)]);
}

// D1
#[test]
fn freeing_the_middle_joins_three_ranges() {
    let mut list = three_of(Checking::Trusted);
    list.free(Bytes::ZERO, Bytes::new(100)).unwrap();
    list.free(Bytes::new(300), Bytes::new(300)).unwrap();
    assert_eq!(holes(&list), [(0, 100), (300, 700)]);
    list.free(Bytes::new(100), Bytes::new(200)).unwrap();
    assert_eq!(holes(&list), [(0, 1000)]);
    assert_eq!(list.used(), Bytes::ZERO);
}

// D2
#[test]
fn a_trusted_list_lets_any_part_of_what_is_allocated_be_freed() {
    let mut list = three_of(Checking::Trusted);
    list.free(Bytes::new(50), Bytes::new(100)).unwrap();
    assert_eq!(holes(&list), [(50, 100), (600, 400)], "the end of one and the start of the next");
    assert_eq!(list.used(), Bytes::new(500));
    assert_eq!(list.allocate(Bytes::new(100)), Ok(Bytes::new(50)));
}

// D2: in debug builds, a trusting list still detects an obvious bug of its caller.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a free range was freed again")]
fn a_trusted_double_free_is_a_panic_in_debug_builds() {
    let mut list = three_of(Checking::Trusted);
    list.free(Bytes::ZERO, Bytes::new(100)).unwrap();
    let _ = list.free(Bytes::ZERO, Bytes::new(100));
}

// D3
#[test]
fn hbm_and_tcm_are_two_lists_and_give_complete_addresses() {
    let (sip, cube, pe) = place(0, 3, 2);
    let mut memory = pe_memory(Checking::Checked);
    memory.allocate_hbm(Bytes::kib(4)).unwrap();
    let hbm = memory.allocate_hbm(Bytes::kib(4)).unwrap();
    let tcm = memory.allocate_tcm(Bytes::kib(1)).unwrap();
    assert_eq!(hbm, PhysAddr::pe_hbm(sip, cube, pe, Bytes::kib(4), Bytes::gib(6)).unwrap());
    assert_eq!(hbm.hbm_offset(), Some(Bytes::gib(12) + Bytes::kib(4)));
    assert_eq!(tcm.window(), Window::Tcm { pe, offset: Bytes::ZERO });
    assert_eq!(layout().hbm_pe(hbm), Some(pe));

    memory.free_hbm(hbm, Bytes::kib(4)).unwrap();
    memory.free_tcm(tcm, Bytes::kib(1)).unwrap();
    assert_eq!((memory.hbm().used(), memory.tcm().used()), (Bytes::kib(4), Bytes::ZERO));
}

// D3
#[test]
fn the_scheduler_s_part_of_the_tcm_is_never_handed_out() {
    let mut memory = pe_memory(Checking::Trusted);
    assert!(memory.allocate_tcm(Bytes::mib(15) + Bytes::new(1)).is_err());
    let all = memory.allocate_tcm(Bytes::mib(15)).unwrap();
    assert_eq!(all.sub_offset(), Bytes::ZERO);
    assert!(memory.allocate_tcm(Bytes::new(1)).is_err());
}

// D4
#[test]
fn virtual_sizes_are_rounded_up_to_pages() {
    let base = DeviceVa::new(0x4000_0000);
    let mut space = VirtualAllocator::new(base, Bytes::mib(8)).unwrap();
    assert_eq!(space.allocate(Bytes::new(1)), Ok(base));
    assert_eq!(space.allocate(Bytes::mib(2) + Bytes::new(1)), Ok(DeviceVa::new(0x4020_0000)));
    assert_eq!((space.used(), space.largest()), (Bytes::mib(6), Bytes::mib(2)));
    space.free(base, Bytes::mib(2)).unwrap();
    space.free(DeviceVa::new(0x4020_0000), Bytes::mib(4)).unwrap();
    assert_eq!((space.used(), space.largest()), (Bytes::ZERO, Bytes::mib(8)));
}

// D4
#[test]
fn the_page_is_2_mib_alone_and_the_topology_s_or_4_kib_in_a_context() {
    let alone = VirtualAllocator::new(DeviceVa::new(0), Bytes::mib(2)).unwrap();
    let context = VirtualAllocator::for_context(Bytes::ZERO, None).unwrap();
    let topology = VirtualAllocator::for_context(Bytes::ZERO, Some(Bytes::kib(64))).unwrap();
    assert_eq!(alone.page(), Bytes::mib(2));
    assert_eq!((context.page(), topology.page()), (Bytes::kib(4), Bytes::kib(64)));
}

// D4, and DESIGN §2: the range grows with the devices.
#[test]
fn the_range_of_a_context_holds_the_hbm_of_its_devices() {
    let size = |hbm| VirtualAllocator::for_context(hbm, None).unwrap().capacity();
    let context = VirtualAllocator::for_context(Bytes::gib(48), None).unwrap();
    assert_eq!(context.base(), DeviceVa::new(0x1_0000_0000));
    assert_eq!(context.capacity(), Bytes::gib(64));
    assert_eq!(size(Bytes::gib(64) + Bytes::new(1)), Bytes::gib(64) + Bytes::kib(4));
    assert_eq!(size(Bytes::gib(1536)), Bytes::gib(1536));
}

// D5: the runtime's life cycle relies on this.
#[test]
fn deploying_again_after_a_cleanup_gives_the_same_addresses() {
    let mut memory = pe_memory(Checking::Checked);
    let deploy = |memory: &mut PeMemory| {
        [5000, 70, 1 << 20].map(|size| (memory.allocate_hbm(Bytes::new(size)).unwrap(), size))
    };
    let first = deploy(&mut memory);
    for (address, size) in first {
        memory.free_hbm(address, Bytes::new(size)).unwrap();
    }
    assert_eq!(deploy(&mut memory), first, "after a cleanup");
    assert_eq!(deploy(&mut pe_memory(Checking::Trusted)), first, "in a new context");
}

// D6
#[test]
fn full_and_fragmented_are_told_apart() {
    let mut list = three_of(Checking::Trusted);
    let kind = |list: &mut FreeList, size| match list.allocate(Bytes::new(size)).unwrap_err().cause
    {
        AllocateCause::NoRoom(room) => room.shortage(),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(&mut list, 401), Shortage::Full);
    assert_eq!(kind(&mut list, 1001), Shortage::TooLarge);
    list.free(Bytes::new(100), Bytes::new(200)).unwrap();
    assert_eq!(kind(&mut list, 401), Shortage::Fragmented);
    assert_eq!(kind(&mut list, 601), Shortage::Full);
}

// D6
#[test]
fn a_failed_allocation_takes_nothing() {
    let mut memory = pe_memory(Checking::Checked);
    memory.allocate_hbm(Bytes::gib(5)).unwrap();
    for bytes in [Bytes::gib(1) + Bytes::new(1), Bytes::MAX, Bytes::ZERO] {
        memory.allocate_hbm(bytes).unwrap_err();
    }
    assert_eq!(holes(memory.hbm()), [(5 << 30, 1 << 30)]);
    memory.allocate_hbm(Bytes::gib(1)).unwrap();
    assert_eq!(memory.hbm().largest(), Bytes::ZERO);
}

// D7
#[test]
fn every_space_has_a_list_of_its_own() {
    let (sip, cube, other) = place(0, 3, 5);
    let mut memory = pe_memory(Checking::Checked);
    let mut neighbour = PeMemory::new(sip, cube, other, &layout(), Checking::Checked).unwrap();
    let mut sram = cube_sram(Checking::Checked);
    let bytes = Bytes::kib(4);
    let addresses = [
        memory.allocate_hbm(bytes).unwrap(),
        neighbour.allocate_hbm(bytes).unwrap(),
        memory.allocate_tcm(bytes).unwrap(),
        neighbour.allocate_tcm(bytes).unwrap(),
        sram.allocate(bytes).unwrap(),
    ];
    let shown = addresses.map(|address| address.to_string());
    assert_eq!(shown[..2], ["sip0.cube3.hbm+0x300000000", "sip0.cube3.hbm+0x780000000"]);
    assert_eq!(shown[2..4], ["sip0.cube3.pe2.tcm+0x0", "sip0.cube3.pe5.tcm+0x0"]);
    assert_eq!(shown[4], "sip0.cube3.sram+0x0");
    sram.free(addresses[4], bytes).unwrap();
    assert_eq!((sram.sram().used(), memory.hbm().used()), (Bytes::ZERO, bytes));
}

#[test]
fn the_largest_sizes_are_refused_without_a_panic() {
    let mut list = FreeList::new(Bytes::MAX, Checking::Checked);
    assert_eq!(list.allocate(Bytes::new(1)), Ok(Bytes::ZERO));
    assert!(list.allocate(Bytes::MAX).is_err());
    assert!(list.free(Bytes::MAX, Bytes::MAX).is_err());
    assert_eq!(list.allocate(Bytes::new(u64::MAX - 1)), Ok(Bytes::new(1)));

    let mut space = VirtualAllocator::for_context(Bytes::ZERO, None).unwrap();
    assert!(matches!(
        space.allocate(Bytes::MAX).unwrap_err().cause,
        AllocateCause::NoRoom(room) if room.asked == Bytes::MAX
    ));
    assert!(space.free(DeviceVa::new(u64::MAX - 4095), Bytes::MAX).is_err());

    let widest =
        VirtualSpec { page: Bytes::new(1), ..VirtualSpec::new(DeviceVa::new(0), Bytes::MAX) };
    let mut space = VirtualAllocator::from_spec(widest).unwrap();
    assert_eq!(space.allocate(Bytes::MAX), Ok(DeviceVa::new(0)));
}
