//! Devices of PyTorch: their memory, programs, and the stacks of allocations.
//!
//! The shim in C++ calls the functions of `cubeyard.h` and `cubeyard_torch.h`, which this library exports; here is what
//! Python asks of the same devices.

mod device;
mod program;
mod sites;

use cubeyard_memory::{VirtualAddress, flex};
use cubeyard_torch::{Device, devices, streams};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::Kind;
use crate::memory::calls;

/// Returns the headers that the shim is compiled with, by name.
#[pyfunction]
fn torch_headers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let headers = PyDict::new(py);
    headers.set_item("cubeyard.h", cubeyard::HEADER)?;
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

/// A device, as this process may use it.
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

/// Returns a segment table: the id, flat address and size of each region; nothing for an empty entry.
fn segments<'py>(py: Python<'py>, table: &flex::SegmentTable) -> PyResult<Bound<'py, PyTuple>> {
    let entry =
        |segment: flex::Segment| (segment.region_id.get(), segment.base, segment.size.get());
    PyTuple::new(py, table.entries().iter().map(|segment| segment.map(entry)))
}

fn refused(failure: cubeyard::Failure) -> PyErr {
    Kind::Input.error(failure.to_string())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    cubeyard_torch::set_site(sites::here);
    module.add_class::<device::TorchDevice>()?;
    module.add_class::<program::TorchProgram>()?;
    module.add_class::<program::TorchLaunch>()?;
    module.add_function(wrap_pyfunction!(torch_headers, module)?)?;
    module.add_function(wrap_pyfunction!(torch_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(torch_now, module)?)
}
