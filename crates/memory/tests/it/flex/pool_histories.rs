//! Random histories with pools, tags, limits and budgets: what must not change the places, and what must always hold.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::RegionId;
use cubeyard_memory::flex::{
    AllocateError, Allocation, Budget, FlexAllocator, OutOfMemory, Pool, PoolReport, PoolSpec,
    RemedyStep, TagId, TagReport, VirtualAddress,
};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{self, Quantity, Stats};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::{ManualStreams, card, with_streams};
use crate::long_tests::cases;

/// One step of a history. Pools and tags are indices into the lists of a run.
#[derive(Clone, Debug)]
enum Step {
    Allocate {
        size: u64,
        align: u32,
        stream: u32,
        pool: usize,
        tag: usize,
    },
    Free(Index),
    /// A stream passes everything, and the streams are polled.
    Pass(u32),
    Trim,
    TrimPool(usize),
    /// All handles of a pool are dropped, and another pool takes its place in the list.
    Replace(usize),
    Compact,
    ResetPeaks,
    ResetAccumulated,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![3 => 1_u64..3000, 2 => 1_u64..(3 << 20), 1 => 1_u64..(10 << 20)];
    let allocate = (size, 0_u32..16, 0_u32..3, 0_usize..3, 0_usize..3).prop_map(
        |(size, align, stream, pool, tag)| Step::Allocate { size, align, stream, pool, tag },
    );
    let step = prop_oneof![
        60 => allocate,
        50 => any::<Index>().prop_map(Step::Free),
        8 => (0_u32..3).prop_map(Step::Pass),
        2 => Just(Step::Trim),
        3 => (0_usize..3).prop_map(Step::TrimPool),
        3 => (0_usize..3).prop_map(Step::Replace),
        2 => Just(Step::Compact),
        1 => Just(Step::ResetPeaks),
        1 => Just(Step::ResetAccumulated),
    ];
    prop::collection::vec(step, 1..100)
}

fn configs() -> impl Strategy<Value = (String, u64)> {
    let growth = vec![
        "fallback_sizes:[8MiB;3MiB]",
        "fallback_sizes:[5MiB],sizes:fitted",
        "growth:growable(64MiB)",
        "growth:recycle(64MiB)",
    ];
    let growth = prop::sample::select(growth);
    let region = prop::sample::select(vec!["load-balancing", "fill-first"]);
    let block = prop::sample::select(vec!["first-fit", "best-fit", "quick-fit", "lifetime"]);
    let acquire = prop::sample::select(vec!["lazy", "first"]);
    let release = prop::sample::select(vec!["never", "when_idle(0)", "when_idle(9MiB)"]);
    (growth, region, block, acquire, release, 12_u64..60).prop_map(
        |(growth, region, block, acquire, release, memory)| {
            let config = format!(
                "{growth},region:{region},block:{block},acquire:{acquire},release:{release}"
            );
            (config, memory << 20)
        },
    )
}

/// An allocator while a history runs. Pool 0 of the list is `None`: the default pool.
struct Run {
    allocator: FlexAllocator,
    streams: Arc<ManualStreams>,
    pools: Vec<Option<Pool>>,
    tags: Vec<TagId>,
    blocks: Vec<Allocation>,
}

impl Run {
    fn new((config, memory): &(String, u64)) -> Self {
        let streams = Arc::new(ManualStreams::default());
        let allocator = with_streams(card(Bytes::new(*memory)), config, streams.clone());
        Self { allocator, streams, pools: vec![None], tags: vec![TagId::NONE], blocks: Vec::new() }
    }

    fn with_pools(mut self, limits: [Option<u64>; 2]) -> Self {
        for limit in limits {
            let limit = limit.map(Bytes::mib);
            let spec = PoolSpec { limit, ..PoolSpec::new("random") };
            self.pools.push(Some(self.allocator.pool(spec)));
        }
        self
    }

    fn with_tags(mut self, budgets: [Budget; 2]) -> Self {
        for (name, budget) in ["one", "two"].into_iter().zip(budgets) {
            let tag = self.allocator.tag(name).unwrap();
            self.allocator.set_budget(tag, budget).unwrap();
            self.tags.push(tag);
        }
        self
    }

