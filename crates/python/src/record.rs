//! Records of runs, and their comparison.

use std::path::PathBuf;

use cubeyard_bench::record::{FORMAT, Record, RecordError};
use cubeyard_cli::results::{ComparedRecords, read_record as read_record_of_file};
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::plain;

/// Makes the record of a function without figures; inputs are a JSON object.
#[pyfunction]
fn make_record(
    bench: String,
    source: Option<String>,
    topology: String,
    inputs: &str,
) -> PyResult<String> {
    Ok(Record { source, ..Record::named(bench, topology, object(inputs)?) }.line())
}

/// Adds figures, which are a JSON object, to a record.
#[pyfunction]
fn finished_record(line: &str, figures: &str) -> PyResult<String> {
    let record = Record::read(line).or_raise()?;
    Ok(Record { figures: Some(object(figures)?), ..record }.line())
}

fn object(text: &str) -> PyResult<Map<String, Value>> {
    serde_json::from_str(text)
        .map_err(|error| Kind::Input.error(format!("not a JSON object: {error}")))
}

/// Reads a line; returns the key of the record, and the record as it is written.
#[pyfunction]
fn read_record(line: &str) -> PyResult<(String, String)> {
    let record = Record::read(line).or_raise()?;
    Ok((record.key(), record.line()))
}

/// Reads the record of a file, or of a line of it, as `FILE:N`.
#[pyfunction]
fn record_of_file(path: PathBuf) -> PyResult<String> {
    let record = read_record_of_file(&path);
    Ok(record.map_err(|error| Kind::Input.error(format!("{error:#}")))?.line())
}

/// Two records side by side.
#[pyclass(frozen, module = "cubeyard._native")]
struct RecordComparison(ComparedRecords);

#[pymethods]
impl RecordComparison {
    #[new]
    fn new(names: [String; 2], lines: [String; 2]) -> PyResult<Self> {
        let [a, b] = lines.each_ref().map(|line| Record::read(line));
        Ok(Self(ComparedRecords::new(names, [a.or_raise()?, b.or_raise()?])))
    }

    /// Returns the report of `cubeyard compare`.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain::report(py, &self.0)
    }

    /// Returns the tables and the cause.
    fn text(&self) -> String {
        self.0.text(false)
    }

    /// Returns the HTML page.
    fn page(&self) -> String {
        self.0.page()
    }
}

/// Adds an error to a record without figures.
#[pyfunction]
fn failed_record(line: &str, error: String) -> PyResult<String> {
    let record = Record::read(line).or_raise()?;
    Ok(Record { error: Some(error), figures: None, ..record }.line())
}

impl IntoPyErr for RecordError {
    fn into_py_err(self) -> PyErr {
        let kind = match &self {
            Self::Form(_) => Kind::Input,
            Self::Format(_) => Kind::Version,
        };
        kind.error(self.to_string())
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RECORD_FORMAT", FORMAT)?;
    module.add_class::<RecordComparison>()?;
    module.add_function(wrap_pyfunction!(record_of_file, module)?)?;
    module.add_function(wrap_pyfunction!(make_record, module)?)?;
    module.add_function(wrap_pyfunction!(read_record, module)?)?;
    module.add_function(wrap_pyfunction!(failed_record, module)?)?;
    module.add_function(wrap_pyfunction!(finished_record, module)?)
}
