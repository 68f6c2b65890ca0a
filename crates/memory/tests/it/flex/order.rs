//! Stream order, held to a slow model: a device whose streams run behind the host, and an allocator that keeps the
//! state of every granule.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory as _, RegionId};
use cubeyard_memory::flex::{AllocateError, Allocation, FlexAllocator};
use cubeyard_memory::policy::{self, Request};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::card;
use super::lagging::{Lagging, LaggingState};
use crate::long_tests::cases;

const GRANULE: u64 = 128;
const GRANULES: usize = 96;
const STREAMS: u32 = 4;

/// State of a granule in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Granule {
    /// Free for all streams.
    Free,
    /// Freed on a stream at this time.
    Of(u32, u64),
    Taken,
}

/// The rules of stream order for one region of fixed size.
struct Model {
    granules: Vec<Granule>,
    best_fit: bool,
    /// Whether a second stream has appeared.
    several: bool,
    first: Option<u32>,
}

impl Model {
    fn see(&mut self, stream: u32) {
        let first = *self.first.get_or_insert(stream);
        self.several |= first != stream;
    }

    /// Frees what a complete event on its stream covers.
    fn sweep(&mut self, device: &LaggingState) {
        let mut passed = BTreeMap::new();
        for &(stream, work, time) in &device.events {
            if device.is_done(stream, work) {
                passed.insert(stream, time);
            }
        }
        for granule in &mut self.granules {
            if let Granule::Of(stream, time) = *granule
                && passed.get(&stream).is_some_and(|&passed| time < passed)
            {
                *granule = Granule::Free;
            }
        }
    }

    /// Returns the maximal runs of granules that satisfy a condition, as starts and lengths.
    fn runs(&self, wanted: impl Fn(Granule) -> bool) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (at, &granule) in self.granules.iter().enumerate() {
            match runs.last_mut() {
                Some((start, length)) if wanted(granule) && *start + *length == at => *length += 1,
                _ if wanted(granule) => runs.push((at, 1)),
                _ => {}
            }
        }
        runs
    }

    /// Returns the possible starts of the block for a request: among the stream's own ranges, then the free ones, then
    /// runs of both. Only best fit among free ranges of one size has a choice.
    fn find(&self, stream: u32, size: usize) -> Vec<usize> {
        let own = |granule| matches!(granule, Granule::Of(owner, _) if owner == stream);
        let fitting = |runs: Vec<(usize, usize)>| {
            let mut runs: Vec<_> = runs.into_iter().filter(|&(_, length)| length >= size).collect();
            runs.sort_by_key(|&(start, length)| (length, start));
            runs
        };
        let free = self.runs(|granule| granule == Granule::Free);
        let lowest = free.iter().filter(|&&(_, length)| length >= size).map(|&(start, _)| start);
        let best = fitting(free.clone());
        let equal = best.iter().filter(|run| run.1 == best[0].1).map(|&(start, _)| start);
        let in_free: Vec<_> =
            if self.best_fit { equal.collect() } else { lowest.take(1).collect() };
        let has_own = |&(start, length): &(usize, usize)| {
            self.granules[start..start + length].iter().any(|&granule| own(granule))
        };
        let usable = self.runs(|granule| granule == Granule::Free || own(granule));
        let across = fitting(usable.into_iter().filter(has_own).collect());
        let first =
            |runs: Vec<(usize, usize)>| runs.first().map(|&(start, _)| start).into_iter().collect();
        let choices = [first(fitting(self.runs(own))), in_free, first(across)];
        choices.into_iter().find(|starts: &Vec<_>| !starts.is_empty()).unwrap_or_default()
    }

    fn take(&mut self, start: usize, size: usize) {
        self.granules[start..start + size].fill(Granule::Taken);
    }

    fn free(&mut self, start: usize, size: usize, stream: u32, time: u64) {
        let freed = if self.several { Granule::Of(stream, time) } else { Granule::Free };
        self.granules[start..start + size].fill(freed);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate {
        stream: u32,
        size: usize,
    },
    Free(prop::sample::Index),
    /// Work that uses a live block, on the block's stream.
    Use(prop::sample::Index),
    Advance {
        stream: u32,
        by: u64,
    },
    Synchronize,
}

fn steps(streams: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..streams, 1_usize..20).prop_map(|(stream, size)| Step::Allocate { stream, size }),
        6 => any::<prop::sample::Index>().prop_map(Step::Free),
        3 => any::<prop::sample::Index>().prop_map(Step::Use),
        3 => (0..streams, 0_u64..4).prop_map(|(stream, by)| Step::Advance { stream, by }),
        1 => Just(Step::Synchronize),
    ];
    prop::collection::vec(step, 1..120)
}

/// Work that may still access a granule: the stream and number.
type Uses = Vec<BTreeMap<u32, u64>>;

