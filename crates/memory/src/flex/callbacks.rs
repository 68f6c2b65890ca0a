//! Callbacks for requests that found no room.

use super::error::OutOfMemory;
use crate::sync::{Arc, Condvar, Mutex, lock, thread_number};

pub(super) type Callback = Arc<dyn Fn(&OutOfMemory) + Send + Sync>;

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
    pub(super) fn push(&self, callback: Callback) -> u64 {
        let mut functions = lock(&self.functions);
        functions.registered += 1;
        let id = functions.registered;
        functions.listed.push((id, callback));
        id
    }

    /// Removes a callback, and returns whether it was registered. Waits for threads that may be running it, but not
    /// from inside a callback: two callbacks could wait for each other.
    pub(super) fn remove(&self, id: u64) -> bool {
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
