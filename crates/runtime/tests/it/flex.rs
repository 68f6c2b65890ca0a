//! The Flex family on a SIP of the machine.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_memory::flex::{Allocation, FlexConfig, LaunchError, Operand};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{
    BoundArgument, Context, ContextConfig, FlexArray, FlexDevice, FlexOperands, Launch,
    LaunchHandle, RuntimeError, SipFunction, Site, Stream,
};

use crate::programs::Stores;
use crate::tensors::with_data;

const FUNCTIONS: [SipFunction; 2] = [SipFunction::Physical, SipFunction::Virtual { entries: 8 }];

fn sip(number: u32) -> SipId {
    SipId::new(number).unwrap()
}

/// Creates a device with regions of 12, 8 or 4 GiB on SIP 1.
fn device(context: &Context, function: SipFunction) -> FlexDevice {
    context.flex_function(sip(1), function, FlexConfig::default()).unwrap()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn read(device: &FlexDevice, block: &Allocation, offset: u64, bytes: usize) -> Vec<u8> {
    device.read(block, Bytes::new(offset), bytes).unwrap().known().unwrap()
}

fn array(block: &Allocation, bytes: u64) -> FlexArray<'_> {
    FlexArray::new(block, &[bytes], DType::U8).unwrap()
}

/// Makes one PE store bytes at the start of its first operand, after `wait` dispatches.
fn store(stream: &Stream, operands: &FlexOperands, wait: u32, bytes: &[u8]) -> LaunchHandle {
    let (cubes, pes) = (vec![CubeId::new(3).unwrap()], vec![PeId::new(5).unwrap()]);
    let launch = Launch::new(sip(1)).arguments(operands.arguments()).cubes(cubes).pes(pes);
    let mut program = |_: &Site, bound: &[BoundArgument]| {
        let BoundArgument::Tensor(first) = &bound[0] else { panic!("it is a block") };
        Ok(Stores::after(wait, first.whole.unwrap(), bytes))
    };
    stream.launch_programs("store", &launch, &mut program).unwrap()
}

#[test]
fn a_program_is_loaded_and_the_addresses_of_its_operands_are_written_for_each_launch() {
    for function in FUNCTIONS {
        let context = with_data();
        let device = device(&context, function);
        let before = context.now();
        let binary: Vec<u8> = (0..=255).collect();
        let program = device.load(&binary, 2).unwrap();
        assert!(context.now() > before, "it goes over the fabric");
        assert_eq!(read(&device, program.memory(), 0, 256), binary);
        let a = device.allocator().allocate(Bytes::kib(4)).unwrap();
        let b = device.allocator().allocate(Bytes::kib(8)).unwrap();
        device.write(&a, Bytes::new(16), b"operand").unwrap();
        assert_eq!(read(&device, &a, 16, 7), b"operand");
        // Two launches of one program at the same time: each finds its own operands.
        let first = device.operands(&program, &[array(&a, 4096), array(&b, 8192)]).unwrap();
        let second =
            device.operands(&program, &[array(&b, 100).at(Bytes::new(64)), array(&a, 8)]).unwrap();
        let found = |operands: &FlexOperands| {
            let place = operands.corrections();
            words(&device.read_address(place, 32).unwrap().known().unwrap())
        };
        let table = device.allocator().segment_table();
        let flat = |block: &Allocation| {
            let (_, segment) = table.get(block.address().region_id).unwrap();
            segment.base + block.address().offset.get()
        };
        assert_eq!(found(&first), [flat(&a), 4 << 10, flat(&b), 8 << 10]);
        assert_eq!(found(&second), [flat(&b) + 64, 100, flat(&a), 8]);
        let resolved: Vec<u64> =
            first.resolved().iter().map(|operand: &Operand| operand.flat).collect();
        assert_eq!(resolved, [flat(&a), flat(&b)]);
    }
}

/// To a machine that does not know the segment table, a flat address of SIP 1 is an address of SIP 0, and an index into
/// the firmware's table is not an address at all.
#[test]
fn a_flat_address_means_the_block_whatever_the_function() {
    for function in FUNCTIONS {
        let context = with_data();
        let device = device(&context, function);
        let program = device.load(&[1; 64], 1).unwrap();
        let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
        let is_index = block.address().region_id.get() < 8;
        assert_eq!(is_index, function != SipFunction::Physical);
        device.write(&block, Bytes::ZERO, &[1; 128]).unwrap();
        let operands = device.operands(&program, &[array(&block, 64)]).unwrap();
        store(&context.stream(), &operands, 0, &[7; 64]).wait().unwrap();
        assert_eq!(read(&device, &block, 0, 128), [[7; 64], [1; 64]].concat());
        assert_eq!(context.memory_stats().mmu.faults, 0);
        drop((operands, program, block, device));
        assert!(context.is_pristine(), "mappings and regions are given back");
    }
}

