//! Limits of an allocator: the number of regions, the memory it keeps, and its report when memory runs out. Each test
//! describes a fixed bug.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{
    AllocateError, Allocation, FlexAllocator, FlexConfig, OutOfMemory, RegionLimit, Shortage,
};

use super::{allocator, card};

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

fn refused(result: Result<Allocation, AllocateError>) -> OutOfMemory {
    match result {
        Err(AllocateError::OutOfMemory(report)) => *report,
        other => panic!("out of memory was expected, not {other:?}"),
    }
}

/// The advice was to use a device with more memory, although the device had a terabyte left.
#[test]
fn advice_at_max_regions_is_to_raise_it() {
    let allocator = allocator(card(Bytes::gib(1024)), "fallback_sizes:[64MiB],max_regions:2");
    let _blocks = [allocator.allocate(mib(64)).unwrap(), allocator.allocate(mib(64)).unwrap()];
    let report = refused(allocator.allocate(mib(1)));
    assert_eq!(report.shortage, Shortage::Full);
    let advice = report.advice();
    assert!(advice.contains("max_regions reached, which is 2"), "{advice}");
    assert!(advice.contains("`max_regions:3` from the start"), "{advice}");
    assert!(!advice.contains("a device with more"), "{advice}");
}

/// The same for a full firmware table: more memory would not help either.
#[test]
fn advice_at_a_full_firmware_table_is_to_use_larger_regions() {
    let card = Arc::new(Card::new(CardSpec::virtual_function(Bytes::gib(1024), 2)));
    let allocator = allocator(card, "fallback_sizes:[64MiB]");
    let _blocks = [allocator.allocate(mib(64)).unwrap(), allocator.allocate(mib(64)).unwrap()];
    let advice = refused(allocator.allocate(mib(1))).advice();
    assert!(advice.contains("table") && advice.contains("2 entries"), "{advice}");
    assert!(advice.contains("`fallback_sizes:[1TiB]`"), "{advice}");
    assert!(!advice.contains("a device with more") && !advice.contains("max_regions"), "{advice}");
}

/// If both limits are reached, raising `max_regions` alone would not help.
#[test]
fn advice_at_both_limits_goes_by_the_table() {
    let card = Arc::new(Card::new(CardSpec::virtual_function(Bytes::gib(1024), 2)));
    let ours = allocator(card.clone(), "fallback_sizes:[64MiB],max_regions:1");
    let theirs = allocator(card, "fallback_sizes:[64MiB]");
    let own = ours.allocate(mib(64)).unwrap();
    let advice = refused(ours.allocate(mib(1))).advice();
    assert!(advice.contains("`max_regions:2`"), "the table has an entry left: {advice}");
    let other = theirs.allocate(mib(64)).unwrap();
    let report = refused(ours.allocate(mib(1)));
    assert_eq!(report.limit, RegionLimit::Table(2), "one of ours, one of another allocator's");
    assert!(!report.advice().contains("max_regions"), "{}", report.advice());
    drop((own, other));
}

/// Frees every other MiB of a region of 8 MiB and requests two contiguous MiB.
fn fragmented(device: Arc<dyn DeviceMemory>, config: &str) -> String {
    let allocator = allocator(device, config);
    let blocks: Vec<_> = (0..8).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
    let _kept: Vec<_> = blocks.into_iter().step_by(2).collect();
    let report = refused(allocator.allocate(mib(2)));
    assert_eq!(report.shortage, Shortage::Fragmented, "{config}");
    report.advice()
}

/// Best fit, lifetime and growable regions were recommended where none of them helps: every block is as long as the
/// holes, and every granule has a live block.
#[test]
fn advice_does_not_name_what_would_not_help() {
    for config in ["", ",block:best-fit", ",block:lifetime", ",history:100"] {
        let advice = fragmented(card(mib(8)), &format!("fallback_sizes:[8MiB]{config}"));
        assert!(advice.contains("compact(), which moves 2.00 MiB"), "{advice}");
        assert!(!advice.contains("`block:") && !advice.contains("`growth:"), "{advice}");
        assert_eq!(advice.contains("not tried"), !config.contains("history"), "{advice}");
    }
}

