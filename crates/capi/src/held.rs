//! What a caller holds by a number: pins, programs, launches, plans.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::{Failure, Status};

/// The next number, for all kinds and all allocators: a number of one is never taken for another's.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Values by the numbers that the caller knows them by.
pub(crate) struct Held<T> {
    /// The word for one of them.
    name: &'static str,
    values: Mutex<BTreeMap<u64, T>>,
}

impl<T> Held<T> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, values: Mutex::new(BTreeMap::new()) }
    }

    /// Keeps a value, and says by which number.
    pub(crate) fn insert(&self, value: T) -> u64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.values().insert(number, value);
        number
    }

    /// Takes a value out. Dropping it may call the device or the streams, with nothing locked.
    pub(crate) fn remove(&self, number: u64) -> Result<T, Failure> {
        self.values().remove(&number).ok_or_else(|| self.stale())
    }

    /// Takes all values out.
    pub(crate) fn clear(&self) {
        let values = std::mem::take(&mut *self.values());
        drop(values);
    }

    pub(crate) fn len(&self) -> usize {
        self.values().len()
    }

    /// Looks at a value. `look` calls neither the device nor the streams nor the caller.
    pub(crate) fn with<R>(
        &self,
        number: u64,
        look: impl FnOnce(&T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        look(self.values().get(&number).ok_or_else(|| self.stale())?)
    }

    fn stale(&self) -> Failure {
        let message = format!(
            "this allocator has no such {}: it was taken off before, or is another's",
            self.name
        );
        Failure::new(Status::Stale, message)
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<u64, T>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
