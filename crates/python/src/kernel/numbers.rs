//! Numbers, shapes, element types and ports that a kernel passes to `tl`.

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::Port;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

use super::run;
use crate::scalar::{ReadScalar, TooLong};

/// Parses a non-negative whole number.
pub(crate) fn whole(name: &str, of: &Bound<'_, PyAny>) -> PyResult<u64> {
    of.extract().map_err(|_| expected(name, "a whole number, 0 or more", of))
}

/// Parses a number with its type; `None` if it is not a number.
pub(crate) fn scalar(of: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    match Scalar::read(of)? {
        Ok(scalar) => Ok(scalar),
        Err(TooLong) => Err(run::fail(of.py(), &format!("{}: {TooLong}", shown(of)))),
    }
}

/// Parses a number with its type; if it is not a number, the exception names the argument.
pub(crate) fn number(name: &str, of: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    scalar(of)?.ok_or_else(|| expected(name, "a number", of))
}

/// Parses a shape, an index or the like: one number, or a sequence of numbers.
pub(crate) fn lengths(name: &str, of: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(one) = of.extract() {
        return Ok(vec![one]);
    }
    of.extract().map_err(|_| expected(name, "whole numbers, 0 or more", of))
}

/// Parses one number for each of `rank` dimensions.
pub(crate) fn of_rank(name: &str, of: &Bound<'_, PyAny>, rank: usize) -> PyResult<Vec<u64>> {
    let all = lengths(name, of)?;
    if all.len() == rank {
        return Ok(all);
    }
    Err(expected(name, &format!("{rank} numbers, one for each dimension"), of))
}

/// Parses a pair of numbers.
pub(crate) fn pair(name: &str, of: &Bound<'_, PyAny>) -> PyResult<[u64; 2]> {
    of.extract().map_err(|_| expected(name, "two whole numbers, 0 or more", of))
}

/// Parses an axis of an object with `rank` dimensions; -1 is the last.
pub(crate) fn axis(of: &Bound<'_, PyAny>, rank: usize) -> PyResult<usize> {
    let number: isize = of.extract().map_err(|_| expected("axis", "a whole number", of))?;
    let axis = if number < 0 { number.checked_add_unsigned(rank) } else { Some(number) };
    // An axis beyond the last is refused by `tl`, whose error names the tile.
    let axis = axis.and_then(|axis| usize::try_from(axis).ok());
    axis.ok_or_else(|| expected("axis", &format!("a number from -{rank} to {rank} - 1"), of))
}

/// Parses an element type, given by its name or as a NumPy type.
pub(crate) fn dtype(of: &Bound<'_, PyAny>) -> PyResult<DType> {
    static NAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = of.py();
    let parse =
        |name: &str| name.parse().map_err(|error| run::fail(py, &format!("dtype: {error}")));
    if let Some(dtype) =
        of.cast::<PyString>().ok().and_then(|name| name.to_cow().ok()?.parse().ok())
    {
        return Ok(dtype);
    }
    let names = NAME.import(py, "cubeyard._base.dtypes", "dtype_name")?;
    let name: Option<String> = names.call1((of,))?.extract()?;
    match name {
        Some(name) => parse(&name),
        None if of.is_instance_of::<PyString>() => parse(&of.extract::<String>()?),
        None => Err(expected("dtype", "the name of an element type, or a type of NumPy", of)),
    }
}

/// Parses a port, given by its number or by the name of a direction.
pub(crate) fn port(of: &Bound<'_, PyAny>) -> PyResult<Port> {
    if let Ok(number) = of.extract() {
        return Ok(Port(number));
    }
    let name: Option<String> = of.extract().ok();
    let found = (0..8).map(Port).find(|port| Some(port.to_string()) == name);
    found.ok_or_else(|| {
        let names: Vec<_> = (0..8).map(|number| Port(number).to_string()).collect();
        let what = format!("a number from 0 to 65535, or one of {}", names.join(", "));
        expected("port", &what, of)
    })
}

/// Creates the exception for an argument of an unexpected kind.
pub(crate) fn expected(name: &str, what: &str, found: &Bound<'_, PyAny>) -> PyErr {
    run::fail(found.py(), &format!("{name}: expected {what}; found {}", shown(found)))
}

/// Returns the beginning of an object's `repr`.
fn shown(object: &Bound<'_, PyAny>) -> String {
    let text = object.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string());
    text.chars().take(80).collect()
}
