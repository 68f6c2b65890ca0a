//! Advice is tried before it is given: each remedy of a report, applied, makes room for the request.

mod corpus;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{AddressMode, Card, DeviceMemory, MemoryInfo, RegionHandle};
use cubeyard_memory::flex::{
    AllocateError, Allocation, FlexAllocator, OutOfMemory, Remedy, RemedyBasis, RemedyStep,
};
use cubeyard_memory::policy::Request;

use super::{ManualStreams, allocator, card, with_streams};
use corpus::{Case, Run};

/// Number of out-of-memory states in the corpus.
const STATES: usize = 200;

fn refused(result: Result<impl Sized, AllocateError>) -> Option<OutOfMemory> {
    match result {
        Err(AllocateError::OutOfMemory(report)) => Some(*report),
        _ => None,
    }
}

fn fits(allocator: &FlexAllocator, request: &Request) -> bool {
    allocator.allocate_for(request).is_ok()
}

/// Runs the whole program of a case under other settings, and returns whether it and the refused request fit.
fn fits_with(case: &Case, request: &Request, setting: &str) -> bool {
    let mut case = case.clone();
    case.config.update(setting).unwrap();
    let Some(run) = case.run() else { return false };
    fits(&run.allocator, request)
}

/// Places the live blocks of a run under other settings. Blocks of the oldest region come first, in the order of their
/// allocation.
fn fits_anew(case: &Case, run: &Run, request: &Request, setting: &str) -> bool {
    let mut case = case.clone();
    case.operations.clear();
    case.config.update(setting).unwrap();
    let fresh = case.run().unwrap().allocator;
    let mut blocks = Vec::new();
    for region in run.allocator.regions() {
        for (address, request) in run.live() {
            if address.region_id == region.id {
                let Ok(block) = fresh.allocate_for(&request) else { return false };
                blocks.push(block);
            }
        }
    }
    fits(&fresh, request)
}

/// Applies a remedy to a fresh run of the case, and returns whether the request then fits.
fn helps(case: &Case, request: &Request, remedy: &Remedy) -> bool {
    let mut run = case.run().unwrap();
    assert!(refused(run.allocator.allocate_for(request)).is_some(), "the run is repeatable");
    match &remedy.step {
        RemedyStep::Retry => {}
        RemedyStep::Trim { bytes } => assert_eq!(run.allocator.trim(), *bytes),
        RemedyStep::Compact { trim, .. } => {
            assert!(run.allocator.compact().commit() > 0);
            if *trim {
                run.allocator.trim();
            }
        }
        RemedyStep::Free { blocks, bytes } => {
            let before = run.allocator.stats().allocated();
            blocks.iter().for_each(|&address| run.free_at(address));
            assert_eq!(before - run.allocator.stats().allocated(), *bytes);
        }
        RemedyStep::Configure(setting) => {
            return match remedy.basis {
                RemedyBasis::LiveBlocks => fits_anew(case, &run, request, setting),
                _ => fits_with(case, request, setting),
            };
        }
        other => panic!("no case of the corpus needs {other:?}"),
    }
    fits(&run.allocator, request)
}

/// Settings that place blocks elsewhere, as a user would try them.
const OTHERS: [&str; 9] = [
    "block:first-fit",
    "block:best-fit",
    "block:quick-fit",
    "block:lifetime",
    "region:load-balancing",
    "region:fill-first",
    "growth:growable(4GiB)",
    "growth:recycle(4GiB)",
    "sizes:fitted",
];

/// Returns the settings that would make room although the report does not name them.
fn forgotten(case: &Case, request: &Request, report: &OutOfMemory) -> Vec<String> {
    let named: Vec<_> = report.remedies().iter().map(|remedy| remedy.step.to_string()).collect();
    let is_named = |setting: &str| {
        let name = setting.split('(').next().unwrap();
        named.iter().any(|step| step.contains(name))
    };
    let unnamed = OTHERS.into_iter().filter(|setting| !is_named(setting));
    let possible = unnamed.filter(|setting| case.commits || !setting.starts_with("growth"));
    possible.filter(|setting| fits_with(case, request, setting)).map(str::to_owned).collect()
}

/// Returns whether a step that the report does not name would make room.
fn forgets_a_step(case: &Case, request: &Request, report: &OutOfMemory) -> bool {
    let named = |wanted: fn(&RemedyStep) -> bool| {
        report.remedies().iter().any(|remedy| wanted(&remedy.step))
    };
    let refused_run = || {
        let run = case.run().unwrap();
        assert!(!fits(&run.allocator, request));
        run
    };
    let trim = || {
        let run = refused_run();
        run.allocator.trim();
        fits(&run.allocator, request)
    };
    let compact = || {
        let run = refused_run();
        run.allocator.compact().commit() > 0 && fits(&run.allocator, request)
    };
    !named(|step| matches!(step, RemedyStep::Trim { .. })) && trim()
        || !named(|step| matches!(step, RemedyStep::Compact { trim: false, .. })) && compact()
}

