//! Callbacks for requests that found no room.

use std::fmt;

use super::FlexAllocator;
use super::error::OutOfMemory;
use super::slots::Shared;
use crate::sync::{Arc, Condvar, Mutex, Weak, lock, thread_number};

type Callback = Arc<dyn Fn(&OutOfMemory) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Callbacks {
    functions: Mutex<Functions>,
    /// Ids of the threads that are running callbacks.
    calling: Mutex<Vec<usize>>,
    /// Notified when a thread is no longer running callbacks.
    over: Condvar,
}

#[derive(Default)]
struct Functions {
    /// Callbacks with their ids, in the order of their registration.
    listed: Vec<(u64, Callback)>,
    registered: u64,
}

/// Marks a thread as running callbacks until this guard is dropped, also if a callback panics.
struct Calling<'a>(&'a Callbacks, usize);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        lock(&self.0.calling).retain(|&thread| thread != self.1);
        self.0.over.notify_all();
    }
}

impl Callbacks {
    fn push(&self, callback: Callback) -> u64 {
        let mut functions = lock(&self.functions);
        functions.registered += 1;
        let id = functions.registered;
        functions.listed.push((id, callback));
        id
    }

    /// Removes a callback, and returns whether it was registered. Waits for threads that may be running it, but not
    /// from inside a callback: two callbacks could wait for each other.
    fn remove(&self, id: u64) -> bool {
        let removed: Vec<_> =
            lock(&self.functions).listed.extract_if(.., |(listed, _)| *listed == id).collect();
        if !self.is_calling() {
            let mut calling = lock(&self.calling);
            let running = calling.clone();
            while calling.iter().any(|thread| running.contains(thread)) {
                calling =
                    self.over.wait(calling).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
        !removed.is_empty()
    }

    pub(crate) fn is_calling(&self) -> bool {
        lock(&self.calling).contains(&thread_number())
    }

    /// Calls the callbacks with a report, and returns whether there were any. A request made by a callback calls none,
    /// since that would recurse without end.
    pub(crate) fn call(&self, report: impl FnOnce() -> OutOfMemory) -> bool {
        if self.is_calling() || lock(&self.functions).listed.is_empty() {
            return false;
        }
        let report = report();
        let me = thread_number();
        lock(&self.calling).push(me);
        let _end = Calling(self, me);
        // Read only now: a thread that removes a callback waits for the threads that are marked.
        let functions = lock(&self.functions).listed.clone();
        functions.iter().for_each(|(_, callback)| callback(&report));
        true
    }
}

/// A registered callback; see [`FlexAllocator::on_pressure`]. Dropping this leaves the callback in place.
pub struct PressureCallback {
    shared: Weak<Shared>,
    id: u64,
}

impl PressureCallback {
    /// Takes the callback back, and returns whether it was still registered. Afterwards it is not called any more, and
    /// no other thread is running it: this waits for threads that are inside a callback. From inside a callback it does
    /// not wait.
    pub fn remove(self) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.callbacks.remove(self.id))
    }
}

impl fmt::Debug for PressureCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PressureCallback").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FlexAllocator {
    /// Registers a function to be called when memory has run out and the allocator's own remedies have failed. It may
    /// free blocks, on this thread or another, and trim. The functions are called in the order of their registration,
    /// then the request is tried once more. If one of them allocates and finds no room either, the functions are not
    /// called again for that request. The function stays registered until [`PressureCallback::remove`].
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}};
    /// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(4)))));
    /// let cache = Arc::new(Mutex::new(vec![allocator.allocate(Bytes::gib(3)).unwrap()]));
    /// let callback = allocator.on_pressure(move |_report| cache.lock().unwrap().clear());
    /// let block = allocator.allocate(Bytes::gib(2)).unwrap(); // the cache made room
    /// assert!(callback.remove());
    /// ```
    pub fn on_pressure(
        &self,
        callback: impl Fn(&OutOfMemory) + Send + Sync + 'static,
    ) -> PressureCallback {
        let id = self.shared.callbacks.push(Arc::new(callback));
        PressureCallback { shared: Arc::downgrade(&self.shared), id }
    }
}
