//! Benchmark of the free-space index against its peers: nanoseconds per allocation and free, and ratios.
//!
//! `cargo bench -p cubeyard-memory --bench index` runs all contestants in one process. They take turns, so that a noisy
//! machine disturbs all of them equally. Each figure is the lower quartile over the chunks of all rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Instant;

use cubeyard_memory::Bytes;
use cubeyard_memory::index::{BlockKey, Fit, FreeIndex};

const GRANULE: u64 = 128;
const CHUNK: usize = 2048;

/// Interface of a contestant: allocate a block, free a block.
trait Contestant {
    fn allocate(&mut self, slot: usize, units: u64);
    fn free(&mut self, slot: usize);
}

/// The crate's own index, with the fit fixed at compile time, as in a program that has chosen one.
struct Index<const WHICH: usize> {
    index: FreeIndex,
    keys: Vec<Option<BlockKey>>,
}

impl<const WHICH: usize> Index<WHICH> {
    fn new(workload: &Workload) -> Self {
        let space = Bytes::new(workload.space * GRANULE);
        let index = FreeIndex::new(space, Bytes::new(GRANULE));
        Self { index, keys: vec![None; workload.slots] }
    }

    /// Bytes that the index itself occupies for each live block once the workload has run.
    fn metadata(workload: &Workload) -> f64 {
        let mut this = Self::new(workload);
        apply(&mut this, &workload.steps);
        this.index.footprint() as f64 / this.index.live_blocks() as f64
    }
}

impl<const WHICH: usize> Contestant for Index<WHICH> {
    fn allocate(&mut self, slot: usize, units: u64) {
        let size = Bytes::new(units * GRANULE);
        let block = match WHICH {
            FIRST => self.index.allocate(Fit::First, size, 0),
            BEST => self.index.allocate(Fit::Best, size, 0),
            _ => self.index.allocate_quick(size, 0),
        };
        self.keys[slot] = Some(block.expect("the space is large enough").key);
    }
    fn free(&mut self, slot: usize) {
        let key = self.keys[slot].take().expect("live");
        match WHICH {
            QUICK => self.index.free_quick(key).expect("live"),
            _ => self.index.free(key).expect("live"),
        };
    }
}

struct Crate {
    inner: offset_allocator::Allocator<u32>,
    keys: Vec<Option<offset_allocator::Allocation<u32>>>,
    /// Number of the benchmark's units per unit of the peer, whose offsets have 32 bits.
    scale: u64,
}

impl Contestant for Crate {
    fn allocate(&mut self, slot: usize, units: u64) {
        let units = u32::try_from(units.div_ceil(self.scale)).expect("scaled to fit");
        self.keys[slot] = Some(self.inner.allocate(units).expect("the space is large enough"));
    }
    fn free(&mut self, slot: usize) {
        self.inner.free(self.keys[slot].take().expect("live"));
    }
}

/// Sorted free ranges in a `Vec`, as in the seed implementations: first fit by linear scan, binary search on free.
struct Flat {
    free: Vec<(u64, u64)>,
    live: Vec<(u64, u64)>,
}

impl Contestant for Flat {
    fn allocate(&mut self, slot: usize, units: u64) {
        let place = self
            .free
            .iter()
            .position(|&(_, size)| size >= units)
            .expect("the space is large enough");
        let (start, size) = self.free[place];
        self.live[slot] = (start, units);
        if size == units {
            self.free.remove(place);
        } else {
            self.free[place] = (start + units, size - units);
        }
    }
    fn free(&mut self, slot: usize) {
        let (start, mut size) = self.live[slot];
        let place = self.free.partition_point(|&(other, _)| other < start);
        if place < self.free.len() && start + size == self.free[place].0 {
            size += self.free.remove(place).1;
        }
        if place > 0 && self.free[place - 1].0 + self.free[place - 1].1 == start {
            self.free[place - 1].1 += size;
        } else {
            self.free.insert(place, (start, size));
        }
    }
}

/// Best fit with the standard library's B-trees: free ranges by address and by size.
struct Trees {
    /// Size of each free range, by start.
    ranges: BTreeMap<u64, u64>,
    /// Free ranges as `(size, start)`.
    sizes: BTreeSet<(u64, u64)>,
    live: Vec<(u64, u64)>,
}

impl Trees {
    fn add(&mut self, start: u64, size: u64) {
        self.ranges.insert(start, size);
        self.sizes.insert((size, start));
    }
    fn drop(&mut self, start: u64, size: u64) {
        self.ranges.remove(&start);
        self.sizes.remove(&(size, start));
    }
}

