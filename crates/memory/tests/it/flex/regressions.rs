//! Fixed bugs, each with its description.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, Card, CardSpec, DeviceMemory, Fault, Faulty, MemoryInfo, RegionHandle, RegionId,
};
use cubeyard_memory::flex::{
    AllocateError, Allocation, Budget, FlexAllocator, FlexConfig, LaunchError, OutOfMemory,
    PoolSpec, Shortage, TagId, Tiles, VirtualAddress,
};
use cubeyard_memory::policy::{Kind, Request};
use cubeyard_memory::stats::{Pool, Quantity};

use super::{ManualStreams, Strict, allocator, card, with_streams};

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

fn out_of_memory(result: Result<Allocation, AllocateError>) -> OutOfMemory {
    match result {
        Err(AllocateError::OutOfMemory(report)) => *report,
        other => panic!("out of memory was expected, not {other:?}"),
    }
}

/// A region without a kind was counted once per kind, so the limit seemed to be exceeded at a third of its value.
#[test]
fn when_idle_counts_each_idle_region_once() {
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), "fallback_sizes:[64MiB],release:when_idle(100MiB)");
    drop(allocator.allocate(mib(1)).unwrap());
    assert_eq!(allocator.stats().reserved(), mib(64), "64 MiB are not more than 100 MiB");
    let blocks = [allocator.allocate(mib(60)).unwrap(), allocator.allocate(mib(60)).unwrap()];
    drop(blocks);
    assert_eq!(card.info().free, Bytes::gib(1), "128 MiB are more than 100 MiB");
}

/// The blocks of a region were counted once per kind. So no region ever seemed to consist of movable blocks only, and
/// none was emptied.
#[test]
fn compaction_empties_a_region_into_another() {
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), "fallback_sizes:[64MiB],region:fill-first");
    let first = allocator.allocate(mib(40)).unwrap();
    let second = allocator.allocate(mib(40)).unwrap();
    let third = allocator.allocate(mib(20)).unwrap();
    drop(first);
    assert_eq!(card.regions(), 2);
    let plan = allocator.compact();
    assert_eq!(plan.moves().count(), 1);
    assert_eq!(plan.commit(), 1);
    assert_eq!(second.address().region_id, third.address().region_id);
    assert_eq!(allocator.trim(), mib(64));
    assert_eq!(card.regions(), 1);
}

/// The note that a pin leaves on a block was never removed.
#[test]
fn a_block_that_was_pinned_once_can_be_moved_again() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(high.pin());
    drop(low);
    assert_eq!(allocator.compact().commit(), 1);
    assert_eq!(high.address().offset, Bytes::ZERO);
}

/// Compaction aligned blocks to the granule, whatever alignment was requested.
#[test]
fn compaction_keeps_the_alignment_that_was_asked_for() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let first = allocator.allocate(Bytes::new(128)).unwrap();
    let gap = allocator.allocate(mib(2)).unwrap();
    let request = Request { alignment: mib(1), ..Request::new(mib(1)) };
    let aligned = allocator.allocate_for(&request).unwrap();
    assert_eq!(aligned.address().offset, mib(3));
    drop(gap);
    assert_eq!(allocator.compact().commit(), 1);
    assert_eq!(aligned.address().offset, mib(1));
    drop(first);
    assert_eq!(allocator.compact().commit(), 1, "the alignment is kept, not the place");
    assert_eq!(aligned.address().offset, Bytes::ZERO);
}

/// The room of a plan kept a copy of the block's tag from the time of planning.
#[test]
fn a_block_leaked_between_plan_and_commit_is_freed_by_its_token() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(low);
    let plan = allocator.compact();
    let token = high.into_token();
    assert_eq!(plan.commit(), 1);
    assert_eq!(allocator.address_of(token).unwrap().offset, Bytes::ZERO);
    allocator.free_token(token).unwrap();
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}

/// The second plan treated the room reserved by the first plan as an ordinary block, and moved it away.
#[test]
fn two_plans_at_once_do_not_move_each_others_room() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let blocks: Vec<_> = (0..4).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
    let mut blocks = blocks.into_iter();
    let (a, b) = (blocks.next().unwrap(), blocks.next().unwrap());
    let (c, d) = (blocks.next().unwrap(), blocks.next().unwrap());
    drop(b);
    let first = allocator.compact();
    drop(a);
    let second = allocator.compact();
    second.commit();
    first.commit();
    let places = [c.address().offset, d.address().offset];
    assert_ne!(places[0], places[1]);
    drop((c, d));
    assert_eq!(allocator.stats().get(Quantity::Active, Pool::All).current, 0);
    assert_eq!(allocator.regions()[0].largest, mib(64));
}

