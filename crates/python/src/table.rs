//! Tables of results: columns as an Arrow stream, rows as an HTML page.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::Kind;

/// Name that Arrow requires for capsules of streams.
const STREAM: &CStr = c"arrow_array_stream";

/// Column: its name, its type, and its values, with `None` for missing values.
type Column<'py> = (String, String, Bound<'py, PyAny>);

/// Makes a capsule with an Arrow stream of one batch. Types of columns are `bool`, `int64`, `float64` and `utf8`.
#[pyfunction]
fn arrow_stream<'py>(
    py: Python<'py>,
    columns: Vec<Column<'py>>,
    rows: usize,
) -> PyResult<Bound<'py, PyCapsule>> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, kind, values) in columns {
        let array = array(&name, &kind, &values)?;
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let batch = batch(Schema::new(fields), arrays, rows).map_err(broken)?;
    let schema = batch.schema();
    let reader = RecordBatchIterator::new([Ok(batch)], schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// Converts values to an array of the type that `kind` names.
fn array(name: &str, kind: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(match kind {
        "bool" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        "int64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        "float64" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        "utf8" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
        _ => {
            let expected = "expected bool, int64, float64 or utf8";
            return Err(
                Kind::Input.error(format!("type of column {name}: {expected}, found {kind}"))
            );
        }
    })
}

/// Creates a batch; a table without columns still has a number of rows.
fn batch(schema: Schema, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
}

fn broken(error: ArrowError) -> PyErr {
    Kind::Input.error(format!("columns of a table: {error}"))
}

/// Makes a page of a title, a summary, and tables: each with a title, the names of its columns, and cells.
#[pyfunction]
fn table_page(
    title: &str,
    summary: &str,
    tables: Vec<(String, Vec<String>, Vec<Vec<Cell>>)>,
) -> String {
    let mut main = cubeyard_draw::header(title, "", summary);
    for (title, names, rows) in &tables {
        main += &cubeyard_draw::section(title, &table(names, rows));
    }
    cubeyard_draw::page(title, "", &main, "")
}

/// Text of a cell, and whether the cell is a number.
pub(crate) type Cell = (String, bool);

pub(crate) fn table(names: &[String], rows: &[Vec<Cell>]) -> String {
    let is_number =
        |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.1));
    let head = names.iter().enumerate().map(|(column, name)| {
        let class = if is_number(column) { " class=\"n\"" } else { "" };
        format!("<th{class}>{}</th>", cubeyard_draw::xml::escape(name))
    });
    let cells = |row: &Vec<Cell>| -> String {
        let shown = |(text, is_number): &Cell| {
            if *is_number { cubeyard_draw::number(text) } else { cubeyard_draw::cell(text) }
        };
        format!("<tr>{}</tr>\n", row.iter().map(shown).collect::<String>())
    };
    cubeyard_draw::table("", &head.collect::<String>(), &rows.iter().map(cells).collect::<String>())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(arrow_stream, module)?)?;
    module.add_function(wrap_pyfunction!(table_page, module)?)
}
