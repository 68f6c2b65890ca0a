//! Class `FlexAllocator`: an allocator with the Python objects that it calls; and the owner of an allocator.

use std::sync::Arc;

use cubeyard_memory::flex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

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

/// Returns a number that no other allocator has as long as this one stays in its place.
pub(crate) fn identity(allocator: &flex::FlexAllocator) -> usize {
    std::ptr::from_ref(allocator).addr()
}

/// Owner of an allocator and of the Python objects that the allocator calls.
pub(crate) enum Owner {
    /// Object of the class `FlexAllocator`, which the garbage collector follows.
    Object(Py<FlexAllocator>),
    /// Allocator that exists as long as the process.
    Process { allocator: &'static flex::FlexAllocator, hooks: Arc<Hooks>, forks: u64 },
}

impl From<&Bound<'_, FlexAllocator>> for Owner {
    fn from(object: &Bound<'_, FlexAllocator>) -> Self {
        Self::Object(object.clone().unbind())
    }
}

impl Owner {
    pub(crate) fn hooks(&self) -> &Arc<Hooks> {
        match self {
            Self::Object(object) => &object.get().hooks,
            Self::Process { hooks, .. } => hooks,
        }
    }

    /// Returns a number that no other allocator has as long as the owner exists.
    pub(crate) fn identity(&self) -> usize {
        match self {
            Self::Object(object) => identity(&object.get().inner),
            Self::Process { allocator, .. } => identity(allocator),
        }
    }

    pub(crate) fn forks(&self) -> u64 {
        match self {
            Self::Object(object) => object.get().forks(),
            Self::Process { forks, .. } => *forks,
        }
    }

    /// Calls the allocator without the GIL.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&flex::FlexAllocator) -> T + Send,
    ) -> PyResult<T> {
        match self {
            Self::Object(object) => object.get().call(py, act),
            Self::Process { allocator, forks, .. } => calls::call(py, *forks, || act(allocator)),
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Object(object) => visit.call(object),
            Self::Process { .. } => Ok(()),
        }
    }
}
