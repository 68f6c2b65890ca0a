//! Pools: private regions with statistics, limits and a release of their own.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::DeviceMemory;
use cubeyard_memory::flex::{
    AllocateError, FlexAllocator, Pool, PoolId, PoolSpec, RemedyStep, Shortage,
};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats;

use super::{ManualStreams, allocator, card, with_streams};

const SMALL: &str = "fallback_sizes:[8MiB;4MiB],block:best-fit";

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

fn pool(allocator: &FlexAllocator, name: &str) -> Pool {
    allocator.pool(PoolSpec::new(name))
}

#[test]
fn blocks_of_a_pool_lie_in_its_own_regions() {
    let allocator = allocator(card(mib(64)), SMALL);
    let (left, right) = (pool(&allocator, "left"), pool(&allocator, "right"));
    let blocks = [
        allocator.allocate(mib(1)).unwrap(),
        left.allocate(mib(1)).unwrap(),
        right.allocate(mib(1)).unwrap(),
    ];
    let regions: Vec<_> = blocks.iter().map(|block| block.address().region_id).collect();
    assert!(regions[0] != regions[1] && regions[1] != regions[2] && regions[0] != regions[2]);
    assert_eq!(blocks.each_ref().map(|block| block.pool().get()), [0, 1, 2]);
    assert_eq!(left.regions()[0].id, regions[1]);
    assert_eq!(allocator.segment_table().entries().iter().flatten().count(), 3, "one table");
    assert_eq!(allocator.pools().iter().map(|pool| pool.regions).sum::<u64>(), 3);
}

#[test]
fn a_limit_below_the_configured_sizes_is_the_size_of_the_region() {
    let allocator = allocator(card(mib(64)), SMALL);
    let pool = allocator.pool(PoolSpec::new("small").limit(mib(3)));
    let block = pool.allocate(mib(2)).unwrap();
    assert_eq!(pool.stats().reserved(), mib(3));
    let Err(AllocateError::OutOfMemory(report)) = pool.allocate(mib(2)) else { panic!() };
    assert_eq!(report.shortage, Shortage::Full);
    assert!(report.to_string().contains("pool `small` may reserve 3.00 MiB"), "{report}");
    let raised = report.remedies().iter().find_map(|remedy| match &remedy.step {
        RemedyStep::RaiseLimit { limit, .. } => Some(*limit),
        _ => None,
    });
    assert_eq!(raised, Some(mib(5)));
    pool.set_limit(raised);
    drop((pool.allocate(mib(2)).expect("the remedy was tried"), block));
}

#[test]
fn a_limit_bounds_the_memory_that_is_committed() {
    let allocator = allocator(card(mib(64)), "preset:grow");
    let pool = allocator.pool(PoolSpec::new("small").limit(mib(8)));
    let blocks: Vec<_> = std::iter::from_fn(|| pool.allocate(mib(2)).ok()).collect();
    assert_eq!((blocks.len(), pool.stats().reserved()), (4, mib(8)));
    let Err(AllocateError::OutOfMemory(report)) = pool.allocate(mib(3)) else { panic!() };
    let steps: Vec<_> = report.remedies().iter().map(|remedy| remedy.step.to_string()).collect();
    assert!(steps.iter().any(|step| step.starts_with("raise the limit")), "{steps:?}");
    drop(blocks);
    pool.allocate(mib(8)).expect("idle granules of the pool are given back first");
}

#[test]
fn a_dropped_pool_leaves_its_blocks_and_releases_its_regions_when_they_are_empty() {
    for config in [SMALL, "preset:grow", "fallback_sizes:[8MiB],region:thread-home"] {
        let card = card(mib(64));
        let allocator = allocator(card.clone(), config);
        let pool = pool(&allocator, "phase");
        let (first, second) = (pool.allocate(mib(1)).unwrap(), pool.allocate(mib(1)).unwrap());
        let id = pool.id();
        drop((pool.clone(), pool));
        let request = Request { pool: id, ..Request::new(mib(1)) };
        assert_eq!(allocator.allocate_for(&request).unwrap_err(), AllocateError::UnknownPool(id));
        assert_eq!(allocator.pools()[1].blocks, 2, "{config}");
        drop(first);
        assert!(second.address().offset < mib(8));
        assert!(card.info().free < card.info().total);
        drop(second);
        assert_eq!(card.info().free, card.info().total, "{config}: the region is released");
        assert_eq!(allocator.pools().len(), 1);
    }
}

/// The region of a dropped pool stays as long as a stream may access its ranges.
#[test]
fn a_dropped_pool_waits_for_its_streams() {
    let (card, streams) = (card(mib(64)), Arc::new(ManualStreams::default()));
    let allocator = with_streams(card.clone(), SMALL, streams.clone());
    let pool = pool(&allocator, "phase");
    drop(allocator.allocate_for(&Request { stream: 2, ..Request::new(mib(1)) }));
    let block = pool.allocate_for(&Request { stream: 1, ..Request::new(mib(1)) }).unwrap();
    let held = card.info().free;
    drop(pool);
    drop(block);
    assert_eq!(card.info().free, held, "stream 1 may still access it");
    streams.finish(1);
    drop(allocator.allocate_for(&Request { stream: 2, ..Request::new(mib(1)) }));
    assert!(card.info().free > held, "it has passed");
}

