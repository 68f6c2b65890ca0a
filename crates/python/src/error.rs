//! Conversion of errors to exceptions, which are defined in `cubeyard.errors`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cubeyard_memory::flex;
use cubeyard_memory::free_list::{self, AllocateCause};
use cubeyard_runtime::{AllocateError, RuntimeError};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::raised;
use crate::signals;

/// Kinds of exceptions: the classes of `cubeyard.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Input,
    Version,
    OutOfMemory,
    Budget,
    OutOfTime,
    Kernel,
    Stalled,
    Machine,
    NoData,
    Closed,
    Busy,
    Device,
    Distributed,
    Internal,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Input => "InputError",
            Self::Version => "VersionError",
            Self::OutOfMemory => "OutOfMemory",
            Self::Budget => "BudgetExceeded",
            Self::OutOfTime => "OutOfTime",
            Self::Kernel => "KernelError",
            Self::Stalled => "StalledError",
            Self::Machine => "MachineError",
            Self::NoData => "NoDataError",
            Self::Closed => "ClosedError",
            Self::Busy => "BusyError",
            Self::Device => "DeviceError",
            Self::Distributed => "DistributedError",
            Self::Internal => "InternalError",
        }
    }

    /// Creates an exception with a text.
    pub(crate) fn error(self, text: impl Into<String>) -> PyErr {
        self.with(text, &[])
    }

    /// Creates an exception with a text and the numbers of the error.
    pub(crate) fn with(self, text: impl Into<String>, details: &[(&str, u64)]) -> PyErr {
        let text = text.into();
        Python::attach(|py| match self.make(py, &text, details) {
            Ok(error) | Err(error) => error,
        })
    }

    fn make(self, py: Python<'_>, text: &str, details: &[(&str, u64)]) -> PyResult<PyErr> {
        let named = PyDict::new(py);
        for (name, number) in details {
            named.set_item(name, number)?;
        }
        let class = py.import("cubeyard.errors")?.getattr(self.class())?;
        Ok(PyErr::from_value(class.call1((text, named))?))
    }
}

/// Conversion of errors of the crates below to exceptions.
pub(crate) trait IntoPyErr {
    fn into_py_err(self) -> PyErr;
}

/// Conversion of the error of a result to an exception.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: IntoPyErr> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(IntoPyErr::into_py_err)
    }
}

impl IntoPyErr for PyErr {
    fn into_py_err(self) -> PyErr {
        self
    }
}

impl IntoPyErr for RuntimeError {
    fn into_py_err(self) -> PyErr {
        if let Some(raised) = raised::take(&self.to_string()) {
            return of_kernel(raised);
        }
        let kind = match &self {
            Self::Interrupted => return signals::take(),
            Self::Allocate(error) => {
                return Kind::OutOfMemory.with(self.to_string(), &numbers(error));
            }
            Self::OutOfTime | Self::Deadline { .. } => Kind::OutOfTime,
            Self::Kernel(_) => Kind::Kernel,
            Self::Stalled(_) => Kind::Stalled,
            Self::Machine { .. } => Kind::Machine,
            Self::NoData => Kind::NoData,
            Self::Closed => Kind::Closed,
            Self::Looked => Kind::Busy,
            _ => Kind::Input,
        };
        kind.error(self.to_string())
    }
}

/// Creates the exception for a failed Python kernel. Its cause is the kernel's exception; Ctrl-C and the
/// like are raised unchanged.
fn of_kernel((text, cause): raised::Raised) -> PyErr {
    Python::attach(|py| match cause {
        Some(cause) if !cause.is_instance_of::<PyException>(py) => cause,
        cause => {
            let error = Kind::Kernel.error(text);
            error.set_cause(py, cause);
            error
        }
    })
}

/// Returns the numbers of a failed allocation.
fn numbers(error: &AllocateError) -> Vec<(&'static str, u64)> {
    match error {
        AllocateError::Pe { source, .. } => of_space(source),
        AllocateError::VirtualSpace(error) => of_space(error),
        AllocateError::Region(error) => of_regions(error),
        _ => Vec::new(),
    }
}

fn of_space(error: &free_list::AllocateError) -> Vec<(&'static str, u64)> {
    let AllocateCause::NoRoom(room) = error.cause else { return Vec::new() };
    let numbers = [
        ("requested", room.asked),
        ("free", room.free),
        ("largest_free", room.largest),
        ("capacity", room.capacity),
    ];
    numbers.map(|(name, bytes)| (name, bytes.get())).into()
}

fn of_regions(error: &flex::AllocateError) -> Vec<(&'static str, u64)> {
    let flex::AllocateError::OutOfMemory(report) = error else { return Vec::new() };
    of_report(report)
}

/// Returns the numbers of an allocator report.
pub(crate) fn of_report(report: &flex::OutOfMemory) -> Vec<(&'static str, u64)> {
    let numbers = [
        ("requested", report.requested),
        ("rounded", report.rounded),
        ("free", report.free),
        ("largest_free", report.largest),
        ("longest_block", report.longest_block),
        ("pending", report.pending),
        ("idle", report.idle),
        ("device_free", report.device_free),
        ("capacity", report.device_total),
    ];
    numbers.map(|(name, bytes)| (name, bytes.get())).into()
}

/// Replaces the text of an exception of the package, and keeps its numbers.
pub(crate) fn renamed(error: PyErr, text: &str) -> PyErr {
    Python::attach(|py| {
        // An exception of another package stays unchanged.
        let _ = error.value(py).setattr("args", (text,));
        error
    })
}

/// Calls `act`, and converts a panic to an exception, so that no panic crosses into Python.
pub(crate) fn without_panic<T>(act: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(internal(&*panic)))
}

/// Creates the exception for a panic.
pub(crate) fn internal(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref().cloned());
    let text = text.unwrap_or_else(|| "no message".to_owned());
    Kind::Internal.error(format!("a mistake of cubeyard itself, please report it: {text}"))
}
