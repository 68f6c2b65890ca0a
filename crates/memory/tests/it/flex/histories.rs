//! Long random histories of every configuration, held to a slow ledger of blocks and of the work of streams.

mod block;
mod checks;
mod crowd;
mod ground;
mod guarded;
mod history;
mod labels;
mod moving;
mod operations;
mod seen;
mod setup;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::long_tests;
use history::History;
use seen::Seen;

/// Runs one history. A failure names the history and its last operations.
fn history(number: usize, operations: u64) -> Seen {
    let mut history = History::new(number);
    let outcome = catch_unwind(AssertUnwindSafe(|| history.run(operations)));
    let report = format!("history {number} of {operations} operations:\n{history}");
    if outcome.is_err() {
        // What it holds may be in disorder, and a second panic would hide the first one.
        std::mem::forget(history);
        panic!("{report}");
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| history.end()));
    outcome.unwrap_or_else(|_| panic!("at the end of {report}"))
}

/// Runs histories on all cores, and returns the sum of what they have done.
fn histories(count: usize, operations: u64) -> Seen {
    let (next, sum) = (AtomicUsize::new(0), Mutex::new(Seen::default()));
    let work = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        for number in numbers.take_while(|&number| number < count) {
            let seen = history(number, operations);
            *sum.lock().unwrap() += seen;
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    let seen = sum.into_inner().unwrap();
    println!("{count} histories of {operations} operations: {seen:?}");
    assert_eq!(seen.operations, count as u64 * operations);
    assert!(seen.each().iter().all(|&seen| seen > count as u64 / 2), "{seen:?}");
    seen
}

#[test]
fn random_histories_agree_with_the_ledger() {
    histories(if long_tests::all() { 600 } else { 36 }, 2000);
}

#[test]
fn contents_follow_their_blocks_while_threads_come_and_go() {
    let count = if long_tests::all() { 300 } else { 12 };
    let (placed, moved) = crowd::crowds(count, 1000);
    println!("{count} crowds: {placed} blocks placed, {moved} moved");
    assert!(placed > count as u64 * 300 && moved > count as u64, "{placed}, {moved}");
}

/// Takes about six minutes on two cores.
#[test]
#[ignore = "takes long: cargo test -p cubeyard-memory --release --test it long_random_histories -- --ignored"]
fn long_random_histories_agree_with_the_ledger() {
    histories(600, 100_000);
}

/// Takes about half an hour on two cores.
#[test]
#[ignore = "takes long: cargo test -p cubeyard-memory --release --test it long_random_histories -- --ignored"]
fn long_random_histories_of_threads() {
    let (placed, moved) = crowd::crowds(600, 5_000);
    println!("600 crowds: {placed} blocks placed, {moved} moved");
}