impl Contestant for Trees {
    fn allocate(&mut self, slot: usize, units: u64) {
        let &(size, start) =
            self.sizes.range((units, 0)..).next().expect("the space is large enough");
        self.drop(start, size);
        if size > units {
            self.add(start + units, size - units);
        }
        self.live[slot] = (start, units);
    }
    fn free(&mut self, slot: usize) {
        let (mut start, mut size) = self.live[slot];
        if let Some((&next, &more)) = self.ranges.range(start..).next()
            && next == start + size
        {
            self.drop(next, more);
            size += more;
        }
        if let Some((&prev, &more)) = self.ranges.range(..start).next_back()
            && prev + more == start
        {
            self.drop(prev, more);
            (start, size) = (prev, size + more);
        }
        self.add(start, size);
    }
}

/// A workload: allocations into slots with their sizes in units, and frees.
struct Workload {
    name: String,
    /// `Some(units)` allocates into the slot, `None` frees it.
    steps: Vec<(usize, Option<u64>)>,
    slots: usize,
    /// Number of steps before the clock starts.
    warm: usize,
    /// Size of the space in units.
    space: u64,
}

/// Returns a workload of `live` blocks of 256 B to 16 MiB, which are replaced at random.
fn churn(live: usize) -> Workload {
    let mut random = fastrand::Rng::with_seed(live as u64);
    let size = |random: &mut fastrand::Rng| (256 + random.u64(..16 << 20)).div_ceil(GRANULE);
    let mut steps: Vec<_> = (0..live).map(|slot| (slot, Some(size(&mut random)))).collect();
    let warm = live + 2 * live.max(50_000);
    while steps.len() < warm + 200_000 {
        let slot = random.usize(..live);
        steps.push((slot, None));
        steps.push((slot, Some(size(&mut random))));
    }
    Workload {
        name: format!("random {live}"),
        steps,
        slots: live,
        warm,
        space: live as u64 * (16 << 20) / GRANULE,
    }
}

/// Returns a bundled trace, reduced to slots and sizes.
fn bundled(name: &str) -> Workload {
    let path = format!("{}/../../testdata/traces/{name}.csv.gz", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    let file = std::fs::File::open(&path).expect("the traces are in testdata");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("the traces are text");
    let (mut slots, mut spare, mut steps) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (mut live, mut peak, mut most) = (0, 0, 0);
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let units = fields[4].parse::<u64>().expect("a size").div_ceil(GRANULE).max(1);
        if fields[2] == "allocate" {
            let slot = spare.pop().unwrap_or(most);
            most = most.max(slot + 1);
            slots.insert(fields[3].to_owned(), slot);
            live += units;
            peak = peak.max(live);
            steps.push((slot, Some(units)));
        } else {
            let slot = slots.remove(fields[3]).expect("allocated before");
            spare.push(slot);
            live -= units;
            steps.push((slot, None));
        }
    }
    // Blocks that the trace leaves live are freed here, so that the trace can run again. The first run is warm-up.
    steps.extend(slots.into_values().map(|slot| (slot, None)));
    let warm = steps.len();
    let steps = steps.repeat(3);
    Workload { name: name.to_owned(), steps, slots: most, warm, space: 2 * peak }
}

const FIRST: usize = 0;
const BEST: usize = 1;
const QUICK: usize = 2;
const CRATE: usize = 3;
const FLAT: usize = 4;
const TREES: usize = 5;
const NAMES: [&str; 6] =
    ["first fit", "best fit", "quick fit", "offset-allocator", "flat list", "btree best fit"];

fn contestant(which: usize, workload: &Workload) -> Box<dyn Contestant> {
    let (space, slots) = (workload.space, workload.slots);
    match which {
        FIRST => Box::new(Index::<FIRST>::new(workload)),
        BEST => Box::new(Index::<BEST>::new(workload)),
        QUICK => Box::new(Index::<QUICK>::new(workload)),
        CRATE => {
            let scale = space.div_ceil(u64::from(u32::MAX / 2)).next_power_of_two();
            let space = u32::try_from(space / scale).expect("scaled to fit");
            let inner = offset_allocator::Allocator::with_max_allocs(space, 1 << 20);
            Box::new(Crate { inner, keys: vec![None; slots], scale })
        }
        FLAT => Box::new(Flat { free: vec![(0, space)], live: vec![(0, 0); slots] }),
        _ => Box::new(Trees {
            ranges: BTreeMap::from([(0, space)]),
            sizes: BTreeSet::from([(space, 0)]),
            live: vec![(0, 0); slots],
        }),
    }
}

