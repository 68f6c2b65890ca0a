//! Paused and resumed blocks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory, Fault, Faulty, HostMemory};
use cubeyard_memory::flex::{
    Allocation, Budget, ExportError, FlexAllocator, LaunchError, PauseError, PoolId, PoolSpec,
    ResizeError, ResumeError, TagId, VirtualAddress,
};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{Pool, Quantity};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::ledger::Ledger;
use super::{ManualStreams, Strict, allocator, card, with_streams};
use crate::long_tests::cases;

const MIB: Bytes = Bytes::mib(1);

fn tagged(tag: TagId, size: Bytes) -> Request {
    Request { tag, ..Request::new(size) }
}

fn watched(allocator: &FlexAllocator) -> Arc<Mutex<Ledger>> {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let writer = ledger.clone();
    // The subscription stays as long as the allocator.
    std::mem::forget(allocator.subscribe(move |event| writer.lock().unwrap().apply(event)));
    ledger
}

#[test]
fn a_paused_pool_keeps_its_addresses_and_no_memory() {
    let device = Arc::new(Strict::new(Card::new(CardSpec::physical(Bytes::mib(64)))));
    let allocator = allocator(device.clone(), "growth:growable(64MiB),history:1000");
    let ledger = watched(&allocator);
    let weights = allocator.pool(PoolSpec::new("weights"));
    let other = allocator.allocate(Bytes::mib(5)).unwrap();
    let request = Request { site: 7, ..Request::new(Bytes::mib(3)) };
    let blocks = [(); 3].map(|()| weights.allocate_for(&request).unwrap());
    let addresses = blocks.each_ref().map(Allocation::address);
    Ledger::check(&ledger, &allocator);
    let before = allocator.snapshot();
    assert_eq!(weights.pause().unwrap(), Bytes::mib(10));
    let stats = allocator.stats();
    assert_eq!((stats.paused(), stats.allocated()), (Bytes::mib(9), Bytes::mib(5)));
    assert_eq!((stats.reserved(), weights.stats().reserved()), (Bytes::mib(6), Bytes::ZERO));
    assert_eq!((weights.report().paused, weights.report().blocks), (Bytes::mib(9), 0));
    assert_eq!(device.info().free, Bytes::mib(58));
    assert!(blocks.iter().all(Allocation::is_paused) && !other.is_paused());
    Ledger::check(&ledger, &allocator);
    assert_eq!(weights.pause().unwrap(), Bytes::ZERO, "it has none left");
    assert_eq!(weights.resume().unwrap(), Bytes::mib(10));
    assert_eq!(blocks.each_ref().map(Allocation::address), addresses);
    assert_eq!(allocator.stats().paused(), Bytes::ZERO);
    assert_eq!(allocator.snapshot().segments, before.segments, "sites and places are the same");
    Ledger::check(&ledger, &allocator);
    assert_eq!(weights.resume().unwrap(), Bytes::ZERO);
    // A paused block can be freed.
    weights.pause().unwrap();
    drop(blocks);
    assert_eq!(allocator.stats().paused(), Bytes::ZERO);
    assert_eq!(weights.resume().unwrap(), Bytes::ZERO);
    drop((other, weights));
    allocator.trim();
    assert_eq!((device.info().free, device.regions()), (device.info().total, 0));
}

