#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

use expect_test::expect;
use proptest::prelude::*;

use super::*;

/// Start of the PE-local window; the table in the module's comment lists all windows.
const PE_LOCAL: u64 = 128 << 30;
const M_CPU: u64 = 192 << 30;
const SRAM: u64 = 224 << 30;
const END: u64 = 256 << 30;

fn ids() -> (SipId, CubeId, PeId) {
    (SipId::new(1).unwrap(), CubeId::new(3).unwrap(), PeId::new(2).unwrap())
}

/// Returns the bits of an address on cube 3 of SIP 1.
fn on_cube(offset: u64) -> u64 {
    1 << 47 | 3 << 42 | offset
}

/// Formats the address, or the error if `bits` is not an address.
fn shown(bits: u64) -> String {
    PhysAddr::from_bits(bits).map_or_else(|error| error.to_string(), |address| address.to_string())
}

#[test]
fn the_fields_are_where_the_layout_says() {
    let (sip, chiplet) = (SipId::new(15).unwrap(), IoChipletId::new(4).unwrap());
    let address = PhysAddr::io_chiplet(sip, chiplet, Bytes::new(0x123)).unwrap();
    assert_eq!(address.to_bits(), 15 << 47 | 20 << 42 | 0x123);
    assert_eq!(
        (address.sip(), address.die(), address.cube()),
        (sip, Die::IoChiplet(chiplet), None)
    );
}

