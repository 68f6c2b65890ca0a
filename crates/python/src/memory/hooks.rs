//! Python objects called by an allocator.

use std::fs::File;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cubeyard_memory::flex::{self, RmmLog};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::calls::Held;

/// Python objects called by an allocator. They belong to the class `FlexAllocator`, whose references the garbage
/// collector follows, because devices and callbacks often refer to their allocator. All lower layers hold weak
/// references to them. The lock is held only briefly, with the GIL.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Objects>);

#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) device: Option<Py<PyAny>>,
    pub(crate) streams: Option<Py<PyAny>>,
    pub(crate) clock: Option<Py<PyAny>>,
    /// Functions for requests that do not fit in memory, with their numbers.
    pub(crate) callbacks: Vec<(u64, Py<PyAny>)>,
    pub(crate) subscribers: Vec<Subscribed>,
}

/// A subscriber of an allocator: a function in Python, or a log.
pub(crate) struct Subscribed {
    pub(crate) id: u64,
    pub(crate) function: Option<Py<PyAny>>,
    pub(crate) log: Option<Arc<RmmLog<BufWriter<File>>>>,
    /// Subscription of the allocator; `None` until it is made.
    pub(crate) subscription: Option<Held<flex::Subscription>>,
}

impl Hooks {
    pub(crate) fn new(objects: Objects) -> Self {
        Self(Mutex::new(objects))
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `visit` with each object. The garbage collector treats an object that is not visited as
    /// referenced from elsewhere.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(objects) = self.0.try_lock() else { return Ok(()) };
        let Objects { device, streams, clock, callbacks, subscribers } = &*objects;
        let callbacks = callbacks.iter().map(|(_, callback)| callback);
        let subscribers = subscribers.iter().filter_map(|kept| kept.function.as_ref());
        let single = [device, streams, clock].into_iter().flatten();
        for object in single.chain(callbacks).chain(subscribers) {
            visit.call(object)?;
        }
        Ok(())
    }

    /// Drops all objects.
    pub(crate) fn clear(&self) {
        // The objects are dropped after the lock is released, because a finalizer may call this again.
        let objects = std::mem::take(&mut *self.objects());
        drop(objects);
    }
}

/// Returns an object of the hooks, if they still exist.
pub(crate) fn find(
    py: Python<'_>,
    hooks: &Weak<Hooks>,
    of: fn(&Objects) -> &Option<Py<PyAny>>,
) -> Option<Py<PyAny>> {
    let hooks = hooks.upgrade()?;
    let objects = hooks.objects();
    of(&objects).as_ref().map(|object| object.clone_ref(py))
}
