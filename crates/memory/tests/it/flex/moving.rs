//! Compaction in steps, blocks resized in place, and exports.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory, Fault, Faulty, HostMemory};
use cubeyard_memory::flex::{
    Allocation, BlockState, ExportError, FlexAllocator, FreeError, Obstacle, Pin, ResizeError,
};
use cubeyard_memory::policy::{Kind, Request};
use cubeyard_memory::stats::{Pool, Quantity};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::ledger::Ledger;
use super::properties::{Step, any_configs, hold, steps};
use super::{ManualStreams, Strict, allocator, card, with_streams};
use crate::long_tests::cases;

fn runner(count: u32) -> TestRunner {
    let cases = cases(count);
    TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..Default::default() })
}

fn stream(number: u32, size: Bytes) -> Request {
    Request { stream: number, ..Request::new(size) }
}

/// An allocator after a history, with its live blocks.
struct Built {
    allocator: FlexAllocator,
    device: Arc<Strict<Card>>,
    live: Vec<Allocation>,
    pins: Vec<Pin>,
}

fn build((config, memory): &(String, u64), steps: &[Step], streams: bool) -> Built {
    let card = Card::new(CardSpec::virtual_function(Bytes::new(*memory), 8));
    let device = Arc::new(Strict::new(card));
    let builder = FlexAllocator::builder(device.clone()).config(config.parse().unwrap());
    let events = Arc::new(ManualStreams::default());
    let builder = if streams { builder.events(events.clone()) } else { builder };
    let allocator = builder.build().unwrap();
    let (mut live, mut pins): (Vec<Allocation>, Vec<Pin>) = Default::default();
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Allocate { size, align, kind, stream } => {
                let (size, alignment) = (Bytes::new(size), Bytes::new(1 << align));
                let kind = Kind::ALL[kind];
                let request = Request { alignment, kind, stream, ..Request::new(size) };
                live.extend(allocator.allocate_for(&request));
            }
            Step::Free(pick) if !live.is_empty() => drop(live.remove(pick.index(live.len()))),
            Step::Free(_) => events.finish(number as u32 % 3),
            Step::Trim => pins.extend(live.first().map(Allocation::pin)),
            _ => {}
        }
    }
    Built { allocator, device, live, pins }
}

impl Built {
    /// Frees every third block.
    fn thin_out(&mut self) {
        let mut number = 0;
        self.live.retain(|_| {
            number += 1;
            number % 3 != 1
        });
        self.allocator.synchronize();
    }

    fn layout(&self) -> impl PartialEq + std::fmt::Debug {
        let addresses: Vec<_> = self.live.iter().map(Allocation::address).collect();
        let mut regions = self.allocator.regions();
        regions.sort_by_key(|region| region.id);
        (addresses, regions, self.allocator.snapshot().segments, self.device.info())
    }
}

/// Counts of what the histories did.
#[derive(Debug, Default)]
struct Seen {
    moved: Cell<usize>,
    steps: Cell<usize>,
    alone: Cell<usize>,
    grown: Cell<usize>,
    cut: Cell<usize>,
    refused: Cell<usize>,
}

fn count(counter: &Cell<usize>, by: usize) {
    counter.set(counter.get() + by);
}

/// Moves blocks in steps until a pass is over, and returns their number.
fn step_through(built: &Built, budget: Bytes, seen: &Seen) -> usize {
    let mut moved = 0;
    loop {
        let step = built.allocator.compact_step(budget);
        if step.is_empty() {
            return moved;
        }
        let sizes: Vec<_> = step.moves().map(|moved| moved.size).collect();
        assert_eq!(step.bytes(), sizes.iter().copied().sum());
        assert!(step.bytes() <= budget || sizes.len() == 1, "{sizes:?} with a budget of {budget}");
        count(&seen.steps, 1);
        count(&seen.alone, usize::from(step.bytes() > budget));
        moved += step.commit();
    }
}