/// Compaction was recommended when it could not move anything.
#[test]
fn advice_names_compaction_only_where_a_block_can_move() {
    let allocator = allocator(card(mib(4)), "fallback_sizes:[4MiB]");
    let mut blocks: Vec<_> = (0..4).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
    blocks.remove(2);
    blocks.remove(0);
    let advice = refused(allocator.allocate(mib(2))).advice();
    assert!(advice.contains("compact()"), "{advice}");
    let pins: Vec<_> = blocks.iter().map(Allocation::pin).collect();
    let advice = refused(allocator.allocate(mib(2))).advice();
    assert!(!advice.contains("compact()"), "nothing can move: {advice}");
    drop(pins);
}

/// Idle regions were returned to the device when a request failed, although under `release:never` only `trim` may
/// release them.
#[test]
fn a_failed_allocation_keeps_idle_regions_under_release_never() {
    let card = card(mib(96));
    let allocator = allocator(card.clone(), "fallback_sizes:[64MiB;32MiB],release:never");
    let _kept = allocator.allocate(mib(40)).unwrap();
    drop(allocator.allocate(mib(30)).unwrap());
    let before = (allocator.regions(), card.info());
    assert_eq!((before.0.len(), before.1.free), (2, Bytes::ZERO));
    let report = refused(allocator.allocate(mib(60)));
    assert_eq!((allocator.regions(), card.info()), before, "a refusal changes nothing");
    assert!(!report.advice().contains("trim()"), "32 MiB more would not do: {report}");
    assert_eq!(allocator.trim(), mib(32), "`trim` gives back what is idle");
}

/// Idle regions are not released automatically here, so the advice must mention them if they block a request.
#[test]
fn advice_names_trim_where_idle_regions_are_in_the_way() {
    let allocator = allocator(card(mib(64)), "fallback_sizes:[64MiB],own_regions:[program]");
    drop(allocator.allocate(mib(1)).unwrap());
    let error = allocator.load_program(mib(1), 0).unwrap_err();
    assert!(error.to_string().contains("trim(), which gives back 64.00 MiB"), "{error}");
    assert_eq!(allocator.trim(), mib(64));
    allocator.load_program(mib(1), 0).expect("what was idle went back");
}

/// The owner of a leaked block has only its address, and compaction made that address invalid.
#[test]
fn compaction_leaves_blocks_known_by_address_alone_where_they_are() {
    let allocator = allocator(card(mib(64)), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let token = allocator.allocate(mib(1)).unwrap().into_token();
    let address = allocator.allocate(mib(1)).unwrap().leak();
    drop(low);
    assert_eq!(allocator.compact().commit(), 1, "the token's block follows, the other cannot");
    assert_eq!(allocator.address_of(token).unwrap().offset, Bytes::ZERO);
    allocator.deallocate(address).expect("the block is where its address says");
    allocator.free_token(token).unwrap();
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}

/// The same if the block is leaked between the plan and the commit.
#[test]
fn a_block_leaked_under_a_plan_stays_at_its_address() {
    let allocator = allocator(card(mib(64)), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(low);
    let plan = allocator.compact();
    assert_eq!(plan.moves().count(), 1);
    let address = high.leak();
    assert_eq!(plan.commit(), 0);
    allocator.deallocate(address).expect("the block is where its address says");
}

/// The RFC's workflow 4: `regions.size() == MAX_REGIONS` sets `regions_locked`. It was set only by the next request for
/// a region.
#[test]
fn the_last_region_that_may_be_locks_the_regions() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB],max_regions:2");
    let first = allocator.allocate(mib(64)).unwrap();
    assert!(!allocator.regions_locked());
    let second = allocator.allocate(mib(64)).unwrap();
    assert!(allocator.regions_locked(), "there are as many as may be");
    allocator.trim();
    assert!(allocator.regions_locked(), "none was idle");
    drop(first);
    allocator.trim();
    assert!(!allocator.regions_locked(), "there is room for one again");
    drop(second);
}

/// The device requires addresses at multiples of 128 bytes, but smaller alignments were accepted.
#[test]
fn an_alignment_below_the_hardwares_is_refused() {
    for text in ["alignment:64", "alignment:1"] {
        let error = text.parse::<FlexConfig>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("128"), "{error}");
    }
    let mut config = FlexConfig::default();
    config.alignment = Bytes::new(64);
    let error = FlexAllocator::builder(card(mib(64))).config(config).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`alignment`") && text.contains("64"), "{text}");
    assert!(text.contains("a power of two and at least 128"), "{text}");
    assert!("alignment:128".parse::<FlexConfig>().is_ok(), "the edge from the other side");
}
