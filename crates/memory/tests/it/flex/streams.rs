//! Frees that wait for streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Action, Allocation, BlockState, EventId, FlexAllocator, StreamEvents};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{Pool, Quantity};

use super::{ManualStreams, card, with_streams};

const CONFIG: &str = "fallback_sizes:[64MiB],max_regions:1,history:100";

fn new() -> (FlexAllocator, Arc<ManualStreams>) {
    let streams = Arc::new(ManualStreams::default());
    (with_streams(card(Bytes::mib(64)), CONFIG, streams.clone()), streams)
}

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

fn on(stream: u32, size: Bytes) -> Request {
    Request { stream, ..Request::new(size) }
}

/// Returns the bytes of allocations and the bytes in use.
fn figures(allocator: &FlexAllocator) -> (u64, u64) {
    let stats = allocator.stats();
    let current = |quantity| stats.get(quantity, Pool::All).current >> 20;
    (current(Quantity::AllocatedBytes), current(Quantity::ActiveBytes))
}

fn actions(allocator: &FlexAllocator) -> Vec<Action> {
    let history = allocator.snapshot().history;
    let actions = history.iter().map(|entry| entry.action);
    actions.filter(|action| *action != Action::Snapshot).collect()
}

#[test]
fn with_one_stream_frees_are_immediate() {
    let (allocator, streams) = new();
    let block = allocator.allocate_for(&on(4, mib(1))).unwrap();
    drop(block);
    assert_eq!(figures(&allocator), (0, 0));
    assert_eq!((streams.recorded(), streams.waits()), (vec![], 0));
}

#[test]
fn a_block_that_another_stream_uses_is_freed_in_two_phases() {
    let (allocator, streams) = new();
    let block = allocator.allocate(mib(1)).unwrap();
    block.record_stream(1);
    block.record_stream(1);
    let place = block.address();
    drop(block);
    assert_eq!(streams.recorded(), [1], "its own stream is in order");
    assert_eq!(figures(&allocator), (0, 1), "let go, but in use");
    let snapshot = allocator.snapshot();
    let block = snapshot.segments[0].blocks[0];
    assert_eq!((block.state, block.size), (BlockState::PendingFree, mib(1)));
    assert_eq!(block.state.name(), "active_pending_free");
    assert_ne!(allocator.allocate(mib(1)).unwrap().address(), place, "not used again yet");
    streams.finish(1);
    assert_eq!(allocator.allocate(mib(1)).unwrap().address(), place);
    let phases = [Action::FreeRequested, Action::FreeCompleted];
    let of_frees = actions(&allocator).into_iter().filter(|action| phases.contains(action));
    assert_eq!(of_frees.take(2).collect::<Vec<_>>()[0], Action::FreeRequested);
}

#[test]
fn blocks_become_free_in_the_order_of_their_streams() {
    let (allocator, streams) = new();
    let blocks: Vec<_> = (0..3).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
    for (block, stream) in blocks.iter().zip([1, 2, 1]) {
        block.record_stream(stream);
    }
    blocks.into_iter().for_each(drop);
    assert_eq!(figures(&allocator), (0, 3));
    streams.finish(2);
    allocator.trim();
    assert_eq!(figures(&allocator), (0, 2), "the second waited for nothing else");
    streams.finish(1);
    allocator.trim();
    assert_eq!(figures(&allocator), (0, 0));
    assert_eq!(allocator.regions(), [], "and the region is given back");
}

/// Streams that are all busy or all idle.
#[derive(Debug, Default)]
struct AllStreams {
    are_idle: AtomicBool,
}

impl StreamEvents for AllStreams {
    fn record(&self, _: u32) -> EventId {
        EventId(0)
    }

    fn is_complete(&self, _: EventId) -> bool {
        self.are_idle.load(Ordering::Relaxed)
    }

    fn wait(&self, _: EventId) {
        self.are_idle.store(true, Ordering::Relaxed);
    }
}

/// The range of a block that another stream had used waited for its own stream only after the trim.
#[test]
fn a_trim_returns_everything_when_all_streams_are_idle() {
    let streams = Arc::new(AllStreams::default());
    let allocator = with_streams(card(Bytes::mib(64)), CONFIG, streams.clone());
    drop(allocator.allocate_for(&on(1, mib(1))).unwrap());
    let block = allocator.allocate_for(&on(0, mib(1))).unwrap();
    block.record_stream(2);
    streams.are_idle.store(false, Ordering::Relaxed);
    drop(block);
    assert_eq!(allocator.trim(), Bytes::ZERO);
    streams.are_idle.store(true, Ordering::Relaxed);
    assert_eq!(allocator.trim(), mib(64));
    assert_eq!(figures(&allocator), (0, 0));
}

#[test]
fn a_second_stream_waits_once_for_the_first() {
    let (allocator, streams) = new();
    drop(allocator.allocate(mib(1)).unwrap());
    assert_eq!(streams.waits(), 0);
    let first = allocator.allocate_for(&on(1, mib(1))).unwrap();
    assert_eq!((streams.recorded(), streams.waits()), (vec![0], 1));
    let second = allocator.allocate_for(&on(2, mib(1))).unwrap();
    assert_eq!(streams.waits(), 1, "once");
    assert_eq!(allocator.stats().counters.sync_all_streams, 1);
    let places = [&first, &second].map(Allocation::address);
    drop((first, second));
    assert_eq!(figures(&allocator), (0, 0), "each stream may take its own range at once");
    assert_eq!(streams.recorded(), [0], "nobody else has asked yet");
    for (stream, place) in [2, 1].into_iter().zip(places.into_iter().rev()) {
        let block = allocator.allocate_for(&on(stream, mib(1))).unwrap();
        assert_eq!(block.address(), place);
    }
}

