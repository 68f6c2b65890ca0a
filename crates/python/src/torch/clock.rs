//! Simulated time of PyTorch's devices: the host's clock, streams, launches and trials.

use std::sync::{Mutex, PoisonError};

use cubeyard_torch::pes::Pe;
use cubeyard_torch::timeline::AllocatedBytes;
use cubeyard_torch::{devices, streams, trial};
use pyo3::prelude::*;

use super::refused;
use crate::error::Kind;

/// Returns the host's clock, in picoseconds.
#[pyfunction]
fn torch_now() -> u64 {
    streams::now()
}

/// Advances the host's clock to a time; does nothing if the clock is later.
#[pyfunction]
fn torch_wait(time: u64) {
    streams::wait(time);
}

/// Returns the time at which a stream completes its work, in picoseconds.
#[pyfunction]
fn torch_stream_time(device: u32, stream: u32) -> u64 {
    cubeyard_torch::devices::stream_time(device, stream)
}

/// Lets the work that follows on a stream begin at a time at the earliest.
#[pyfunction]
fn torch_stream_wait(device: u32, stream: u32, time: u64) {
    cubeyard_torch::devices::stream_wait(device, stream, time);
}

/// Adds a launch to a stream: PEs by the numbers of their SIP, cube and their own, and durations on them and on the
/// host in picoseconds. The machine's launch time is the default of the latter. Returns the launch's begin and end.
#[pyfunction]
#[pyo3(signature = (device, stream, pes, picoseconds, host=None))]
fn torch_launch(
    py: Python<'_>,
    device: u32,
    stream: u32,
    pes: Vec<Pe>,
    picoseconds: u64,
    host: Option<u64>,
) -> PyResult<(u64, u64)> {
    let settings = &devices().map_err(refused)?.settings;
    let host = host.unwrap_or_else(|| settings.topology.spec().host_launch.ps());
    let place = py.detach(|| cubeyard_torch::device(device)).map_err(refused)?;
    let none = || Kind::Input.error(format!("stream {stream}: device {device} has no such stream"));
    let span = place.streams.launch(stream, &pes, host, picoseconds).ok_or_else(none)?;
    Ok((span.begin, span.end))
}

/// Begins a trial: the times of this thread are forgotten when it ends.
#[pyfunction]
fn torch_begin_trial() {
    trial::begin();
}

/// Ends the innermost trial of this thread.
#[pyfunction]
fn torch_end_trial() -> PyResult<()> {
    if trial::end() {
        return Ok(());
    }
    Err(Kind::Input.error("this thread is not in a trial"))
}

/// Returns whether this thread is in a trial.
#[pyfunction]
fn torch_is_trial() -> bool {
    trial::is_active()
}

/// Recorder of a device's allocated bytes over simulated time.
#[pyclass(frozen, module = "cubeyard._native")]
struct TorchAllocatedBytes(Mutex<Option<AllocatedBytes>>);

#[pymethods]
impl TorchAllocatedBytes {
    #[new]
    fn new(py: Python<'_>, device: u32) -> PyResult<Self> {
        let place = py.detach(|| cubeyard_torch::device(device)).map_err(refused)?;
        Ok(Self(Mutex::new(Some(py.detach(|| AllocatedBytes::record(place))))))
    }

    /// Ends the record. Returns the times of changes in picoseconds, and the bytes from each time on.
    fn end(&self, py: Python<'_>) -> PyResult<Vec<(u64, i64)>> {
        let record = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without the GIL: the end waits for a thread that is delivering events.
        let values = py.detach(|| record.map(|record| record.values()));
        values.ok_or_else(|| Kind::Closed.error("the record has ended"))
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TorchAllocatedBytes>()?;
    module.add_function(wrap_pyfunction!(torch_now, module)?)?;
    module.add_function(wrap_pyfunction!(torch_wait, module)?)?;
    module.add_function(wrap_pyfunction!(torch_stream_time, module)?)?;
    module.add_function(wrap_pyfunction!(torch_stream_wait, module)?)?;
    module.add_function(wrap_pyfunction!(torch_launch, module)?)?;
    module.add_function(wrap_pyfunction!(torch_begin_trial, module)?)?;
    module.add_function(wrap_pyfunction!(torch_end_trial, module)?)?;
    module.add_function(wrap_pyfunction!(torch_is_trial, module)?)
}