/// As long as a plan existed, the blocks that it might move were counted twice as allocations.
#[test]
fn the_room_of_a_plan_is_active_but_no_allocation() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(low);
    let plan = allocator.compact();
    let stats = allocator.stats();
    assert_eq!(stats.get(Quantity::Allocation, Pool::All).current, 1);
    assert_eq!(stats.get(Quantity::ActiveBytes, Pool::All).current, mib(2).get());
    let place = plan.moves().next().unwrap().to;
    assert!(allocator.deallocate(place).is_err(), "nobody can free it but the plan");
    drop(plan);
    assert_eq!(allocator.stats().get(Quantity::Active, Pool::All).current, 1);
    drop(high);
}

/// A moved block that was freed by its address stayed in the table of moved blocks, which kept its region alive
/// forever.
#[test]
fn a_moved_block_freed_by_address_leaves_nothing_behind() {
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(low);
    assert_eq!(allocator.compact().commit(), 1);
    let address = high.leak();
    allocator.deallocate(address).unwrap();
    drop(allocator);
    assert_eq!(card.info().free, Bytes::gib(1));
}

/// A leaked block that had been moved kept its region alive after the allocator and all owners were gone.
#[test]
fn a_moved_and_leaked_block_goes_with_the_allocator() {
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), "fallback_sizes:[64MiB]");
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(low);
    assert_eq!(allocator.compact().commit(), 1);
    high.leak();
    drop(allocator);
    assert_eq!(card.info().free, Bytes::gib(1));
}

/// A region that never held a block dropped out of the statistics when it was released.
#[test]
fn a_region_that_was_never_used_stays_in_the_statistics() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB],acquire:eager(2)");
    assert_eq!(allocator.trim(), mib(128));
    let segments = allocator.stats().get(Quantity::Segment, Pool::All);
    assert_eq!((segments.current, segments.peak, segments.allocated, segments.freed), (0, 2, 2, 2));
}

/// Such a region was acquired for a request that its usable part could not hold, and its remainder was missing from
/// snapshots.
#[test]
fn a_region_that_is_no_multiple_of_the_granule_is_used_as_far_as_it_goes() {
    let card = Arc::new(Strict::new(Card::new(CardSpec::physical(Bytes::gib(1)))));
    let allocator = allocator(card.clone(), "fallback_sizes:[1000]");
    let report = out_of_memory(allocator.allocate(Bytes::new(897)));
    assert_eq!(report.shortage, Shortage::TooLarge);
    assert_eq!(card.regions(), 0, "no region could have held it");
    let block = allocator.allocate(Bytes::new(896)).unwrap();
    let snapshot = allocator.snapshot();
    let segment = &snapshot.segments[0];
    assert_eq!(segment.blocks.iter().map(|block| block.size).sum::<Bytes>(), segment.total_size);
    assert_eq!(allocator.stats().reserved(), segment.total_size);
    drop(block);
}

/// Ties went to the lower slot, which after a release can hold the younger region.
#[test]
fn a_tie_goes_to_the_older_region_even_after_a_release() {
    let allocator = allocator(card(Bytes::gib(1)), "fallback_sizes:[64MiB]");
    let first = allocator.allocate(mib(64)).unwrap();
    let second = allocator.allocate(mib(64)).unwrap();
    drop(first);
    allocator.trim();
    let third = allocator.allocate(mib(64)).unwrap();
    let older = second.address().region_id;
    drop((second, third));
    assert_eq!(allocator.regions()[0].id, older, "the oldest first");
    assert_eq!(allocator.allocate(mib(1)).unwrap().address().region_id, older);
}

/// Blocks that waited for a stream when the last owner was dropped kept themselves and their regions alive.
#[test]
fn blocks_that_wait_for_streams_do_not_outlive_everybody() {
    let card = card(Bytes::gib(1));
    let streams = Arc::new(ManualStreams::default());
    let allocator = with_streams(card.clone(), "fallback_sizes:[64MiB]", streams.clone());
    let first = allocator.allocate(mib(1)).unwrap();
    let second = allocator.allocate(mib(1)).unwrap();
    first.record_stream(7);
    second.record_stream(7);
    drop(first);
    drop(allocator);
    assert_eq!(card.info().free, Bytes::gib(1) - mib(64), "a handle keeps the region");
    drop(second);
    assert_eq!(card.info().free, Bytes::gib(1));
    assert!(streams.waits() > 0, "the memory went back when the stream was done with it");
}

