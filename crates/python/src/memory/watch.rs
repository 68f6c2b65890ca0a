//! Classes `Event` and `Subscription`: functions in Python that receive the events of an allocator.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cubeyard_memory::flex::{self, RmmLog};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::address::Address;
use super::calls::Held;
use super::hooks::{Hooks, Subscribed};
use super::owner::Owner;
use crate::error::Kind;

/// One event of an allocator. See `FlexAllocator.subscribe`.
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Event(flex::Event);

#[pymethods]
impl Event {
    /// Number in the order of all events.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    /// Kind of the event: `alloc`, `free_requested`, `free_completed`, `segment_alloc`, `segment_free`, `segment_map`,
    /// `segment_unmap`, `room_reserved`, `room_released`, `move`, `stream_wait`, `budget_exceeded`, `oom` or
    /// `snapshot`.
    #[getter]
    fn action(&self) -> &'static str {
        self.0.action.name()
    }

    /// Address of the block or of the part of a region; `None` for events without one.
    #[getter]
    fn address(&self) -> Option<Address> {
        self.0.address.map(Into::into)
    }

    /// The same address in the flat address space of programs and snapshots; 0 for events without an address.
    #[getter]
    fn flat(&self) -> u64 {
        self.0.flat
    }

    /// New address of a block that has moved; `None` for other events.
    #[getter]
    fn target(&self) -> Option<Address> {
        self.0.target.map(Into::into)
    }

    /// The new address in the flat address space; 0 for other events.
    #[getter]
    fn target_flat(&self) -> u64 {
        self.0.target_flat
    }

    /// Length of the block or of the part of a region in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.size.get()
    }

    /// Number of bytes requested for the block.
    #[getter]
    fn requested(&self) -> u64 {
        self.0.requested.get()
    }

    /// Free memory of the device in bytes, if a request failed; 0 for other events.
    #[getter]
    fn device_free(&self) -> u64 {
        self.0.device_free.get()
    }

    /// Stream of the block; 0 for events about regions.
    #[getter]
    fn stream(&self) -> u32 {
        self.0.stream
    }

    /// Call site of the block's allocation; 0 if unknown.
    #[getter]
    fn site(&self) -> u32 {
        self.0.site
    }

    /// Number of the pool of the region or the request; 0 for the allocator's own.
    #[getter]
    fn pool(&self) -> u32 {
        self.0.pool.get()
    }

    /// Number of the tag of the block or the request; 0 for none.
    #[getter]
    fn tag(&self) -> u16 {
        self.0.tag.get()
    }

    /// Number of the thread whose call caused the event. Threads are numbered in the order of their first call.
    #[getter]
    fn thread(&self) -> usize {
        self.0.thread
    }

    /// Time in microseconds, from the allocator's clock.
    #[getter]
    fn time_us(&self) -> u64 {
        self.0.time_us
    }

    fn __repr__(&self) -> String {
        let place = self.0.address.map(|address| format!(" at {address}")).unwrap_or_default();
        format!("<Event {}, {}{place}>", self.0.action.name(), self.0.size)
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Returns a number for a callback or subscriber, unique in the process.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Checks that an argument can be called.
pub(crate) fn check_function(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    if callback.is_callable() {
        return Ok(());
    }
    Err(Kind::Input.error(format!("callback is {callback}: expected a function")))
}

/// Adds a function in Python for requests that do not fit in memory.
pub(crate) fn on_pressure(owner: Owner, callback: Bound<'_, PyAny>) -> PyResult<Subscription> {
    check_function(&callback)?;
    let id = next_id();
    owner.hooks().objects().callbacks.push((id, callback.unbind()));
    Ok(Subscription { id, owner })
}

/// Adds a function in Python as a subscriber.
pub(crate) fn subscribe(owner: Owner, callback: Bound<'_, PyAny>) -> PyResult<Subscription> {
    check_function(&callback)?;
    let (id, hooks, py) = (next_id(), Arc::downgrade(owner.hooks()), callback.py());
    let function = Some(callback.clone().unbind());
    let kept = Subscribed { id, function, log: None, subscription: None };
    enter(py, owner, kept, move |event| call_back(&hooks, id, event))
}

/// Adds a log in a file as a subscriber.
pub(crate) fn subscribe_log(py: Python<'_>, owner: Owner, path: PathBuf) -> PyResult<Subscription> {
    let log = Arc::new(RmmLog::new(BufWriter::new(File::create(path)?)));
    let writer = Arc::clone(&log);
    let kept = Subscribed { id: next_id(), function: None, log: Some(log), subscription: None };
    enter(py, owner, kept, move |event| writer.record(event))
}

fn enter(
    py: Python<'_>,
    owner: Owner,
    kept: Subscribed,
    function: impl Fn(&flex::Event) + Send + Sync + 'static,
) -> PyResult<Subscription> {
    let id = kept.id;
    owner.hooks().objects().subscribers.push(kept);
    let made = owner.call(py, |inner| inner.subscribe(function))?;
    let mut objects = owner.hooks().objects();
    if let Some(kept) = objects.subscribers.iter_mut().find(|kept| kept.id == id) {
        kept.subscription = Some(Held::new(made, owner.forks()));
    }
    drop(objects);
    Ok(Subscription { id, owner })
}

/// Calls a function in Python with an event. Its exception goes to `sys.unraisablehook`.
fn call_back(hooks: &Weak<Hooks>, id: u64, event: &flex::Event) {
    Python::try_attach(|py| {
        let Some(hooks) = hooks.upgrade() else { return };
        let objects = hooks.objects();
        let found = objects.subscribers.iter().find(|kept| kept.id == id);
        let function = found.and_then(|kept| Some(kept.function.as_ref()?.clone_ref(py)));
        drop(objects);
        let Some(function) = function else { return };
        let called = Py::new(py, Event(*event)).and_then(|event| function.call1(py, (event,)));
        if let Err(error) = called {
            error.write_unraisable(py, Some(function.bind(py)));
        }
    });
}

/// A registered function or log, until `unsubscribe()` or the end of a `with` block. Dropping this object leaves it in
/// place as long as the allocator.
///
/// >>> from cubeyard.memory import FlexAllocator
/// >>> allocator = FlexAllocator()
/// >>> with allocator.subscribe(lambda event: print(event.action, event.requested)):
/// ...     allocator.allocate(1000).free()
/// segment_alloc 12884901888
/// alloc 1000
/// free_requested 1000
/// free_completed 1000
/// >>> allocator.allocate(1000).free()               # not watched any more
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Subscription {
    id: u64,
    owner: Owner,
}

#[pymethods]
impl Subscription {
    /// Whether the function or log is registered.
    #[getter]
    fn is_active(&self) -> bool {
        let objects = self.owner.hooks().objects();
        objects.subscribers.iter().any(|kept| kept.id == self.id)
            || objects.callbacks.iter().any(|(id, _)| *id == self.id)
    }

    /// Takes the function or log back. Doing so twice is an `InputError`. A subscriber is then not called any more, and
    /// not running on another thread. A log is then complete; an `OSError` says that it could not be written.
    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        let mut objects = self.owner.hooks().objects();
        let callback = objects.callbacks.extract_if(.., |(id, _)| *id == self.id).next();
        let kept = objects.subscribers.extract_if(.., |kept| kept.id == self.id).next();
        drop(objects);
        if callback.is_none() && kept.is_none() {
            return Err(Kind::Input.error("the subscription was ended before"));
        }
        let Some(Subscribed { log, subscription, .. }) = kept else { return Ok(()) };
        self.owner.call(py, move |_| drop(subscription.map(Held::take)))?;
        log.map_or(Ok(()), |log| Ok(log.flush()?))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        if self.is_active() { self.unsubscribe(py) } else { Ok(()) }
    }

    fn __repr__(&self) -> &'static str {
        if self.is_active() { "<Subscription>" } else { "<Subscription, ended>" }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.traverse(&visit)
    }
}
