//! Licences of the crates that are linked into this module.

use pyo3::prelude::*;

/// Returns the names, versions and licences of all crates that are linked into this module.
#[pyfunction]
fn licences() -> &'static str {
    include_str!(concat!(env!("OUT_DIR"), "/licences.txt"))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(licences, module)?)
}