/// A block mailed to the owner of its region was not known to wait for a stream, so memory seemed to have run out.
#[test]
fn blocks_left_for_their_owner_are_waited_for_when_memory_runs_out() {
    let streams = Arc::new(ManualStreams::default());
    let config = "fallback_sizes:[64MiB],max_regions:2,region:thread-home";
    let allocator = with_streams(card(mib(64)), config, streams);
    let block = allocator.allocate(mib(60)).unwrap();
    block.record_stream(3);
    std::thread::spawn(move || drop(block)).join().unwrap();
    allocator.allocate(mib(60)).unwrap();
}

/// Large stream numbers were truncated to 27 bits, and events were recorded on streams that do not exist.
#[test]
fn events_are_recorded_on_the_very_stream_however_large_its_number() {
    let streams = Arc::new(ManualStreams::default());
    let allocator = with_streams(card(Bytes::gib(1)), "fallback_sizes:[64MiB]", streams.clone());
    let large = u32::MAX - 5;
    let request = Request { stream: large, ..Request::new(mib(1)) };
    let block = allocator.allocate_for(&request).unwrap();
    block.record_stream(2);
    drop(block);
    allocator.synchronize();
    assert_eq!(streams.recorded(), [2], "its own stream is in order");
    drop(allocator.allocate(mib(1)).unwrap());
    drop(allocator.allocate_for(&request).unwrap());
    allocator.synchronize();
    let mut recorded = streams.recorded();
    recorded.sort_unstable();
    recorded.dedup();
    assert_eq!(recorded, [0, 2, large]);
    assert_eq!(allocator.stats().get(Quantity::Active, Pool::All).current, 0);
}

/// When compaction moved such a block, its old place waited for a stream that does not exist.
#[test]
fn a_moved_block_waits_for_its_very_stream_however_large_its_number() {
    let streams = Arc::new(ManualStreams::default());
    let allocator = with_streams(card(Bytes::gib(1)), "fallback_sizes:[64MiB]", streams.clone());
    let large = u32::MAX - 5;
    let on = |stream| Request { stream, ..Request::new(mib(1)) };
    let below = allocator.allocate_for(&on(large)).unwrap();
    let _moved = allocator.allocate_for(&on(large)).unwrap();
    drop(below);
    // A second stream appears: from now on blocks wait, and the first stream is waited for once.
    drop(allocator.allocate_for(&on(2)).unwrap());
    allocator.synchronize();
    let before = streams.recorded().len();
    assert_eq!(allocator.compact().commit(), 1);
    allocator.synchronize();
    assert_eq!(streams.recorded()[before..], [large]);
}

/// Only the text form of a configuration was checked; invalid values in a struct made calls panic.
#[test]
fn an_impossible_configuration_is_refused_when_the_allocator_is_made() {
    let build = |change: fn(&mut FlexConfig)| {
        let mut config = FlexConfig::default();
        change(&mut config);
        FlexAllocator::builder(card(Bytes::gib(16))).config(config).build().map(drop)
    };
    assert!(build(|_| {}).is_ok());
    assert!(build(|config| config.max_regions = 0).is_err());
    assert!(build(|config| config.max_regions = 1025).is_err());
    assert!(build(|config| config.alignment = Bytes::new(96)).is_err());
    assert!(build(|config| config.alignment = Bytes::ZERO).is_err());
    assert!(build(|config| config.fallback_sizes.clear()).is_err());
}

/// The granules of such a block were checked one by one before the request was compared with the device's memory.
#[test]
fn more_than_the_device_has_is_refused_at_once_in_a_huge_growable_region() {
    let allocator = allocator(card(Bytes::gib(1)), "growth:growable(4194304TiB)");
    let report = out_of_memory(allocator.allocate(Bytes::gib(1 << 31)));
    assert_eq!(report.shortage, Shortage::TooLarge);
    assert_eq!(report.longest_block, Bytes::gib(1));
}

/// A fallback size beyond the device's total memory was considered possible.
#[test]
fn more_than_the_device_has_is_too_big_for_any_region() {
    let allocator = allocator(card(Bytes::gib(8)), "");
    let report = out_of_memory(allocator.allocate(Bytes::gib(10)));
    assert_eq!((report.shortage, report.longest_block), (Shortage::TooLarge, Bytes::gib(8)));
}

