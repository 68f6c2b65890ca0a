//! Short random programs of two or three threads.

use cubeyard_memory::device::RegionId;
use cubeyard_memory::flex::{Allocation, Pool, PoolSpec};
use cubeyard_memory::stats::{self, Quantity};
use shuttle::sync::{Arc, Mutex};

use super::{Strict, all_is_free, allocator, mib, run};

/// Number of random programs.
const PROGRAMS: u64 = 300;

/// Number of schedules of a random program, with each of the two schedulers.
const SCHEDULES_OF_PROGRAM: usize = 40;

/// One operation of a random program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u64),
    AllocateInPool(u64),
    /// Resizes the newest block.
    Resize(u64),
    FreeOldest,
    FreeNewest,
    /// Pins the newest block, and drops the block or the pin first.
    Pin {
        block_first: bool,
    },
    /// Makes the oldest block a token and frees it.
    Token,
    Compact,
    /// Moves at most this number of MiB.
    CompactStep(u64),
    Abandon,
    Pause,
    Resume,
    TrimPool,
    Trim,
    Figures,
}

/// A random program: a configuration, and the operations of two or three threads.
#[derive(Debug)]
struct Program {
    config: String,
    threads: Vec<Vec<Step>>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let growth = ["fixed", "fixed", "growable(8MiB)", "recycle(8MiB)"];
        let regions = ["load-balancing", "fill-first", "thread-home"];
        let blocks = ["first-fit", "best-fit", "quick-fit", "lifetime"];
        let release = ["never", "when_idle(0)"];
        let config = format!(
            "fallback_sizes:[8MiB],max_regions:2,growth:{},region:{},block:{},release:{}",
            growth[random.usize(..4)],
            regions[random.usize(..3)],
            blocks[random.usize(..4)],
            release[random.usize(..2)],
        );
        let mut threads = Vec::new();
        for _ in 0..random.usize(2..4) {
            threads.push((0..random.usize(2..6)).map(|_| step(&mut random)).collect());
        }
        Self { config, threads }
    }
}

fn step(random: &mut fastrand::Rng) -> Step {
    match random.u32(..18) {
        0 | 1 => Step::Allocate(random.u64(1..5)),
        2 | 12 => Step::AllocateInPool(random.u64(1..5)),
        13 => Step::Resize(random.u64(1..5)),
        14 => Step::CompactStep(random.u64(1..3)),
        15 => Step::Pause,
        16 => Step::Resume,
        17 => Step::TrimPool,
        3 => Step::FreeOldest,
        4 => Step::FreeNewest,
        5 | 6 => Step::Pin { block_first: random.bool() },
        7 => Step::Token,
        8 | 9 => Step::Compact,
        10 => [Step::Abandon, Step::Figures][random.usize(..2)],
        _ => Step::Trim,
    }
}

/// Ranges of pinned blocks: region, start and end.
type Pinned = Arc<Mutex<Vec<(RegionId, u64, u64)>>>;

/// Pins a block, checks that it overlaps no other pinned block, and drops both.
fn pin_and_drop(block: Allocation, pinned: &Pinned, block_first: bool) {
    let pin = block.pin();
    let (address, size) = (pin.address(), pin.size().get());
    assert_eq!(address, block.address(), "a pinned block stays");
    let start = address.offset.get();
    let range = (address.region_id, start, start + size);
    let mut known = pinned.lock().unwrap();
    let apart = |&(region, low, high): &(RegionId, u64, u64)| {
        region != range.0 || high <= range.1 || range.2 <= low
    };
    assert!(known.iter().all(apart), "{range:?} overlaps one of {known:?}");
    known.push(range);
    drop(known);
    if block_first {
        drop(block);
        pinned.lock().unwrap().retain(|other| *other != range);
        drop(pin);
    } else {
        pinned.lock().unwrap().retain(|other| *other != range);
        drop(pin);
        drop(block);
    }
}

fn perform(steps: &[Step], pool: &Pool, mut own: Vec<Allocation>, pinned: &Pinned) {
    let allocator = pool.allocator();
    for step in steps {
        match *step {
            Step::Allocate(size) => own.extend(allocator.allocate(mib(size))),
            Step::AllocateInPool(size) => own.extend(pool.allocate(mib(size))),
            Step::Resize(size) => {
                // The range behind it may be taken, the block pinned or paused.
                let _ = own.last().map(|block| block.resize(mib(size)));
            }
            Step::CompactStep(size) => _ = allocator.compact_step(mib(size)).commit(),
            // Regions of fixed size cannot rest, nor can pinned blocks.
            Step::Pause => _ = pool.pause(),
            Step::Resume => _ = pool.resume(),
            Step::TrimPool => _ = pool.trim(),
            Step::FreeOldest if !own.is_empty() => drop(own.remove(0)),
            Step::FreeNewest => drop(own.pop()),
            Step::Pin { block_first } => {
                own.pop().into_iter().for_each(|block| pin_and_drop(block, pinned, block_first));
            }
            Step::Token if !own.is_empty() => {
                let token = own.remove(0).into_token();
                allocator.pin_token(token).unwrap();
                allocator.free_token(token).unwrap();
                assert!(allocator.free_token(token).is_err());
            }
            Step::Compact => _ = allocator.compact().commit(),
            Step::Abandon => drop(allocator.compact()),
            Step::Trim => _ = allocator.trim(),
            Step::Figures => {
                let stats = allocator.stats();
                let active = stats.get(Quantity::ActiveBytes, stats::Pool::All).current;
                assert!(stats.allocated().get() <= active);
                assert!(active <= stats.reserved().get());
            }
            Step::FreeOldest | Step::Token => {}
        }
    }
    // What is left is pinned once more, so that no two blocks overlap in the end.
    own.into_iter().for_each(|block| pin_and_drop(block, pinned, true));
}

fn perform_all(program: &Program) {
    let device = Strict::new(mib(16));
    let allocator = allocator(&device, &program.config);
    let (pool, pinned) = (allocator.pool(PoolSpec::new("pool")), Pinned::default());
    let mut blocks: Vec<_> = (0..5).map_while(|_| allocator.allocate(mib(1)).ok()).collect();
    drop(blocks.remove(0));
    let threads = program.threads.iter().map(|steps| -> Box<dyn FnOnce() + Send> {
        let (steps, pool, pinned) = (steps.clone(), pool.clone(), pinned.clone());
        let own: Vec<_> = blocks.pop().into_iter().collect();
        Box::new(move || perform(&steps, &pool, own, &pinned))
    });
    let threads: Vec<_> = threads.collect();
    drop((blocks, pool));
    run(threads);
    all_is_free(allocator, &device);
}

/// Short random programs: whatever threads do, no two blocks overlap, and everything is returned.
#[test]
fn random_programs() {
    for seed in 0..PROGRAMS {
        let program = std::sync::Arc::new(Program::new(seed));
        println!("program {seed}: {program:?}");
        let scenario = move || perform_all(&program);
        shuttle::check_random(scenario.clone(), SCHEDULES_OF_PROGRAM);
        shuttle::check_pct(scenario, SCHEDULES_OF_PROGRAM, 3);
    }
}