#[test]
fn shared_granules_stay_and_neighbours_keep_their_contents() {
    let host = Arc::new(HostMemory::new(Bytes::mib(16)));
    let allocator = allocator(host.clone(), "growth:growable(64MiB)");
    let tag = allocator.tag("weights").unwrap();
    let neighbour = allocator.allocate(MIB).unwrap();
    let block = allocator.allocate_for(&tagged(tag, Bytes::mib(4))).unwrap();
    let second = allocator.allocate_for(&tagged(tag, MIB)).unwrap();
    let at = |block: &Allocation| (block.address().region_id, block.address().offset);
    let write = |block: &Allocation, byte| host.write(at(block).0, at(block).1, &[byte; 9]);
    write(&neighbour, 7).unwrap();
    write(&block, 8).unwrap();
    assert_eq!(allocator.pause_tag(tag).unwrap(), Bytes::mib(4), "one granule is shared");
    assert_eq!(host.read(at(&neighbour).0, at(&neighbour).1, 9), Some(vec![7; 9]));
    assert_eq!(host.read(at(&second).0, at(&second).1, 1), None, "no memory");
    // Memory that comes back for a new neighbour is not committed again.
    let third = allocator.allocate(Bytes::mib(1)).unwrap();
    assert!(!third.is_paused());
    write(&third, 9).unwrap();
    allocator.resume_tag(tag).unwrap();
    write(&block, 5).unwrap();
    write(&second, 6).unwrap();
    assert_eq!(host.read(at(&third).0, at(&third).1, 9), Some(vec![9; 9]));
    assert_eq!(host.read(at(&block).0, at(&block).1, 9), Some(vec![5; 9]));
    // A granule that was shared is returned by a trim, once the other block is gone.
    drop(third);
    allocator.pause_tag(tag).unwrap();
    let report = allocator.regions()[0];
    let figures = (Bytes::mib(4), Bytes::mib(2));
    assert_eq!((report.size, report.free), figures, "half a granule is of a paused block");
    drop(neighbour);
    assert_eq!(allocator.trim(), Bytes::mib(4));
    assert_eq!(host.info().free, host.info().total);
    allocator.resume_tag(tag).unwrap();
    drop((block, second));
    allocator.trim();
    assert_eq!(host.info().free, host.info().total);
}

#[test]
fn refusals_name_the_reason() {
    let fixed = allocator(card(Bytes::mib(64)), "fallback_sizes:[8MiB]");
    assert_eq!(fixed.pause_pool(PoolId::DEFAULT), Err(PauseError::FixedRegions));
    let allocator = allocator(card(Bytes::mib(64)), "growth:growable(64MiB)");
    let unknown = TagId::NONE;
    assert_eq!(allocator.pause_tag(unknown), Err(PauseError::UnknownTag(unknown)));
    assert_eq!(allocator.resume_tag(unknown), Err(ResumeError::UnknownTag(unknown)));
    let closed = allocator.pool(PoolSpec::new("gone")).id();
    assert_eq!(allocator.pause_pool(closed), Err(PauseError::UnknownPool(closed)));
    assert_eq!(allocator.resume_pool(closed), Err(ResumeError::UnknownPool(closed)));
    let tag = allocator.tag("weights").unwrap();
    let [first, second] = [(); 2].map(|()| allocator.allocate_for(&tagged(tag, MIB)).unwrap());
    let pin = second.pin();
    let address = second.address();
    assert_eq!(allocator.pause_tag(tag), Err(PauseError::Pinned { address }));
    assert!(!first.is_paused(), "nothing is half paused");
    drop(pin);
    allocator.pause_tag(tag).unwrap();
    let program = allocator.load_program(Bytes::new(100), 2).unwrap();
    let refused = allocator.launch(&program, [&first, &second]).unwrap_err();
    let paused = LaunchError::PausedOperand { operand: 0, address: first.address() };
    assert_eq!(refused, paused);
    assert_eq!(refused.to_string(), format!("operand 0 at {} is paused", first.address()));
    assert_eq!(second.export().unwrap_err(), ExportError::Paused { address });
    assert_eq!(second.resize(Bytes::new(9)), Err(ResizeError::Paused { address }));
    assert!(allocator.compact().is_empty(), "paused blocks stay");
    // A pin keeps a paused block in place; its owner frees it, and the last pin completes that.
    let pin = second.pin();
    drop(second);
    assert_eq!(allocator.stats().paused(), Bytes::mib(2));
    drop(pin);
    assert_eq!(allocator.stats().paused(), MIB);
    allocator.resume_tag(tag).unwrap();
    allocator.launch(&program, [&first, &first]).unwrap();
}