/// First fit chose a low place without memory, which could not be committed, although the region had room in committed
/// memory.
#[test]
fn a_full_device_still_serves_from_what_is_committed() {
    let allocator = allocator(card(mib(4)), "growth:growable(64MiB)");
    let low = allocator.allocate(mib(2)).unwrap();
    let high = allocator.allocate(mib(1)).unwrap();
    drop(low);
    allocator.trim();
    let other = FlexAllocator::builder(Arc::clone(allocator.device()))
        .config("growth:growable(64MiB)".parse().unwrap())
        .build()
        .unwrap();
    let taken = other.allocate(mib(2)).unwrap();
    let block = allocator.allocate(Bytes::kib(100)).unwrap();
    assert_eq!(block.address().offset, mib(3), "behind the block that keeps its granule");
    assert_eq!(allocator.stats().reserved(), mib(2));
    drop((taken, high));
}

/// The tables of two virtual functions use the same indices, so a foreign operand was resolved to an address of this
/// allocator.
#[test]
fn an_operand_of_another_allocator_is_refused_in_vf_mode_too() {
    let vf = || Arc::new(Card::new(CardSpec::virtual_function(Bytes::gib(16), 8)));
    let (ours, theirs) = (allocator(vf(), ""), allocator(vf(), ""));
    let program = ours.load_program(Bytes::kib(64), 2).unwrap();
    let own = ours.allocate(mib(1)).unwrap();
    let foreign = theirs.allocate(mib(1)).unwrap();
    let refused = ours.launch(&program, [&own, &foreign]).unwrap_err();
    assert!(matches!(refused, LaunchError::UnknownSegment { operand: 1, .. }), "{refused}");
    assert!(ours.launch(&program, [&own, &own]).is_ok());
    let elsewhere = theirs.launch(&program, [&foreign, &foreign]).unwrap_err();
    assert!(matches!(elsewhere, LaunchError::ForeignProgram { .. }), "{elsewhere}");
}

/// The offset of a tile exceeded 64 bits.
#[test]
fn tiles_beyond_64_bits_are_refused() {
    let base = VirtualAddress { region_id: RegionId::new(0), offset: Bytes::new(u64::MAX - 10) };
    let tiles = Tiles::new(base, Bytes::new(100), Bytes::new(10), Bytes::new(10));
    assert!(matches!(tiles, Err(LaunchError::BadTile { .. })));
}

/// A region that became idle when a stream passed was not noticed.
#[test]
fn when_idle_also_sees_regions_that_streams_leave_idle() {
    let card = card(Bytes::gib(1));
    let streams = Arc::new(ManualStreams::default());
    let config = "fallback_sizes:[64MiB],release:when_idle(0)";
    let allocator = with_streams(card.clone(), config, streams.clone());
    let block = allocator.allocate(mib(1)).unwrap();
    let other = allocator.allocate(mib(64)).unwrap();
    block.record_stream(1);
    drop(block);
    assert_eq!(card.regions(), 2);
    streams.finish(0);
    streams.finish(1);
    allocator.synchronize();
    assert_eq!(card.regions(), 1, "the stream left a region idle");
    drop(other);
    assert_eq!(card.regions(), 0);
}

/// Regions without memory have nothing to return, but their slot was needed.
#[test]
fn an_empty_region_of_one_kind_makes_way_for_one_of_another() {
    let config =
        "growth:growable(64MiB),max_regions:1,own_regions:[program],release:when_idle(1GiB)";
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), config);
    let block = allocator.allocate(mib(1)).unwrap();
    drop(block);
    allocator.trim();
    drop(allocator.allocate(mib(1)).unwrap());
    let program = allocator.load_program(mib(1), 1).unwrap();
    assert_eq!(program.memory().kind(), Kind::Program);
    assert_eq!(card.regions(), 1);
}

/// The clock of the history was called under the region's lock, so it could not query the allocator.
#[test]
fn the_clock_may_look_at_the_allocator() {
    let seen = Arc::new(OnceLock::<FlexAllocator>::new());
    let inside = Arc::clone(&seen);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let clock = move || {
        let allocated = inside.get().map_or(0, |allocator| allocator.stats().allocated().get());
        assert!(allocated <= mib(1).get());
        counted.fetch_add(1, Ordering::Relaxed) as u64
    };
    let config: FlexConfig = "fallback_sizes:[64MiB],history:100".parse().unwrap();
    let built = FlexAllocator::builder(card(Bytes::gib(1))).config(config).clock(clock).build();
    let allocator = built.unwrap();
    seen.set(allocator.clone()).unwrap();
    drop(allocator.allocate(mib(1)).unwrap());
    allocator.trim();
    assert!(calls.load(Ordering::Relaxed) > 0);
    let times: Vec<_> = allocator.snapshot().history.iter().map(|entry| entry.time_us).collect();
    assert!(times.is_sorted(), "{times:?}");
}

