//! Random histories. The RFC's allocator is compared with its model, which predicts every position and every figure;
//! all other configurations are checked for general invariants.

use std::cell::Cell;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{
    AllocateError, Allocation, BlockState, FlexAllocator, FlexConfig, Snapshot,
};
use cubeyard_memory::policy::{self, Kind, Request};
use cubeyard_memory::stats::{Pool, Quantity, Stats};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::model::{Model, Place};
use super::{ManualStreams, Strict};
use crate::long_tests::cases;

/// One step of a random history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Allocate { size: u64, align: u32, kind: usize, stream: u32 },
    Free(Index),
    Trim,
    Compact,
    ResetPeaks,
    ResetAccumulated,
}

/// Sizes around the limit of the pools and the sizes of regions; mostly small.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1_u64..2000,
        4 => (0_u32..22, any::<u64>()).prop_map(|(bits, raw)| 1 + raw % (1 << bits)),
        2 => (1_u64 << 19)..(3 << 20),
        1 => 1_u64..(9 << 20),
    ]
}

/// Returns histories of up to 120 steps.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let allocate =
        (sizes(), 0_u32..30, 0_usize..3, 0_u32..3).prop_map(|(size, align, kind, stream)| {
            Step::Allocate { size, align: align.saturating_sub(13), kind, stream }
        });
    let step = prop_oneof![
        60 => allocate,
        50 => any::<Index>().prop_map(Step::Free),
        2 => Just(Step::Trim),
        2 => Just(Step::Compact),
        1 => Just(Step::ResetPeaks),
        1 => Just(Step::ResetAccumulated),
    ];
    prop::collection::vec(step, 1..120)
}

fn fixed_configs() -> impl Strategy<Value = (String, u64)> {
    let sizes = prop::sample::subsequence(vec!["8MiB", "5MiB", "3000000", "1MiB"], 1..=4);
    let regions = prop::sample::select(vec!["load-balancing", "fill-first"]);
    let blocks = prop::sample::select(vec!["first-fit", "best-fit"]);
    let acquire = prop::sample::select(vec!["lazy", "first", "eager(2)"]);
    let memory = (1_u64 << 20)..(24 << 20);
    // A device whose memory does not change gives the same answer when it is asked again.
    let refusal = prop::sample::select(vec!["ask", "lock"]);
    (sizes, 1_usize..5, regions, blocks, acquire, refusal, memory).prop_map(
        |(sizes, max, region, block, acquire, refusal, memory)| {
            let sizes = sizes.join(";");
            let config = format!(
                "fallback_sizes:[{sizes}],max_regions:{max},region:{region},block:{block},acquire:{acquire},\
                 refusal:{refusal}"
            );
            (config, memory)
        },
    )
}

/// Formats the history as a readable trace script.
fn as_trace(config: &str, memory: u64, steps: &[Step]) -> String {
    let mut trace = format!("# {config}\nspace {memory}\ngranule 128\n");
    let mut live: Vec<usize> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Allocate { size, align, kind, stream } => {
                let kind = Kind::ALL[kind].name();
                let align = 1_u64 << align;
                writeln!(trace, "alloc b{number} {size} align {align} stream {stream} kind {kind}")
                    .unwrap();
                live.push(number);
            }
            Step::Free(pick) if !live.is_empty() => {
                let number = live.remove(pick.index(live.len()));
                writeln!(trace, "free b{number}").unwrap();
            }
            Step::Free(_) => {}
            other => writeln!(trace, "# {other:?}").unwrap(),
        }
    }
    trace
}

/// Runs a history; a panic becomes a failed case, with the history as a trace.
pub(crate) fn hold(
    (config, memory): &(String, u64),
    steps: &[Step],
    run: impl FnOnce(),
) -> Result<(), TestCaseError> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let trace = as_trace(config, *memory, steps);
        TestCaseError::fail(format!("{}\n{trace}", text.unwrap_or_default()))
    })
}

/// Counts of what the histories did; they show whether a property was exercised.
#[derive(Debug, Default)]
struct Seen {
    cases: Cell<u32>,
    steps: Cell<u32>,
    placed: Cell<u32>,
    refused: Cell<u32>,
    regions: Cell<u32>,
    moved: Cell<u32>,
}