fn apply(contestant: &mut (impl Contestant + ?Sized), steps: &[(usize, Option<u64>)]) {
    for &(slot, units) in steps {
        match units {
            Some(units) => contestant.allocate(slot, units),
            None => contestant.free(slot),
        }
    }
}

/// Runs a workload and appends the nanoseconds per allocation and free of each chunk.
fn run(workload: &Workload, which: usize, chunks: &mut Vec<f64>) {
    let mut contestant = contestant(which, workload);
    let (warm, mut timed) = workload.steps.split_at(workload.warm);
    apply(contestant.as_mut(), warm);
    if is_slow(workload, which) {
        timed = &timed[..8 * CHUNK];
    }
    for chunk in timed.chunks_exact(CHUNK) {
        let begin = Instant::now();
        apply(contestant.as_mut(), chunk);
        chunks.push(begin.elapsed().as_nanos() as f64 / (CHUNK / 2) as f64);
    }
}

/// The list takes seconds to fill at 100,000 blocks, so it has fewer rounds and chunks there.
fn is_slow(workload: &Workload, which: usize) -> bool {
    which == FLAT && workload.slots == 100_000
}

/// Measures the contestants in turns and returns the lower quartile of each.
fn measure(workload: &Workload) -> [f64; NAMES.len()] {
    let mut chunks = [const { Vec::new() }; NAMES.len()];
    for round in 0..5 {
        for (which, chunks) in chunks.iter_mut().enumerate() {
            if round < 2 || !is_slow(workload, which) {
                run(workload, which, chunks);
            }
        }
    }
    chunks.map(|mut chunks| {
        chunks.sort_by(f64::total_cmp);
        chunks[chunks.len() / 4]
    })
}

fn print_row(name: &str, cells: [String; NAMES.len()]) {
    println!("{name:<18}{}", cells.map(|cell| format!("{cell:>18}")).concat());
}

fn print_figures(name: &str, figures: [f64; NAMES.len()]) {
    print_row(name, figures.map(|ns| format!("{ns:.1}")));
}

fn main() {
    // `-- NAME` runs the workloads whose name contains NAME.
    let wanted = std::env::args().skip(1).find(|argument| argument != "--bench");
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| name.contains(wanted));
    println!("ns for an allocation and its free\n");
    print_row("", NAMES.map(str::to_owned));
    bench_traces(is_wanted);
    bench_churn(is_wanted);
}

fn bench_traces(is_wanted: impl Fn(&str) -> bool) {
    let names = ["gpt2_train", "llama_generate", "llama_train_ckpt", "resnet_train", "serving_mix"];
    let names: Vec<_> = names.into_iter().filter(|name| is_wanted(name)).collect();
    let mut logs = [0.0; NAMES.len()];
    for name in &names {
        let figures = measure(&bundled(name));
        print_figures(name, figures);
        logs.iter_mut().zip(figures).for_each(|(log, figure)| *log += figure.ln());
    }
    if names.is_empty() {
        return;
    }
    let means = logs.map(|log| (log / names.len() as f64).exp());
    print_figures("traces (geo mean)", means);
    let of_crate = |which: usize| means[which] / means[CRATE];
    println!(
        "\n  of offset-allocator's time, first fit takes {:.2}, best fit {:.2} and quick fit {:.2}\n",
        of_crate(FIRST),
        of_crate(BEST),
        of_crate(QUICK)
    );
}

fn bench_churn(is_wanted: impl Fn(&str) -> bool) {
    for workload in [1_000, 10_000, 100_000].map(churn) {
        if !is_wanted(&workload.name) {
            continue;
        }
        let figures = measure(&workload);
        print_figures(&workload.name, figures);
        if workload.slots == 100_000 {
            println!(
                "\n  first fit is {:.0} times as fast as the flat list, best fit {:.1} times as btree",
                figures[FLAT] / figures[FIRST],
                figures[TREES] / figures[BEST]
            );
            println!(
                "  metadata for a live block: first fit {:.1} bytes, best fit {:.1}",
                Index::<FIRST>::metadata(&workload),
                Index::<BEST>::metadata(&workload)
            );
        }
    }
}
