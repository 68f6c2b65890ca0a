//! Random programs under a subscriber: it changes nothing, and its events give the live blocks at every step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{Action, Allocation, Compaction, FlexAllocator, FlexConfig};
use cubeyard_memory::policy::{Kind, Request};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::ledger::Ledger;
use super::properties::{Step, any_configs, hold, steps};
use super::{ManualStreams, Strict, with_streams};
use crate::long_tests::cases;

/// A program in progress.
struct Program {
    allocator: FlexAllocator,
    events: Arc<ManualStreams>,
    live: Vec<Allocation>,
    plan: Option<Compaction>,
}

impl Program {
    fn new((config, memory): &(String, u64), ledger: Option<&Arc<Mutex<Ledger>>>) -> Self {
        let config: FlexConfig = config.parse().unwrap();
        let spec = CardSpec::virtual_function(Bytes::new(*memory), 8);
        let events = Arc::new(ManualStreams::default());
        let mut builder = FlexAllocator::builder(Arc::new(Strict::new(Card::new(spec))))
            .config(config)
            .events(events.clone());
        if let Some(ledger) = ledger {
            let ledger = Arc::clone(ledger);
            builder = builder.subscriber(move |event| ledger.lock().unwrap().apply(event));
        }
        Self { allocator: builder.build().unwrap(), events, live: Vec::new(), plan: None }
    }

    /// Runs one step, and returns what a caller can see of it.
    fn step(&mut self, number: usize, step: Step) -> String {
        let seen = match step {
            Step::Allocate { size, align, kind, stream } => {
                let (size, alignment) = (Bytes::new(size), Bytes::new(1 << align));
                let kind = Kind::ALL[kind];
                let from = Request { site: number as u32 % 5, ..Request::new(size) };
                let request = Request { alignment, kind, stream, ..from };
                let outcome = self.allocator.allocate_for(&request).map(|block| {
                    if number.is_multiple_of(7) {
                        block.record_stream((stream + 1) % 3);
                    }
                    let address = block.address();
                    self.live.push(block);
                    address
                });
                format!("{outcome:?}")
            }
            Step::Free(pick) if !self.live.is_empty() => {
                drop(self.live.swap_remove(pick.index(self.live.len())));
                String::new()
            }
            Step::Free(_) => {
                self.events.finish(number as u32 % 3);
                String::new()
            }
            Step::ResetPeaks => self.allocator.compact().commit().to_string(),
            // A plan is committed some steps later, or abandoned by a trim.
            Step::Compact => match self.plan.take() {
                Some(plan) => plan.commit().to_string(),
                None => format!("{:?}", self.plan.insert(self.allocator.compact()).moves().count()),
            },
            Step::Trim => {
                self.plan = None;
                self.allocator.trim().to_string()
            }
            Step::ResetAccumulated => format!("{:?}", self.allocator.synchronize()),
        };
        let (stats, snapshot) = (self.allocator.stats(), self.allocator.snapshot());
        format!("{seen} {:?} {:?}", stats.entries(), snapshot)
    }
}

/// Numbers of events, which show whether a property was exercised.
type Counts = Mutex<BTreeMap<&'static str, u64>>;

fn watched_and_alone(config: &(String, u64), steps: &[Step], counts: &Counts) {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut watched = Program::new(config, Some(&ledger));
    let mut alone = Program::new(config, None);
    for (number, &step) in steps.iter().enumerate() {
        let (ours, theirs) = (watched.step(number, step), alone.step(number, step));
        assert_eq!(ours, theirs, "after {step:?}");
        Ledger::check(&ledger, &watched.allocator);
        // The check takes a snapshot, which is an event of the history.
        drop((alone.allocator.snapshot(), alone.allocator.stats()));
    }
    drop(watched);
    let ledger = ledger.lock().unwrap();
    assert!(ledger.ranges.is_empty() && ledger.owned.is_empty() && ledger.reserved == 0);
    for (name, count) in &ledger.counts {
        *counts.lock().unwrap().entry(name).or_default() += count;
    }
}

