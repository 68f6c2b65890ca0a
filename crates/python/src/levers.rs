//! Levers of a workload that Python runs.

use cubeyard_bench::record::Record;
use cubeyard_cli::results;
use cubeyard_study::levers::{Levers, Outcome};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::plain;
use crate::topology::Topology;

/// Measures the levers of a workload with the record `base`. `run` takes a list of overrides such as `hbm.bandwidth=2x`
/// and returns, for each, the line of a record or None, and the text of an error or None. Returns the report and the
/// tables of `--levers`.
#[pyfunction]
fn measure_levers<'py>(
    py: Python<'py>,
    topology: &Topology,
    base: &str,
    title: &str,
    run: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, String)> {
    let base = Record::read(base).or_raise()?;
    let mut failed = None;
    let levers = Levers::measure(&topology.topology, base, |overrides| {
        outcomes(run, overrides).unwrap_or_else(|error| {
            failed = Some(error);
            Vec::new()
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok((plain::report(py, &levers.json(title))?, results::levers_text(&levers, title))),
    }
}

fn outcomes(run: &Bound<'_, PyAny>, overrides: &[String]) -> PyResult<Vec<Outcome>> {
    let done: Vec<(Option<String>, Option<String>)> = run.call1((overrides,))?.extract()?;
    let outcome = |(line, error): (Option<String>, Option<String>)| match line {
        Some(line) => Ok(Ok(Record::read(&line).or_raise()?)),
        None => Ok(Err(error.unwrap_or_default())),
    };
    done.into_iter().map(outcome).collect()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(measure_levers, module)?)
}
