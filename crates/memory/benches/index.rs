//! The free-space index against its peers: nanoseconds for an allocation and its free, and ratios.
//!
//! `cargo bench -p cubeyard-memory --bench index` runs everything in one process, the contestants
//! taking turns, so that a noisy machine disturbs all of them alike. Each figure is the lower
//! quartile of the chunks of all rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use cubeyard_memory::Bytes;
use cubeyard_memory::index::{BlockKey, Fit, FreeIndex};

const GRANULE: u64 = 128;
const CHUNK: usize = 2048;

/// What a contestant must do: hand out a block, take it back.
trait Contestant {
    fn allocate(&mut self, slot: usize, units: u64);
    fn free(&mut self, slot: usize);
}

struct Index {
    index: FreeIndex,
    fit: Fit,
    keys: Vec<Option<BlockKey>>,
}

impl Contestant for Index {
    fn allocate(&mut self, slot: usize, units: u64) {
        let block = self.index.allocate(self.fit, Bytes::new(units * GRANULE), 0);
        self.keys[slot] = Some(block.expect("the space is large enough").key);
    }
    fn free(&mut self, slot: usize) {
        let key = self.keys[slot].take().expect("live");
        black_box(self.index.free(key).expect("live"));
    }
}

struct Crate {
    inner: offset_allocator::Allocator<u32>,
    keys: Vec<Option<offset_allocator::Allocation<u32>>>,
    /// Units of ours in one of its own, since its offsets have 32 bits.
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

/// The seeds' list: sorted free ranges in a `Vec`, first fit by scanning, binary search on free.
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
        let (mut start, mut size) = self.live[slot];
        let place = self.free.partition_point(|&(other, _)| other < start);
        if place < self.free.len() && start + size == self.free[place].0 {
            size += self.free.remove(place).1;
        }
        if place > 0 && self.free[place - 1].0 + self.free[place - 1].1 == start {
            self.free[place - 1].1 += size;
            return;
        }
        (start, size) = (start, size);
        self.free.insert(place, (start, size));
    }
}

/// Best fit with the standard library's trees: free ranges by address and by size.
struct Trees {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    live: Vec<(u64, u64)>,
}

impl Trees {
    fn add(&mut self, start: u64, size: u64) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }
    fn drop(&mut self, start: u64, size: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }
}

impl Contestant for Trees {
    fn allocate(&mut self, slot: usize, units: u64) {
        let &(size, start) =
            self.by_size.range((units, 0)..).next().expect("the space is large enough");
        self.drop(start, size);
        if size > units {
            self.add(start + units, size - units);
        }
        self.live[slot] = (start, units);
    }
    fn free(&mut self, slot: usize) {
        let (mut start, mut size) = self.live[slot];
        if let Some((&next, &more)) = self.by_start.range(start..).next()
            && next == start + size
        {
            self.drop(next, more);
            size += more;
        }
        if let Some((&prev, &more)) = self.by_start.range(..start).next_back()
            && prev + more == start
        {
            self.drop(prev, more);
            (start, size) = (prev, size + more);
        }
        self.add(start, size);
    }
}