#[test]
fn a_subscriber_changes_nothing_and_knows_every_block() {
    let counts = Counts::default();
    let config =
        ProptestConfig { cases: cases(600), failure_persistence: None, ..Default::default() };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&(any_configs(), steps()), |(config, steps)| {
        hold(&config, &steps, || watched_and_alone(&config, &steps, &counts))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let counts = counts.into_inner().unwrap();
    println!("under a subscriber: {counts:?}");
    assert_eq!(counts.len(), 13, "every action was seen: {counts:?}");
}

/// Counts a thread as working until it is dropped, also if the thread panics.
struct Working<'a>(&'a AtomicU64);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Runs three threads that allocate, and free their own and each other's blocks. `look` is called with every new block.
fn run_threads(allocator: &FlexAllocator, look: impl Fn(&Allocation) + Sync, working: &AtomicU64) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel()).unzip();
    thread::scope(|scope| {
        for (who, receiver) in receivers.into_iter().enumerate() {
            let (next, look) = (senders[(who + 1) % 3].clone(), &look);
            scope.spawn(move || {
                let _working = Working(working);
                let mut kept: Vec<Allocation> = Vec::new();
                for round in 0..400_u64 {
                    let size = Bytes::new(1 + round * 7919 % 150_000);
                    let request = Request { stream: (round % 3) as u32, ..Request::new(size) };
                    let block = allocator.allocate_for(&request).expect("there is room");
                    look(&block);
                    // If the other thread has ended, the block comes back.
                    let back = if round % 3 == 0 {
                        Some(block)
                    } else {
                        next.send(block).err().map(|error| error.0)
                    };
                    kept.extend(back.into_iter().chain(receiver.try_iter()));
                    while kept.len() > 20 {
                        drop(kept.swap_remove(round as usize % 20));
                    }
                }
            });
        }
    });
}

fn watch_threads(config: &str, compacts: bool) -> u64 {
    let device = Arc::new(Strict::new(Card::new(CardSpec::physical(Bytes::gib(1)))));
    let streams = Arc::new(ManualStreams::default());
    let allocator = with_streams(device.clone(), config, streams.clone());
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let (inside, handle) = (Arc::clone(&ledger), allocator.clone());
    let subscription = allocator.subscribe(move |event| {
        inside.lock().unwrap().apply(event);
        if event.number % 64 == 0 {
            assert!(handle.stats().reserved() <= Bytes::gib(1));
        }
    });
    let working = AtomicU64::new(3);
    thread::scope(|scope| {
        if compacts {
            scope.spawn(|| {
                while working.load(Ordering::Acquire) > 0 {
                    (0..3).for_each(|stream| streams.finish(stream));
                    allocator.compact().commit();
                }
            });
        }
        let owned = |block: &Allocation| {
            let address = block.address();
            let (_, segment) = allocator.segment_table().get(address.region_id).unwrap();
            let flat = segment.base + address.offset.get();
            ledger.lock().unwrap().owned.contains_key(&flat)
        };
        // A block that moves is known at its old place until the thread that moves it has delivered the event.
        run_threads(&allocator, |block| assert!(compacts || owned(block)), &working);
    });
    let (low, high) = (allocator.allocate(Bytes::mib(1)), allocator.allocate(Bytes::mib(1)));
    drop(low);
    allocator.synchronize();
    if compacts {
        assert!(allocator.compact().commit() > 0, "the block above the hole moves");
    }
    drop(high);
    allocator.synchronize();
    Ledger::check(&ledger, &allocator);
    assert!(subscription.is_active());
    let ledger = std::mem::take(&mut *ledger.lock().unwrap());
    assert_eq!((ledger.ranges.len(), ledger.count(Action::Alloc)), (0, 1202));
    assert_eq!(
        ledger.count(Action::FreeRequested) + ledger.count(Action::Move),
        ledger.count(Action::FreeCompleted) - ledger.count(Action::RoomReleased)
    );
    assert!(device.info().total > device.info().free);
    ledger.count(Action::Move)
}

#[test]
fn threads_deliver_their_events_in_one_order() {
    for config in ["block:best-fit", "region:thread-home", "growth:recycle(1GiB)"] {
        let config = format!("fallback_sizes:[64MiB],max_regions:4,{config}");
        watch_threads(&config, false);
    }
}

#[test]
fn events_of_moves_follow_each_other_on_several_threads() {
    for _ in 0..20 {
        assert!(watch_threads("fallback_sizes:[64MiB],max_regions:4", true) > 0);
    }
}
