//! The native module of the Python package `cubeyard`: converts arguments, calls the crates below, converts results.
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | the exceptions, and the conversion of errors into them |
//! | [`session`] | contexts shared by threads |
//! | [`signals`] | Ctrl-C during long calls |
//! | [`command`] | the `cubeyard` command |
//! | [`table`] | tables of results, as Arrow streams and as pages |
//! | [`licences`] | the licences of what is linked in |

mod command;
mod error;
mod licences;
#[expect(dead_code, reason = "the modules that use it follow")]
mod session;
#[expect(dead_code, reason = "the modules that use it follow")]
mod signals;
mod table;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    command::register(module)?;
    table::register(module)?;
    licences::register(module)?;
    Ok(())
}
