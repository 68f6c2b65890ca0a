//! Benchmark of two threads against one: pairs of allocation and free per second.
//!
//! `cargo bench -p cubeyard-memory --bench threads` measures `FlexAllocator` with one thread, with two threads that
//! free their own blocks, and with two threads that free each other's blocks. One thread and two threads take turns in
//! one run. Each turn has one warm-up round and several short rounds; each figure is the best round. The rounds are
//! short because a shared machine rarely provides two processors for long.
//!
//! `-- thread-home` measures that region policy alone.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Instant;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{Allocation, FlexAllocator};

/// Pairs of allocation and free that each thread performs in a round.
const PAIRS: usize = 64_000;
/// Number of blocks that a thread keeps alive.
const LIVE: usize = 1_000;
/// Number of blocks that are handed to the other thread at once.
const BATCH: usize = 64;
/// Maximum number of batches by which a thread may be ahead of the other.
const AHEAD: usize = 32;
/// Number of rounds in a turn, and of turns.
const ROUNDS: usize = 8;
const TURNS: usize = 8;

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

/// Returns a worker that replaces `PAIRS` of its own blocks per call.
fn churn(allocator: &FlexAllocator, seed: u64) -> impl FnMut() {
    let mut random = Random(seed);
    let mut live: Vec<Allocation> =
        (0..LIVE).map(|_| allocator.allocate(random.size()).expect("room")).collect();
    move || {
        for _ in 0..PAIRS {
            let place = random.pick(LIVE);
            live[place] = allocator.allocate(random.size()).expect("room");
        }
    }
}

/// Allocates a batch of blocks for another thread.
fn batch(allocator: &FlexAllocator, random: &mut Random) -> Vec<Allocation> {
    (0..BATCH).map(|_| allocator.allocate(random.size()).expect("room")).collect()
}

type Ends = (mpsc::Sender<Vec<Allocation>>, mpsc::Receiver<Vec<Allocation>>);

/// Returns a worker that allocates for the other thread and frees the other thread's blocks. It waits only if the other
/// thread is far behind.
fn exchange(allocator: &FlexAllocator, seed: u64, (to, from): Ends) -> impl FnMut() {
    let mut random = Random(seed);
    let (mut sent, mut received) = (0, 0);
    move || {
        for _ in 0..PAIRS / BATCH {
            to.send(batch(allocator, &mut random)).expect("the other thread is there");
            sent += 1;
            // Spin instead of sleeping: a wake-up would cost more than the measured work.
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
    }
}

/// Returns a worker that does the work of both threads on one thread, with the same number of batches in flight.
fn exchange_alone(allocator: &FlexAllocator, seed: u64) -> impl FnMut() {
    let mut random = Random(seed);
    let mut on_the_way = VecDeque::new();
    move || {
        for _ in 0..PAIRS / BATCH {
            on_the_way.push_back(batch(allocator, &mut random));
            if on_the_way.len() > AHEAD {
                on_the_way.pop_front();
            }
        }
    }
}

/// Returns the rate of the best round of a turn, in million pairs per second, of threads that each run a `worker`.
fn rate<W: FnMut()>(threads: u64, worker: impl Fn(u64) -> W + Sync) -> f64 {
    let barrier = Barrier::new(usize::try_from(threads).expect("few"));
    let times: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let timed = |seed| {
            let (worker, barrier) = (&worker, &barrier);
            scope.spawn(move || {
                let mut work = worker(seed);
                let mut round = || {
                    barrier.wait();
                    let begin = Instant::now();
                    work();
                    (begin, Instant::now())
                };
                round();
                let times = (0..ROUNDS).map(|_| round()).collect();
                // The workers' remaining blocks are dropped after the measurement.
                barrier.wait();
                times
            })
        };
        let workers: Vec<_> = (1..=threads).map(timed).collect();
        workers.into_iter().map(|worker| worker.join().expect("nobody panics")).collect()
    });
    let seconds = |round: usize| {
        let begin = times.iter().map(|times| times[round].0).min().expect("a thread");
        let end = times.iter().map(|times| times[round].1).max().expect("a thread");
        (end - begin).as_secs_f64()
    };
    let least = (0..ROUNDS).map(seconds).fold(f64::INFINITY, f64::min);
    threads as f64 * PAIRS as f64 / least / 1e6
}

/// Returns the rate of two threads that free each other's blocks.
fn exchange_rate(allocator: &FlexAllocator) -> f64 {
    let (to_second, at_second) = mpsc::channel();
    let (to_first, at_first) = mpsc::channel();
    let ends = [(to_second, at_first), (to_first, at_second)].map(|ends| Mutex::new(Some(ends)));
    rate(2, |seed| {
        let ends = &ends[usize::try_from(seed).expect("small") - 1];
        let ends = ends.lock().expect("nobody panics").take();
        exchange(allocator, seed, ends.expect("each thread has its ends"))
    })
}

fn main() {
    println!("million pairs of allocation and free per second, {LIVE} live blocks a thread\n");
    println!(
        "{:<16}{:>12}{:>14}{:>8}{:>16}{:>18}{:>8}",
        "regions", "1 thread", "2 threads", "ratio", "1, in batches", "2, freeing", "ratio"
    );
    println!("{:<16}{:>12}{:>14}{:>8}{:>16}{:>18}{:>8}", "", "", "", "", "", "each other's", "");
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let named = |region: &&str| wanted.as_ref().is_none_or(|wanted| region == wanted);
    for region in ["thread-home", "load-balancing"].into_iter().filter(named) {
        let mut best = [0.0_f64; 4];
        for _ in 0..TURNS {
            let allocators = [(); 4].map(|()| allocator(region));
            let [one, two, alone, both] = &allocators;
            let figures = [
                rate(1, |seed| churn(one, seed)),
                rate(2, |seed| churn(two, seed)),
                rate(1, |seed| exchange_alone(alone, seed)),
                exchange_rate(both),
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
