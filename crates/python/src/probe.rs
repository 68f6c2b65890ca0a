//! Measurements of the fabric, and comparisons with known figures.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use cubeyard_cli::results;
use cubeyard_device::log::FlitLog;
use cubeyard_device::machine::Machine;
use cubeyard_device::probe::{
    Case, CaseReport, Pattern, PatternReport, ProbeReport, RunError, Watcher, cases,
};
use cubeyard_device::request::RequestError;
use cubeyard_device::trace;
use cubeyard_sim::uninterrupted;
use cubeyard_validate::{Check, Row, checks, collectives};
use pyo3::prelude::*;

use crate::error::{IntoPyErr, Kind, OrRaise, without_panic};
use crate::topology::Topology;
use crate::{plain, signals};

/// Report of a command, and its tables.
type Shown<'py> = (Bound<'py, PyAny>, String);

/// Measures the named cases; all cases if none is named.
#[pyfunction]
fn probe_cases<'py>(
    py: Python<'py>,
    topology: &Topology,
    names: Vec<String>,
    explains: bool,
    trace: Option<PathBuf>,
) -> PyResult<Shown<'py>> {
    let chosen = chosen(topology, &names)?;
    if trace.is_some() && chosen.len() != 1 {
        let found = chosen.len();
        return Err(Kind::Input.error(format!("trace: expected one case, found {found}; name it")));
    }
    let probed =
        signals::long(py, || without_panic(|| measure(topology, &chosen, explains, trace)));
    let probed = probed?;
    Ok((plain::report(py, &probed)?, results::probe_text(&probed)))
}

/// Measures cases; signals are checked between them.
fn measure(
    topology: &Topology,
    cases: &[Case],
    explains: bool,
    trace: Option<PathBuf>,
) -> PyResult<ProbeReport> {
    let watch = |machine: &Machine<FlitLog>| write_trace(trace.as_deref(), machine);
    let watcher = trace.is_some().then_some(&watch as Watcher<'_, Failure>);
    let mut probed = Vec::new();
    for case in cases {
        let measure = || CaseReport::measure(&topology.topology, case, explains, watcher);
        probed.push(uninterrupted(measure).or_raise()?);
        signals::check()?;
    }
    Ok(ProbeReport::new(&topology.topology, probed))
}

fn chosen(topology: &Topology, names: &[String]) -> PyResult<Vec<Case>> {
    let all = cases(&topology.topology);
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let found = all.iter().find(|case| case.name == *name);
        found.cloned().ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
            let known = known.join(", ");
            Kind::Input.error(format!("case={name:?}: expected one of {known}"))
        })
    };
    names.iter().map(find).collect()
}

/// Returns the names of the cases of a machine.
#[pyfunction]
fn probe_case_names(topology: &Topology) -> Vec<String> {
    cases(&topology.topology).into_iter().map(|case| case.name).collect()
}

/// Runs the transfers of a pattern. Errors use `name` as the name of the pattern.
#[pyfunction]
fn probe_pattern<'py>(
    py: Python<'py>,
    topology: &Topology,
    name: &str,
    text: &[u8],
    explains: bool,
    trace: Option<PathBuf>,
) -> PyResult<Shown<'py>> {
    let topology = &topology.topology;
    let watch = |machine: &Machine<FlitLog>| write_trace(trace.as_deref(), machine);
    let run = || {
        let pattern = Pattern::read(name, text, topology).or_raise()?;
        let watcher = trace.is_some().then_some(&watch as Watcher<'_, Failure>);
        PatternReport::measure(topology, &pattern, explains, watcher).or_raise()
    };
    let probed = signals::long(py, || without_panic(run))?;
    Ok((plain::report(py, &probed)?, results::pattern_text(&probed)))
}

fn write_trace(path: Option<&Path>, machine: &Machine<FlitLog>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let failed = |error: &dyn Display| {
        Failure::Trace(format!("trace: {}: cannot be written: {error}", path.display()))
    };
    let mut file = BufWriter::new(File::create(path).map_err(|error| failed(&error))?);
    trace::write(machine, &mut file).map_err(|error| failed(&error))?;
    file.flush().map_err(|error| failed(&error))
}

/// Error of a measurement.
enum Failure {
    Request(RequestError),
    Run(RunError),
    Trace(String),
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl IntoPyErr for Failure {
    fn into_py_err(self) -> PyErr {
        let (kind, text) = match self {
            Self::Run(RunError::Interrupted) => return signals::take(),
            Self::Run(error) => (kind(&error), error.to_string()),
            Self::Request(error) => (Kind::Input, error.to_string()),
            Self::Trace(text) => (Kind::Input, text),
        };
        kind.error(text)
    }
}

fn kind(error: &RunError) -> Kind {
    match error {
        RunError::Stalled { .. } => Kind::Stalled,
        RunError::OutOfTime => Kind::OutOfTime,
        _ => Kind::OutOfMemory,
    }
}

/// Runs the checks of a machine in the named families; all checks if none is named.
#[pyfunction]
fn validate<'py>(
    py: Python<'py>,
    topology: &Topology,
    families: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Shown<'py>> {
    let rows = signals::long(py, || without_panic(|| rows(topology, &families, progress)))?;
    Ok((plain::report(py, &rows)?, results::validate_text(&rows)))
}

/// Runs checks. A check cannot be interrupted, because it asserts that its machine becomes idle; signals are
/// checked between them.
fn rows(
    topology: &Topology,
    families: &[String],
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Row>> {
    let mut all = checks(&topology.topology);
    all.extend(collectives::checks());
    let mut known: Vec<_> = all.iter().map(Check::family).collect();
    known.dedup();
    for family in families {
        if !known.contains(&family.as_str()) {
            let known = known.join(", ");
            return Err(Kind::Input.error(format!("family={family:?}: expected one of {known}")));
        }
    }
    all.retain(|check| families.is_empty() || families.iter().any(|name| name == check.family()));
    let mut rows = Vec::new();
    for check in &all {
        if let Some(progress) = &progress {
            Python::attach(|py| progress.call1(py, (rows.len(), all.len(), check.name())))?;
        }
        rows.push(uninterrupted(|| check.run()));
        signals::check()?;
    }
    Ok(rows)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(probe_cases, module)?)?;
    module.add_function(wrap_pyfunction!(probe_case_names, module)?)?;
    module.add_function(wrap_pyfunction!(probe_pattern, module)?)?;
    module.add_function(wrap_pyfunction!(validate, module)?)
}