/// A device with a cache of blocks, which it frees when it is asked for memory.
struct Caching {
    card: Card,
    cached: std::sync::Mutex<Vec<Allocation>>,
}

impl Caching {
    fn let_go(&self) {
        let cached = std::mem::take(&mut *self.cached.lock().unwrap());
        drop(cached);
    }
}

impl DeviceMemory for Caching {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.let_go();
        self.card.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.card.release(region);
    }
    fn info(&self) -> MemoryInfo {
        self.card.info()
    }
    fn granule(&self) -> Option<Bytes> {
        self.card.granule()
    }
    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.card.try_reserve(size)
    }
    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        self.let_go();
        self.card.commit(region, offset, size)
    }
    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        self.card.decommit(region, offset, size);
    }
}

/// The same during a commit: returning idle memory waited for the commit.
#[test]
fn a_device_may_free_blocks_while_it_is_asked_to_commit() {
    let card = Card::new(CardSpec::physical(mib(64)));
    let device = Arc::new(Caching { card, cached: std::sync::Mutex::default() });
    let config = "growth:growable(8MiB),release:when_idle(0),region:fill-first";
    let allocator = allocator(device.clone(), config);
    let first = allocator.allocate(mib(6)).unwrap();
    let cached = allocator.allocate(mib(4)).unwrap();
    assert_ne!(first.address().region_id, cached.address().region_id);
    device.cached.lock().unwrap().push(cached);
    let more = allocator.allocate(mib(2)).unwrap();
    drop((first, more));
    assert_eq!(device.info().free, mib(64));
}

/// A device frees a cached block when it is asked for memory. The free tried to release the region and waited for the
/// end of the acquisition, which in turn waited for the free.
#[test]
fn a_device_may_free_blocks_while_it_is_asked_for_memory() {
    let card = Card::new(CardSpec::physical(mib(64)));
    let device = Arc::new(Caching { card, cached: std::sync::Mutex::default() });
    let config = "fallback_sizes:[64MiB],release:when_idle(0)";
    let allocator = allocator(device.clone(), config);
    let cached = allocator.allocate(mib(40)).unwrap();
    device.cached.lock().unwrap().push(cached);
    let block = allocator.allocate(mib(40)).unwrap();
    drop(block);
    assert_eq!(device.info().free, mib(64), "what was put off is done when the device is free");
    assert!(device.cached.lock().unwrap().is_empty());
}

/// Every thread that found no room acquired a region, although the first new region had room for all.
#[test]
fn threads_that_start_at_once_share_one_new_region() {
    let card = Arc::new(Strict::new(Card::new(CardSpec::physical(Bytes::gib(1)))));
    for _ in 0..20 {
        let allocator = allocator(card.clone(), "fallback_sizes:[64MiB]");
        let barrier = Barrier::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    barrier.wait();
                    let block = allocator.allocate(mib(1)).unwrap();
                    barrier.wait();
                    drop(block);
                });
            }
        });
        assert_eq!(allocator.regions().len(), 1);
    }
}

/// An allocator whose device failed before it provided any region was locked forever: there was no region whose release
/// would have unlocked it.
#[test]
fn a_trim_unlocks_an_allocator_without_regions() {
    let device = Arc::new(Faulty::new(Card::new(CardSpec::physical(Bytes::gib(16)))));
    device.fail(Fault::From(0));
    let allocator = allocator(device.clone(), "preset:rfc");
    assert!(out_of_memory(allocator.allocate(mib(1))).regions_locked);
    device.fail(Fault::Never);
    assert!(allocator.allocate(mib(1)).is_err(), "as the RFC says");
    assert_eq!(allocator.trim(), Bytes::ZERO);
    assert!(!allocator.regions_locked());
    allocator.allocate(mib(1)).unwrap();
}

/// Calls refused by the device were counted as successful.
#[test]
fn only_what_the_device_gave_counts_as_given() {
    let allocator = allocator(card(mib(40)), "fallback_sizes:[128MiB;64MiB;32MiB]");
    let block = allocator.allocate(mib(1)).unwrap();
    assert_eq!(allocator.stats().counters.device_allocs, 1);
    drop(block);
    allocator.trim();
    assert_eq!(allocator.stats().counters.device_frees, 1);
}

