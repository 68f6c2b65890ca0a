//! Objects that a caller refers to by number: pins, programs, launches, plans.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::status::{Failure, Status};

/// The next number, for all kinds and all allocators, so that no number is used twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Values that the caller holds, by their handle numbers.
pub(crate) struct Held<T> {
    /// Name of the kind of value, for errors.
    name: &'static str,
    values: Mutex<BTreeMap<u64, T>>,
}

impl<T> Held<T> {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, values: Mutex::new(BTreeMap::new()) }
    }

    /// Stores a value, and returns its number.
    pub(crate) fn insert(&self, value: T) -> u64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.values().insert(number, value);
        number
    }

    /// Removes a value. Dropping the value may call the device or the streams, so no lock is held then.
    pub(crate) fn remove(&self, number: u64) -> Result<T, Failure> {
        self.values().remove(&number).ok_or_else(|| self.stale())
    }

    pub(crate) fn clear(&self) {
        let values = std::mem::take(&mut *self.values());
        drop(values);
    }

    pub(crate) fn len(&self) -> usize {
        self.values().len()
    }

    /// Calls `look` with a value. `look` must not call the device, the streams or the caller.
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
