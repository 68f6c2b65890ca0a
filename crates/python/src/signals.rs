//! Ctrl-C during long calls.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Time between two looks for a signal. A look takes the GIL.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether all simulations are to stop, on whichever thread: only the main thread of Python sees signals itself.
static WANTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The exception that a handler of a signal has raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Calls `act` without the GIL. Simulations in it stop soon after a handler of a signal has raised an exception;
/// [`take`] returns that exception.
pub(crate) fn long<T: Send>(py: Python<'_>, act: impl FnOnce() -> T + Send) -> T {
    py.detach(|| cubeyard_sim::interruptible(is_wanted, act))
}

/// Returns whether a handler of a signal has raised an exception.
#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
pub(crate) fn is_wanted() -> bool {
    if WANTED.load(Ordering::Relaxed) {
        return true;
    }
    let now = Instant::now();
    if LOOKED.get().is_some_and(|last| now.duration_since(last) < PAUSE) {
        return false;
    }
    LOOKED.set(Some(now));
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            RAISED.replace(Some(error));
            true
        }
    })
}

/// Fails if a handler of a signal has raised an exception: called in loops that are no simulation.
pub(crate) fn check() -> PyResult<()> {
    if is_wanted() { Err(take()) } else { Ok(()) }
}

/// Takes the exception for which a run was interrupted.
pub(crate) fn take() -> PyErr {
    RAISED.take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(()))
}

/// Makes the simulations of all threads stop, until it is called with `False`.
#[pyfunction]
fn interrupt(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(interrupt, module)?)
}