fn count(counter: &Cell<u32>, by: usize) {
    counter.set(counter.get() + by as u32);
}

fn against_the_model((config, memory): &(String, u64), steps: &[Step], seen: &Seen) {
    let config: FlexConfig = config.parse().unwrap();
    let card = Arc::new(Strict::new(Card::new(CardSpec::physical(Bytes::new(*memory)))));
    let built = FlexAllocator::builder(card.clone()).config(config.clone()).build();
    let allocator = built.unwrap();
    let mut model = Model::new(config, *memory);
    let mut live: Vec<(Option<Allocation>, Place)> = Vec::new();
    count(&seen.cases, 1);
    for &step in steps {
        count(&seen.steps, 1);
        match step {
            Step::Allocate { size, align, .. } => {
                let alignment = Bytes::new(1 << align);
                let request = Request { alignment, ..Request::new(Bytes::new(size)) };
                match (allocator.allocate_for(&request), model.allocate(size, alignment.get())) {
                    (Ok(block), Ok(place)) => {
                        count(&seen.placed, 1);
                        let position = model.position(place);
                        assert_eq!(position_of(&allocator, &block), position, "{request:?}");
                        live.push((Some(block), place));
                    }
                    (Err(AllocateError::OutOfMemory(ours)), Err(theirs)) => {
                        count(&seen.refused, 1);
                        assert_eq!(ours.shortage, theirs.shortage);
                        assert_eq!(
                            (ours.free.get(), ours.largest.get()),
                            (theirs.free, theirs.largest)
                        );
                        assert_eq!(ours.regions_locked, theirs.locked);
                    }
                    (ours, theirs) => panic!("{request:?}: {ours:?}, but {theirs:?}"),
                }
            }
            Step::Free(pick) if !live.is_empty() => {
                let (block, place) = live.remove(pick.index(live.len()));
                drop(block);
                model.free(place);
            }
            Step::Free(_) | Step::Compact => {}
            Step::Trim => {
                let free = card.info().free;
                let trimmed = allocator.trim();
                assert_eq!(card.info().free, free + trimmed);
                model.trim();
            }
            Step::ResetPeaks => {
                allocator.reset_peak_stats();
                model.reset_peaks();
            }
            Step::ResetAccumulated => {
                allocator.reset_accumulated_stats();
                model.reset_accumulated();
            }
        }
        let stats = allocator.stats();
        let (ours, theirs) = (stats.entries(), model.entries());
        assert_eq!(ours.len(), 122);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "after {step:?}");
        }
        assert_eq!(allocator.regions_locked(), model.locked());
        assert_eq!(allocator.regions().len(), model.regions.len());
        let holes: Vec<Vec<_>> = parts_are_whole(&allocator.snapshot(), true);
        assert_eq!(holes, model.holes());
    }
    count(&seen.regions, model.regions.len());
    drop(live);
    allocator.trim();
    assert_eq!(card.info().free.get(), *memory, "everything comes back");
}

/// Returns the index of a block's region among all regions, oldest first, and the block's offset.
fn position_of(allocator: &FlexAllocator, block: &Allocation) -> (usize, u64) {
    let address = block.address();
    let regions = allocator.regions();
    let place = regions.iter().position(|region| region.id == address.region_id).unwrap();
    (place, address.offset.get())
}

/// Checks that the blocks of a segment are contiguous and fill it, and that no two adjacent ones are free (unless a
/// stream may still access one of them). Returns the free ranges of every segment.
pub(super) fn parts_are_whole(snapshot: &Snapshot, one_stream: bool) -> Vec<Vec<(u64, u64)>> {
    let mut holes = Vec::new();
    for segment in &snapshot.segments {
        let mut end = segment.address;
        let mut free = Vec::new();
        let mut after_free = false;
        for block in &segment.blocks {
            assert_eq!(block.address, end, "parts follow each other without gaps");
            end += block.size.get();
            let is_free = block.state == BlockState::Inactive;
            assert!(!(one_stream && after_free && is_free), "no two free parts touch");
            after_free = is_free;
            if is_free {
                free.push((block.address - segment.address, block.size.get()));
            }
        }
        assert_eq!(end, segment.address + segment.total_size.get(), "they fill the segment");
        holes.push(free);
    }
    holes
}