#[test]
fn operands_dropped_during_a_launch_stay_until_its_end() {
    let context = with_data();
    let device = device(&context, SipFunction::Physical);
    let program = device.load(&[1; 64], 1).unwrap();
    let used = || device.allocator().stats().key("allocated_bytes.all.current").unwrap();
    let without = used();
    let a = device.allocator().allocate(Bytes::mib(1)).unwrap();
    let operands = device.operands(&program, &[array(&a, 64)]).unwrap();
    let handle = store(&context.stream(), &operands, 100, &[1; 64]);
    drop((a, operands));
    assert_eq!(used(), without + (1 << 20) + 128, "the operand, and a granule for its address");
    handle.wait().unwrap();
    assert_eq!(used(), without);
}

/// The device, its blocks and its operands are dropped while a kernel stores: the kernel still has memory and mappings.
#[test]
fn a_device_dropped_during_a_launch_leaves_it_its_mappings() {
    let context = with_data();
    let device = device(&context, SipFunction::Virtual { entries: 2 });
    let program = device.load(&[1; 64], 1).unwrap();
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    let operands = device.operands(&program, &[array(&block, 64)]).unwrap();
    let handle = store(&context.stream(), &operands, 100, &[1; 64]);
    drop((program, block, operands, device));
    assert!(!context.is_pristine());
    handle.wait().unwrap();
    assert_eq!(context.memory_stats().mmu.faults, 0);
    assert!(context.is_pristine());
}

#[test]
fn tiles_move_the_offset_and_leave_the_region() {
    let context = with_data();
    let device = device(&context, SipFunction::Physical);
    let program = device.load(&[1; 64], 1).unwrap();
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    device.write(&block, Bytes::ZERO, &[0; 4096]).unwrap();
    // Launches on a stream, each with the address of its own tile.
    let stream = context.stream();
    let mut handles = Vec::new();
    for tile in 0..4_u8 {
        let array = array(&block, 1024).at(Bytes::kib(tile.into()));
        let operands = device.operands(&program, &[array]).unwrap();
        handles.push(store(&stream, &operands, 0, &[tile + 1; 1024]));
    }
    let reports: Vec<_> = handles.iter().map(|handle| handle.wait().unwrap()).collect();
    assert!(reports.windows(2).all(|pair| pair[0].done < pair[1].started));
    let expected: Vec<u8> = (1..=4).flat_map(|tile| [tile; 1024]).collect();
    assert_eq!(read(&device, &block, 0, 4096), expected);
}

#[test]
fn a_region_that_was_given_back_is_unmapped_and_its_place_used_again() {
    let context = with_data();
    let config: FlexConfig = "fallback_sizes:[1GiB],max_regions:1".parse().unwrap();
    let function = SipFunction::Virtual { entries: 1 };
    let device = context.flex_function(sip(1), function, config).unwrap();
    let mut bases = Vec::new();
    for round in 1..=3_u8 {
        let program = device.load(&[1; 64], 1).unwrap();
        let block = device.allocator().allocate(Bytes::kib(1)).unwrap();
        let operands = device.operands(&program, &[array(&block, 64)]).unwrap();
        bases.push(operands.resolved()[0].flat);
        store(&context.stream(), &operands, 0, &[round; 64]).wait().unwrap();
        assert_eq!(read(&device, &block, 0, 64), [round; 64]);
        drop((operands, program, block));
        device.allocator().trim();
        let mapped = context.machine(|machine| {
            machine.view().mmu(machine.view().pe("sip1.cube0.pe0").unwrap()).unwrap().mappings()
        });
        assert_eq!(mapped, 1, "that of this round, until the next launch");
    }
    bases.dedup();
    assert_eq!(bases.len(), 3, "flat addresses are used again as late as can be");
}

