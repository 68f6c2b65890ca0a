//! Conversion of allocator errors to exceptions, and class `MemoryReport`.

use cubeyard_memory::flex::{
    AllocateError, BudgetExceeded, BuildError, ConfigError, FreeError, OutOfMemory, PauseError,
    RegionReport, ResizeError, ResumeError, Shortage, TagError,
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
            Self::UnknownPool(_) | Self::UnknownTag(_) => Kind::Input.error(self.to_string()),
            Self::Budget(exceeded) => Python::attach(|py| over_budget(py, exceeded)),
            _ => Kind::Internal.error(self.to_string()),
        }
    }
}

impl IntoPyErr for ResizeError {
    fn into_py_err(self) -> PyErr {
        let text = self.to_string();
        match self {
            Self::NoRoom { needed, available, .. } => {
                let numbers = [("needed", needed.get()), ("available", available.get())];
                Kind::OutOfMemory.with(text, &numbers)
            }
            Self::NoMemory { needed } => Kind::OutOfMemory.with(text, &[("needed", needed.get())]),
            Self::Budget { budget, needed, .. } => {
                let numbers = [("budget", budget.get()), ("needed", needed.get())];
                Kind::Budget.with(text, &numbers)
            }
            Self::Pinned { .. } | Self::Changed | Self::Reentrant => Kind::Busy.error(text),
            _ => Kind::Input.error(text),
        }
    }
}

impl IntoPyErr for PauseError {
    fn into_py_err(self) -> PyErr {
        let kind = match self {
            Self::Pinned { .. } | Self::Reentrant => Kind::Busy,
            _ => Kind::Input,
        };
        kind.error(self.to_string())
    }
}

impl IntoPyErr for ResumeError {
    fn into_py_err(self) -> PyErr {
        let text = self.to_string();
        match self {
            Self::NoMemory { needed, free } => {
                let numbers = [("needed", needed.get()), ("device_free", free.get())];
                Kind::OutOfMemory.with(text, &numbers)
            }
            Self::Reentrant => Kind::Busy.error(text),
            _ => Kind::Input.error(text),
        }
    }
}

impl IntoPyErr for TagError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(self.to_string())
    }
}

/// Creates the exception for a budget that refuses a request.
fn over_budget(py: Python<'_>, exceeded: &BudgetExceeded) -> PyErr {
    let numbers = [
        ("budget", exceeded.budget),
        ("allocated", exceeded.allocated),
        ("requested", exceeded.requested),
        ("rounded", exceeded.rounded),
    ];
    let numbers = numbers.map(|(name, bytes)| (name, bytes.get()));
    let made = Kind::Budget.with(exceeded.to_string(), &numbers);
    let details = made.value(py).getattr("details");
    match details.and_then(|details| details.set_item("tag", &exceeded.name)) {
        Ok(()) => made,
        Err(error) => error,
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

/// Report of an `OutOfMemory`, which has the text and the remedies. Both are computed by trials, so an exception reads
/// them only when it is asked for them.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct MemoryReport(OutOfMemory);

#[pymethods]
impl MemoryReport {
    /// Returns the report as text.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_string())
    }

    /// Returns the remedies that make room, as texts.
    fn remedies(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.0.remedies().iter().map(ToString::to_string).collect())
    }
}

/// Creates the exception for a report, with its numbers, the kind of shortage and the regions as details. The text and
/// the remedies are computed when they are read.
pub(crate) fn out_of_memory(py: Python<'_>, report: &OutOfMemory) -> PyErr {
    let made = Kind::OutOfMemory.with("", &error::of_report(report));
    match describe(py, &made, report) {
        Ok(()) => made,
        Err(error) => error,
    }
}

fn describe(py: Python<'_>, made: &PyErr, report: &OutOfMemory) -> PyResult<()> {
    let value = made.value(py);
    let details = value.getattr("details")?;
    let shortage = match report.shortage {
        Shortage::Full => "full",
        Shortage::Fragmented => "fragmented",
        Shortage::TooLarge => "too_large",
    };
    details.set_item("shortage", shortage)?;
    details.set_item("limit", report.limit.to_string())?;
    if let Some(pool) = &report.pool {
        details.set_item("pool", &pool.name)?;
    }
    if let Some(exceeded) = &report.budget {
        details.set_item("tag", &exceeded.name)?;
        details.set_item("budget", exceeded.budget.get())?;
    }
    let regions: PyResult<Vec<_>> = report.regions.iter().map(|region| entry(py, region)).collect();
    details.set_item("regions", regions?)?;
    value.setattr("_report", MemoryReport(report.clone()))
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