#[test]
fn fixed_regions_do_just_what_the_model_foretells() {
    let seen = Seen::default();
    let config =
        ProptestConfig { cases: cases(600), failure_persistence: None, ..Default::default() };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&(fixed_configs(), steps()), |(config, steps)| {
        hold(&config, &steps, || against_the_model(&config, &steps, &seen))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("against the model: {seen:?}");
    assert!(seen.cases.get() >= cases(600) && seen.steps.get() > cases(20_000));
    assert!(seen.placed.get() > cases(5_000) && seen.refused.get() > cases(500));
    assert!(seen.regions.get() > cases(300));
}

/// Returns configurations of every policy, with the memory of the device.
pub(crate) fn any_configs() -> impl Strategy<Value = (String, u64)> {
    let regions: Vec<_> = policy::REGION.iter().map(|policy| policy.name).collect();
    let blocks: Vec<_> = policy::BLOCK.iter().map(|policy| policy.name).collect();
    let growth = vec!["fixed", "growable(16MiB)", "recycle(16MiB)"];
    let release = vec!["never", "when_idle(4MiB)"];
    let own = vec!["[program]", "[staging;program]", "[tensor]"];
    (
        prop::sample::select(regions),
        prop::sample::select(blocks),
        prop::sample::select(growth),
        prop::sample::select(release),
        prop::sample::select(own),
        prop::sample::select(vec!["listed", "fitted", "all"]),
        1_usize..6,
        (1_u64 << 20)..(24 << 20),
    )
        .prop_map(|(region, block, growth, release, own, sizes, max, memory)| {
            let config = format!(
                "fallback_sizes:[8MiB;3MiB],max_regions:{max},region:{region},block:{block},\
                 growth:{growth},release:{release},own_regions:{own},sizes:{sizes},history:50"
            );
            (config, memory)
        })
}

/// Maximum of each quantity after any step.
type Peaks = [u64; 9];

fn in_general((config, memory): &(String, u64), steps: &[Step], streams: bool, seen: &Seen) {
    let config: FlexConfig = config.parse().unwrap();
    let card = Arc::new(Strict::new(Card::new(CardSpec::virtual_function(Bytes::new(*memory), 8))));
    let mut builder = FlexAllocator::builder(card.clone()).config(config);
    let events = Arc::new(ManualStreams::default());
    if streams {
        builder = builder.events(events.clone());
    }
    let allocator = builder.build().unwrap();
    let mut live: Vec<(Allocation, Request)> = Vec::new();
    let mut peaks = Peaks::default();
    count(&seen.cases, 1);
    for (number, &step) in steps.iter().enumerate() {
        count(&seen.steps, 1);
        match step {
            Step::Allocate { size, align, kind, stream } => {
                let (size, alignment) = (Bytes::new(size), Bytes::new(1 << align));
                let kind = Kind::ALL[kind];
                let request = Request { alignment, kind, stream, ..Request::new(size) };
                match allocator.allocate_for(&request) {
                    Ok(block) => {
                        if number % 3 == 0 {
                            block.record_stream((stream + 1) % 3);
                        }
                        live.push((block, request));
                        count(&seen.placed, 1);
                    }
                    Err(_) => count(&seen.refused, 1),
                }
            }
            Step::Free(pick) if !live.is_empty() => drop(live.remove(pick.index(live.len()))),
            Step::Free(_) => events.finish(number as u32 % 3),
            Step::Trim => drop(allocator.trim()),
            Step::Compact => count(&seen.moved, allocator.compact().commit()),
            Step::ResetPeaks => {
                allocator.reset_peak_stats();
                peaks = Peaks::default();
            }
            Step::ResetAccumulated => {}
        }
        let books = Books { allocator: &allocator, live: &live, reset: step, one_stream: !streams };
        books.hold(&card.info(), &mut peaks);
    }
    drop(live);
    allocator.synchronize();
    allocator.trim();
    assert_eq!(card.info().free.get(), *memory, "everything comes back");
    assert_eq!(card.regions(), 0);
}

struct Books<'a> {
    allocator: &'a FlexAllocator,
    live: &'a [(Allocation, Request)],
    reset: Step,
    one_stream: bool,
}

