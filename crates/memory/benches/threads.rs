//! Two threads against one: pairs of allocation and free per second.
//!
//! `cargo bench -p cubeyard-memory --bench threads` measures `FlexAllocator` with one thread, with
//! two that free what they allocated themselves, and with two that free what the other allocated.
//! One thread and two take turns in one run; each figure is the best of the rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Instant;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{Allocation, FlexAllocator};

/// Pairs that each thread does in a round.
const PAIRS: usize = 400_000;
/// Blocks that a thread keeps alive.
const LIVE: usize = 1_000;
/// Blocks that are handed to the other thread at a time.
const BATCH: usize = 64;
/// Batches that a thread may be ahead of the other.
const AHEAD: usize = 32;
const ROUNDS: usize = 7;

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn size(&mut self) -> Bytes {
        Bytes::new(256 + self.next(1 << 20))
    }

    fn pick(&mut self, below: usize) -> usize {
        usize::try_from(self.next(below as u64)).expect("below a usize")
    }
}

fn allocator(region: &str) -> FlexAllocator {
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(64))));
    let config = format!(
        "region:{region},block:best-fit,fallback_sizes:[8GiB],max_regions:2,acquire:eager(2)"
    );
    FlexAllocator::builder(card)
        .config(config.parse().expect("a good configuration"))
        .build()
        .expect("a plain device")
}

/// Replaces blocks of its own.
fn churn(allocator: &FlexAllocator, seed: u64, pairs: usize) {
    let mut random = Random(seed);
    let mut live: Vec<Allocation> =
        (0..LIVE).map(|_| allocator.allocate(random.size()).expect("room")).collect();
    for _ in 0..pairs {
        let place = random.pick(LIVE);
        live[place] = allocator.allocate(random.size()).expect("room");
    }
}

/// Allocates for the other thread, and frees what that one has allocated, without waiting for it
/// unless it is far behind.
fn exchange(
    allocator: &FlexAllocator,
    seed: u64,
    to: mpsc::Sender<Vec<Allocation>>,
    from: &mpsc::Receiver<Vec<Allocation>>,
) {
    let mut random = Random(seed);
    let mut received = 0;
    for sent in 0..PAIRS / BATCH {
        let batch = (0..BATCH).map(|_| allocator.allocate(random.size()).expect("room")).collect();
        to.send(batch).expect("the other thread is there");
        // Spinning, not sleeping: waking up would cost more than what is measured.
        loop {
            match from.try_recv() {
                Ok(batch) => {
                    received += 1;
                    drop(batch);
                }
                Err(_) if sent > received + AHEAD => std::hint::spin_loop(),
                Err(_) => break,
            }
        }
    }
    drop(to);
    from.iter().for_each(drop);
}

/// Million pairs per second of `threads` threads that run `work`.
fn rate(threads: u64, work: impl Fn(u64) + Sync) -> f64 {
    let barrier = Barrier::new(usize::try_from(threads).expect("few") + 1);
    let begin = std::thread::scope(|scope| {
        for seed in 1..=threads {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                work(seed);
            });
        }
        barrier.wait();
        Instant::now()
    });
    threads as f64 * PAIRS as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// Two threads that free each other's blocks.
fn exchange_rate(allocator: &FlexAllocator) -> f64 {
    let (to_second, at_second) = mpsc::channel();
    let (to_first, at_first) = mpsc::channel();
    let ends = [(to_second, at_first), (to_first, at_second)]
        .map(|ends| std::sync::Mutex::new(Some(ends)));
    rate(2, |seed| {
        let ends =
            ends[usize::try_from(seed).expect("small") - 1].lock().expect("nobody panics").take();
        let (to, from) = ends.expect("each thread has its ends");
        exchange(allocator, seed, to, &from);
    })
}

/// One thread that does what each of the two does, with as many batches on the way.
fn exchange_alone(allocator: &FlexAllocator) -> f64 {
    rate(1, |seed| {
        let mut random = Random(seed);
        let mut on_the_way = VecDeque::new();
        for _ in 0..PAIRS / BATCH {
            let batch: Vec<_> =
                (0..BATCH).map(|_| allocator.allocate(random.size()).expect("room")).collect();
            on_the_way.push_back(batch);
            if on_the_way.len() > AHEAD {
                on_the_way.pop_front();
            }
        }
    })
}

fn main() {
    println!("million pairs of allocation and free per second, {LIVE} live blocks a thread\n");
    println!(
        "{:<16}{:>12}{:>14}{:>8}{:>16}{:>18}{:>8}",
        "regions", "1 thread", "2 threads", "ratio", "1, in batches", "2, freeing", "ratio"
    );
    println!("{:<16}{:>12}{:>14}{:>8}{:>16}{:>18}{:>8}", "", "", "", "", "", "each other's", "");
    for region in ["thread-home", "load-balancing"] {
        let mut best = [0.0_f64; 4];
        for _ in 0..ROUNDS {
            let figures = [
                rate(1, |seed| churn(&allocator(region), seed, PAIRS)),
                {
                    let shared = allocator(region);
                    rate(2, |seed| churn(&shared, seed, PAIRS))
                },
                exchange_alone(&allocator(region)),
                exchange_rate(&allocator(region)),
            ];
            best.iter_mut().zip(figures).for_each(|(best, figure)| *best = best.max(figure));
        }
        let [one, two, alone, other] = best;
        println!(
            "{region:<16}{one:>12.2}{two:>14.2}{:>8.2}{alone:>16.2}{other:>18.2}{:>8.2}",
            two / one,
            other / alone
        );
    }
}
