//! Interruption of a running engine, for example by Ctrl-C.

use std::cell::Cell;

/// Number of events between two checks: less than a millisecond of work.
const EVENTS: u32 = 1 << 12;

thread_local! {
    /// The check that engines of this thread run periodically.
    static QUESTION: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Calls `act`, during which every engine of this thread calls `is_wanted` once per 4,096 events to check whether to
/// stop. An engine that stops returns [`Stop::Interrupted`](crate::Stop::Interrupted), and can continue later.
///
/// ```
/// use cubeyard_sim::interruptible;
///
/// assert_eq!(interruptible(|| false, || 6 * 7), 42);
/// ```
pub fn interruptible<T>(is_wanted: fn() -> bool, act: impl FnOnce() -> T) -> T {
    /// Restores the check of the caller, even if `act` panics.
    struct Restore(Option<fn() -> bool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            QUESTION.set(self.0);
        }
    }
    let _restore = Restore(QUESTION.replace(Some(is_wanted)));
    act()
}

/// Calls `act` without interruption, even inside [`interruptible`].
pub fn uninterrupted<T>(act: impl FnOnce() -> T) -> T {
    interruptible(|| false, act)
}

/// Counts the events of one run of an engine.
#[derive(Default)]
pub(crate) struct Pulse(u32);

impl Pulse {
    /// Counts an event; returns whether the run is to stop after it.
    #[inline]
    pub(crate) fn beat(&mut self) -> bool {
        self.0 += 1;
        if self.0 < EVENTS {
            return false;
        }
        self.0 = 0;
        QUESTION.get().is_some_and(|is_wanted| is_wanted())
    }
}
