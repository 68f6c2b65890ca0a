//! Runs the points of a study on threads of this process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Stack size of a thread, in bytes; the same as for a main thread.
const STACK: usize = 8 << 20;

/// Runs `work` on every item and returns the results in the order of the items; each thread takes the next remaining
/// item. `each` is called with the index and the result of an item when the item ends.
///
/// If the host refuses to start threads, their items are run by the other threads, or by the caller's thread.
pub fn on_threads<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(usize, &R),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let place = next.fetch_add(1, Ordering::Relaxed);
        items.get(place).map(|item| (place, work(item)))
    };
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let mut keep = |(place, result): (usize, R)| {
        each(place, &result);
        results[place] = Some(result);
    };
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..threads.min(items.len()) {
            let (send, take) = (send.clone(), &take);
            let work = move || while take().is_some_and(|done| send.send(done).is_ok()) {};
            let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
        drop(send);
        receive.into_iter().for_each(&mut keep);
    });
    // No items remain, unless no thread could be started.
    std::iter::from_fn(take).for_each(keep);
    results.into_iter().map(|it| it.expect("every item was taken once")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items_on_any_number_of_threads() {
        let items: Vec<u64> = (0..50).collect();
        for threads in [0, 1, 3, 200] {
            let mut ended = Vec::new();
            let squares = on_threads(&items, threads, |it| it * it, |place, _| ended.push(place));
            assert!(squares.iter().zip(&items).all(|(square, it)| *square == it * it));
            ended.sort_unstable();
            assert_eq!(ended, (0..50).collect::<Vec<_>>(), "{threads} threads");
        }
        assert!(on_threads(&[], 2, |it: &u64| *it, |_, _| ()).is_empty());
    }
}
