//! PyTorch devices: their memory, programs, and the stacks of allocations.
//!
//! The C++ shim calls the functions of `cubeyard.h` and `cubeyard_torch.h`, which this library exports. This module
//! provides Python access to the same devices.

mod clock;
mod device;
mod hooks;
mod operators;
mod page;
mod program;
mod sites;

use std::sync::Arc;

use cubeyard_device::shared_memory::SharedMemory;
use cubeyard_memory::{VirtualAddress, flex};
use cubeyard_torch::{Device, devices, settings};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Kind;
use crate::forks;
use crate::memory::calls;
use crate::placement::{self, Distribution};
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

/// Returns the memory of a device, to share with a machine.
pub(crate) fn memory_of(number: u32) -> PyResult<Arc<dyn SharedMemory>> {
    let device: &'static Device = cubeyard_torch::device(number).map_err(refused)?;
    Ok(Arc::new(device))
}

/// Places the block at an address of a device over PEs, as a tensor of the given shape; without a placement, its pages are
/// dealt again.
#[pyfunction]
fn torch_place(
    py: Python<'_>,
    device: u32,
    address: u64,
    shape: Vec<u64>,
    dtype_name: &str,
    distribution: Option<Distribution>,
) -> PyResult<()> {
    let device_memory = cubeyard_torch::device(device).map_err(refused)?;
    let parts = match distribution {
        None => None,
        Some(distribution) => {
            let topology = devices().map_err(refused)?.settings.topology.clone();
            Some(placement::parts(distribution, &shape, dtype_name, &topology)?)
        }
    };
    let placed = calls::call(py, forks::count(), || device_memory.place(address, parts))?;
    placed.map_err(refused)
}

fn refused(failure: cubeyard_capi::Failure) -> PyErr {
    Kind::Input.error(failure.to_string())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    cubeyard_torch::set_site(sites::here);
    clock::register(module)?;
    operators::register(module)?;
    page::register(module)?;
    cubeyard_torch::set_labels(hooks::labels);
    module.add_class::<device::TorchDevice>()?;
    module.add_class::<program::TorchProgram>()?;
    module.add_class::<program::TorchLaunch>()?;
    module.add_function(wrap_pyfunction!(torch_headers, module)?)?;
    module.add_function(wrap_pyfunction!(torch_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(torch_distance, module)?)?;
    module.add_function(wrap_pyfunction!(torch_place, module)?)?;
    module.add_function(wrap_pyfunction!(torch_topology, module)?)
}