#[test]
fn a_pause_waits_for_every_stream_that_uses_a_block() {
    let events = Arc::new(ManualStreams::default());
    let allocator = with_streams(card(Bytes::mib(64)), "growth:growable(64MiB)", events.clone());
    let block = allocator.allocate(MIB).unwrap();
    allocator.pause_pool(PoolId::DEFAULT).unwrap();
    assert_eq!(events.recorded(), [], "one stream is ordered by the device");
    allocator.resume_pool(PoolId::DEFAULT).unwrap();
    block.record_stream(4);
    allocator.pause_pool(PoolId::DEFAULT).unwrap();
    assert_eq!((events.recorded(), events.waits()), (vec![0, 4], 2));
    assert_eq!(allocator.stats().counters.sync_all_streams, 1);
    // All streams have passed, so the range of a freed block is free for every stream.
    drop(block);
    let other = allocator.allocate_for(&Request { stream: 9, ..Request::new(MIB) }).unwrap();
    assert_eq!(other.address().offset, Bytes::ZERO);
}

#[test]
fn budgets_and_limits_hold_for_growth_and_rest() {
    let allocator = allocator(card(Bytes::mib(64)), "growth:growable(64MiB)");
    let tag = allocator.tag("cache").unwrap();
    let budget = Budget { hard: Some(Bytes::mib(4)), ..Budget::default() };
    allocator.set_budget(tag, budget).unwrap();
    let report = || allocator.tag_report(tag).unwrap();
    let block = allocator.allocate_for(&tagged(tag, MIB)).unwrap();
    block.resize(Bytes::mib(3)).unwrap();
    let (budget, needed) = (Bytes::mib(4), Bytes::mib(5));
    assert_eq!(block.resize(needed), Err(ResizeError::Budget { tag, budget, needed }));
    assert_eq!((report().allocated, report().blocks), (Bytes::mib(3), 1));
    block.resize(Bytes::mib(2)).unwrap();
    assert_eq!((report().allocated, report().peak), (Bytes::mib(2), Bytes::mib(3)));
    allocator.pause_tag(tag).unwrap();
    assert_eq!(report().allocated, Bytes::mib(2), "a paused block counts for its tag");
    drop(block);
    assert_eq!((report().allocated, report().blocks), (Bytes::ZERO, 0));
    let pool = allocator.pool(PoolSpec::new("limited").limit(Bytes::mib(4)));
    let block = pool.allocate(Bytes::mib(2)).unwrap();
    assert!(matches!(block.resize(Bytes::mib(5)), Err(ResizeError::NoMemory { .. })));
    block.resize(Bytes::mib(4)).unwrap();
    pool.pause().unwrap();
    let guest = pool.allocate(Bytes::mib(2)).unwrap();
    let needed = Bytes::mib(4);
    let refused = pool.resume().unwrap_err();
    assert!(matches!(refused, ResumeError::NoMemory { needed: n, .. } if n == needed), "{refused}");
    drop(guest);
    assert_eq!(pool.resume().unwrap(), needed, "idle memory made room");
}

/// One operation of a random program.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate {
        size: u64,
        group: usize,
    },
    Free(Index),
    Resize(Index, u64),
    Pause(usize),
    Resume(usize),
    Compact,
    Trim,
    /// The device refuses one commit, the given number of calls from now.
    Fail(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let size = || prop_oneof![3 => 1_u64..(1 << 20), 1 => (1_u64 << 20)..(5 << 20)];
    let act = prop_oneof![
        8 => (size(), 0_usize..4).prop_map(|(size, group)| Act::Allocate { size, group }),
        4 => any::<Index>().prop_map(Act::Free),
        3 => (any::<Index>(), size()).prop_map(|(pick, size)| Act::Resize(pick, size)),
        3 => (0_usize..4).prop_map(Act::Pause),
        3 => (0_usize..4).prop_map(Act::Resume),
        1 => Just(Act::Compact),
        1 => Just(Act::Trim),
        1 => (0_usize..4).prop_map(Act::Fail),
    ];
    prop::collection::vec(act, 1..100)
}

