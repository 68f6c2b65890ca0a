//! Awaitable objects of a kernel.

use std::sync::{Arc, Mutex, PoisonError};

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::numeric::Array;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};

use super::run::{self, Run, RunInfo};
use super::wanted::{Asked, Contents};

/// An awaitable that is done.
#[pyclass(frozen, module = "cubeyard._native", name = "Done")]
pub(crate) struct Done;

#[pymethods]
impl Done {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[expect(clippy::unused_self, reason = "a method of Python has it")]
    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }
}

/// An awaitable of the elements of a tile.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct PendingValue {
    info: Arc<RunInfo>,
    key: u32,
    state: Mutex<State>,
}

enum State {
    /// The value has not been awaited yet.
    New,
    /// The kernel is waiting for the value.
    Awaited,
    Ready(Py<PyAny>),
    Taken,
}

impl PendingValue {
    pub(super) fn new(run: &Run, contents: Contents, shape: Vec<u64>) -> Self {
        let key = run.wanted.insert(contents, shape);
        Self { info: Arc::clone(run.info()), key, state: Mutex::new(State::New) }
    }

    /// Takes the future from the table of a run; `None` if it belongs to another run.
    pub(super) fn future(&self, run: &Run) -> Option<Asked> {
        Arc::ptr_eq(&self.info, run.info()).then(|| run.wanted.take(self.key)).flatten()
    }

    /// Sets the elements with which the kernel continues.
    pub(super) fn set(&self, value: Py<PyAny>) {
        *self.state() = State::Ready(value);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PendingValue {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let py = slf.py();
        let mut state = slf.get().state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::New => {
                *state = State::Awaited;
                drop(state);
                Ok(slf)
            }
            State::Ready(value) => Err(PyStopIteration::new_err((value,))),
            State::Awaited | State::Taken => {
                drop(state);
                Err(run::fail(py, "a value is awaited twice: ask for it again by tl.value"))
            }
        }
    }
}

/// Returns elements in a type that NumPy supports: unsupported narrow floats are converted to `f32`, which is exact.
fn elements(array: &Array) -> (DType, Vec<u8>) {
    match array.ty().dtype {
        DType::Bf16 | DType::Fp8E4m3 | DType::Fp8E5m2 => {
            #[expect(clippy::cast_possible_truncation, reason = "f32 holds these exactly")]
            let single = |value: &f64| (*value as f32).to_le_bytes();
            (DType::F32, array.values().iter().flat_map(single).collect())
        }
        dtype => (dtype, array.to_bytes()),
    }
}

/// Creates a NumPy array of the elements of a tile.
pub(super) fn array(py: Python<'_>, array: &Array, shape: &[u64]) -> PyResult<Py<PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = MAKE.import(py, "cubeyard._base.dtypes", "array")?;
    let (dtype, bytes) = elements(array);
    let made = class.call1((dtype.name(), PyBytes::new(py, &bytes), PyTuple::new(py, shape)?))?;
    Ok(made.unbind())
}
