//! Handling of forks. The child of a multi-threaded process has locks that no thread will ever unlock, and
//! devices that its parent still uses. It must neither use allocators created before the fork, nor wait for a
//! call of another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Kind;

/// Number of forks of this process and its ancestors since the module was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Runs in a child, before `os.fork` returns there.
#[pyfunction]
fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Registers the counting of forks, on systems that have them.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let Ok(register) = py.import("os")?.getattr("register_at_fork") else { return Ok(()) };
    let named = PyDict::new(py);
    named.set_item("after_in_child", wrap_pyfunction!(forked, module)?)?;
    register.call((), Some(&named)).map(drop)
}

/// Returns the number of forks, which differs between parent and child.
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Returns an error in a child for an allocator that was created before the fork.
pub(crate) fn check(made: u64) -> PyResult<()> {
    if made == count() {
        return Ok(());
    }
    let text = "the allocator was made before a fork, and belongs to the parent process; make another one here";
    Err(Kind::Busy.error(text))
}