    fn request(&self, step: &Step) -> Option<Request> {
        let &Step::Allocate { size, align, stream, pool, tag } = step else { return None };
        let pool = self.pools[pool % self.pools.len()].as_ref();
        Some(Request {
            alignment: Bytes::new(1 << align.saturating_sub(4)),
            stream,
            pool: pool.map(Pool::id).unwrap_or_default(),
            tag: self.tags[tag % self.tags.len()],
            ..Request::new(Bytes::new(size))
        })
    }

    /// Does a step, and returns the place of an allocated block, or the error.
    fn step(&mut self, step: &Step) -> Option<Result<VirtualAddress, AllocateError>> {
        if let Some(request) = self.request(step) {
            let outcome = self.allocator.allocate_for(&request);
            return Some(outcome.map(|block| {
                self.blocks.push(block);
                self.blocks[self.blocks.len() - 1].address()
            }));
        }
        let count = self.pools.len();
        match step {
            Step::Free(pick) if !self.blocks.is_empty() => {
                drop(self.blocks.remove(pick.index(self.blocks.len())));
            }
            Step::Pass(stream) => {
                self.streams.finish(*stream);
                let pool = self.pools[0].as_ref().map(Pool::id).unwrap_or_default();
                drop(self.allocator.allocate_for(&Request { pool, ..Request::new(Bytes::new(1)) }));
            }
            Step::Trim => _ = self.allocator.trim(),
            Step::TrimPool(pool) => _ = self.pools[pool % count].as_ref().map(Pool::trim),
            Step::Replace(pool) => self.replace(pool % count),
            Step::Compact => _ = self.allocator.compact().commit(),
            Step::ResetPeaks => self.allocator.reset_peak_stats(),
            Step::ResetAccumulated => self.allocator.reset_accumulated_stats(),
            _ => {}
        }
        None
    }

    fn replace(&mut self, at: usize) {
        if let Some(old) = self.pools[at].take() {
            let spec = PoolSpec { limit: old.limit(), ..PoolSpec::new("another") };
            drop(old);
            self.pools[at] = Some(self.allocator.pool(spec));
        }
    }

    /// Checks that the pools add up to the allocator, and that blocks lie in regions of their pools.
    fn check_pools(&self) {
        let (reports, stats) = (self.allocator.pools(), self.allocator.stats());
        let sum = |figure: fn(&PoolReport) -> u64| reports.iter().map(figure).sum::<u64>();
        let current = |quantity| stats.get(quantity, stats::Pool::All).current;
        assert_eq!(sum(|pool| pool.blocks), current(Quantity::Allocation));
        assert_eq!(sum(|pool| pool.regions), current(Quantity::Segment));
        assert_eq!(sum(|pool| pool.allocated.get()), current(Quantity::AllocatedBytes));
        assert_eq!(sum(|pool| pool.reserved.get()), current(Quantity::ReservedBytes));
        assert_eq!(sum(|pool| pool.active.get()), current(Quantity::ActiveBytes));
        assert_eq!(sum(|pool| pool.requested.get()), current(Quantity::RequestedBytes));
        for report in &reports {
            assert!(report.limit.is_none_or(|limit| report.reserved <= limit), "{report}");
            let own = self.blocks.iter().filter(|block| block.pool() == report.id);
            assert_eq!(own.map(Allocation::size).sum::<Bytes>(), report.allocated, "{report}");
        }
        let mut all = BTreeSet::new();
        for pool in self.pools.iter().flatten() {
            let regions: BTreeSet<RegionId> = pool.regions().iter().map(|it| it.id).collect();
            for block in &self.blocks {
                let inside = regions.contains(&block.address().region_id);
                assert_eq!(inside, block.pool() == pool.id(), "{block:?} and {pool:?}");
            }
            assert!(regions.iter().all(|&region| all.insert(region)), "a region has one pool");
        }
    }

    fn check_tags(&self) {
        for report in self.allocator.tags() {
            let own = || self.blocks.iter().filter(|block| block.tag() == report.id);
            assert_eq!(own().map(Allocation::size).sum::<Bytes>(), report.allocated);
            assert_eq!(own().count() as u64, report.blocks);
            assert!(report.peak >= report.allocated);
            assert!(report.budget.hard.is_none_or(|hard| report.peak <= hard), "{report:?}");
        }
    }
}

