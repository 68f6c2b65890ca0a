//! Conversion of allocator errors to exceptions.

use cubeyard_memory::flex::{
    AllocateError, BuildError, ConfigError, FreeError, OutOfMemory, RegionReport, Shortage,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{self, IntoPyErr, Kind};

impl IntoPyErr for AllocateError {
    fn into_py_err(self) -> PyErr {
        match &self {
            Self::OutOfMemory(report) => Python::attach(|py| out_of_memory(py, report)),
            Self::ZeroBytes => Kind::Input.error("size is 0: expected at least 1 byte"),
            Self::BadAlignment(alignment) => {
                let text = format!("alignment is {}: expected a power of two", alignment.get());
                Kind::Input.error(text)
            }
            Self::Reentrant => Kind::Busy.error(self.to_string()),
            Self::RepeatedRegion { .. } => Kind::Device.error(self.to_string()),
            _ => Kind::Internal.error(self.to_string()),
        }
    }
}

impl IntoPyErr for FreeError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(self.to_string())
    }
}

impl IntoPyErr for ConfigError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(format!("config: {self}"))
    }
}

impl IntoPyErr for BuildError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(format!("config: {self}"))
    }
}

/// Creates the exception for a report, with its numbers, the kind of shortage, the remedies and the regions as details.
pub(crate) fn out_of_memory(py: Python<'_>, report: &OutOfMemory) -> PyErr {
    let made = Kind::OutOfMemory.with(report.to_string(), &error::of_report(report));
    match describe(py, &made, report) {
        Ok(()) => made,
        Err(error) => error,
    }
}

fn describe(py: Python<'_>, made: &PyErr, report: &OutOfMemory) -> PyResult<()> {
    let details = made.value(py).getattr("details")?;
    let shortage = match report.shortage {
        Shortage::Full => "full",
        Shortage::Fragmented => "fragmented",
        Shortage::TooLarge => "too_large",
    };
    details.set_item("shortage", shortage)?;
    details.set_item("limit", report.limit.to_string())?;
    let remedies: Vec<_> = report.remedies().iter().map(ToString::to_string).collect();
    details.set_item("remedies", remedies)?;
    let regions: PyResult<Vec<_>> = report.regions.iter().map(|region| entry(py, region)).collect();
    details.set_item("regions", regions?)
}

/// Returns the figures of a region by name.
pub(crate) fn entry<'py>(py: Python<'py>, region: &RegionReport) -> PyResult<Bound<'py, PyDict>> {
    let figures = PyDict::new(py);
    figures.set_item("id", region.id.get())?;
    figures.set_item("size", region.size.get())?;
    figures.set_item("free", region.free.get())?;
    figures.set_item("largest_free", region.largest.get())?;
    figures.set_item("blocks", region.blocks)?;
    Ok(figures)
}