struct Pair {
    allocator: FlexAllocator,
    device: Arc<Lagging>,
    model: Model,
    live: Vec<(Allocation, u32, usize, usize)>,
    uses: Uses,
}

thread_local! {
    static SEEN: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };

}

fn seen(what: &'static str) {
    SEEN.with_borrow_mut(|seen| *seen.entry(what).or_default() += 1);
}

impl Pair {
    fn new(block: &str) -> Self {
        let device = Arc::new(Lagging::default());
        let size = GRANULES as u64 * GRANULE;
        let config = format!("fallback_sizes:[{size}],max_regions:1,block:{block}");
        let allocator = FlexAllocator::builder(card(Bytes::new(size)))
            .config(config.parse().unwrap())
            .events(device.clone())
            .build()
            .unwrap();
        let granules = vec![Granule::Free; GRANULES];
        let model = Model { granules, best_fit: block == "best-fit", several: false, first: None };
        Self { allocator, device, model, live: Vec::new(), uses: vec![BTreeMap::new(); GRANULES] }
    }

    fn step(&mut self, step: Step) {
        let now = self.device.tick();
        match step {
            Step::Allocate { stream, size } => self.allocate(stream, size),
            Step::Free(pick) if !self.live.is_empty() => {
                let (block, stream, start, size) = self.live.remove(pick.index(self.live.len()));
                drop(block);
                self.model.free(start, size, stream, now);
            }
            Step::Use(pick) if !self.live.is_empty() => {
                let (_, stream, start, size) = self.live[pick.index(self.live.len())];
                self.access(stream, start, size);
            }
            Step::Advance { stream, by } => self.device.advance(stream, by),
            Step::Synchronize if now.is_multiple_of(7) => {
                self.allocator.synchronize();
                self.model.sweep(&self.device.state());
            }
            Step::Free(_) | Step::Use(_) | Step::Synchronize => {}
        }
    }

    fn access(&mut self, stream: u32, start: usize, size: usize) {
        let work = self.device.submit(stream);
        for granule in &mut self.uses[start..start + size] {
            granule.insert(stream, work);
        }
    }

    fn allocate(&mut self, stream: u32, size: usize) {
        let waits = self.device.state().waits;
        let second = !self.model.several && self.model.first.is_some_and(|first| first != stream);
        self.model.see(stream);
        let request = Request { stream, ..Request::new(Bytes::new(size as u64 * GRANULE)) };
        let ours = self.allocator.allocate_for(&request);
        let waited = self.device.state().waits - waits;
        let found = self.foretell(stream, size, waited - u64::from(second));
        match (ours, &found[..]) {
            (Ok(block), [_, ..]) => {
                let start = (block.address().offset.get() / GRANULE) as usize;
                assert!(found.contains(&start), "{request:?}: {start}, but {found:?}");
                self.note_place(start, size);
                self.is_safe(stream, start, size);
                self.model.take(start, size);
                self.access(stream, start, size);
                self.live.push((block, stream, start, size));
            }
            (Err(AllocateError::OutOfMemory(_)), []) => seen("refused"),
            (ours, found) => panic!("{request:?}: {ours:?}, but {found:?}"),
        }
    }

    /// Returns the places of a block by the model. The device has already seen the request: it was waited for `waits`
    /// times, which made every stream pass.
    fn foretell(&mut self, stream: u32, size: usize, waits: u64) -> Vec<usize> {
        if waits > 0 {
            seen("waited");
            // The wait may be what made events pass, so the model looks without the sweep.
            assert!(self.model.find(stream, size).is_empty(), "a wait was not needed");
        }
        self.model.sweep(&self.device.state());
        self.model.find(stream, size)
    }

    fn note_place(&self, start: usize, size: usize) {
        let part = &self.model.granules[start..start + size];
        let own = part.iter().filter(|granule| matches!(granule, Granule::Of(..))).count();
        seen(match own {
            0 => "free",
            _ if own == size => "own",
            _ => "across",
        });
    }

    /// Checks that no other stream can still access a new block, whatever the allocator's rules are.
    fn is_safe(&self, stream: u32, start: usize, size: usize) {
        let state = self.device.state();
        for granule in &self.uses[start..start + size] {
            for (&other, &work) in granule {
                assert!(
                    other == stream || state.is_done(other, work),
                    "stream {other} still uses it"
                );
            }
        }
    }
}