#[test]
fn every_window_is_decoded_up_to_its_last_byte() {
    let edges = [PE_LOCAL, M_CPU, SRAM, END].map(|edge| [edge - 1, edge].map(on_cube).map(shown));
    expect![[r#"
        sip1.cube3.hbm+0x1fffffffff
        sip1.cube3.pe0.tcm+0x0
        sip1.cube3.pe63.registers+0x1fffffff
        sip1.cube3.m_cpu+0x0
        sip1.cube3.m_cpu+0x7ffffffff
        sip1.cube3.sram+0x0
        sip1.cube3.sram+0x7ffffffff
        0x8c4000000000 is offset 0x4000000000 of cube3, which is in no window"#]]
    .assert_eq(&edges.concat().join("\n"));
}

#[test]
fn tcm_and_registers_share_what_a_pe_has() {
    let pe2 = PE_LOCAL + (2 << 30);
    assert_eq!(shown(on_cube(pe2 - 1)), "sip1.cube3.pe1.registers+0x1fffffff");
    assert_eq!(shown(on_cube(pe2)), "sip1.cube3.pe2.tcm+0x0");
    assert_eq!(shown(on_cube(pe2 + (512 << 20) - 1)), "sip1.cube3.pe2.tcm+0x1fffffff");
    assert_eq!(shown(on_cube(pe2 + (512 << 20))), "sip1.cube3.pe2.registers+0x0");
}

#[test]
fn an_hbm_address_names_the_pe_whose_slice_it_is_in() {
    let (sip, cube, pe) = ids();
    let slice = Bytes::gib(6);
    let last = PhysAddr::pe_hbm(sip, cube, pe, slice - Bytes::new(1), slice).unwrap();
    let next = PhysAddr::from_bits(last.to_bits() + 1).unwrap();
    assert_eq!(last.hbm_pe(slice), Some(pe));
    assert_eq!(next.hbm_pe(slice), PeId::new(3).ok());
    assert_eq!(last.hbm_pe(Bytes::ZERO), None);
    assert_eq!(last.hbm_pe(Bytes::new(1)), None, "there is no such PE");
    assert_eq!(PhysAddr::pe_tcm(sip, cube, pe, Bytes::ZERO).unwrap().hbm_pe(slice), None);
}

#[test]
fn addresses_are_ordered_by_sip_then_die_then_offset() {
    let (sip, cube, pe) = ids();
    let hbm = PhysAddr::cube_hbm(sip, cube, Bytes::ZERO).unwrap();
    let tcm = PhysAddr::pe_tcm(sip, cube, pe, Bytes::ZERO).unwrap();
    let next_cube = PhysAddr::cube_hbm(sip, CubeId::new(4).unwrap(), Bytes::ZERO).unwrap();
    let next_sip = PhysAddr::cube_hbm(SipId::new(2).unwrap(), cube, Bytes::ZERO).unwrap();
    assert!(hbm < tcm && tcm < next_cube && next_cube < next_sip);
}

fn text(refused: Result<impl std::fmt::Debug, AddressError>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn what_is_no_address_is_refused_with_the_field_and_its_limit() {
    let (sip, cube, pe) = ids();
    let texts = [
        text(SipId::new(16)),
        text(CubeId::new(u32::MAX)),
        text(IoChipletId::new(5)),
        text(PeId::new(64)),
        text(PhysAddr::pe_hbm(sip, cube, pe, Bytes::gib(6), Bytes::gib(6))),
        text(PhysAddr::pe_hbm(sip, cube, pe, Bytes::ZERO, Bytes::gib(43))),
        text(PhysAddr::pe_hbm(sip, cube, pe, Bytes::ZERO, Bytes::MAX)),
        text(PhysAddr::cube_hbm(sip, cube, Window::HBM_BYTES)),
        text(PhysAddr::pe_tcm(sip, cube, pe, Window::TCM_BYTES)),
        text(PhysAddr::pe_registers(sip, cube, pe, Window::REGISTER_BYTES)),
        text(PhysAddr::cube_m_cpu(sip, cube, Window::M_CPU_BYTES)),
        text(PhysAddr::cube_sram(sip, cube, Bytes::MAX)),
        text(PhysAddr::from_bits(1 << 51)),
        text(PhysAddr::from_bits(21 << 42)),
        text(PhysAddr::from_bits(16 << 42 | 1 << 40)),
    ];
    expect![[r#"
        there is no SIP 16: the number must be below 16
        there is no cube 4294967295: the number must be below 16
        there is no IO chiplet 5: the number must be below 5
        there is no PE 64: the number must be below 64
        offset 0x180000000 is outside the HBM slice, which is 0x180000000 bytes long
        pe2 with slices of 0xac0000000 bytes is outside the HBM window, which is 0x2000000000 bytes long
        pe2 with slices of 0xffffffffffffffff bytes is outside the HBM window, which is 0x2000000000 bytes long
        offset 0x2000000000 is outside the HBM window, which is 0x2000000000 bytes long
        offset 0x20000000 is outside the TCM window, which is 0x20000000 bytes long
        offset 0x20000000 is outside the register window, which is 0x20000000 bytes long
        offset 0x800000000 is outside the M_CPU window, which is 0x800000000 bytes long
        offset 0xffffffffffffffff is outside the SRAM window, which is 0x800000000 bytes long
        0x8000000000000 has more than the 51 bits of an address
        0x540000000000 is on die 21, but dies above 20 are reserved
        0x410000000000 is offset 0x10000000000 of io0, which is in no window"#]].assert_eq(&texts.join("\n"));
}

/// Rebuilds the address with the constructor of its window and the same arguments.
fn encode(address: PhysAddr) -> Result<PhysAddr, AddressError> {
    let (sip, die) = (address.sip(), address.die());
    match (die, address.window()) {
        (Die::Cube(cube), Window::Hbm { offset }) => PhysAddr::cube_hbm(sip, cube, offset),
        (Die::Cube(cube), Window::Tcm { pe, offset }) => PhysAddr::pe_tcm(sip, cube, pe, offset),
        (Die::Cube(cube), Window::Registers { pe, offset }) => {
            PhysAddr::pe_registers(sip, cube, pe, offset)
        }
        (Die::Cube(cube), Window::MCpu { offset }) => PhysAddr::cube_m_cpu(sip, cube, offset),
        (Die::Cube(cube), Window::Sram { offset }) => PhysAddr::cube_sram(sip, cube, offset),
        (Die::IoChiplet(io), Window::IoChiplet { offset }) => PhysAddr::io_chiplet(sip, io, offset),
        (die, window) => panic!("{die} has no {window:?}"),
    }
}

/// Offsets of every magnitude. Of evenly drawn offsets, nearly all would lie outside the windows.
fn bits() -> impl Strategy<Value = u64> {
    let offset = (0_u32..=42, any::<u64>()).prop_map(|(bits, raw)| raw & ((1 << bits) - 1));
    (0_u64..16, 0_u64..32, offset).prop_map(|(sip, die, offset)| sip << 47 | die << 42 | offset)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_and_encoding_give_the_same_address_again(bits in bits()) {
        let (die, offset) = (bits >> 42 & 31, bits & ((1 << 42) - 1));
        let means_something = match die {
            0..16 => offset < 1 << 38,
            16..21 => offset < 1 << 40,
            _ => false,
        };
        match PhysAddr::from_bits(bits) {
            Ok(address) => {
                prop_assert!(means_something);
                prop_assert_eq!(encode(address), Ok(address));
                prop_assert_eq!(address.to_bits(), bits);
            }
            Err(_) => prop_assert!(!means_something),
        }
    }

    #[test]
    fn an_address_in_a_slice_gives_pe_and_offset_back(
        pe in 0_u32..64,
        slice in 1_u64..=2 << 30,
        raw in any::<u64>(),
    ) {
        let (sip, cube, _) = ids();
        let (pe, offset) = (PeId::new(pe).unwrap(), raw % slice);
        let slice = Bytes::new(slice);
        let address = PhysAddr::pe_hbm(sip, cube, pe, Bytes::new(offset), slice).unwrap();
        prop_assert_eq!(address.hbm_pe(slice), Some(pe));
        prop_assert_eq!(address.hbm_offset().unwrap().get() % slice.get(), offset);
    }
}