#[test]
fn wrong_operands_are_refused() {
    let context = with_data();
    let device = device(&context, SipFunction::Physical);
    let other = context.flex(sip(0), FlexConfig::default()).unwrap();
    let program = device.load(&[1; 64], 3).unwrap();
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    let one = array(&block, 64);
    let error = device.operands(&program, &[one]).unwrap_err();
    assert_eq!(error.to_string(), "the program takes 3 operands, and 1 was given");
    let beyond = array(&block, 4097);
    let error = device.operands(&program, &[one, one, beyond]).unwrap_err();
    let RuntimeError::Beyond { offset, bytes, .. } = error else { panic!("{error}") };
    assert_eq!((offset, bytes), (Bytes::ZERO, Bytes::new(4097)));
    let strange = other.allocator().allocate(Bytes::kib(4)).unwrap();
    let error = device.operands(&program, &[one, one, array(&strange, 64)]).unwrap_err();
    let RuntimeError::Launch(LaunchError::UnknownSegment { operand: 2, .. }) = error else {
        panic!("{error}")
    };
    let operands = device.operands(&program, &[one, one, one]).unwrap();
    let launch = Launch::new(sip(0)).arguments(operands.arguments());
    let mut none = |_: &Site, _: &[BoundArgument]| Ok(Stores::after(0, 0, &[]));
    let error = context.stream().launch_programs("none", &launch, &mut none).unwrap_err();
    let text = "the operand is in the memory of sip1, but the launch is on sip0";
    assert_eq!(error.to_string(), text);
    let elsewhere = with_data();
    let error = elsewhere.stream().launch_programs("none", &launch, &mut none).unwrap_err();
    assert!(matches!(error, RuntimeError::Foreign), "{error}");
}

#[test]
fn a_virtual_function_has_as_many_regions_as_its_table_has_entries() {
    let context = with_data();
    let config: FlexConfig = "fallback_sizes:[1GiB]".parse().unwrap();
    let function = SipFunction::Virtual { entries: 2 };
    let device = context.flex_function(sip(1), function, config).unwrap();
    let whole = || device.allocator().allocate(Bytes::gib(1));
    let (first, second) = (whole().unwrap(), whole().unwrap());
    let index = |block: &Allocation| block.address().region_id.get();
    assert_eq!((index(&first), index(&second)), (0, 1));
    assert!(whole().is_err());
    // The machine knows their addresses, and that there is no third region.
    context.machine(|machine| {
        let place = |index| {
            let region = cubeyard_memory::device::RegionId::new(index);
            machine.view().region_address(sip(1), region, Bytes::new(5))
        };
        assert_eq!(place(1).unwrap().to_bits() - place(0).unwrap().to_bits(), 1 << 30);
        let error = place(2).unwrap_err().to_string();
        assert_eq!(error, "sip1 has no region 0x2 with an offset of 5 B");
    });
}

#[test]
fn without_data_blocks_take_their_time_and_have_no_values() {
    let times = |data| {
        let context = Context::new(ContextConfig { data, ..ContextConfig::default() });
        let device = device(&context, SipFunction::Physical);
        let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
        device.write(&block, Bytes::ZERO, &[1; 4096]).unwrap();
        let written = context.now();
        assert_eq!(device.read(&block, Bytes::ZERO, 4096).unwrap().is_absent(), !data);
        (written, context.now())
    };
    assert_eq!(times(true), times(false));
    assert!(times(false).1 > times(false).0);
}

#[test]
fn a_context_uses_one_family_on_one_sip_and_the_other_on_another() {
    let context = with_data();
    let device = device(&context, SipFunction::Physical);
    let tensor = context.zeros(&[64], DType::F16).unwrap();
    let there = Placement { sips: vec![sip(1)], ..Placement::default() };
    assert!(matches!(tensor.to(&there), Err(RuntimeError::TakenByRegions { .. })));
    let here = tensor.to(&Placement::default()).unwrap();
    let refused = context.flex(sip(0), FlexConfig::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "slices of PEs of sip0 are in use, so its memory cannot be managed in regions now"
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
    let context = with_data();
    let device = device(&context, SipFunction::Physical);
    let block = device.allocator().allocate(Bytes::gib(11)).unwrap();
    // The boundary between the slices of PE 0 and PE 1, 6 GiB each.
    let into = (6 << 30) - block.address().offset.get() - 100;
    let bytes: Vec<u8> = (0..200).collect();
    device.write(&block, Bytes::new(into), &bytes).unwrap();
    assert_eq!(read(&device, &block, into, 200), bytes);
    let error = device.write(&block, Bytes::new((11 << 30) - 1), &[1, 2]).unwrap_err();
    assert!(matches!(error, RuntimeError::Beyond { .. }));
}
