//! Callbacks for requests that found no room.

use super::error::OutOfMemory;
use crate::sync::{Arc, Mutex, lock, thread_number};

type Callback = Arc<dyn Fn(&OutOfMemory) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Callbacks {
    functions: Mutex<Vec<Callback>>,
    /// Ids of the threads that are running callbacks.
    calling: Mutex<Vec<usize>>,
}

/// Marks a thread as running callbacks until this guard is dropped, also if a callback panics.
struct Calling<'a>(&'a Callbacks, usize);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        lock(&self.0.calling).retain(|&thread| thread != self.1);
    }
}

impl Callbacks {
    pub(crate) fn push(&self, callback: impl Fn(&OutOfMemory) + Send + Sync + 'static) {
        lock(&self.functions).push(Arc::new(callback));
    }

    pub(crate) fn is_calling(&self) -> bool {
        lock(&self.calling).contains(&thread_number())
    }

    /// Calls the callbacks with a report, and returns whether there were any. A request made by a callback calls none,
    /// since that would recurse without end.
    pub(crate) fn call(&self, report: impl FnOnce() -> OutOfMemory) -> bool {
        let functions = lock(&self.functions).clone();
        if functions.is_empty() || self.is_calling() {
            return false;
        }
        let report = report();
        let me = thread_number();
        lock(&self.calling).push(me);
        let _end = Calling(self, me);
        functions.iter().for_each(|callback| callback(&report));
        true
    }
}