/// A block with its group, and whether the model has it paused.
struct Member {
    block: Allocation,
    group: usize,
    paused: bool,
    place: VirtualAddress,
}

#[derive(Debug, Default)]
struct Seen {
    paused: Cell<usize>,
    resumed: Cell<usize>,
    refused: Cell<usize>,
    freed: Cell<usize>,
}

fn count(counter: &Cell<usize>, by: usize) {
    counter.set(counter.get() + by);
}

type Device = Arc<Strict<Faulty<Card>>>;

struct World<'a> {
    allocator: FlexAllocator,
    device: Device,
    pools: [cubeyard_memory::flex::Pool; 2],
    tags: [TagId; 2],
    live: Vec<Member>,
    seen: &'a Seen,
}

impl World<'_> {
    fn run(&mut self, act: Act) {
        match act {
            Act::Allocate { size, group } => {
                let request = Request::new(Bytes::new(size));
                let made = match group {
                    0 | 1 => self.pools[group].allocate_for(&request),
                    _ => self
                        .allocator
                        .allocate_for(&Request { tag: self.tags[group - 2], ..request }),
                };
                let made = made.into_iter();
                self.live.extend(made.map(|block| {
                    let place = block.address();
                    Member { block, group, paused: false, place }
                }));
            }
            Act::Free(pick) if !self.live.is_empty() => {
                let gone = self.live.remove(pick.index(self.live.len()));
                count(&self.seen.freed, usize::from(gone.paused));
            }
            Act::Resize(pick, size) if !self.live.is_empty() => {
                let Member { block, paused, .. } = &self.live[pick.index(self.live.len())];
                let outcome = block.resize(Bytes::new(size));
                assert_eq!(matches!(outcome, Err(ResizeError::Paused { .. })), *paused);
            }
            Act::Pause(group) => self.pause(group),
            Act::Resume(group) => self.resume(group),
            Act::Compact => {
                self.allocator.compact().commit();
                self.live.iter_mut().filter(|member| !member.paused).for_each(|member| {
                    member.place = member.block.address();
                });
            }
            Act::Trim => drop(self.allocator.trim()),
            Act::Fail(call) => self.device.inner().fail(Fault::Once(call)),
            Act::Free(_) | Act::Resize(..) => {}
        }
    }

    fn pause(&mut self, group: usize) {
        let before = self.allocator.stats().reserved();
        let returned = match group {
            0 | 1 => self.pools[group].pause(),
            _ => self.allocator.pause_tag(self.tags[group - 2]),
        };
        let returned = returned.expect("nothing is pinned");
        assert_eq!(self.allocator.stats().reserved() + returned, before, "reserved falls");
        for member in self.live.iter_mut().filter(|member| member.group == group) {
            count(&self.seen.paused, usize::from(!member.paused));
            member.paused = true;
        }
    }

    fn resume(&mut self, group: usize) {
        let outcome = match group {
            0 | 1 => self.pools[group].resume(),
            _ => self.allocator.resume_tag(self.tags[group - 2]),
        };
        if outcome.is_err() {
            count(&self.seen.refused, 1);
            return;
        }
        for member in self.live.iter_mut().filter(|member| member.group == group) {
            count(&self.seen.resumed, usize::from(member.paused));
            member.paused = false;
        }
    }

    /// Checks places, states and figures against the model.
    fn check(&self) {
        let (stats, info) = (self.allocator.stats(), self.device.info());
        assert_eq!(stats.reserved(), info.total - info.free, "the device agrees");
        let mut sums: BTreeMap<bool, (u64, Bytes)> = BTreeMap::new();
        let mut places: Vec<_> = Vec::new();
        for member in &self.live {
            assert_eq!(member.block.is_paused(), member.paused);
            let (address, size) = (member.block.address(), member.block.size());
            assert_eq!(address, member.place, "a block stays where it is");
            places.push((address.region_id, address.offset, size));
            let sum = sums.entry(member.paused).or_default();
            *sum = (sum.0 + 1, sum.1 + size);
        }
        let awake = sums.get(&false).copied().unwrap_or_default();
        let paused = sums.get(&true).copied().unwrap_or_default();
        assert_eq!((stats.allocated(), stats.paused()), (awake.1, paused.1));
        assert_eq!(stats.get(Quantity::Allocation, Pool::All).current, awake.0);
        assert!(stats.get(Quantity::ActiveBytes, Pool::All).current <= stats.reserved().get());
        let in_pools = self.allocator.pools().iter().map(|pool| pool.paused).sum::<Bytes>();
        assert_eq!(in_pools, paused.1);
        places.sort_unstable();
        let apart = |pair: &[(_, Bytes, Bytes)]| {
            pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1
        };
        assert!(places.windows(2).all(apart), "{places:?}");
        for (number, tag) in self.tags.iter().enumerate() {
            let members = self.live.iter().filter(|member| member.group == number + 2);
            let bytes: Bytes = members.map(|member| member.block.size()).sum();
            assert_eq!(self.allocator.tag_report(*tag).unwrap().allocated, bytes);
        }
    }
}

