//! Calls of the allocator without the GIL, and exceptions of Python functions called by the allocator meanwhile.

use std::cell::RefCell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::error::{self, Kind};
use crate::forks;

thread_local! {
    /// First exception raised by a Python function that the allocator called on this thread, in the current call.
    static RAISED: RefCell<Option<Raised>> = const { RefCell::new(None) };
}

/// Exception of a Python function called by the allocator.
pub(crate) enum Raised {
    /// Exception of a function of a device or of streams, with the function's name.
    Device(&'static str, PyErr),
    /// Exception of a callback or a clock of the caller.
    Callback(PyErr),
}

impl Raised {
    /// Returns the exception for the caller of the allocator.
    fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            // The interpreter or the user wants to stop, which is not a failure of the device.
            Self::Device(_, error) if !error.is_instance_of::<PyException>(py) => error,
            Self::Device(function, error) => {
                let raised =
                    Kind::Device.error(format!("{function}() of the device raised {error}"));
                raised.set_cause(py, Some(error));
                raised
            }
            Self::Callback(error) => error,
        }
    }
}

/// Keeps an exception until the current call of the allocator has returned; only the first one is kept.
pub(crate) fn raise(raised: Raised) {
    RAISED.with_borrow_mut(|first| {
        first.get_or_insert(raised);
    });
}

/// Returns whether a Python function has raised an exception in the current call.
pub(crate) fn has_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Calls `act` without the GIL. If a Python function called by `act` raises an exception, it is raised instead of
/// returning the result.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    forks: u64,
    act: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    forks::check(forks)?;
    let outer = RAISED.take();
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(act)));
    let raised = RAISED.replace(outer);
    match (raised, done) {
        (None, Ok(done)) => Ok(done),
        (None, Err(panic)) => Err(error::internal(&*panic)),
        (Some(raised), done) => {
            // A result may be a block, which would have no owner.
            done.map(|done| discard(py, forks, done)).ok();
            Err(raised.into_error(py))
        }
    }
}

/// Drops a value without the GIL. Exceptions cannot be raised there, so they go to `sys.unraisablehook`.
pub(crate) fn discard<T: Send>(py: Python<'_>, forks: u64, value: T) {
    if forks != forks::count() {
        // The locks of the value may be held by threads that do not exist in this process.
        std::mem::forget(value);
        return;
    }
    let outer = RAISED.take();
    // An object may be deallocated while an exception is pending.
    let pending = PyErr::take(py);
    py.detach(|| drop(value));
    if let Some(raised) = RAISED.replace(outer) {
        raised.into_error(py).write_unraisable(py, None);
    }
    if let Some(pending) = pending {
        pending.restore(py);
    }
}

/// Value of the allocator that Python holds; it is dropped without the GIL.
pub(crate) struct Held<T: Send> {
    /// Value; `None` once it has been taken.
    value: Option<T>,
    pub(crate) forks: u64,
}

impl<T: Send> Held<T> {
    pub(crate) fn new(value: T, forks: u64) -> Self {
        Self { value: Some(value), forks }
    }

    pub(crate) fn take(mut self) -> T {
        self.value.take().expect("a value is taken once, with its holder")
    }
}

impl<T: Send> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("a value is taken once, with its holder")
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        let mut left = Some(value);
        // The interpreter may have ended; then the device is gone, too.
        Python::try_attach(|py| left.take().map(|value| discard(py, self.forks, value)));
    }
}
