//! Devices of PyTorch: their memory, programs, and the stacks of allocations.
//!
//! The shim in C++ calls the functions of `cubeyard.h` and `cubeyard_torch.h`, which this library exports; here is what
//! Python asks of the same devices.

mod device;
mod program;
mod sites;

use cubeyard_torch::{devices, streams};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Kind;

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
