//! Callbacks in Python for requests that do not fit in memory.

use std::sync::Weak;

use cubeyard_memory::flex::OutOfMemory;
use pyo3::prelude::*;

use super::calls::{self, Raised};
use super::failure;
use super::hooks::Hooks;

/// Returns the callbacks of an allocator, in order.
pub(crate) fn callbacks(py: Python<'_>, hooks: &Hooks) -> Vec<Py<PyAny>> {
    hooks.objects().callbacks.iter().map(|(_, callback)| callback.clone_ref(py)).collect()
}

/// Calls the callbacks of an allocator, in order, with the report as an exception that was not raised. An exception of
/// one callback ends the sequence.
pub(crate) fn call_back(hooks: &Weak<Hooks>, report: &OutOfMemory) {
    Python::try_attach(|py| {
        let Some(hooks) = hooks.upgrade() else { return };
        let callbacks = callbacks(py, &hooks);
        if callbacks.is_empty() || calls::has_raised() {
            return;
        }
        let report = failure::out_of_memory(py, report).into_value(py);
        for callback in callbacks {
            if let Err(error) = callback.call1(py, (&report,)) {
                calls::raise(Raised::Callback(error));
                return;
            }
        }
    });
}
