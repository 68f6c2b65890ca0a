//! Time of PyTorch's operators: the Python functions for their costs and for observers, and their counts.

use std::sync::{Mutex, PoisonError};

use cubeyard_torch::operators::{self, Cost, Work};
use pyo3::ffi;
use pyo3::prelude::*;

/// Python functions that are called with operators.
struct Functions {
    cost: Option<Py<PyAny>>,
    observer: Option<Py<PyAny>>,
}

static FUNCTIONS: Mutex<Functions> = Mutex::new(Functions { cost: None, observer: None });

/// Sets the function that returns an operator's cost: from its name and words, its picoseconds and number, or None.
#[pyfunction]
fn torch_set_cost(function: Py<PyAny>) {
    let former = functions(|functions| functions.cost.replace(function));
    drop(former);
}

/// Sets the function that is called with the number, device, stream, begin, end and bytes of each operator and copy;
/// None for no function.
#[pyfunction]
#[pyo3(signature = (function))]
fn torch_observe_operators(function: Option<Py<PyAny>>) {
    operators::observe(function.is_some());
    let former = functions(|functions| std::mem::replace(&mut functions.observer, function));
    drop(former);
}

/// Returns the count, picoseconds and bytes of operators since the process began, by their numbers.
#[pyfunction]
fn torch_operator_totals() -> Vec<(u64, u64, u64)> {
    let row = |total: operators::Total| (total.count, total.picoseconds, total.bytes);
    operators::totals().into_iter().map(row).collect()
}

/// Returns whether operators take time.
#[pyfunction]
fn torch_is_timed(py: Python<'_>) -> bool {
    py.detach(operators::is_timed)
}

/// Sets whether operators take time from now on.
#[pyfunction]
fn torch_set_timed(timed: bool) {
    operators::set_timed(timed);
}

/// Returns the cost of an operator from the Python function.
fn cost(name: &str, words: &[u64]) -> Result<Option<Cost>, String> {
    attached(|py| {
        let Some(function) =
            functions(|functions| functions.cost.as_ref().map(|one| one.clone_ref(py)))
        else {
            return Err("no function is set".to_owned());
        };
        let found = function.call1(py, (name, words.to_vec()));
        let found = found.and_then(|found| found.extract::<Option<(u64, u32)>>(py));
        let found = found.map_err(|error| described(py, &error))?;
        Ok(found.map(|(picoseconds, id)| Cost { picoseconds, id }))
    })
}

/// Calls the observer.
fn observe(work: &Work) -> Result<(), String> {
    attached(|py| {
        let Some(function) =
            functions(|functions| functions.observer.as_ref().map(|one| one.clone_ref(py)))
        else {
            return Ok(());
        };
        let Work { id, device, stream, span, bytes } = *work;
        let called = function.call1(py, (id, device, stream, span.begin, span.end, bytes));
        called.map(drop).map_err(|error| described(py, &error))
    })
}

/// Returns an exception as text. An interrupt is delivered again, since C++ turns every error into another.
fn described(py: Python<'_>, error: &PyErr) -> String {
    if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        // SAFETY: this thread holds the GIL.
        #[expect(unsafe_code, reason = "the safety comment above")]
        unsafe {
            ffi::PyErr_SetInterrupt();
        }
    }
    error.to_string()
}

fn functions<T>(act: impl FnOnce(&mut Functions) -> T) -> T {
    act(&mut FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs a function with the GIL, on any thread.
///
/// PyTorch may have released the GIL inside a callback of this library, which `PyO3` does not notice. So the interpreter
/// itself is asked for it.
#[expect(unsafe_code, reason = "the safety comments below")]
fn attached<T>(act: impl FnOnce(Python<'_>) -> Result<T, String>) -> Result<T, String> {
    // SAFETY: this function may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return Err("the interpreter has ended".to_owned());
    }
    // SAFETY: there is an interpreter. The state is released below, on the same thread.
    let state = unsafe { ffi::PyGILState_Ensure() };
    // SAFETY: the thread holds the GIL since the call above.
    let result = act(unsafe { Python::assume_attached() });
    // SAFETY: `state` is the latest one of this thread.
    unsafe { ffi::PyGILState_Release(state) };
    result
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    operators::set_functions(cost, observe);
    module.add_function(wrap_pyfunction!(torch_set_cost, module)?)?;
    module.add_function(wrap_pyfunction!(torch_observe_operators, module)?)?;
    module.add_function(wrap_pyfunction!(torch_operator_totals, module)?)?;
    module.add_function(wrap_pyfunction!(torch_is_timed, module)?)?;
    module.add_function(wrap_pyfunction!(torch_set_timed, module)?)
}
