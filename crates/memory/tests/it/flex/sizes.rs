//! Large requests, the rest of a device, and many regions.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{AllocateError, Allocation, AllocationToken, RegionLimit, Shortage};
use proptest::prelude::*;

use super::{Strict, allocator, card};

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

fn sizes_of(allocator: &cubeyard_memory::FlexAllocator) -> Vec<Bytes> {
    allocator.regions().iter().map(|region| region.size).collect()
}

#[test]
fn a_large_request_gets_a_region_of_its_own() {
    let allocator = allocator(card(Bytes::gib(60)), "sizes:fitted");
    let small = allocator.allocate(mib(1)).unwrap();
    let large = allocator.allocate(Bytes::gib(20)).unwrap();
    assert_eq!(sizes_of(&allocator), [Bytes::gib(12), Bytes::gib(20)]);
    let odd = allocator.allocate(Bytes::new((13 << 30) + 1)).unwrap();
    assert_eq!(sizes_of(&allocator)[2], Bytes::new((13 << 30) + 128));
    let Err(AllocateError::OutOfMemory(report)) = allocator.allocate(Bytes::gib(61)) else {
        panic!("there are 60 GiB")
    };
    assert_eq!((report.shortage, report.longest_block), (Shortage::TooLarge, Bytes::gib(60)));
    drop((small, large, odd));
}

/// 8 GiB of an 11 GiB card were used.
#[test]
fn the_rest_of_a_card_is_used() {
    let used = |config: &str| {
        let card = card(Bytes::gib(11));
        let allocator = allocator(card.clone(), config);
        let blocks: Vec<_> =
            std::iter::from_fn(|| allocator.allocate(Bytes::gib(1)).ok()).collect();
        (blocks.len(), sizes_of(&allocator))
    };
    assert_eq!(used(""), (8, vec![Bytes::gib(8)]), "the configured sizes alone");
    assert_eq!(used("sizes:fitted"), (11, vec![Bytes::gib(8), Bytes::gib(3)]));
    assert_eq!(used("sizes:all"), (11, vec![Bytes::gib(11)]));
}

/// A larger region size was named where `sizes:fitted` is the shorter remedy, and nothing for the rest of a card.
#[test]
fn a_report_names_fitted_sizes_where_they_help() {
    for (memory, live, wanted) in [(60, 1, 20), (11, 8, 3), (3, 0, 1)] {
        let card = card(Bytes::gib(memory));
        let blocks = |config: &str| {
            let allocator = allocator(card.clone(), config);
            let blocks: Vec<_> =
                (0..live).map(|_| allocator.allocate(Bytes::gib(1)).unwrap()).collect();
            (allocator.allocate(Bytes::gib(wanted)), blocks)
        };
        let (Err(AllocateError::OutOfMemory(report)), held) = blocks("") else {
            panic!("{wanted} of {memory} GiB")
        };
        assert!(report.advice().contains("`sizes:fitted` from the start"), "{report}");
        drop(held);
        assert!(blocks("sizes:fitted").0.is_ok());
        let (Err(AllocateError::OutOfMemory(report)), _) = blocks("sizes:fitted,max_regions:1")
        else {
            continue;
        };
        assert!(!report.advice().contains("`sizes:fitted`"), "{report}");
    }
}

/// A device that refuses although it has the memory has failed; it is not asked for everything instead.
#[test]
fn a_failing_device_is_not_asked_for_all_its_memory() {
    use cubeyard_memory::device::{Fault, Faulty};
    let device = Arc::new(Faulty::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
    let allocator = allocator(device.clone(), "sizes:fitted");
    device.fail(Fault::From(0));
    assert!(allocator.allocate(mib(1)).is_err());
    assert_eq!(device.calls(), 3, "the configured sizes");
}

#[test]
fn regions_that_grow_fit_larger_requests_too() {
    for growth in ["growable(64MiB)", "recycle(64MiB)"] {
        let card = card(Bytes::gib(1));
        let config = format!("growth:{growth},sizes:fitted");
        let allocator = allocator(card.clone(), &config);
        let large = allocator.allocate(mib(700)).unwrap();
        let small = allocator.allocate(mib(1)).unwrap();
        assert_eq!(card.info().free, Bytes::gib(1) - mib(702), "one granule for the small one");
        assert_ne!(large.address().region_id, small.address().region_id);
    }
}

/// There were at most 64 regions.
#[test]
fn hundreds_of_regions() {
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), "fallback_sizes:[1MiB],max_regions:700");
    let mut blocks: Vec<_> = (0..700).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
    let Err(AllocateError::OutOfMemory(report)) = allocator.allocate(Bytes::new(1)) else {
        panic!("all regions are full")
    };
    assert_eq!(report.limit, RegionLimit::MaxRegions(700));
    let last = blocks.pop().unwrap().into_token();
    let (place, key) = last.to_parts();
    assert_eq!(AllocationToken::from_parts(place, key), last, "slots above 255 have tokens");
    allocator.free_token(last).unwrap();
    let mut blocks: Vec<_> = blocks.into_iter().map(Some).collect();
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    let again: Vec<_> = (0..351).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
    let table = allocator.segment_table();
    assert_eq!(table.entries().iter().flatten().count(), 700);
    drop((blocks, again));
    assert_eq!(allocator.trim(), mib(700));
    assert_eq!(card.info().free, Bytes::gib(1));
}

#[test]
fn the_table_of_a_device_limits_the_regions() {
    let card = Arc::new(Card::new(CardSpec::virtual_function(Bytes::gib(1), 16)));
    let allocator = allocator(card, "fallback_sizes:[1MiB],max_regions:700");
    let blocks: Vec<_> = std::iter::from_fn(|| allocator.allocate(mib(1)).ok()).collect();
    assert_eq!((blocks.len(), allocator.segment_table().entries().len()), (16, 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// As long as an entry and a slot are left, `fitted` serves every request that the device has room for.
    #[test]
    fn what_the_device_has_can_be_allocated(
        memory in (1_u64 << 14)..(64 << 20),
        sizes in prop::collection::vec(1_u64..(40 << 20), 1..30),
        configured in prop::sample::select(vec!["[1MiB]", "[8MiB;2MiB]", "[1TiB]", "[3000000;128]"]),
        all in any::<bool>(),
    ) {
        let memory = Bytes::new(memory);
        let card = Arc::new(Strict::new(Card::new(CardSpec::physical(memory))));
        let which = if all { "all" } else { "fitted" };
        let config = format!("fallback_sizes:{configured},sizes:{which},max_regions:64");
        let allocator = allocator(card.clone(), &config);
        let mut live: Vec<Allocation> = Vec::new();
        for size in sizes {
            let size = Bytes::new(size);
            let rounded = size.align_up(Bytes::new(128)).unwrap();
            let free = card.info().free.align_down(Bytes::new(128));
            let made = allocator.allocate(size);
            prop_assert!(made.is_ok() || free < rounded, "{} of {} were free", size, free);
            live.extend(made);
        }
        drop(live);
        allocator.trim();
        prop_assert_eq!(card.info().free, memory);
    }
}
