//! The Flex family on a SIP of the machine.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::flex::{Allocation, FlexConfig, VirtualAddress};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Context, FlexDevice, FlexLaunch, KernelSpec, RuntimeError};
use cubeyard_sim::Span;

use crate::tensors::with_data;

fn sip(number: u32) -> SipId {
    SipId::new(number).unwrap()
}

/// Regions of 12, 8 or 4 GiB on SIP 1, and a kernel.
fn device() -> (Context, FlexDevice) {
    let context = with_data();
    context.register("add", KernelSpec { parameters: vec![], work: Span::from_ps(50_000) });
    let device = context.flex(sip(1), FlexConfig::default()).unwrap();
    (context, device)
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// The place behind a block, where first fit has put the corrections of the launch that came next.
fn behind(block: &Allocation) -> VirtualAddress {
    let address = block.address();
    VirtualAddress { offset: address.offset + block.size(), ..address }
}

#[test]
fn a_program_is_loaded_and_given_the_addresses_of_its_operands() {
    let (context, device) = device();
    let before = context.now();
    let binary: Vec<u8> = (0..=255).collect();
    let program = device.load(&binary, 2).unwrap();
    assert!(context.now() > before, "it goes over the fabric");
    assert_eq!(device.read(program.memory(), 0, 256).unwrap(), binary);
    let a = device.allocator().allocate(Bytes::kib(4)).unwrap();
    let b = device.allocator().allocate(Bytes::kib(8)).unwrap();
    device.write(&a, 16, b"operand").unwrap();
    assert_eq!(device.read(&a, 16, 7).unwrap(), b"operand");
    let operands = [&a, &b];
    let launch =
        FlexLaunch { kernel: "add", program: &program, operands: &operands, cubes: &[], pes: &[] };
    let handle = device.launch(&launch).unwrap();
    // What the program finds in memory: flat addresses and sizes, through the segment table.
    let table = device.allocator().segment_table();
    let flat = |block: &cubeyard_memory::flex::Allocation| {
        let (_, segment) = table.find(block.address().region_id).unwrap();
        segment.base + block.address().offset.get()
    };
    let found = words(&device.read_address(behind(&b), 32).unwrap());
    assert_eq!(found, [flat(&a), 4 << 10, flat(&b), 8 << 10]);
    handle.wait().unwrap();
}

#[test]
fn operands_dropped_during_a_launch_stay_until_its_end() {
    let (_context, device) = device();
    let program = device.load(&[1; 64], 1).unwrap();
    let used = || device.allocator().stats().key("allocated_bytes.all.current").unwrap();
    let without = used();
    let a = device.allocator().allocate(Bytes::mib(1)).unwrap();
    let operands = [&a];
    let launch =
        FlexLaunch { kernel: "add", program: &program, operands: &operands, cubes: &[], pes: &[] };
    let handle = device.launch(&launch).unwrap();
    drop(a);
    assert_eq!(used(), without + (1 << 20) + 128, "the operand, and a granule for its address");
    handle.wait().unwrap();
    assert_eq!(used(), without);
}

#[test]
fn tiles_move_the_offset_and_leave_the_region() {
    let (_context, device) = device();
    let program = device.load(&[1; 64], 2).unwrap();
    let a = device.allocator().allocate(Bytes::kib(1)).unwrap();
    let b = device.allocator().allocate(Bytes::kib(64)).unwrap();
    let operands = [&a, &b];
    let launch =
        FlexLaunch { kernel: "add", program: &program, operands: &operands, cubes: &[], pes: &[] };
    let handles = device.launch_tiles(&launch, 1, Bytes::kib(16), Bytes::kib(16)).unwrap();
    let reports: Vec<_> = handles.iter().map(|handle| handle.wait().unwrap()).collect();
    assert_eq!(reports.len(), 4);
    assert!(reports.windows(2).all(|pair| pair[0].done < pair[1].started));
    let last = words(&device.read_address(behind(&b), 32).unwrap());
    let table = device.allocator().segment_table();
    let flat = |block: &cubeyard_memory::flex::Allocation| {
        let (_, segment) = table.find(block.address().region_id).unwrap();
        segment.base + block.address().offset.get()
    };
    assert_eq!(last, [flat(&a), 1 << 10, flat(&b) + (48 << 10), 16 << 10]);
}

#[test]
fn a_context_uses_one_family_on_one_sip_and_the_other_on_another() {
    let (context, device) = device();
    let tensor = context.zeros(&[64], DType::F16).unwrap();
    let there = Placement { sips: vec![sip(1)], ..Placement::default() };
    assert!(matches!(tensor.to(&there), Err(RuntimeError::TakenByRegions { .. })));
    let here = tensor.to(&Placement::default()).unwrap();
    let refused = context.flex(sip(0), FlexConfig::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "tensors are on sip0, so its memory cannot be managed in regions now"
    );
    assert!(matches!(
        context.flex(sip(9), FlexConfig::default()),
        Err(RuntimeError::NoSuchSip { .. })
    ));
    drop((here, device));
    drop(tensor.to(&there).unwrap());
    assert!(context.is_pristine());
}

#[test]
fn regions_end_where_cubes_end_and_blocks_cross_slices() {
    let (_context, device) = device();
    let block = device.allocator().allocate(Bytes::gib(11)).unwrap();
    // The border between the slices of PE 0 and PE 1, 6 GiB each.
    let into = (6 << 30) - block.address().offset.get() - 100;
    let bytes: Vec<u8> = (0..200).collect();
    device.write(&block, into, &bytes).unwrap();
    assert_eq!(device.read(&block, into, 200).unwrap(), bytes);
    let error = device.write(&block, (11 << 30) - 1, &[1, 2]).unwrap_err();
    assert!(matches!(error, RuntimeError::Beyond { .. }));
}