/// Asserts that two statistics agree. The default pool tries its first region twice, so the sums of free ranges and the
/// calls for granules may differ when there is no room.
fn assert_same(pool: &Stats, plain: &Stats, growable: bool) {
    for quantity in Quantity::ALL {
        for part in stats::Pool::ALL {
            let (ours, theirs) = (pool.get(quantity, part), plain.get(quantity, part));
            assert_eq!(ours.current, theirs.current, "{quantity:?} {part:?}");
            if !matches!(quantity, Quantity::InactiveSplit | Quantity::InactiveSplitBytes) {
                assert_eq!(ours, theirs, "{quantity:?} {part:?}");
            }
        }
    }
    let (ours, theirs) = (pool.counters, plain.counters);
    assert_eq!((ours.alloc_retries, ours.ooms), (theirs.alloc_retries, theirs.ooms));
    if !growable {
        assert_eq!(ours.device_allocs, theirs.device_allocs);
        assert_eq!(ours.device_frees, theirs.device_frees);
    }
}

/// Returns whether a step is not about pools.
fn plain(step: &Step) -> bool {
    !matches!(step, Step::TrimPool(_) | Step::Replace(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(3000), ..ProptestConfig::default() })]

    /// All requests in one pool: the same places, and the pool has the statistics of the plain allocator.
    #[test]
    fn one_pool_is_the_plain_allocator(config in configs(), steps in steps()) {
        let (mut alone, mut pooled) = (Run::new(&config), Run::new(&config));
        pooled.pools = vec![Some(pooled.allocator.pool(PoolSpec::new("all")))];
        for step in steps.iter().filter(|step| plain(step)) {
            let (ours, theirs) = (pooled.step(step), alone.step(step));
            prop_assert_eq!(ours.map(Result::ok), theirs.map(Result::ok));
            let pool = pooled.pools[0].as_ref().unwrap();
            let growable = config.0.starts_with("growth");
            assert_same(&pool.stats(), &alone.allocator.stats(), growable);
            assert_same(&pooled.allocator.stats(), &alone.allocator.stats(), growable);
        }
    }

    /// Tags without budgets change no place and no statistics.
    #[test]
    fn tags_change_no_place(config in configs(), steps in steps()) {
        let none = [Budget::default(); 2];
        let mut tagged = Run::new(&config).with_pools([None, None]).with_tags(none);
        let mut plain = Run::new(&config).with_pools([None, None]);
        for step in &steps {
            prop_assert_eq!(tagged.step(step).map(Result::ok), plain.step(step).map(Result::ok));
            prop_assert_eq!(tagged.allocator.stats(), plain.allocator.stats());
            tagged.check_tags();
        }
    }

    /// With a pool for each stream, a block lies in a region of its stream alone.
    #[test]
    fn streams_with_pools_stay_apart(config in configs(), steps in steps()) {
        let (text, memory) = config;
        let mut run = Run::new(&(format!("{text},pools:stream"), memory));
        for step in &steps {
            run.step(step);
            run.check_pools();
        }
        for stream in 0..3 {
            let pool = run.allocator.stream_pool(stream).unwrap();
            prop_assert_eq!(pool.name(), format!("stream {stream}"));
        }
    }
}

/// Counts of what the histories did; they show whether a property was exercised.
#[derive(Debug, Default)]
struct Seen {
    placed: Cell<u32>,
    over_budget: Cell<u32>,
    over_limit: Cell<u32>,
    raised: Cell<u32>,
}

fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

impl Run {
    fn figures(&self) -> (Stats, Vec<PoolReport>, Vec<TagReport>) {
        (self.allocator.stats(), self.allocator.pools(), self.allocator.tags())
    }