/// Neither a trim nor a request of another pool takes memory that a stream may still access.
#[test]
fn memory_of_another_pool_is_taken_only_when_its_stream_has_passed() {
    for config in ["growth:growable(64MiB)", "fallback_sizes:[8MiB],release:when_idle(1GiB)"] {
        let (card, streams) = (card(mib(8)), Arc::new(ManualStreams::default()));
        let allocator = with_streams(card.clone(), config, streams.clone());
        let (left, right) = (pool(&allocator, "left"), pool(&allocator, "right"));
        let on = |stream| Request { stream, ..Request::new(mib(6)) };
        drop(left.allocate_for(&on(2)));
        drop(left.allocate_for(&on(1)).unwrap());
        let (waits, free) = (streams.waits(), card.info().free);
        assert_eq!((left.trim(), card.info().free), (Bytes::ZERO, free), "{config}");
        let block = right.allocate_for(&on(2)).expect("it waits");
        assert!(streams.waits() > waits, "{config}: stream 1 was waited for");
        assert_eq!(left.stats().reserved(), Bytes::ZERO);
        drop(block);
    }
}

#[test]
fn a_trim_of_a_pool_leaves_other_pools() {
    let allocator = allocator(card(mib(64)), SMALL);
    let (left, right) = (pool(&allocator, "left"), pool(&allocator, "right"));
    for pool in [&left, &right] {
        drop(pool.allocate(mib(1)).unwrap());
    }
    drop(allocator.allocate(mib(1)).unwrap());
    assert_eq!(left.trim(), mib(8));
    let reserved: Vec<_> = allocator.pools().iter().map(|pool| pool.reserved).collect();
    assert_eq!(reserved, [mib(8), Bytes::ZERO, mib(8)]);
    assert_eq!(left.stats().key("num_device_free"), Some(1));
}

#[test]
fn idle_memory_of_another_pool_is_released_for_a_request() {
    let allocator = allocator(card(mib(8)), "fallback_sizes:[8MiB],release:when_idle(1GiB)");
    let (left, right) = (pool(&allocator, "left"), pool(&allocator, "right"));
    drop(left.allocate(mib(1)).unwrap());
    let block = right.allocate(mib(6)).expect("the idle region of the other pool is released");
    assert_eq!(left.stats().reserved(), Bytes::ZERO);
    let before = allocator.stats();
    assert!(left.allocate(mib(1)).is_err());
    assert_eq!(allocator.stats().allocated(), before.allocated());
    drop(block);
}

#[test]
fn each_stream_has_a_pool_if_configured() {
    let allocator = allocator(card(mib(64)), &format!("{SMALL},pools:stream"));
    let on = |stream| Request { stream, ..Request::new(mib(1)) };
    let blocks = [0, 1, 0, 7].map(|stream| allocator.allocate_for(&on(stream)).unwrap());
    let regions = blocks.each_ref().map(|block| block.address().region_id);
    assert!(regions[0] == regions[2] && regions[0] != regions[1] && regions[1] != regions[3]);
    let names: Vec<_> = allocator.pools().into_iter().map(|pool| pool.name).collect();
    assert_eq!(names, ["default", "stream 0", "stream 1", "stream 7"]);
    let first = allocator.stream_pool(0).unwrap();
    assert_eq!(first.stats().allocated(), mib(2));
    drop(first);
    assert_eq!(blocks[0].pool(), allocator.stream_pool(0).unwrap().id(), "it stays");
    assert!(super::allocator(card(mib(64)), SMALL).stream_pool(0).is_none());
}

#[test]
fn a_snapshot_names_pools_and_tags() {
    let allocator = allocator(card(mib(64)), &format!("{SMALL},history:100"));
    let (pool, tag) = (pool(&allocator, "graph"), allocator.tag("cache").unwrap());
    let block = pool.allocate_for(&Request { tag, ..Request::new(mib(1)) }).unwrap();
    let snapshot = allocator.snapshot();
    assert_eq!(snapshot.pools, [(pool.id(), "graph".to_owned())]);
    assert_eq!(snapshot.tags, ["cache"]);
    assert_eq!(snapshot.segments[0].pool, pool.id());
    assert_eq!(snapshot.segments[0].blocks[0].tag, tag);
    let last = snapshot.history.last().unwrap();
    assert_eq!((last.pool, last.tag), (pool.id(), tag));
    assert_eq!((block.pool(), block.tag()), (pool.id(), tag));
    let mut pickle = Vec::new();
    snapshot.write_pickle(0, &mut pickle).unwrap();
    let name = |name: &[u8]| pickle.windows(name.len()).any(|window| window == name);
    assert!(name(b"user_metadata") && name(b"cache"), "the tag of an event");
    assert_eq!(allocator.regions()[0].pool, pool.id());
    let token = block.into_token();
    assert_eq!(allocator.labels_of(token), Ok((pool.id(), tag)));
    allocator.free_token(token).unwrap();
}

#[test]
fn unknown_pools_and_tags_are_refused() {
    let (ours, theirs) = (allocator(card(mib(64)), SMALL), allocator(card(mib(64)), SMALL));
    let (pool, tag) = (pool(&theirs, "theirs"), theirs.tag("theirs").unwrap());
    let request = Request { pool: pool.id(), ..Request::new(mib(1)) };
    assert_eq!(ours.allocate_for(&request).unwrap_err(), AllocateError::UnknownPool(pool.id()));
    let request = Request { tag, ..Request::new(mib(1)) };
    assert_eq!(ours.allocate_for(&request).unwrap_err(), AllocateError::UnknownTag(tag));
    assert_eq!(ours.stats().get(stats::Quantity::Segment, stats::Pool::All).current, 0);
    assert_eq!(PoolId::DEFAULT.get(), 0);
}
