//! Handling of Ctrl-C during long calls.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Interval between two checks for a signal. A check acquires the GIL.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether the simulations of all threads must stop: only Python's main thread sees signals itself.
static WANTED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Exception raised by a signal handler.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Calls `act` without the GIL. Simulations in `act` stop soon after a signal handler has raised an exception; [`take`]
/// returns that exception.
pub(crate) fn long<T: Send>(py: Python<'_>, act: impl FnOnce() -> T + Send) -> T {
    py.detach(|| cubeyard_sim::interruptible(is_wanted, act))
}

/// Returns whether a signal handler has raised an exception.
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

/// Fails if a signal handler has raised an exception. Called in loops outside simulations.
pub(crate) fn check() -> PyResult<()> {
    if is_wanted() { Err(take()) } else { Ok(()) }
}

/// Takes the exception that interrupted a run.
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