    /// Does a step, checks its outcome, and applies the advice to raise a limit.
    fn checked_step(&mut self, step: &Step, seen: &Seen) {
        let before = self.figures();
        match self.step(step) {
            Some(Err(AllocateError::Budget(exceeded))) => {
                count(&seen.over_budget);
                assert!(exceeded.needed() > exceeded.budget);
                assert_eq!(before, self.figures(), "a refused request changes nothing");
            }
            Some(Err(AllocateError::OutOfMemory(report))) => {
                assert_eq!(before.2, self.allocator.tags(), "nothing is charged");
                assert_eq!(before.0.allocated(), self.allocator.stats().allocated());
                self.check_advice(step, &report, seen);
            }
            Some(Ok(_)) => count(&seen.placed),
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
        self.check_pools();
        self.check_tags();
    }

    /// Raises the limit of the request's pool as advised: the request then fits.
    fn check_advice(&mut self, step: &Step, report: &OutOfMemory, seen: &Seen) {
        let request = self.request(step).expect("it was a request");
        let pool = self.pools.iter().flatten().find(|pool| pool.id() == request.pool);
        let Some((pool, limit)) = pool.and_then(|pool| Some((pool, pool.limit()?))) else { return };
        count(&seen.over_limit);
        let raised = report.remedies().iter().find_map(|remedy| match remedy.step {
            RemedyStep::RaiseLimit { limit, .. } => Some(limit),
            _ => None,
        });
        if let Some(raised) = raised {
            assert!(raised > limit && report.advice().contains("raise the limit"));
            count(&seen.raised);
            pool.set_limit(Some(raised));
            self.blocks.push(self.allocator.allocate_for(&request).expect("the remedy was tried"));
        }
    }
}

#[test]
fn pools_add_up_and_stay_apart() {
    let seen = Seen::default();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases(3000)));
    let some = || prop::array::uniform2(prop::option::of(1_u64..16));
    let histories = (configs(), steps(), some(), some());
    let outcome = runner.run(&histories, |(config, steps, limits, hard)| {
        let budgets = hard.map(|hard| Budget { hard: hard.map(Bytes::mib), soft: None });
        let mut run = Run::new(&config).with_pools(limits).with_tags(budgets);
        steps.iter().for_each(|step| run.checked_step(step, &seen));
        run.blocks.clear();
        run.allocator.synchronize();
        run.pools.clear();
        run.allocator.trim();
        prop_assert_eq!(run.allocator.stats().reserved(), Bytes::ZERO);
        prop_assert_eq!(run.allocator.pools().len(), 1);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("{seen:?}");
    let enough = [&seen.over_budget, &seen.over_limit, &seen.raised].map(|it| it.get() > 10);
    assert_eq!(enough, [true; 3], "{seen:?}");
    assert!(seen.placed.get() > 1000, "{seen:?}");
}

/// Two threads allocate and free under one hard budget, while a third reads the figures.
#[test]
fn threads_never_exceed_a_budget_together() {
    let run = Run::new(&("fallback_sizes:[16MiB]".to_owned(), 64 << 20));
    let hard = Budget { hard: Some(Bytes::mib(3)), soft: Some(Bytes::mib(2)) };
    let run = run.with_pools([None, None]).with_tags([hard, Budget::default()]);
    let (allocator, tag) = (&run.allocator, run.tags[1]);
    let refused: u32 = std::thread::scope(|scope| {
        let work = |pool: usize| {
            let pool = run.pools[pool].as_ref().map(Pool::id).unwrap_or_default();
            let request = Request { tag, pool, ..Request::new(Bytes::mib(1)) };
            let mut blocks = Vec::new();
            let mut refused = 0;
            for step in 0..3000 {
                match allocator.allocate_for(&request) {
                    Ok(block) => blocks.push(block),
                    Err(AllocateError::Budget(_)) => {
                        refused += 1;
                        blocks.clear();
                    }
                    Err(error) => panic!("{error}"),
                }
                if step % 3 == 0 {
                    blocks.pop();
                }
            }
            refused
        };
        let threads = [1, 2].map(|pool| scope.spawn(move || work(pool)));
        for _ in 0..1000 {
            assert!(allocator.tag_report(tag).unwrap().allocated <= Bytes::mib(3));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(refused > 0, "the budget was reached");
    let report = allocator.tag_report(tag).unwrap();
    assert_eq!((report.allocated, report.blocks), (Bytes::ZERO, 0));
    assert!(report.peak <= Bytes::mib(3) && report.peak >= Bytes::mib(2));
}
