//! A device that fails at every possible call, once or permanently.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory, Fault, Faulty, MemoryInfo};
use cubeyard_memory::flex::{Allocation, FlexAllocator, SnapshotSegment};
use cubeyard_memory::policy::{Kind, Request};
use cubeyard_memory::stats::{Pool, Quantity, Stats};

use super::{Strict, allocator};

type Device = Strict<Faulty<Card>>;

/// State that a refused request must leave unchanged.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Current value of every quantity.
    current: Vec<u64>,
    segments: Vec<SnapshotSegment>,
    info: MemoryInfo,
}

fn current(stats: &Stats) -> Vec<u64> {
    let pools = Quantity::ALL.iter().flat_map(|&quantity| Pool::ALL.map(|pool| (quantity, pool)));
    pools.map(|(quantity, pool)| stats.get(quantity, pool).current).collect()
}

fn state(allocator: &FlexAllocator, device: &Device) -> State {
    let segments = allocator.snapshot().segments;
    State { current: current(&allocator.stats()), segments, info: device.info() }
}

/// Runs a typical workload: tensors, programs, frees in a different order, trims. Returns the number of refused
/// requests.
fn workload(allocator: &FlexAllocator, device: &Device) -> usize {
    let mut live: Vec<Option<Allocation>> = Vec::new();
    let mut refused = 0;
    for step in 0..40_u64 {
        let size = Bytes::kib(1 + step * step * 7919 % 2000);
        let kind = if step % 7 == 3 { Kind::Program } else { Kind::Tensor };
        let before = state(allocator, device);
        if let Ok(block) = allocator.allocate_for(&Request { kind, ..Request::new(size) }) {
            live.push(Some(block));
        } else {
            refused += 1;
            // Idle memory may have been returned to the device; nothing else changes.
            let after = state(allocator, device);
            if after.info == before.info {
                assert_eq!(after, before, "a refusal changes nothing");
            }
            assert!(after.info.free >= before.info.free);
        }
        let stats = allocator.stats();
        assert_eq!(stats.reserved(), device.info().total - device.info().free);
        let blocks = live.iter().flatten().map(Allocation::size).sum::<Bytes>();
        assert_eq!(stats.allocated(), blocks, "no block is lost, and none is too many");
        if step % 3 == 2 && !live.is_empty() {
            let place = (step as usize * 5) % live.len();
            live[place] = None;
        }
        if step % 13 == 12 {
            allocator.trim();
        }
    }
    refused
}

fn device() -> Arc<Device> {
    Arc::new(Strict::new(Faulty::new(Card::new(CardSpec::virtual_function(Bytes::mib(64), 8)))))
}

fn faults(config: &str, growable: bool) {
    let counting = device();
    let refused = workload(&allocator(counting.clone(), config), &counting);
    assert_eq!(refused, 0, "the workload fits if nothing fails");
    let calls = counting.inner().calls();
    assert!(calls >= 4, "{config}: {calls} calls");
    let mut failures = 0;
    for call in 0..calls {
        for fault in [Fault::Once(call), Fault::From(call)] {
            let device = device();
            let allocator = allocator(device.clone(), config);
            device.inner().fail(fault);
            failures += workload(&allocator, &device);
            device.inner().fail(Fault::Never);
            allocator.trim();
            assert_eq!(device.info().free, device.info().total, "{config}, {fault:?}");
            assert_eq!(device.regions(), 0, "{config}, {fault:?}");
            // The device works again, and so must the allocator.
            allocator.allocate(Bytes::mib(1)).unwrap();
            drop(allocator);
            assert_eq!(device.info().free, device.info().total, "{config}, {fault:?}");
        }
    }
    println!("{config}: {calls} calls, each failed once and from then on; {failures} refusals");
    assert!(failures > 0 || !growable);
}

#[test]
fn fixed_regions_survive_every_fault() {
    faults("fallback_sizes:[8MiB;4MiB;2MiB],own_regions:[program]", false);
    faults("fallback_sizes:[8MiB],acquire:first,max_regions:6,region:fill-first", false);
}

#[test]
fn growable_regions_survive_every_fault() {
    faults("growth:growable(32MiB),own_regions:[program]", true);
    faults("growth:growable(8MiB),block:best-fit,region:thread-home", true);
}

#[test]
fn recycled_regions_survive_every_fault() {
    faults("growth:recycle(32MiB),own_regions:[program]", true);
}
