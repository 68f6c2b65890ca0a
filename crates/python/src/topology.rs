//! Topologies of machines.

use cubeyard_cli::results;
use cubeyard_device::topology::{self, DEFAULT, OverrideError};
use cubeyard_diagrams::View;
use cubeyard_yaml::{InputError, PlainValue};
use pyo3::prelude::*;

use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::plain;

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

    /// Returns the machine with other values: a dictionary by keys with dots, or in the structure of the file.
    fn with_overrides(&self, py: Python<'_>, overrides: &Bound<'_, PyAny>) -> PyResult<Self> {
        let PlainValue::Map(entries) = plain::from_python(overrides, "")? else {
            let found = plain::shown(overrides);
            let expected = "expected a dictionary of keys and values";
            return Err(Kind::Input.error(format!("topology: {expected}, found {found}")));
        };
        let topology = py.detach(|| self.topology.with_overrides(&entries)).or_raise()?;
        Ok(Self { topology })
    }

    /// Returns the values in the structure of the file.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain::to_python(py, self.topology.values())
    }

    /// Returns the values as YAML in one line.
    fn yaml(&self) -> String {
        self.topology.values().to_string()
    }

    fn content_hash(&self) -> String {
        self.topology.content_hash().to_string()
    }

    /// Returns whether both describe the same machine.
    fn is_same(&self, other: &Self) -> bool {
        self.topology.spec() == other.topology.spec()
    }

    /// Returns the figures of `cubeyard topology --format json`.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain::report(py, &self.topology.report())
    }

    /// Returns the tables of `cubeyard topology`.
    fn text(&self) -> String {
        results::topology_text(&self.topology)
    }

    /// Returns warnings of bandwidth that no traffic can reach.
    fn warnings(&self) -> Vec<String> {
        self.topology.unreachable().iter().map(ToString::to_string).collect()
    }

    /// Returns a picture of one level as SVG: `system`, `sip`, `cube` or `pe`.
    fn draw(&self, py: Python<'_>, level: &str) -> PyResult<String> {
        let view = View::ALL.into_iter().find(|view| view.name() == level);
        let view = view.ok_or_else(|| {
            let names = View::ALL.map(View::name).join(", ");
            Kind::Input.error(format!("level={level:?}: expected one of {names}"))
        })?;
        Ok(py.detach(|| cubeyard_diagrams::machine(&self.topology, view)))
    }
}

impl IntoPyErr for InputError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(self.to_string())
    }
}

impl IntoPyErr for OverrideError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(format!("topology: {self}"))
    }
}

/// Returns plain data as YAML in one line; errors call it `name`.
#[pyfunction]
fn yaml_text(data: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    plain::from_python(data, name).map(|value| value.to_string())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DEFAULT_TOPOLOGY", DEFAULT)?;
    module.add_function(wrap_pyfunction!(yaml_text, module)?)?;
    module.add_class::<Topology>()
}
