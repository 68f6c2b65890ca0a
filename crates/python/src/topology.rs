//! Topologies of machines.

use cubeyard_device::input::InputError;
use cubeyard_device::topology;
use pyo3::prelude::*;

use crate::error::{IntoPyErr, Kind, OrRaise};

/// A machine that has been read and checked.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Topology {
    pub(crate) topology: topology::Topology,
}

#[pymethods]
impl Topology {
    /// Reads a text that is laid over the default machine; errors call it `name`.
    #[staticmethod]
    fn read(py: Python<'_>, name: &str, text: &str) -> PyResult<Self> {
        let topology = py.detach(|| topology::Topology::read(name, text)).or_raise()?;
        Ok(Self { topology })
    }
}

impl IntoPyErr for InputError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(self.to_string())
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Topology>()
}