/// The order of the moves, and thus every place, is the same in one plan and in steps of any budget.
#[test]
fn steps_end_where_one_plan_ends() {
    let seen = Seen::default();
    let budgets = prop_oneof![1_u64..2000, 1_u64..(1 << 20), (1_u64 << 20)..(1 << 24)];
    let histories = (any_configs(), steps(), any::<bool>(), budgets);
    let outcome = runner(400).run(&histories, |(config, steps, streams, budget)| {
        hold(&config, &steps, || {
            let mut built = [(); 2].map(|()| build(&config, &steps, streams));
            for _ in 0..4 {
                let [once, slowly] = &built;
                assert_eq!(once.layout(), slowly.layout());
                assert!(slowly.allocator.compact_step(Bytes::ZERO).is_empty(), "no budget");
                let moved = once.allocator.compact().commit();
                assert_eq!(step_through(slowly, Bytes::new(budget), &seen), moved);
                assert_eq!(once.layout(), slowly.layout());
                count(&seen.moved, moved);
                built.iter_mut().for_each(Built::thin_out);
            }
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("steps: {seen:?}");
    assert!(seen.moved.get() > cases(400) as usize && seen.steps.get() > cases(400) as usize / 2);
    assert!(seen.alone.get() > 0);
}

/// Two regions, one of them idle: every pass moved all blocks into the idle one, and never had nothing to do.
#[test]
fn passes_come_to_an_end() {
    let histories = (any_configs(), steps());
    let outcome = runner(200).run(&histories, |(config, steps)| {
        hold(&config, &steps, || {
            let built = build(&config, &steps, false);
            let passes = (0..200).take_while(|_| built.allocator.compact().commit() > 0);
            assert!(passes.count() < 200, "blocks move to and fro");
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let allocator = allocator(card(Bytes::mib(64)), "fallback_sizes:[16MiB]");
    let [first, second] = [(); 2].map(|()| allocator.allocate(Bytes::mib(9)).unwrap());
    assert_ne!(first.address().region_id, second.address().region_id);
    drop(first);
    assert!(allocator.compact().is_empty());
}

/// Frees, pins and requests between steps: every step moves what may move then, and the pass ends.
#[test]
fn blocks_come_and_go_between_steps() {
    let histories = (any_configs(), steps(), prop::collection::vec(any::<Index>(), 1..30));
    let outcome = runner(200).run(&histories, |(config, steps, picks)| {
        hold(&config, &steps, || {
            let Built { allocator, device, mut live, pins: held } = build(&config, &steps, false);
            let mut pins = Vec::new();
            for (number, pick) in picks.iter().enumerate() {
                let step = allocator.compact_step(Bytes::kib(300));
                if !live.is_empty() {
                    let at = pick.index(live.len());
                    match number % 3 {
                        0 => drop(live.remove(at)),
                        1 => pins.push(live[at].pin()),
                        _ => live.extend(allocator.allocate(Bytes::kib(1 + number as u64 * 17))),
                    }
                }
                step.commit();
                let allocated: Bytes = live.iter().map(Allocation::size).sum();
                assert!(allocator.stats().allocated() >= allocated);
            }
            drop((live, pins, held));
            allocator.trim();
            assert_eq!(device.info().free, device.info().total);
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// One operation on blocks with contents.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate(u64),
    Free(Index),
    Resize(Index, u64),
    Compact(u64),
    Trim,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let size = prop_oneof![1_u64..3000, 1_u64..(300 << 10)];
    let act = prop_oneof![
        5 => size.clone().prop_map(Act::Allocate),
        3 => any::<Index>().prop_map(Act::Free),
        5 => (any::<Index>(), size).prop_map(|(pick, size)| Act::Resize(pick, size)),
        3 => (1_u64..(1 << 20)).prop_map(Act::Compact),
        1 => Just(Act::Trim),
    ];
    prop::collection::vec(act, 1..80)
}

fn resize_configs() -> impl Strategy<Value = String> {
    let growth = vec!["fixed", "growable(32MiB)", "recycle(32MiB)"];
    let blocks = vec!["first-fit", "best-fit", "quick-fit", "lifetime"];
    let regions = vec!["load-balancing", "fill-first", "thread-home"];
    (
        prop::sample::select(growth),
        prop::sample::select(blocks),
        prop::sample::select(regions),
        prop::sample::select(vec!["never", "when_idle(1MiB)"]),
    )
        .prop_map(|(growth, block, region, release)| {
            format!(
                "fallback_sizes:[2MiB],max_regions:3,growth:{growth},block:{block},region:{region},release:{release}"
            )
        })
}

/// A block of host memory, and the number that its bytes are made of.
struct Filled {
    block: Allocation,
    seed: u8,
}

impl Filled {
    fn pattern(&self, length: u64) -> Vec<u8> {
        (0..length).map(|at| (at as u8).wrapping_mul(31) ^ self.seed).collect()
    }

    fn fill(&self, host: &HostMemory) {
        let address = self.block.address();
        let data = self.pattern(self.block.requested().get());
        host.write(address.region_id, address.offset, &data).expect("a live block has memory");
    }

    /// Checks the first `length` bytes.
    fn check(&self, host: &HostMemory, length: u64) {
        let address = self.block.address();
        let data = host.read(address.region_id, address.offset, length as usize);
        assert_eq!(data, Some(self.pattern(length)), "{:?}", self.block);
    }
}

fn contents_stay(config: &str, acts: &[Act], seen: &Seen) {
    let host = Arc::new(HostMemory::new(Bytes::mib(8)));
    let allocator = allocator(host.clone(), config);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let writer = ledger.clone();
    let _subscription = allocator.subscribe(move |event| writer.lock().unwrap().apply(event));
    let mut live: Vec<Filled> = Vec::new();
    let mut peak = 0;
    for (number, &act) in acts.iter().enumerate() {
        match act {
            Act::Allocate(size) => {
                if let Ok(block) = allocator.allocate(Bytes::new(size)) {
                    let filled = Filled { block, seed: number as u8 };
                    filled.fill(&host);
                    live.push(filled);
                }
            }
            Act::Free(pick) if !live.is_empty() => drop(live.remove(pick.index(live.len()))),
            Act::Resize(pick, size) if !live.is_empty() => {
                let filled = &live[pick.index(live.len())];
                resize_one(&allocator, &host, filled, Bytes::new(size), seen);
            }
            Act::Compact(budget) => {
                let step = allocator.compact_step(Bytes::new(budget));
                for moved in step.moves() {
                    let (from, to) = (moved.from, moved.to);
                    let data = host.read(from.region_id, from.offset, moved.size.get() as usize);
                    host.write(to.region_id, to.offset, &data.expect("it has memory")).unwrap();
                }
                count(&seen.moved, step.commit());
            }
            Act::Trim => drop(allocator.trim()),
            Act::Free(_) | Act::Resize(..) => {}
        }
        live.iter().for_each(|filled| filled.check(&host, filled.block.requested().get()));
        Ledger::check(&ledger, &allocator);
        peak = books_hold(&allocator, host.as_ref(), &live, peak);
    }
    drop(live);
    allocator.trim();
    assert_eq!(host.info().free, host.info().total, "everything comes back");
}

/// Resizes a block. A refusal changes nothing, and without streams its reason can be read off the snapshot.
fn resize_one(
    allocator: &FlexAllocator,
    host: &HostMemory,
    filled: &Filled,
    size: Bytes,
    seen: &Seen,
) {
    let block = &filled.block;
    let (address, old, before) = (block.address(), block.size(), block.requested());
    let segments = allocator.snapshot().segments;
    match block.resize(size) {
        Ok(()) => {
            assert_eq!((block.address(), block.requested()), (address, size));
            assert_eq!(Some(block.size()), size.align_up(Bytes::new(128)));
            filled.check(host, before.min(size).get());
            filled.fill(host);
            count(if size > old { &seen.grown } else { &seen.cut }, 1);
        }
        Err(error) => {
            count(&seen.refused, 1);
            assert_eq!((block.address(), block.size(), block.requested()), (address, old, before));
            let ResizeError::NoRoom { needed, available, obstacle } = error else {
                assert_eq!(error, ResizeError::NoMemory { needed: size - old });
                return;
            };
            assert_eq!(allocator.snapshot().segments, segments, "nothing was changed");
            assert_eq!(needed, size - old);
            let flat = allocator.segment_table().get(address.region_id).unwrap().1.base;
            let end = flat + (address.offset + old).get();
            let blocks = segments.iter().flat_map(|segment| &segment.blocks);
            let behind = blocks.clone().find(|block| block.address == end);
            let free = behind.filter(|block| block.state == BlockState::Inactive);
            let free = free.map_or(Bytes::ZERO, |block| block.size);
            let next = blocks.clone().find(|block| block.address == end + free.get());
            if obstacle == Obstacle::Block {
                assert!(available >= free && next.is_none_or(|_| available == free));
            } else {
                assert_eq!((obstacle, next), (Obstacle::EndOfRegion, None));
            }
        }
    }
}

/// Checks the statistics against the blocks. Returns the peak of allocated bytes.
fn books_hold(
    allocator: &FlexAllocator,
    device: &dyn DeviceMemory,
    live: &[Filled],
    peak: u64,
) -> u64 {
    let stats = allocator.stats();
    let info = device.info();
    assert_eq!(stats.reserved(), info.total - info.free, "the device agrees");
    let mut pools: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for filled in live {
        let (size, requested) = (filled.block.size(), filled.block.requested());
        for pool in [Pool::All, Pool::of(size)] {
            let sums = pools.entry(pool.key()).or_default();
            *sums = (sums.0 + 1, sums.1 + size.get(), sums.2 + requested.get());
        }
    }
    for pool in Pool::ALL {
        let current = |quantity| stats.get(quantity, pool).current;
        let (blocks, size, requested) = pools.get(pool.key()).copied().unwrap_or_default();
        assert_eq!(current(Quantity::Allocation), blocks);
        assert_eq!(current(Quantity::AllocatedBytes), size);
        assert_eq!((current(Quantity::Active), current(Quantity::ActiveBytes)), (blocks, size));
        assert_eq!(current(Quantity::RequestedBytes), requested);
    }
    for quantity in Quantity::ALL {
        let stat = stats.get(quantity, Pool::All);
        assert_eq!(stat.current, stat.allocated - stat.freed, "{quantity:?}");
    }
    let allocated = stats.get(Quantity::AllocatedBytes, Pool::All);
    let peak = peak.max(allocated.current);
    assert_eq!(allocated.peak, peak, "a resize counts no byte twice");
    peak
}

#[test]
fn resizing_and_steps_keep_contents_and_books() {
    let seen = Seen::default();
    let outcome = runner(200).run(&(resize_configs(), acts()), |(config, acts)| {
        contents_stay(&config, &acts, &seen);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("resized: {seen:?}");
    let least = cases(200) as usize / 2;
    assert!(seen.grown.get() > least && seen.cut.get() > least && seen.refused.get() > least);
    assert!(seen.moved.get() > least / 2);
}

#[test]
fn a_block_grows_into_ranges_of_its_own_stream_only() {
    let events = Arc::new(ManualStreams::default());
    let allocator = with_streams(card(Bytes::gib(64)), "fallback_sizes:[8MiB]", events.clone());
    let mib = Bytes::mib(1);
    let [own, other, far, last] = [0, 1, 0, 0].map(|number| {
        let size = if number == 1 { Bytes::mib(2) } else { mib };
        allocator.allocate_for(&stream(number, size)).unwrap()
    });
    assert_eq!(last.address().offset, Bytes::mib(4));
    drop((other, far));
    let refused = own.resize(Bytes::mib(2)).unwrap_err();
    let (needed, available) = (mib, Bytes::ZERO);
    assert_eq!(refused, ResizeError::NoRoom { needed, available, obstacle: Obstacle::Stream });
    // The block of stream 1 has passed; the range of stream 0 behind it has not, and need not for its own stream.
    events.finish(1);
    own.resize(Bytes::mib(4)).unwrap();
    assert_eq!(own.size(), Bytes::mib(4));
    assert_eq!(last.resize(Bytes::mib(5)).unwrap_err(), {
        let (needed, available) = (Bytes::mib(4), Bytes::mib(3));
        ResizeError::NoRoom { needed, available, obstacle: Obstacle::EndOfRegion }
    });
    last.resize(Bytes::mib(4)).unwrap();
    // The end of a block waits for its stream like a block.
    last.resize(mib).unwrap();
    let foreign = allocator.allocate_for(&stream(1, Bytes::mib(3))).unwrap();
    assert_ne!(foreign.address().region_id, last.address().region_id, "stream 0 may use it");
    last.resize(Bytes::mib(4)).unwrap();
}

#[test]
fn the_end_of_a_block_waits_for_other_streams_that_use_it() {
    let events = Arc::new(ManualStreams::default());
    let allocator =
        with_streams(card(Bytes::gib(64)), "fallback_sizes:[8MiB],history:100", events.clone());
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let writer = ledger.clone();
    let _subscription = allocator.subscribe(move |event| writer.lock().unwrap().apply(event));
    let block = allocator.allocate(Bytes::new(3 << 20)).unwrap();
    block.record_stream(5);
    block.resize(Bytes::mib(1)).unwrap();
    Ledger::check(&ledger, &allocator);
    let stats = allocator.stats();
    assert_eq!(stats.allocated(), Bytes::mib(1));
    assert_eq!(stats.get(Quantity::ActiveBytes, Pool::All).current, 3 << 20, "stream 5 uses it");
    assert_eq!(stats.get(Quantity::Allocation, Pool::All).peak, 1);
    let refused = block.resize(Bytes::mib(2)).unwrap_err();
    assert!(matches!(refused, ResizeError::NoRoom { obstacle: Obstacle::Block, .. }), "{refused}");
    events.finish(5);
    block.resize(Bytes::mib(2)).unwrap();
    Ledger::check(&ledger, &allocator);
}

#[test]
fn a_pinned_block_grows_but_does_not_shrink() {
    let allocator = allocator(card(Bytes::gib(64)), "fallback_sizes:[8MiB]");
    let block = allocator.allocate(Bytes::mib(2)).unwrap();
    let pin = block.pin();
    let address = block.address();
    assert_eq!(block.resize(Bytes::mib(1)).unwrap_err(), ResizeError::Pinned { address });
    block.resize(Bytes::mib(3)).unwrap();
    assert_eq!((block.size(), pin.size()), (Bytes::mib(3), Bytes::mib(2)));
    drop(pin);
    block.resize(Bytes::new(1)).unwrap();
    assert_eq!(block.resize(Bytes::ZERO).unwrap_err(), ResizeError::ZeroBytes);
    let token = block.into_token();
    allocator.resize_token(token, Bytes::mib(5)).unwrap();
    assert_eq!(allocator.block_of(token).unwrap().requested, Bytes::mib(5));
    allocator.resize_token(token, Bytes::MAX).unwrap_err();
    allocator.free_token(token).unwrap();
    let stale = ResizeError::Token(FreeError::Stale);
    assert_eq!(allocator.resize_token(token, Bytes::mib(1)).unwrap_err(), stale);
}

/// Growth commits memory behind a block; at every commit that fails, the block and its range are as before.
#[test]
fn growth_that_gets_no_memory_leaves_everything() {
    let faulty = Faulty::new(Card::new(CardSpec::physical(Bytes::mib(64))));
    let device = Arc::new(Strict::new(faulty));
    let events = Arc::new(ManualStreams::default());
    for config in ["growth:growable(64MiB)", "growth:recycle(64MiB),block:best-fit"] {
        let allocator = with_streams(device.clone(), config, events.clone());
        let block = allocator.allocate(Bytes::mib(3)).unwrap();
        let behind = allocator.allocate(Bytes::new(100)).unwrap();
        let other = allocator.allocate_for(&stream(1, Bytes::mib(9))).unwrap();
        // The range behind waits for stream 0, and the blocks behind it stay.
        drop(behind);
        let before = (allocator.snapshot().segments, allocator.stats());
        device.inner().fail(Fault::From(0));
        let refused = block.resize(Bytes::mib(40)).unwrap_err();
        assert!(matches!(refused, ResizeError::NoRoom { .. } | ResizeError::NoMemory { .. }));
        drop(other);
        allocator.synchronize();
        let refused = block.resize(Bytes::mib(40)).unwrap_err();
        assert_eq!(refused, ResizeError::NoMemory { needed: Bytes::mib(37) });
        assert_eq!(block.size(), Bytes::mib(3));
        assert_eq!(before.1.allocated() - Bytes::mib(9), allocator.stats().allocated());
        device.inner().fail(Fault::Never);
        block.resize(Bytes::mib(40)).unwrap();
        assert_eq!(allocator.stats().reserved(), Bytes::mib(40));
        block.resize(Bytes::mib(1)).unwrap();
        allocator.synchronize();
        allocator.trim();
        assert_eq!(allocator.stats().reserved(), Bytes::mib(2));
        drop(block);
        allocator.synchronize();
        allocator.trim();
        assert_eq!(device.info().free, device.info().total);
    }
}

#[test]
fn an_export_keeps_its_block_in_place() {
    let faulty = Faulty::new(Card::new(CardSpec::virtual_function(Bytes::mib(64), 8)));
    let device = Arc::new(faulty);
    let allocator = allocator(device.clone(), "fallback_sizes:[8MiB]");
    let low = allocator.allocate(Bytes::mib(1)).unwrap();
    let block = allocator.allocate(Bytes::mib(2)).unwrap();
    let export = block.export().unwrap();
    let start = device.physical_address(block.address().region_id).unwrap();
    assert_eq!(export.handle().bytes, start.to_le_bytes());
    assert_eq!(export.handle().offset, Bytes::mib(1));
    assert_eq!((export.address(), export.size()), (block.address(), block.size()));
    drop(low);
    assert!(allocator.compact().is_empty(), "the export pins the block");
    let token = block.into_token();
    let second = allocator.export_token(token).unwrap();
    assert_eq!(second.handle(), export.handle());
    allocator.free_token(token).unwrap();
    assert_eq!(allocator.export_token(token).unwrap_err(), ExportError::Token(FreeError::Stale));
    drop(export);
    assert_eq!(allocator.stats().allocated(), Bytes::mib(2), "the second export keeps it");
    drop(second);
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}

#[test]
fn a_device_without_exports_says_so() {
    let allocator = allocator(Arc::new(HostMemory::new(Bytes::mib(8))), "fallback_sizes:[4MiB]");
    let block = allocator.allocate(Bytes::mib(1)).unwrap();
    let (address, size) = (block.address(), block.size());
    assert_eq!(block.export().unwrap_err(), ExportError::Unsupported { address, size });
    assert!(block.resize(Bytes::new(5)).is_ok(), "nothing is pinned");
}