/// A workload: allocations by slot with their units, and frees.
struct Workload {
    name: String,
    /// `Some(units)` allocates into the slot, `None` frees it.
    steps: Vec<(usize, Option<u64>)>,
    slots: usize,
    /// Steps before the clock starts.
    warm: usize,
    /// Units of the space.
    space: u64,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// `live` blocks of 256 B to 16 MiB, replaced at random.
fn churn(live: usize) -> Workload {
    let mut random = Random(live as u64);
    let size = |random: &mut Random| (256 + random.next() % (16 << 20)).div_ceil(GRANULE);
    let mut steps: Vec<_> = (0..live).map(|slot| (slot, Some(size(&mut random)))).collect();
    let warm = live + 2 * live.max(50_000);
    while steps.len() < warm + 200_000 {
        let slot = random.next() as usize % live;
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

/// A bundled trace, reduced to slots and sizes.
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
    // What the trace leaves behind is freed, so that it can run again: the first time is warm-up.
    steps.extend(slots.into_values().map(|slot| (slot, None)));
    let warm = steps.len();
    let steps = steps.repeat(3);
    Workload { name: name.to_owned(), steps, slots: most, warm, space: 2 * peak }
}

fn contestants(workload: &Workload) -> Vec<(&'static str, Box<dyn Contestant>)> {
    let slots = workload.slots;
    let index = |fit| {
        let index = FreeIndex::new(Bytes::new(workload.space * GRANULE), Bytes::new(GRANULE));
        Box::new(Index { index, fit, keys: vec![None; slots] })
    };
    let scale = workload.space.div_ceil(u64::from(u32::MAX / 2)).next_power_of_two();
    let space = u32::try_from(workload.space / scale).expect("scaled to fit");
    let inner = offset_allocator::Allocator::with_max_allocs(space, 1 << 20);
    vec![
        ("first fit", index(Fit::First)),
        ("best fit", index(Fit::Best)),
        (
            "offset-allocator",
            Box::new(Crate { inner, keys: (0..slots).map(|_| None).collect(), scale }),
        ),
        (
            "flat list",
            Box::new(Flat { free: vec![(0, workload.space)], live: vec![(0, 0); slots] }),
        ),
        (
            "btree best fit",
            Box::new(Trees {
                by_start: BTreeMap::from([(0, workload.space)]),
                by_size: BTreeSet::from([(workload.space, 0)]),
                live: vec![(0, 0); slots],
            }),
        ),
    ]
}

/// Runs a workload and adds the nanoseconds per pair of each chunk.
fn run(workload: &Workload, contestant: &mut dyn Contestant, slow: bool, chunks: &mut Vec<f64>) {
    let apply = |contestant: &mut dyn Contestant, steps: &[(usize, Option<u64>)]| {
        for &(slot, units) in steps {
            match units {
                Some(units) => contestant.allocate(slot, units),
                None => contestant.free(slot),
            }
        }
    };
    let (warm, timed) = workload.steps.split_at(workload.warm);
    apply(contestant, warm);
    let timed = if slow { &timed[..timed.len().min(4 * CHUNK)] } else { timed };
    for chunk in timed.chunks_exact(CHUNK) {
        let begin = Instant::now();
        apply(contestant, chunk);
        chunks.push(begin.elapsed().as_nanos() as f64 / (CHUNK / 2) as f64);
    }
}

fn quartile(chunks: &mut [f64]) -> f64 {
    chunks.sort_by(f64::total_cmp);
    chunks[chunks.len() / 4]
}

fn main() {
    let traces =
        ["gpt2_train", "llama_generate", "llama_train_ckpt", "resnet_train", "serving_mix"];
    let mut workloads: Vec<_> = traces.iter().map(|name| bundled(name)).collect();
    workloads.extend([1_000, 10_000, 100_000].map(churn));
    // `-- NAME` runs the workloads whose name contains NAME.
    if let Some(wanted) = std::env::args().skip(1).find(|argument| argument != "--bench") {
        workloads.retain(|workload| workload.name.contains(&wanted));
    }
    let names: Vec<_> = contestants(&workloads[0]).iter().map(|(name, _)| *name).collect();
    println!(
        "ns for an allocation and its free\n\n{:<18}{}",
        "",
        names.iter().map(|name| format!("{name:>18}")).collect::<String>()
    );
    let mut logs = vec![0.0; names.len()];
    for workload in &workloads {
        let mut chunks = vec![Vec::new(); names.len()];
        for _ in 0..5 {
            for (place, (name, mut contestant)) in contestants(workload).into_iter().enumerate() {
                let slow = workload.slots == 100_000 && name == "flat list";
                if slow && !chunks[place].is_empty() {
                    continue;
                }
                run(workload, contestant.as_mut(), slow, &mut chunks[place]);
            }
        }
        let figures: Vec<_> = chunks.iter_mut().map(|chunks| quartile(chunks)).collect();
        if !workload.name.starts_with("random") {
            logs.iter_mut().zip(&figures).for_each(|(log, figure)| *log += figure.ln());
        }
        println!(
            "{:<18}{}",
            workload.name,
            figures.iter().map(|ns| format!("{ns:>18.1}")).collect::<String>()
        );
    }
    let means: Vec<_> = logs.iter().map(|log| (log / traces.len() as f64).exp()).collect();
    println!(
        "{:<18}{}",
        "traces (geo mean)",
        means.iter().map(|ns| format!("{ns:>18.1}")).collect::<String>()
    );
    println!(
        "\nratios over the bundled traces: first fit {:.2}, best fit {:.2} of offset-allocator",
        means[0] / means[2],
        means[1] / means[2]
    );
}
