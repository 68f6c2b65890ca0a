//! The memory of a SIP has one owner at a time: slices of PEs, or regions.

use cubeyard_device::pe::PortId;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_memory::flex::FlexConfig;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{
    Channel, ChannelEnd, Channels, Context, RingConfig, RuntimeError, SlotKind, Tensor,
};

use crate::tensors::with_data;

fn sip(number: u32) -> SipId {
    SipId::new(number).unwrap()
}

fn tensor(context: &Context) -> Result<Tensor, RuntimeError> {
    let there = Placement { sips: vec![sip(1)], ..Placement::default() };
    context.zeros(&[64], DType::F16).unwrap().to(&there)
}

/// Connects two PEs of a SIP through rings in some memory.
fn wired(context: &Context, kind: SlotKind) -> Result<Channels, RuntimeError> {
    let end = |number| ChannelEnd {
        pe: cubeyard_device::request::PeRef {
            sip: sip(1),
            cube: CubeId::new(0).unwrap(),
            pe: PeId::new(number).unwrap(),
        },
        port: PortId(0),
    };
    let channel = Channel { ends: [end(0), end(1)] };
    context.connect(&[channel], &RingConfig { kind, ..RingConfig::default() })
}

/// Two devices once gave the same memory to two blocks.
#[test]
fn a_second_device_on_a_sip_is_refused_until_the_first_is_gone() {
    let context = with_data();
    let first = context.flex(sip(1), FlexConfig::default()).unwrap();
    let error = context.flex(sip(1), FlexConfig::default()).unwrap_err();
    assert_eq!(error.to_string(), "the memory of sip1 is managed in regions");
    drop(first);
    context.flex(sip(1), FlexConfig::default()).unwrap();
}

/// The device was dropped while a block was alive, and a tensor got the block's memory.
#[test]
fn regions_keep_a_sip_as_long_as_a_block_of_them_lives() {
    let context = with_data();
    let device = context.flex(sip(1), FlexConfig::default()).unwrap();
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    drop(device);
    assert!(matches!(tensor(&context), Err(RuntimeError::TakenByRegions { .. })));
    assert!(matches!(
        context.flex(sip(1), FlexConfig::default()),
        Err(RuntimeError::TakenByRegions { .. })
    ));
    drop(block);
    tensor(&context).unwrap();
}

/// A handle of the allocator that outlives the device can still allocate blocks.
#[test]
fn regions_keep_a_sip_as_long_as_their_allocator_lives() {
    let context = with_data();
    let device = context.flex(sip(1), FlexConfig::default()).unwrap();
    let allocator = device.allocator().clone();
    drop(device);
    assert!(matches!(tensor(&context), Err(RuntimeError::TakenByRegions { .. })));
    drop(allocator);
    tensor(&context).unwrap();
}

#[test]
fn rings_in_the_hbm_and_regions_of_it_exclude_each_other() {
    let context = with_data();
    let device = context.flex(sip(1), FlexConfig::default()).unwrap();
    let error = wired(&context, SlotKind::Hbm).unwrap_err();
    assert!(matches!(error, RuntimeError::TakenByRegions { .. }), "{error}");
    // Other memories of the SIP are not managed in regions.
    drop(wired(&context, SlotKind::Tcm).unwrap());
    drop(device);
    let rings = wired(&context, SlotKind::Hbm).unwrap();
    let error = context.flex(sip(1), FlexConfig::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "slices of PEs of sip1 are in use, so its memory cannot be managed in regions now"
    );
    drop(rings);
    context.flex(sip(1), FlexConfig::default()).unwrap();
}

#[test]
fn what_regions_take_is_counted_and_reported() {
    let context = with_data();
    let device = context.flex(sip(1), FlexConfig::default()).unwrap();
    assert!(context.is_pristine(), "no region was acquired yet");
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    let stats = context.memory_stats();
    assert_eq!((stats.used, stats.regions.len()), (Bytes::gib(12), 1));
    let regions = &stats.regions[0];
    assert_eq!((regions.sip, regions.regions, regions.used), (sip(1), 1, Bytes::gib(12)));
    assert!(!context.is_pristine());
    drop(block);
    device.allocator().trim();
    assert!(context.is_pristine());
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    drop(device);
    let report = context.close();
    assert!(!report.is_clean());
    assert_eq!(report.to_string(), "1 region of sip1, 12.00 GiB");
    drop(block);
}

#[test]
fn a_device_of_a_closed_context_says_so() {
    let context = with_data();
    let device = context.flex(sip(1), FlexConfig::default()).unwrap();
    let block = device.allocator().allocate(Bytes::kib(4)).unwrap();
    context.close();
    assert!(matches!(device.write(&block, Bytes::ZERO, &[1]), Err(RuntimeError::Closed)));
    assert!(matches!(device.read(&block, Bytes::ZERO, 1), Err(RuntimeError::Closed)));
    assert!(matches!(device.load(&[1], 0), Err(RuntimeError::Closed)));
}