fn world<'a>(growth: &str, block: &str, seen: &'a Seen) -> World<'a> {
    let card = Card::new(CardSpec::physical(Bytes::mib(14)));
    let device = Arc::new(Strict::new(Faulty::new(card)));
    let config = format!("growth:{growth}(32MiB),block:{block}");
    let allocator = allocator(device.clone(), &config);
    let pools = ["first", "second"].map(|name| allocator.pool(PoolSpec::new(name)));
    let tags = ["third", "fourth"].map(|name| allocator.tag(name).unwrap());
    World { allocator, device, pools, tags, live: Vec::new(), seen }
}

#[test]
fn random_groups_rest_and_wake_whole() {
    let seen = Seen::default();
    let cases = cases(400);
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let growth = prop::sample::select(vec!["growable", "recycle"]);
    let block = prop::sample::select(vec!["first-fit", "best-fit", "quick-fit", "lifetime"]);
    let programs = (growth, block, acts());
    let outcome = TestRunner::new(config).run(&programs, |(growth, block, acts)| {
        let mut world = world(growth, block, &seen);
        let ledger = watched(&world.allocator);
        for act in acts {
            world.run(act);
            world.check();
            Ledger::check(&ledger, &world.allocator);
        }
        world.live.clear();
        world.device.inner().fail(Fault::Never);
        world.allocator.trim();
        assert_eq!(world.device.info().free, world.device.info().total, "everything comes back");
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("rest: {seen:?}");
    let least = cases as usize / 4;
    assert!(seen.paused.get() > least && seen.resumed.get() > least);
    assert!(seen.refused.get() > 0 && seen.freed.get() > 0);
}

/// At every commit of a resume that the device refuses, twice in a row, all blocks stay paused.
#[test]
fn a_refused_resume_leaves_nothing_half_done() {
    let seen = Seen::default();
    let mut refusals = 0;
    for call in 0..8 {
        let mut world = world("growable", "first-fit", &seen);
        for (size, group) in [(3, 0), (1, 2), (2, 0), (3, 2), (4, 1), (1, 0)] {
            world.run(Act::Allocate { size: size << 20, group });
        }
        // Pool 0 and the tag lie in different regions; a second tag's blocks lie between those of the first.
        world.pause(0);
        world.pause(2);
        let before = (world.allocator.stats().reserved(), world.allocator.snapshot().segments);
        for group in [0, 2] {
            world.device.inner().fail(Fault::From(call));
            world.resume(group);
            world.device.inner().fail(Fault::Never);
            world.check();
        }
        if world.live.iter().all(|member| member.paused || member.group == 1) {
            refusals += 1;
            assert_eq!(world.allocator.snapshot().segments, before.1);
            assert_eq!(world.allocator.stats().reserved(), before.0);
        }
        world.resume(0);
        world.resume(2);
        assert!(world.live.iter().all(|member| !member.paused));
        world.check();
    }
    assert!(refusals > 0);
}
