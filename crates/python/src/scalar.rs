//! Python numbers with their type: bools, whole numbers and floats.

use std::fmt;

use cubeyard_runtime::Scalar;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};

/// Error of a whole number that is too large for a [`Scalar`].
pub(crate) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a whole number of at most 127 bits; a larger one can be a float")
    }
}

/// Conversion of Python numbers.
pub(crate) trait ReadScalar: Sized {
    /// Converts a Python number, or a NumPy scalar as the Python number of its kind; `None` for anything else.
    fn read(of: &Bound<'_, PyAny>) -> PyResult<Result<Option<Self>, TooLong>>;
}

impl ReadScalar for Scalar {
    fn read(of: &Bound<'_, PyAny>) -> PyResult<Result<Option<Self>, TooLong>> {
        if let Ok(float) = of.cast::<PyFloat>() {
            return Ok(Ok(Some(float.value().into())));
        }
        if let Ok(truth) = of.cast::<PyBool>() {
            return Ok(Ok(Some(truth.is_true().into())));
        }
        match of.extract::<i64>() {
            Ok(whole) => Ok(Ok(Some(whole.into()))),
            Err(error) if error.is_instance_of::<PyOverflowError>(of.py()) => Ok(long(of)),
            // A NumPy bool, or an object that `float()` accepts.
            Err(_) => match of.extract::<bool>() {
                Ok(truth) => Ok(Ok(Some(truth.into()))),
                Err(_) => float(of).map(Ok),
            },
        }
    }
}

/// Converts a whole number of more than 64 bits.
fn long(of: &Bound<'_, PyAny>) -> Result<Option<Scalar>, TooLong> {
    of.extract::<i128>().map(|whole| Some(Scalar::Int(whole))).map_err(|_| TooLong)
}

/// Converts as `float()` does. Exceptions other than its `TypeError` come from the object.
fn float(of: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    match of.extract::<f64>() {
        Ok(value) => Ok(Some(value.into())),
        Err(error) if error.is_instance_of::<PyTypeError>(of.py()) => Ok(None),
        Err(error) => Err(error),
    }
}
