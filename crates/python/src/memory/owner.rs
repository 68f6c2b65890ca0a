//! Class `FlexAllocator`: an allocator with the Python objects that it calls.

use std::sync::Arc;

use cubeyard_memory::flex;
use pyo3::prelude::*;

use super::calls::{self, Held};
use super::hooks::Hooks;

/// Allocates blocks of device memory; the base of `cubeyard.memory.FlexAllocator`, which documents it.
#[pyclass(frozen, subclass, module = "cubeyard._native")]
pub(crate) struct FlexAllocator {
    // Dropped before the hooks, so that regions can still be released to the device.
    pub(super) inner: Held<flex::FlexAllocator>,
    pub(super) hooks: Arc<Hooks>,
}

impl FlexAllocator {
    /// Calls the allocator without the GIL.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&flex::FlexAllocator) -> T + Send,
    ) -> PyResult<T> {
        let done = calls::call(py, self.inner.forks, || act(&self.inner));
        if done.is_err() {
            // A device that has raised an exception has not refused permanently.
            calls::call(py, self.inner.forks, || self.inner.unlock_regions())?;
        }
        done
    }

    pub(crate) fn forks(&self) -> u64 {
        self.inner.forks
    }
}