#[test]
fn another_stream_takes_a_range_when_its_stream_has_passed() {
    let (allocator, streams) = new();
    drop(allocator.allocate(mib(1)).unwrap());
    let block = allocator.allocate_for(&on(1, mib(1))).unwrap();
    let place = block.address();
    drop(block);
    let other = allocator.allocate(mib(1)).unwrap();
    assert_ne!(other.address(), place, "stream 1 may still access it");
    assert_eq!(streams.recorded(), [0, 1], "one event, now that another stream asks");
    streams.finish(1);
    assert_eq!(allocator.allocate(mib(1)).unwrap().address(), place);
    assert_eq!(streams.waits(), 1, "for the first stream, once");
}

#[test]
fn a_stream_that_works_alone_records_no_event() {
    let (allocator, streams) = new();
    let _second = allocator.allocate_for(&on(1, mib(1))).unwrap();
    let third = allocator.allocate(mib(1)).unwrap();
    let place = third.address();
    drop(third);
    let again = || assert_eq!(allocator.allocate(mib(1)).unwrap().address(), place);
    let before = streams.recorded().len();
    (0..1000).for_each(|_| again());
    let soon = streams.recorded().len();
    assert!(soon - before <= 1000 / 16, "an event for 16 MiB");
    (0..1000).for_each(|_| again());
    assert_eq!(streams.recorded().len(), soon, "it has been alone for long");
    assert_eq!(allocator.stats().reserved(), mib(64));
}

#[test]
fn a_stream_joins_its_ranges_with_free_ones_before_memory_is_waited_for() {
    let (allocator, streams) = new();
    drop(allocator.allocate_for(&on(1, mib(1))).unwrap());
    let low = allocator.allocate(mib(30)).unwrap();
    let high = allocator.allocate(mib(20)).unwrap();
    let waits = streams.waits();
    drop(high);
    let place = low.address();
    drop(low);
    // 50 MiB of stream 0, 14 MiB free for all.
    assert_eq!(allocator.allocate(mib(64)).unwrap().address(), place);
    assert_eq!(streams.waits(), waits);
    drop(allocator.allocate_for(&on(1, mib(64))).unwrap());
    assert_eq!(streams.waits(), waits + 1, "another stream has to wait");
}

#[test]
fn memory_that_has_run_out_is_waited_for() {
    let (allocator, streams) = new();
    let block = allocator.allocate(mib(64)).unwrap();
    block.record_stream(1);
    drop(block);
    let before = allocator.stats().counters.sync_all_streams;
    let block = allocator.allocate(mib(64)).unwrap();
    assert_eq!(streams.waits(), 1, "for the other stream");
    assert_eq!(allocator.stats().counters.sync_all_streams, before + 1);
    assert_eq!(allocator.stats().counters.alloc_retries, 1);
    drop(block);
}

#[test]
fn synchronize_leaves_nothing_waiting() {
    let (allocator, streams) = new();
    for stream in 1..20 {
        let block = allocator.allocate(mib(1)).unwrap();
        block.record_stream(stream % 5 + 1);
        drop(block);
    }
    assert_eq!(figures(&allocator), (0, 19));
    allocator.synchronize();
    assert_eq!(figures(&allocator), (0, 0));
    assert!(streams.waits() <= 6, "once for each stream");
    let waits = streams.waits();
    allocator.synchronize();
    assert_eq!(streams.waits(), waits, "there is nothing to wait for");
}

#[test]
fn a_block_dropped_under_a_pin_waits_for_its_streams_after_that() {
    let (allocator, streams) = new();
    let block = allocator.allocate(mib(1)).unwrap();
    block.record_stream(3);
    let pin = block.pin();
    drop(block);
    assert_eq!((figures(&allocator), streams.recorded()), ((1, 1), vec![]), "the pin holds it");
    drop(pin);
    assert_eq!((figures(&allocator), streams.recorded()), ((0, 1), vec![3]));
    streams.finish(3);
    allocator.synchronize();
    assert_eq!(figures(&allocator), (0, 0));
}

#[test]
fn a_pending_block_can_be_neither_freed_nor_moved() {
    let (allocator, streams) = new();
    let gap = allocator.allocate(mib(1)).unwrap();
    let block = allocator.allocate(mib(1)).unwrap();
    block.record_stream(1);
    let token = block.into_token();
    let address = allocator.address_of(token).unwrap();
    drop(gap);
    assert!(allocator.compact().is_empty(), "another stream uses it");
    allocator.free_token(token).unwrap();
    assert!(allocator.free_token(token).is_err() && allocator.deallocate(address).is_err());
    assert!(allocator.compact().is_empty());
    streams.finish(0);
    streams.finish(1);
    allocator.synchronize();
    assert_eq!(figures(&allocator), (0, 0));
}