impl Books<'_> {
    fn hold(&self, info: &cubeyard_memory::device::MemoryInfo, peaks: &mut Peaks) {
        let stats = self.allocator.stats();
        self.blocks_are_apart();
        let snapshot = self.allocator.snapshot();
        parts_are_whole(&snapshot, self.one_stream);
        currents_are_the_snapshots(&stats, &snapshot, self.live.len() as u64);
        let current = |quantity| stats.get(quantity, Pool::All).current;
        assert!(current(Quantity::AllocatedBytes) <= current(Quantity::ActiveBytes));
        assert!(current(Quantity::ActiveBytes) <= current(Quantity::ReservedBytes));
        assert_eq!(stats.reserved(), info.total - info.free, "the device agrees");
        for quantity in Quantity::ALL {
            let [all, small, large] = Pool::ALL.map(|pool| stats.get(quantity, pool));
            for stat in [all, small, large] {
                assert_eq!(stat.current, stat.allocated - stat.freed, "{quantity:?}");
                assert!(stat.peak >= stat.current, "{quantity:?}");
            }
            assert_eq!(all.current, small.current + large.current, "{quantity:?}");
            assert_eq!(all.allocated, small.allocated + large.allocated, "{quantity:?}");
            let peak = &mut peaks[quantity as usize];
            *peak = (*peak).max(all.current);
            // A plan of moves temporarily holds more memory.
            if matches!(self.reset, Step::Compact) {
                *peak = all.peak;
            }
            let exact = matches!(quantity, Quantity::Allocation | Quantity::AllocatedBytes);
            assert!(
                all.peak >= *peak && (!exact || all.peak == *peak),
                "{quantity:?}: {all:?}, {peak}"
            );
        }
    }

    fn blocks_are_apart(&self) {
        let mut places: Vec<_> = self
            .live
            .iter()
            .map(|(block, request)| {
                let address = block.address();
                assert!(address.offset.is_aligned(request.alignment.max(Bytes::new(128))));
                assert_eq!((block.requested(), block.kind()), (request.size, request.kind));
                (address.region_id, address.offset, block.size())
            })
            .collect();
        places.sort_unstable();
        let apart = |pair: &[(_, Bytes, Bytes)]| {
            pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1
        };
        assert!(places.windows(2).all(apart), "{places:?}");
    }
}

/// Checks that the current figures are the sums of the snapshot, which has `live` blocks with an owner.
pub(super) fn currents_are_the_snapshots(stats: &Stats, snapshot: &Snapshot, live: u64) {
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let of = |wanted: fn(BlockState) -> bool| {
        let sizes = blocks.clone().filter(move |block| wanted(block.state));
        let sum: Bytes = sizes.clone().map(|block| block.size).sum();
        (sizes.count() as u64, sum.get())
    };
    let current = |quantity| stats.get(quantity, Pool::All).current;
    let allocated = of(|state| state == BlockState::Allocated);
    assert_eq!(allocated.0, live);
    assert_eq!(current(Quantity::Allocation), allocated.0);
    assert_eq!(current(Quantity::AllocatedBytes), allocated.1);
    let active = of(|state| state != BlockState::Inactive);
    assert_eq!((current(Quantity::Active), current(Quantity::ActiveBytes)), active);
    let requested: Bytes = blocks.clone().map(|block| block.requested).sum();
    assert_eq!(current(Quantity::RequestedBytes), requested.get());
    let reserved: Bytes = snapshot.segments.iter().map(|segment| segment.total_size).sum();
    assert_eq!(stats.reserved(), reserved);
}

#[test]
fn every_configuration_keeps_its_books() {
    let seen = Seen::default();
    let config =
        ProptestConfig { cases: cases(600), failure_persistence: None, ..Default::default() };
    let mut runner = TestRunner::new(config);
    let outcome =
        runner.run(&(any_configs(), steps(), any::<bool>()), |(config, steps, streams)| {
            hold(&config, &steps, || in_general(&config, &steps, streams, &seen))
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    println!("in general: {seen:?}");
    assert!(seen.cases.get() >= cases(600) && seen.steps.get() > cases(20_000));
    assert!(seen.placed.get() > cases(5_000) && seen.refused.get() > cases(500));
    assert!(seen.moved.get() > cases(30));
}
