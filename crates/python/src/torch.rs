//! PyTorch devices: their memory, programs, and the stacks of allocations.
//!
//! The C++ shim calls the functions of `cubeyard.h` and `cubeyard_torch.h`, which this library exports. This module
//! provides Python access to the same devices.

mod device;
mod program;
mod sites;

use cubeyard_memory::{VirtualAddress, flex};
use cubeyard_torch::{Device, devices, settings, streams};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Kind;
use crate::memory::calls;
use crate::topology::Topology;

/// Returns the headers that the shim is compiled with, by name.
#[pyfunction]
fn torch_headers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let headers = PyDict::new(py);
    headers.set_item("cubeyard.h", cubeyard_capi::HEADER)?;
    headers.set_item("cubeyard_torch.h", cubeyard_torch::HEADER)?;
    Ok(headers)
}

/// Returns the number of devices.
#[pyfunction]
fn torch_device_count() -> PyResult<u32> {
    Ok(devices().map_err(refused)?.count())
}

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

/// Returns the distance from a pointer of the devices to the same byte for the host; a sum with it wraps.
#[pyfunction]
fn torch_distance() -> PyResult<u64> {
    Ok(devices().and_then(cubeyard_torch::devices::Devices::space).map_err(refused)?.distance())
}

/// Reads the machine that the environment names.
#[pyfunction]
fn torch_topology(py: Python<'_>) -> PyResult<Topology> {
    let topology = py.detach(settings::topology);
    let topology = topology.map_err(|error| Kind::Input.error(error.to_string()))?;
    Ok(Topology { topology })
}

/// Device that this process is allowed to use.
#[derive(Clone, Copy)]
struct Place {
    number: u32,
    device: &'static Device,
    forks: u64,
}

impl Place {
    /// Calls the allocator without the GIL.
    fn call<T: Send>(
        self,
        py: Python<'_>,
        act: impl FnOnce(&flex::FlexAllocator) -> T + Send,
    ) -> PyResult<T> {
        calls::call(py, self.forks, || act(&self.device.allocator))
    }

    /// Writes bytes to the device.
    fn write(self, address: VirtualAddress, bytes: &[u8]) {
        self.device.memory.write(address.region_id, address.offset, bytes);
    }
}

fn refused(failure: cubeyard_capi::Failure) -> PyErr {
    Kind::Input.error(failure.to_string())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    cubeyard_torch::set_site(sites::here);
    module.add_class::<device::TorchDevice>()?;
    module.add_class::<program::TorchProgram>()?;
    module.add_class::<program::TorchLaunch>()?;
    module.add_function(wrap_pyfunction!(torch_headers, module)?)?;
    module.add_function(wrap_pyfunction!(torch_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(torch_now, module)?)?;
    module.add_function(wrap_pyfunction!(torch_wait, module)?)?;
    module.add_function(wrap_pyfunction!(torch_stream_time, module)?)?;
    module.add_function(wrap_pyfunction!(torch_stream_wait, module)?)?;
    module.add_function(wrap_pyfunction!(torch_distance, module)?)?;
    module.add_function(wrap_pyfunction!(torch_topology, module)?)
}