/// A plan reserves room for the size of a block at that time. A block that grew before the commit moved into the shorter
/// room, and overlapped the block behind it.
#[test]
fn a_block_that_was_resized_after_the_plan_stays() {
    for size in [Bytes::mib(3), Bytes::new(1000)] {
        let allocator = allocator(card(Bytes::mib(16)), "fallback_sizes:[16MiB]");
        let low = allocator.allocate(Bytes::mib(1)).unwrap();
        let wall = allocator.allocate(Bytes::mib(1)).unwrap();
        let high = allocator.allocate(Bytes::mib(1)).unwrap();
        let pin = wall.pin();
        drop(low);
        let address = high.address();
        let plan = allocator.compact();
        assert_eq!(plan.moves().map(|planned| planned.from).collect::<Vec<_>>(), [address]);
        high.resize(size).unwrap();
        assert_eq!(plan.commit(), 0);
        assert_eq!((high.address(), high.requested()), (address, size));
        drop(pin);
    }
}

/// A block that waited for another stream when its allocator was dropped did not wait for its own stream, and its region
/// was released while that stream could access it.
#[test]
fn a_block_that_waits_when_the_allocator_is_dropped_waits_for_its_own_stream() {
    let (card, streams) = (card(mib(16)), Arc::new(ManualStreams::default()));
    let allocator = with_streams(card.clone(), "fallback_sizes:[8MiB]", streams.clone());
    let on = |stream| allocator.allocate_for(&Request { stream, ..Request::new(mib(1)) }).unwrap();
    let (block, other) = (on(0), on(1));
    block.record_stream(1);
    drop((block, other));
    let before = streams.recorded().len();
    drop(allocator);
    assert_eq!(card.info().free, mib(16));
    let mut waited = streams.recorded().split_off(before);
    waited.sort_unstable();
    assert!(waited.contains(&0), "{waited:?}");
}

/// With recycling, a resume plans for all regions first, and each plan takes idle granules. If the device refused the
/// first one, the granules of the others were counted as returned, but were not.
#[test]
fn a_refused_resume_returns_the_idle_granules_of_all_regions() {
    let device = Arc::new(Strict::new(Faulty::new(Card::new(CardSpec::physical(mib(64))))));
    let allocator = allocator(device.clone(), "growth:recycle(16MiB)");
    let tag = allocator.tag("weights").unwrap();
    let pools = [PoolSpec::new("one"), PoolSpec::new("two")].map(|spec| allocator.pool(spec));
    let place = |tag| {
        pools
            .each_ref()
            .map(|pool| pool.allocate_for(&Request { tag, ..Request::new(mib(2)) }).unwrap())
    };
    let (weights, others) = (place(tag), place(TagId::NONE));
    assert_eq!(allocator.pause_tag(tag).unwrap(), mib(4));
    drop(others);
    device.inner().fail(Fault::From(0));
    allocator.resume_tag(tag).unwrap_err();
    let info = device.info();
    assert_eq!(allocator.stats().reserved(), info.total - info.free);
    device.inner().fail(Fault::Never);
    assert_eq!(allocator.resume_tag(tag).unwrap(), mib(4));
    drop((weights, pools));
    allocator.trim();
    assert_eq!(device.info().free, mib(64));
}

/// A block that a thread frees in the region of another one is passed on later. Until then it counted against a growth:
/// for the budget of its tag, and as an obstacle.
#[test]
fn a_block_grows_although_frees_have_not_been_passed_on() {
    let config = "fallback_sizes:[16MiB],region:thread-home,max_regions:64";
    let allocator = allocator(card(mib(64)), config);
    let tag = allocator.tag("cache").unwrap();
    allocator.set_budget(tag, Budget { hard: Some(mib(4)), soft: None }).unwrap();
    let request = Request { tag, ..Request::new(mib(2)) };
    let there = || [(); 2].map(|()| allocator.allocate_for(&request).unwrap());
    let [first, second] =
        std::thread::scope(|scope| scope.spawn(there).join().expect("there is room"));
    assert_eq!(first.address().offset + mib(2), second.address().offset);
    drop(second);
    first.resize(mib(4)).unwrap();
    assert_eq!(allocator.tag_report(tag).unwrap().allocated, mib(4));
}
