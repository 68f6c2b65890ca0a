//! Python functions that the allocators of PyTorch's devices call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cubeyard_memory::flex::OutOfMemory;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Place;
use crate::memory::hooks::Hooks;
use crate::memory::owner::{Owner, identity};
use crate::memory::{labels, out_of_memory, pressure};

/// Functions by the number of their device. They exist as long as the process, as the devices do.
static HOOKS: Mutex<BTreeMap<u32, Arc<Hooks>>> = Mutex::new(BTreeMap::new());

/// Returns the owner of a device's allocator.
pub(crate) fn owner(place: Place) -> Owner {
    let hooks = of(place);
    Owner::Process { allocator: &place.device.allocator, hooks, forks: place.forks }
}

/// Returns the functions of a device. The first call registers them with the allocator.
fn of(place: Place) -> Arc<Hooks> {
    let mut all = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let hooks = all.entry(place.number).or_insert_with(|| {
        let hooks = Arc::new(Hooks::default());
        let weak = Arc::downgrade(&hooks);
        let call = move |report: &OutOfMemory| {
            if let Some(hooks) = weak.upgrade() {
                call_back(&hooks, report);
            }
        };
        place.device.allocator.on_pressure(call);
        hooks
    });
    Arc::clone(hooks)
}

/// Calls the callbacks while no lock of the allocator is held. The request may come from C++, which cannot receive a
/// Python exception, so exceptions go to `sys.unraisablehook`.
fn call_back(hooks: &Hooks, report: &OutOfMemory) {
    Python::try_attach(|py| {
        let report = out_of_memory(py, report).into_value(py);
        for callback in pressure::callbacks(py, hooks) {
            if let Err(error) = callback.call1(py, (&report,)) {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        }
    });
}

/// Makes the C functions that PyTorch calls release the GIL. A thread that holds it would otherwise wait for a thread
/// that delivers events to Python and needs it.
pub(crate) fn detach_calls() {
    cubeyard_capi::detach_calls(detach);
}

/// Body of a C function.
struct Body<'a>(&'a mut dyn FnMut());

// SAFETY: it runs on the thread that made it. `Python::detach` asks for `Send` only to keep references to Python objects
// out, and the bodies of C functions have none.
#[expect(unsafe_code, reason = "the safety comment above")]
unsafe impl Send for Body<'_> {}

impl Body<'_> {
    fn run(&mut self) {
        (self.0)();
    }
}

/// Runs a body without the GIL, also on a thread that does not hold it, and after the interpreter has ended.
///
/// PyTorch may have released the GIL inside a callback of this library, which `PyO3` does not notice. So the interpreter
/// itself is asked for the GIL, before `PyO3` releases it.
#[expect(unsafe_code, reason = "the safety comments below")]
fn detach(body: &mut dyn FnMut()) {
    let mut body = Body(body);
    // SAFETY: this function may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return body.run();
    }
    // SAFETY: there is an interpreter. The state is released below, on the same thread.
    let state = unsafe { ffi::PyGILState_Ensure() };
    // SAFETY: the thread holds the GIL since the call above.
    let py = unsafe { Python::assume_attached() };
    py.detach(|| body.run());
    // SAFETY: `state` is the latest one of this thread.
    unsafe { ffi::PyGILState_Release(state) };
}

/// Returns the numbers of the pool and the tag that this thread's allocations on a device go to.
pub(crate) fn labels(device: u32) -> (u32, u32) {
    let Ok(device) = cubeyard_torch::device(device) else { return (0, 0) };
    let (pool, tag) = labels::current(identity(&device.allocator));
    (pool.get(), tag.get().into())
}
