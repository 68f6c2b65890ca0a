//! Devices that refuse regions for a while, and devices that return one region twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, Card, CardSpec, DeviceMemory, Fault, Faulty, MemoryInfo, RegionHandle, RegionId,
};
use cubeyard_memory::flex::{AllocateError, Allocation, RegionLimit};
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Strict, allocator};

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

/// One refusal locked the allocator: memory was full, although 64 GiB were free, until a trim.
#[test]
fn a_device_that_refuses_once_is_asked_again() {
    let device = Arc::new(Faulty::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
    let allocator = allocator(device.clone(), "");
    device.fail(Fault::From(0));
    let Err(AllocateError::OutOfMemory(report)) = allocator.allocate(mib(1)) else { panic!() };
    assert_eq!((report.limit, report.regions_locked), (RegionLimit::Device, true));
    assert_eq!(device.calls(), 3, "every size is asked for once");
    assert!(allocator.regions_locked());
    device.fail(Fault::Never);
    allocator.allocate(mib(1)).unwrap();
    assert!(!allocator.regions_locked());
}

/// Under `refusal:lock` the allocator stays locked, until it is unlocked.
#[test]
fn a_locked_allocator_is_unlocked_by_hand() {
    let device = Arc::new(Faulty::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
    let allocator = allocator(device.clone(), "preset:rfc");
    device.fail(Fault::From(0));
    assert!(allocator.allocate(mib(1)).is_err());
    device.fail(Fault::Never);
    assert!(allocator.allocate(mib(1)).is_err(), "as the RFC says");
    assert_eq!(device.calls(), 3, "the device is not asked");
    allocator.unlock_regions();
    assert!(!allocator.regions_locked());
    allocator.allocate(mib(1)).unwrap();
}

/// A region that no request needs is not asked for with every request, once the device has refused it.
#[test]
fn a_region_that_is_not_needed_is_not_asked_for_again() {
    for config in ["acquire:first", "region:thread-home,max_regions:1,fallback_sizes:[8MiB]"] {
        let device = Arc::new(Faulty::new(Card::new(CardSpec::physical(mib(8)))));
        let config = format!("fallback_sizes:[8MiB],{config}");
        let allocator = allocator(device.clone(), &config);
        let blocks: Vec<_> = (0..100).map(|_| allocator.allocate(Bytes::kib(1))).collect();
        assert!(blocks.iter().all(Result::is_ok));
        assert!(device.calls() <= 2, "{config}: {} calls", device.calls());
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u64),
    Free(Index),
    Fail(Fault),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fault = prop_oneof![
        (0_usize..4).prop_map(Fault::Once),
        (0_usize..4).prop_map(Fault::From),
        Just(Fault::Never),
    ];
    let step = prop_oneof![
        6 => (1_u64..(6 << 20)).prop_map(Step::Allocate),
        3 => any::<Index>().prop_map(Step::Free),
        2 => fault.prop_map(Step::Fail),
    ];
    prop::collection::vec(step, 1..60)
}

fn configs() -> impl Strategy<Value = String> {
    let growth = prop::sample::select(vec!["fixed", "growable(8MiB)", "recycle(8MiB)"]);
    let region = prop::sample::select(vec!["load-balancing", "fill-first", "thread-home"]);
    let acquire = prop::sample::select(vec!["lazy", "first", "eager(1)"]);
    let sizes = prop::sample::select(vec!["listed", "fitted"]);
    (growth, region, acquire, sizes).prop_map(|(growth, region, acquire, sizes)| {
        format!(
            "fallback_sizes:[8MiB;4MiB],max_regions:64,growth:{growth},region:{region},\
             acquire:{acquire},sizes:{sizes}"
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever a device has refused before: when it accepts again, the next request that needs a region gets it.
    #[test]
    fn refusals_leave_no_trace(config in configs(), steps in steps()) {
        let faulty = Faulty::new(Card::new(CardSpec::physical(Bytes::gib(1))));
        let device = Arc::new(Strict::new(faulty));
        let allocator = allocator(device.clone(), &config);
        let mut live: Vec<Allocation> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(size) => live.extend(allocator.allocate(Bytes::new(size))),
                Step::Free(pick) if !live.is_empty() => drop(live.swap_remove(pick.index(live.len()))),
                Step::Free(_) => {}
                Step::Fail(fault) => device.inner().fail(fault),
            }
        }
        device.inner().fail(Fault::Never);
        let before = allocator.regions().len();
        let whole: Vec<_> = (0..=before).map(|_| allocator.allocate(mib(8))).collect();
        prop_assert!(whole.iter().all(Result::is_ok), "the device has room for all of them");
        prop_assert!(allocator.regions().len() > before, "one needed another region");
        drop((whole, live));
        allocator.trim();
        prop_assert_eq!(device.info().free, device.info().total);
    }
}

/// A card that returns its first region again when told to.
struct Repeating {
    card: Card,
    first: RegionId,
    repeat: AtomicBool,
    released: AtomicUsize,
}

impl DeviceMemory for Repeating {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        if self.repeat.load(Ordering::Relaxed) {
            return Some(RegionHandle { id: self.first, size });
        }
        self.card.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.released.fetch_add(1, Ordering::Relaxed);
        self.card.release(region);
    }
    fn info(&self) -> MemoryInfo {
        self.card.info()
    }
}

/// The second handle was taken for another region: two blocks had one address, and the region was released twice.
#[test]
fn a_region_that_is_returned_twice_is_refused() {
    for config in ["", "acquire:first", "region:thread-home,max_regions:64"] {
        let card = Card::new(CardSpec::physical(mib(64)));
        let first = RegionId::new(1 << 34);
        let (repeat, released) = (AtomicBool::new(false), AtomicUsize::new(0));
        let device = Arc::new(Repeating { card, first, repeat, released });
        let allocator = allocator(device.clone(), &format!("fallback_sizes:[8MiB],{config}"));
        let block = allocator.allocate(mib(8)).unwrap();
        assert_eq!(block.address().region_id, first);
        device.repeat.store(true, Ordering::Relaxed);
        let error = allocator.allocate(mib(8)).unwrap_err();
        assert_eq!(error, AllocateError::RepeatedRegion { region_id: first });
        assert!(error.to_string().starts_with("the device has returned region 0x400000000 twice"));
        assert_eq!((allocator.regions().len(), block.address().region_id), (1, first));
        assert_eq!(device.released.load(Ordering::Relaxed), 0, "the first one is in use");
        device.repeat.store(false, Ordering::Relaxed);
        let other = allocator.allocate(mib(8)).unwrap();
        assert_ne!(other.address().region_id, first);
        drop((block, other));
        allocator.trim();
        assert_eq!(device.released.load(Ordering::Relaxed), 2);
        assert_eq!(device.info().free, mib(64));
    }
}