#[test]
fn ranges_go_to_streams_just_as_the_model_foretells() {
    for block in ["first-fit", "best-fit"] {
        SEEN.with_borrow_mut(BTreeMap::clear);
        let config =
            ProptestConfig { cases: cases(600), failure_persistence: None, ..Default::default() };
        let streams = 1..=STREAMS;
        let outcome = TestRunner::new(config).run(&streams.prop_flat_map(steps), |steps| {
            let mut pair = Pair::new(block);
            steps.into_iter().for_each(|step| pair.step(step));
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{block}: {error}"));
        let seen = SEEN.take();
        println!("{block}: {seen:?}");
        for what in ["free", "own", "across", "waited", "refused"] {
            assert!(
                seen.get(what).is_some_and(|&count| count > u64::from(cases(20))),
                "{block}: {seen:?}"
            );
        }
    }
}

/// Any configuration on a device with little memory: regions, growth, release, strategies.
struct Anyhow {
    allocator: FlexAllocator,
    card: Arc<Card>,
    device: Arc<Lagging>,
    live: Vec<(Allocation, u32)>,
    /// Streams of requests so far.
    streams: BTreeSet<u32>,
    /// Addresses that work accesses, with its stream and number.
    uses: Vec<(RegionId, u64, u64, u32, u64)>,
}

impl Anyhow {
    fn new(config: &str, memory: Bytes) -> Self {
        let device = Arc::new(Lagging::default());
        let card = Arc::new(Card::new(CardSpec::physical(memory)));
        let builder = FlexAllocator::builder(card.clone()).config(config.parse().unwrap());
        let allocator = builder.events(device.clone()).build().unwrap();
        let (live, streams, uses) = (Vec::new(), BTreeSet::new(), Vec::new());
        Self { allocator, card, device, live, streams, uses }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Allocate { stream, size } => {
                let size = Bytes::new(size as u64 * size as u64 * 20_000);
                let request = Request { stream, ..Request::new(size) };
                self.streams.insert(stream);
                let Ok(block) = self.allocator.allocate_for(&request) else { return };
                self.is_safe(&block, stream);
                self.access(&block, stream);
                self.live.push((block, stream));
                seen("placed");
            }
            Step::Free(pick) if !self.live.is_empty() => {
                drop(self.live.remove(pick.index(self.live.len())));
            }
            Step::Use(pick) if !self.live.is_empty() => {
                let (block, stream) = self.live.remove(pick.index(self.live.len()));
                let other = (stream + 1) % STREAMS;
                block.record_stream(other);
                self.access(&block, other);
                self.live.push((block, stream));
            }
            Step::Advance { stream, by } => self.device.advance(stream, by),
            Step::Synchronize => drop(self.allocator.compact().commit()),
            Step::Free(_) | Step::Use(_) => drop(self.allocator.trim()),
        }
        if self.streams.len() < 2 {
            // While there is one stream, the device orders a release after the stream's work.
            return;
        }
        let current = self.allocator.regions().iter().map(|region| region.id).collect::<Vec<_>>();
        let state = self.device.state();
        for &(region, _, _, stream, work) in &self.uses {
            let kept = current.contains(&region);
            assert!(kept || state.is_done(stream, work), "a released region is accessed");
        }
    }

    fn access(&mut self, block: &Allocation, stream: u32) {
        let work = self.device.submit(stream);
        let (address, size) = (block.address(), block.size().get());
        let start = address.offset.get();
        self.uses.push((address.region_id, start, start + size, stream, work));
    }

    fn is_safe(&self, block: &Allocation, stream: u32) {
        let (address, size) = (block.address(), block.size().get());
        let start = address.offset.get();
        let state = self.device.state();
        for &(region, low, high, other, work) in &self.uses {
            let apart = region != address.region_id || high <= start || start + size <= low;
            assert!(
                apart || other == stream || state.is_done(other, work),
                "stream {other} still accesses the block of stream {stream}"
            );
        }
    }
}

#[test]
fn no_configuration_gives_a_stream_what_another_may_access() {
    let regions: Vec<_> = policy::REGION.iter().map(|policy| policy.name).collect();
    let blocks: Vec<_> = policy::BLOCK.iter().map(|policy| policy.name).collect();
    let growth = vec!["fixed", "growable(1GiB)", "recycle(1GiB)", "recycle(64MiB)"];
    let release = vec!["never", "when_idle(0)"];
    let choices = (
        prop::sample::select(regions),
        prop::sample::select(blocks),
        prop::sample::select(growth),
        prop::sample::select(release),
        16_u64..80,
        steps(STREAMS),
    );
    let config =
        ProptestConfig { cases: cases(600), failure_persistence: None, ..Default::default() };
    SEEN.with_borrow_mut(BTreeMap::clear);
    let outcome =
        TestRunner::new(config).run(&choices, |(region, block, growth, release, memory, steps)| {
            let config = format!(
                "fallback_sizes:[32MiB;8MiB],max_regions:4,region:{region},block:{block},\
                 growth:{growth},release:{release}"
            );
            let mut anyhow = Anyhow::new(&config, Bytes::mib(memory));
            steps.into_iter().for_each(|step| anyhow.step(step));
            let Anyhow { allocator, card, live, .. } = anyhow;
            drop(live);
            allocator.synchronize();
            allocator.trim();
            assert_eq!(card.info().free, Bytes::mib(memory), "everything comes back");
            Ok(())
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let seen = SEEN.take();
    assert!(seen["placed"] > u64::from(cases(3000)), "{seen:?}");
}
