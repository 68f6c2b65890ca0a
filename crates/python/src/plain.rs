//! Plain data between Python and the crates below: dictionaries, lists, numbers, text.

use cubeyard_yaml::PlainValue;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyMapping, PySequence, PyString};
use serde::Serialize;
use serde_json::Value;

use crate::error::Kind;

/// Maximum depth of nested dictionaries and lists; the same limit applies to files.
const DEEPEST: usize = 16;

/// Converts an argument to the value that a file would contain. `path` is its name in error messages. `None` becomes
/// `none`, and a text is parsed as in a file: `"48 GiB"` is a number of bytes.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, path: &str) -> PyResult<PlainValue> {
    nested(value, path, DEEPEST)
}

fn nested(value: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<PlainValue> {
    if depth == 0 {
        let text = format!("{path}: expected at most {DEEPEST} levels of dictionaries and lists");
        return Err(Kind::Input.error(text));
    }
    if let Ok(map) = value.cast::<PyMapping>() {
        return entries(map, path, depth).map(PlainValue::Map);
    }
    if value.is_none() {
        return Ok(PlainValue::Text("none".to_owned()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(PlainValue::of_text(&text.to_string_lossy()));
    }
    if let Ok(list) = value.cast::<PySequence>() {
        let items = list.try_iter()?.enumerate();
        let items = items.map(|(at, item)| nested(&item?, &format!("{path}[{at}]"), depth - 1));
        return items.collect::<PyResult<_>>().map(PlainValue::List);
    }
    number(value, path)
}

fn entries(
    map: &Bound<'_, PyMapping>,
    path: &str,
    depth: usize,
) -> PyResult<Vec<(String, PlainValue)>> {
    let mut entries = Vec::new();
    for pair in map.items()?.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        let key: String = key.extract().map_err(|_| {
            Kind::Input.error(format!("{path}: expected text as a key, found {}", shown(&key)))
        })?;
        let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        entries.push((key, nested(&value, &inner, depth - 1)?));
    }
    Ok(entries)
}

fn number(value: &Bound<'_, PyAny>, path: &str) -> PyResult<PlainValue> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(PlainValue::Flag(flag.is_true()));
    }
    // A NumPy bool is not a number, but other NumPy scalars are.
    if let Ok(flag) = value.extract::<bool>() {
        return Ok(PlainValue::Flag(flag));
    }
    if let Ok(whole) = value.extract::<u64>() {
        return Ok(PlainValue::Whole(whole));
    }
    value.extract::<f64>().map(PlainValue::of_number).map_err(|_| {
        let expected = "expected a dictionary, list, text, number, truth value or None";
        Kind::Input.error(format!("{path}: {expected}, found {}", shown(value)))
    })
}

/// Returns the beginning of a value's `repr`.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 60;
    let text = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    if text.chars().nth(LONGEST).is_none() {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

/// Converts a value of a file to Python objects.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &PlainValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        PlainValue::Flag(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        PlainValue::Whole(number) => number.into_pyobject(py)?.into_any(),
        PlainValue::Number(number) => number.into_pyobject(py)?.into_any(),
        PlainValue::Text(text) => PyString::new(py, text).into_any(),
        PlainValue::List(list) => {
            let items = list.iter().map(|item| to_python(py, item));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        PlainValue::Map(entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// Converts a report to Python objects, as `json.loads` does with its JSON.
pub(crate) fn report<'py>(py: Python<'py>, report: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    json(py, &serde_json::to_value(report).expect("a report has text keys"))
}

fn json<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => json_number(py, number)?,
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(list) => {
            let items = list.iter().map(|item| json(py, item));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Object(entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries {
                dict.set_item(key, json(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

fn json_number<'py>(py: Python<'py>, number: &serde_json::Number) -> PyResult<Bound<'py, PyAny>> {
    if let Some(whole) = number.as_u64() {
        return Ok(whole.into_pyobject(py)?.into_any());
    }
    if let Some(whole) = number.as_i64() {
        return Ok(whole.into_pyobject(py)?.into_any());
    }
    let float = number
        .as_f64()
        .ok_or_else(|| PyTypeError::new_err(format!("{number}: expected a 64-bit number")))?;
    Ok(float.into_pyobject(py)?.into_any())
}
