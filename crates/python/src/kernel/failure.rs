//! Failures of kernels caused by Python exceptions.

use pyo3::prelude::*;
use pyo3::types::PyTraceback;

use super::run::Run;
use crate::raised;

/// Marks a run as failed with an exception of its kernel.
pub(super) fn keep(py: Python<'_>, run: &Run, function: &Bound<'_, PyAny>, error: PyErr) {
    if run.tl.failure().is_none() {
        run.set_unplaced(|| innermost(py, function, &error));
        let kind =
            error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string());
        let text = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
        run.tl.note_failure(&format!("{kind}: {text}"));
    }
    if let Some(text) = run.tl.failure() {
        raised::keep(text, Some(error));
    }
}

/// Keeps the error of a kernel that has caught the exception itself.
pub(super) fn keep_caught(run: &Run) {
    if let Some(text) = run.tl.failure() {
        raised::keep(text, None);
    }
}

/// Returns the file and line of an exception: of its innermost frame in the kernel's file, or
/// else of its innermost frame.
fn innermost(py: Python<'_>, function: &Bound<'_, PyAny>, error: &PyErr) -> (String, u32) {
    let defined = definition(function);
    let mut found = None;
    let mut next = error.traceback(py);
    while let Some(trace) = next {
        let at = place(&trace);
        let keeps = matches!((&found, &at), (Some((file, _)), Ok((other, _))) if *file == defined.0 && *other != defined.0);
        if !keeps {
            found = at.ok();
        }
        next = trace.getattr("tb_next").ok().and_then(|next| next.cast_into().ok());
    }
    found.unwrap_or(defined)
}

fn place(trace: &Bound<'_, PyTraceback>) -> PyResult<(String, u32)> {
    let code = trace.getattr("tb_frame")?.getattr("f_code")?;
    Ok((code.getattr("co_filename")?.extract()?, trace.getattr("tb_lineno")?.extract()?))
}

/// Returns the file and first line of a function.
pub(super) fn definition(function: &Bound<'_, PyAny>) -> (String, u32) {
    let read = || -> PyResult<_> {
        let code = function.getattr("__code__")?;
        Ok((code.getattr("co_filename")?.extract()?, code.getattr("co_firstlineno")?.extract()?))
    };
    read().unwrap_or_else(|_| ("?".to_owned(), 0))
}
