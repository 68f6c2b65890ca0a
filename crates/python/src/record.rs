//! Records of runs, their comparison, and files of sweeps.

use std::path::PathBuf;

use cubeyard_bench::record::{FORMAT, Record, RecordError};
use cubeyard_cli::results::{ComparedRecords, read_record as read_record_of_file};
use cubeyard_device::input::{Document, Field, InputError};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

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

/// Reads a file of a sweep; returns it as JSON with the line of each key of its grid.
#[pyfunction]
fn read_sweep(name: &str, text: &str) -> PyResult<String> {
    let document = Document::overlaid("a sweep", "{}", name, text).or_raise()?;
    Ok(sweep(&document.root()).or_raise()?.to_string())
}

fn sweep(root: &Field<'_>) -> Result<Value, InputError> {
    let mut map = root.map()?;
    let bench = map.required("bench")?.text("a bench: a name, or FILE.py::NAME")?;
    let grid = grid(&map.required("grid")?)?;
    let mut read = json!({ "bench": bench, "grid": grid });
    for name in ["out", "topology", "device"] {
        if let Some(field) = map.optional(name) {
            read[name] = json!(field.text("a text")?);
        }
    }
    for name in ["data", "live"] {
        if let Some(field) = map.optional(name) {
            read[name] = json!(field.flag()?);
        }
    }
    map.finish()?;
    Ok(read)
}

/// Reads a map of lists, whose product is meant, or a list of maps.
fn grid(field: &Field<'_>) -> Result<Value, InputError> {
    if let Ok(mut map) = field.map() {
        // Pairs, so that the order of the file is kept.
        let list = |(name, field): (&str, Field<'_>)| {
            let values = field.list("values")?;
            if values.is_empty() {
                return Err(field.unexpected("at least one value"));
            }
            let values = values.iter().map(scalar).collect::<Result<Vec<_>, _>>()?;
            Ok(json!([name, values]))
        };
        let pairs = map.each().into_iter().map(list).collect::<Result<Vec<_>, InputError>>()?;
        return Ok(json!({ "product": pairs }));
    }
    let point = |field: &Field<'_>| {
        let each = field.map()?.each().into_iter();
        let each = each.map(|(name, field)| Ok((name.to_owned(), scalar(&field)?)));
        each.collect::<Result<Map<_, _>, InputError>>().map(Value::Object)
    };
    let points = field.list("configurations, or keys with lists of values")?;
    Ok(Value::from(points.iter().map(point).collect::<Result<Vec<_>, _>>()?))
}

fn scalar(field: &Field<'_>) -> Result<Value, InputError> {
    let text = field.text("a number or a text")?;
    let whole = text.parse::<i64>().map(|number| json!(number));
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    Ok(match text {
        "true" | "false" => json!(text == "true"),
        _ => whole
            .ok()
            .or_else(|| number().map(|number| json!(number)))
            .unwrap_or_else(|| json!(text)),
    })
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
    module.add_function(wrap_pyfunction!(finished_record, module)?)?;
    module.add_function(wrap_pyfunction!(read_sweep, module)?)
}
