//! The locks of this crate, in one place so that a model checker can replace them.
//!
//! `RUSTFLAGS="--cfg cubeyard_shuttle" cargo test --test shuttle` runs the allocator's locking under `shuttle`, which
//! tries many thread interleavings.

#[cfg(cubeyard_shuttle)]
pub(crate) use shuttle::sync::{
    Arc, Condvar, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
#[cfg(not(cubeyard_shuttle))]
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use std::sync::PoisonError;

/// Locks a mutex, even if a panic has poisoned it: every critical section leaves its data consistent before anything in
/// it can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value on separate cache lines (two, since processors fetch them in pairs), so that writing it does not evict data
/// that other threads only read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The right to call out, held by one thread at a time. Unlike a mutex, a turn guards no data, and the allocator needs
/// no lock that is held during a turn: a device that calls back into the allocator finds it usable.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Number of the thread that holds the turn.
    holder: Mutex<Option<usize>>,
    over: Condvar,
}

impl Turn {
    /// Takes the turn if no thread has it.
    pub(crate) fn try_take(&self) -> Option<TurnGuard<'_>> {
        let mut holder = lock(&self.holder);
        if holder.is_some() {
            return None;
        }
        *holder = Some(thread_number());
        Some(TurnGuard(self))
    }

    /// Waits until no thread has the turn and takes it. Refuses a thread that already has it, since it would wait for
    /// itself.
    pub(crate) fn take(&self) -> Option<TurnGuard<'_>> {
        let me = thread_number();
        let mut holder = lock(&self.holder);
        while let Some(other) = *holder {
            if other == me {
                return None;
            }
            holder = self.over.wait(holder).unwrap_or_else(PoisonError::into_inner);
        }
        *holder = Some(me);
        Some(TurnGuard(self))
    }

    /// Returns whether this thread has the turn, that is, whether the allocator is calling out on this thread.
    pub(crate) fn is_mine(&self) -> bool {
        *lock(&self.holder) == Some(thread_number())
    }
}

/// A held turn; it ends when this guard is dropped.
pub(crate) struct TurnGuard<'a>(&'a Turn);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.holder) = None;
        self.0.over.notify_one();
    }
}

/// Returns the number of this thread. Threads are numbered in the order of their first call.
#[cfg(not(cubeyard_shuttle))]
pub(crate) fn thread_number() -> usize {
    use std::cell::Cell;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.get().unwrap_or_else(|| {
        let number = THREADS.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

/// Returns the number of this thread, which is the same in every schedule of the model checker.
#[cfg(cubeyard_shuttle)]
pub(crate) fn thread_number() -> usize {
    shuttle::current::me().into()
}

#[cfg(all(test, not(cubeyard_shuttle)))]
mod tests {
    use super::*;

    /// A refused attempt created a guard, and dropping the guard ended the turn of the actual holder. The model checker
    /// found two threads acquiring at the same time.
    #[test]
    fn a_refused_turn_stays_with_its_holder() {
        let turn = Turn::default();
        let held = turn.try_take().expect("nobody has it");
        assert!(turn.try_take().is_none());
        assert!(turn.try_take().is_none(), "the first refusal changed nothing");
        drop(held);
        drop(turn.take());
        assert!(turn.try_take().is_some());
    }

    #[test]
    fn a_thread_does_not_wait_for_itself() {
        let turn = Turn::default();
        let held = turn.take();
        assert!(held.is_some() && turn.is_mine());
        assert!(turn.take().is_none(), "it would wait for ever");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!turn.is_mine() && turn.try_take().is_none()));
        });
        drop(held);
        assert!(!turn.is_mine() && turn.take().is_some());
    }
}