/// Returns the name of a remedy for the count of what was seen.
fn name(remedy: &Remedy) -> String {
    let text = match &remedy.step {
        RemedyStep::Configure(setting) => setting.clone(),
        step => format!("{step:?}"),
    };
    text.split([':', ' ']).next().unwrap_or_default().to_owned()
}

#[test]
fn every_remedy_of_200_reports_makes_room_once_applied() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut bases = [0; 3];
    let states = (0..).filter_map(corpus::exhausted).take(STATES);
    let mut helped = 0;
    for (case, request, report) in states {
        helped += usize::from(!report.remedies().is_empty());
        for remedy in report.remedies() {
            assert!(helps(&case, &request, remedy), "{remedy}\n{:?}\n{report}", case.config);
            *seen.entry(name(remedy)).or_default() += 1;
            bases[match remedy.basis {
                RemedyBasis::Layout => 0,
                RemedyBasis::LiveBlocks => 1,
                _ => 2,
            }] += 1;
        }
    }
    assert!(helped > 150, "{helped} of {STATES} reports name a remedy");
    assert!(bases.iter().all(|&count| count > 10), "{bases:?}");
    for name in [
        "Compact",
        "Trim",
        "Free",
        "block",
        "region",
        "growth",
        "max_regions",
        "fallback_sizes",
        "release",
        "sizes",
    ] {
        assert!(seen.contains_key(name), "no report names {name}: {seen:?}");
    }
}

#[test]
fn what_a_report_does_not_name_makes_no_room() {
    let (mut exact, mut steps) = (0, 0);
    for (case, request, report) in (0..).filter_map(corpus::exhausted).take(STATES) {
        if report.remedies().iter().all(|remedy| remedy.step != RemedyStep::Retry) {
            steps += 1;
            assert!(!forgets_a_step(&case, &request, &report), "{:?}\n{report}", case.config);
        }
        if case.is_exact() && !report.advice().contains("not tried") {
            exact += 1;
            let forgotten = forgotten(&case, &request, &report);
            assert!(forgotten.is_empty(), "{forgotten:?}\n{:?}\n{report}", case.config);
        }
    }
    assert!(exact > 20 && steps > 150, "{exact} histories, {steps} states");
}

/// A device that frees a block of the allocator while it is asked for its free memory.
struct Freeing {
    card: Arc<Card>,
    block: Mutex<Option<Allocation>>,
}

impl DeviceMemory for Freeing {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.card.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.card.release(region);
    }
    fn info(&self) -> MemoryInfo {
        drop(self.block.lock().unwrap().take());
        self.card.info()
    }
}

#[test]
fn a_block_that_waits_for_its_stream_can_be_waited_for() {
    let device = Arc::new(Freeing { card: card(Bytes::mib(8)), block: Mutex::default() });
    let streams = Arc::new(ManualStreams::default());
    let allocator = with_streams(device.clone(), "fallback_sizes:[8MiB]", streams);
    let half = |stream| Request { stream, ..Request::new(Bytes::mib(4)) };
    *device.block.lock().unwrap() = Some(allocator.allocate_for(&half(0)).unwrap());
    let _kept = allocator.allocate_for(&half(1)).unwrap();
    let report = refused(allocator.allocate_for(&half(1))).expect("memory is full");
    assert_eq!(report.pending, Bytes::mib(4));
    assert_eq!(report.remedies()[0].step, RemedyStep::Synchronize, "{report}");
    allocator.synchronize();
    assert!(fits(&allocator, &half(1)));
}

/// Trials take time in the number of blocks, and a callback is called often.
#[test]
fn nothing_is_tried_for_a_callback_or_for_too_many_blocks() {
    let allocator = allocator(card(Bytes::mib(4)), "fallback_sizes:[4MiB]");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    allocator.on_pressure(move |report| seen.lock().unwrap().push(report.remedies().len()));
    let mut blocks: Vec<_> =
        (0..10_000).map(|_| allocator.allocate(Bytes::new(128)).unwrap()).collect();
    let report = refused(allocator.allocate(Bytes::mib(3))).expect("1.2 MiB are in use");
    assert!(report.remedies().iter().any(|remedy| name(remedy) == "Free"), "{report}");
    blocks.push(allocator.allocate(Bytes::new(128)).unwrap());
    let report = refused(allocator.allocate(Bytes::mib(3))).expect("1.2 MiB are in use");
    assert!(
        report.remedies().is_empty() && report.advice().contains("up to 10000 blocks"),
        "{report}"
    );
    assert_eq!(*calls.lock().unwrap(), [0, 0]);
}
