//! Refused operations: their messages, and that they change nothing.

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_memory::free_list::{FreeCause, FreeError};
use cubeyard_memory::pe::AddressSpec;
use cubeyard_memory::virtual_space::VirtualSpec;
use cubeyard_memory::{
    Bytes, Checking, CubeSram, DeviceVa, FreeList, PeMemory, PhysAddr, VirtualAllocator,
};
use expect_test::{Expect, expect};

use super::{SPEC, cube_sram, holes, layout, pe_memory, place};

/// Messages of refused operations, one per line.
#[derive(Default)]
struct Texts(String);

impl Texts {
    fn add<T: std::fmt::Debug>(&mut self, answer: Result<T, impl ToString>) {
        let error = answer.map_err(|error| error.to_string()).expect_err("this is refused");
        self.0 += &(error + "\n");
    }

    fn are(&self, expected: &Expect) {
        expected.assert_eq(&self.0);
    }
}

// D6
#[test]
fn a_shortage_names_the_space_and_all_the_numbers() {
    let mut texts = Texts::default();
    let mut memory = pe_memory(Checking::Trusted);
    let blocks = [(); 6].map(|()| memory.allocate_hbm(Bytes::gib(1)).unwrap());
    texts.add(memory.allocate_hbm(Bytes::new(1)));
    memory.free_hbm(blocks[1], Bytes::gib(1)).unwrap();
    memory.free_hbm(blocks[4], Bytes::gib(1)).unwrap();
    texts.add(memory.allocate_hbm(Bytes::gib(1) + Bytes::new(1)));
    texts.add(memory.allocate_tcm(Bytes::mib(16)));
    texts.add(memory.allocate_tcm(Bytes::ZERO));
    texts.add(cube_sram(Checking::Trusted).allocate(Bytes::MAX));
    texts.are(&expect![[r#"
        HBM of sip0.cube3.pe2: wanted 1 B, free 0 B, largest free range 0 B: full
        HBM of sip0.cube3.pe2: wanted 1073741825 B (1.00 GiB), free 2147483648 B (2.00 GiB), largest free range 1073741824 B (1.00 GiB): fragmented
        TCM of sip0.cube3.pe2: wanted 16777216 B (16.00 MiB), free 15728640 B (15.00 MiB), largest free range 15728640 B (15.00 MiB): the space has only 15728640 B (15.00 MiB)
        TCM of sip0.cube3.pe2: an allocation of 0 bytes has no address
        SRAM of sip0.cube3: wanted 18446744073709551615 B (16.00 EiB), free 33554432 B (32.00 MiB), largest free range 33554432 B (32.00 MiB): the space has only 33554432 B (32.00 MiB)
    "#]]);
}

// D6
#[test]
fn a_virtual_shortage_names_the_size_before_and_after_rounding() {
    let mut texts = Texts::default();
    let mut space = VirtualAllocator::new(DeviceVa::new(0), Bytes::mib(6)).unwrap();
    let pages = [(); 3].map(|()| space.allocate(Bytes::new(1)).unwrap());
    texts.add(space.allocate(Bytes::new(100)));
    space.free(pages[0], Bytes::new(1)).unwrap();
    space.free(pages[2], Bytes::new(1)).unwrap();
    texts.add(space.allocate(Bytes::mib(3)));
    texts.add(space.allocate(Bytes::MAX));
    texts.add(space.allocate(Bytes::ZERO));
    texts.are(&expect![[r#"
        virtual space from va 0x0: asked for 100 B, in whole pages: wanted 2097152 B (2.00 MiB), free 0 B, largest free range 0 B: full
        virtual space from va 0x0: asked for 3145728 B (3.00 MiB), in whole pages: wanted 4194304 B (4.00 MiB), free 4194304 B (4.00 MiB), largest free range 2097152 B (2.00 MiB): fragmented
        virtual space from va 0x0: wanted 18446744073709551615 B (16.00 EiB), free 4194304 B (4.00 MiB), largest free range 2097152 B (2.00 MiB): the space has only 6291456 B (6.00 MiB)
        virtual space from va 0x0: an allocation of 0 bytes has no address
    "#]]);
}

// A2
#[test]
fn a_checked_free_that_is_wrong_says_why_and_changes_nothing() {
    let mut texts = Texts::default();
    let mut memory = pe_memory(Checking::Checked);
    let [first, second, third] = [(); 3].map(|()| memory.allocate_hbm(Bytes::kib(4)).unwrap());
    memory.free_hbm(second, Bytes::kib(4)).unwrap();
    let before = (holes(memory.hbm()), memory.hbm().used());
    let middle = PhysAddr::from_bits(third.to_bits() + 64).unwrap();
    let last = PhysAddr::from_bits(first.to_bits() + (6 << 30) - 1).unwrap();

    texts.add(memory.free_hbm(second, Bytes::kib(4)));
    texts.add(memory.free_hbm(first, Bytes::kib(2)));
    texts.add(memory.free_hbm(first, Bytes::kib(12)));
    texts.add(memory.free_hbm(middle, Bytes::new(64)));
    texts.add(memory.free_hbm(second, Bytes::kib(8)));
    texts.add(memory.free_hbm(last, Bytes::new(2)));
    texts.add(memory.free_hbm(last, Bytes::MAX));
    texts.add(memory.free_hbm(first, Bytes::ZERO));
    texts.are(&expect![[r#"
        HBM of sip0.cube3.pe2: 0x1000+0x1000 is not allocated: it was freed before, or never handed out
        HBM of sip0.cube3.pe2: 0x0+0x800 has the wrong size: the allocation is 4096 B (4.00 KiB) long
        HBM of sip0.cube3.pe2: 0x0+0x3000 has the wrong size: the allocation is 4096 B (4.00 KiB) long
        HBM of sip0.cube3.pe2: 0x2040+0x40 overlaps the allocation 0x2000+0x1000
        HBM of sip0.cube3.pe2: 0x1000+0x2000 overlaps the allocation 0x2000+0x1000
        HBM of sip0.cube3.pe2: 0x17fffffff+0x2 is outside the space of 6442450944 B (6.00 GiB)
        HBM of sip0.cube3.pe2: 0x17fffffff+0xffffffffffffffff is outside the space of 6442450944 B (6.00 GiB)
        HBM of sip0.cube3.pe2: a free of 0 bytes at 0x0 names nothing
    "#]]);

    assert_eq!((holes(memory.hbm()), memory.hbm().used()), before);
    memory.free_hbm(first, Bytes::kib(4)).unwrap();
    memory.free_hbm(third, Bytes::kib(4)).unwrap();
    assert_eq!(holes(memory.hbm()), [(0, 6 << 30)], "the right frees still work");
}

#[test]
fn an_address_of_another_space_is_refused_even_by_those_who_trust() {
    let mut texts = Texts::default();
    let mut memory = pe_memory(Checking::Trusted);
    let mut sram = cube_sram(Checking::Trusted);
    let bytes = Bytes::kib(4);
    let (hbm, tcm) = (memory.allocate_hbm(bytes).unwrap(), memory.allocate_tcm(bytes).unwrap());
    let theirs = sram.allocate(bytes).unwrap();
    let elsewhere = [place(1, 3, 2), place(0, 4, 2), place(0, 3, 1)]
        .map(|(sip, cube, pe)| PeMemory::new(sip, cube, pe, &layout(), Checking::Trusted).unwrap());
    texts.add(memory.free_hbm(tcm, bytes));
    texts.add(memory.free_tcm(theirs, bytes));
    texts.add(sram.free(hbm, bytes));
    texts.are(&expect![[r#"
        HBM of sip0.cube3.pe2: sip0.cube3.pe2.tcm+0x0 is not part of it
        TCM of sip0.cube3.pe2: sip0.cube3.sram+0x0 is not part of it
        SRAM of sip0.cube3: sip0.cube3.hbm+0x300000000 is not part of it
    "#]]);
    for mut other in elsewhere {
        assert!(matches!(
            other.free_hbm(hbm, bytes),
            Err(FreeError { cause: FreeCause::Foreign { .. }, .. })
        ));
        assert!(matches!(
            other.free_tcm(tcm, bytes),
            Err(FreeError { cause: FreeCause::Foreign { .. }, .. })
        ));
    }
    for (sip, cube, _) in [place(1, 3, 0), place(0, 4, 0)] {
        let mut other = CubeSram::new(sip, cube, &layout(), Checking::Trusted);
        assert!(matches!(
            other.free(theirs, bytes),
            Err(FreeError { cause: FreeCause::Foreign { .. }, .. })
        ));
    }
    assert_eq!([memory.hbm(), memory.tcm(), sram.sram()].map(FreeList::used), [bytes; 3]);
}

#[test]
fn a_virtual_free_that_is_wrong_says_why_and_changes_nothing() {
    let mut texts = Texts::default();
    let spec =
        VirtualSpec { checking: Checking::Checked, ..VirtualSpec::for_context(Bytes::ZERO, None) };
    let mut space = VirtualAllocator::from_spec(spec).unwrap();
    let va = space.allocate(Bytes::kib(8)).unwrap();
    let before = (space.holes().collect::<Vec<_>>(), space.used());
    let next = va.checked_add(Bytes::kib(4)).unwrap();
    let inside = va.checked_add(Bytes::new(100)).unwrap();

    texts.add(space.free(DeviceVa::new(0x1000), Bytes::kib(4)));
    texts.add(space.free(inside, Bytes::kib(4)));
    texts.add(space.free(va, Bytes::kib(4)));
    texts.add(space.free(next, Bytes::kib(4)));
    texts.add(space.free(va, Bytes::MAX));
    texts.add(space.free(va, Bytes::ZERO));
    texts.are(&expect![[r#"
        virtual space from va 0x100000000: va 0x1000 is below the range
        virtual space from va 0x100000000: va 0x100000064 is not the start of a page of 4.00 KiB
        virtual space from va 0x100000000: 0x0+0x1000 has the wrong size: the allocation is 8192 B (8.00 KiB) long
        virtual space from va 0x100000000: 0x1000+0x1000 overlaps the allocation 0x0+0x2000
        virtual space from va 0x100000000: 0x0+0xffffffffffffffff is outside the space of 68719476736 B (64.00 GiB)
        virtual space from va 0x100000000: a free of 0 bytes at 0x0 names nothing
    "#]]);

    assert_eq!((space.holes().collect::<Vec<_>>(), space.used()), before);
    space.free(va, Bytes::new(5000)).unwrap();
    assert_eq!(space.largest(), Bytes::gib(64));
}

#[test]
fn sizes_that_do_not_go_together_are_refused() {
    let mut texts = Texts::default();
    let with = |change: fn(&mut AddressSpec)| {
        let mut spec = SPEC;
        change(&mut spec);
        spec.resolve()
    };
    texts.add(with(|spec| spec.hbm_bytes_per_cube = Bytes::gib(129)));
    texts.add(with(|spec| spec.hbm_bytes_per_cube = Bytes::new(7)));
    texts.add(with(|spec| spec.hbm_slices_per_cube = 0));
    texts.add(with(|spec| spec.hbm_slices_per_cube = 65));
    texts.add(with(|spec| spec.tcm_bytes_per_pe = Bytes::gib(1)));
    texts.add(with(|spec| spec.tcm_bytes_per_pe = Bytes::kib(1)));
    texts.add(with(|spec| spec.sram_bytes_per_cube = Bytes::MAX));
    texts.are(&expect![[r#"
        hbm_bytes_per_cube is 138512695296 B (129.00 GiB), but its address window has only 137438953472 B (128.00 GiB)
        hbm_bytes_per_cube is 7 B, less than one byte for each of 8 slices
        hbm_slices_per_cube is 0, but must be from 1 to 64
        hbm_slices_per_cube is 65, but must be from 1 to 64
        tcm_bytes_per_pe is 1073741824 B (1.00 GiB), but its address window has only 536870912 B (512.00 MiB)
        tcm_scheduler_reserved_bytes is 1048576 B (1.00 MiB), but tcm_bytes_per_pe is only 1024 B (1.00 KiB)
        sram_bytes_per_cube is 18446744073709551615 B (16.00 EiB), but its address window has only 34359738368 B (32.00 GiB)
    "#]]);
}

#[test]
fn a_pe_without_an_hbm_slice_has_no_memory() {
    let mut texts = Texts::default();
    let (sip, cube) = (SipId::new(0).unwrap(), CubeId::new(0).unwrap());
    let memory =
        |pe| PeMemory::new(sip, cube, PeId::new(pe).unwrap(), &layout(), Checking::Trusted);
    assert!(memory(7).is_ok());
    texts.add(memory(8));
    texts.are(&expect![[r#"
        there is no HBM slice for PE 8: the number must be below 8
    "#]]);
}

#[test]
fn hbm_that_does_not_divide_belongs_to_nobody() {
    let layout = AddressSpec { hbm_bytes_per_cube: Bytes::new(25), ..SPEC }.resolve().unwrap();
    let (sip, cube, _) = place(0, 0, 0);
    let pe = |offset| {
        let address = PhysAddr::cube_hbm(sip, cube, Bytes::new(offset)).unwrap();
        layout.hbm_pe(address).map(PeId::index)
    };
    assert_eq!((layout.hbm_slice(), pe(23), pe(24)), (Bytes::new(3), Some(7), None));
}

#[test]
fn a_virtual_range_must_consist_of_pages() {
    let mut texts = Texts::default();
    let (base, size) = (DeviceVa::new(0x20_0000), Bytes::mib(2));
    let with_page = |page| VirtualAllocator::for_context(Bytes::MAX, Some(Bytes::new(page)));
    texts.add(with_page(0));
    texts.add(with_page(3000));
    texts.add(with_page(8 << 30));
    texts.add(with_page(4096));
    texts.add(VirtualAllocator::new(DeviceVa::new(4096), size));
    texts.add(VirtualAllocator::new(base, Bytes::kib(4)));
    texts.add(VirtualAllocator::new(base, Bytes::ZERO));
    texts.add(VirtualAllocator::new(base, Bytes::MAX.align_down(size)));
    texts.are(&expect![[r#"
        a page of 0 B is not a power of two
        a page of 3000 B (2.93 KiB) is not a power of two
        va 0x100000000 is not a multiple of the page of 8589934592 B (8.00 GiB)
        a size of 18446744073709551615 B (16.00 EiB) is not a positive multiple of the page of 4096 B (4.00 KiB)
        va 0x1000 is not a multiple of the page of 2097152 B (2.00 MiB)
        a size of 4096 B (4.00 KiB) is not a positive multiple of the page of 2097152 B (2.00 MiB)
        a size of 0 B is not a positive multiple of the page of 2097152 B (2.00 MiB)
        a range of 18446744073707454464 B (16.00 EiB) from va 0x200000 exceeds the 64-bit address space
    "#]]);
}
