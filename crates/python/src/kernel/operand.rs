//! Operands of computations: tiles, expressions and numbers.
//!
//! A function of tiles and numbers returns a tile; if any operand is an expression, it returns an expression.

use cubeyard_runtime::Scalar;
use cubeyard_tl as tl;
use cubeyard_tl::fuse::Term;
use cubeyard_tl::math::Value;
use cubeyard_tl::numeric::TileType;
use pyo3::prelude::*;

use super::numbers::scalar;
use super::run::{Lazy, Run, Tile};

/// Tile or expression.
pub(crate) enum Elements {
    Tile(tl::Tile),
    Lazy(tl::Lazy),
}

/// Operand: a tile, an expression or a number.
pub(crate) enum Operand {
    Elements(Elements),
    Number(Scalar),
}

/// Function of one operand, for tiles and for expressions.
pub(crate) struct Unary {
    pub(crate) now: fn(&tl::Tl, &tl::Tile) -> tl::Tile,
    pub(crate) later: fn(&tl::Lazy) -> tl::Lazy,
}

/// Function of two operands, for tiles and for expressions.
pub(crate) struct Binary {
    pub(crate) now: for<'a> fn(&tl::Tl, Value<'a>, Value<'a>) -> tl::Tile,
    pub(crate) later: for<'a> fn(&tl::Tl, Term<'a>, Term<'a>) -> tl::Lazy,
}

/// Function of three operands, the first of which is a tile or an expression.
pub(crate) struct Ternary {
    pub(crate) now: for<'a> fn(&tl::Tl, &'a tl::Tile, Value<'a>, Value<'a>) -> tl::Tile,
    pub(crate) later: for<'a> fn(&tl::Lazy, Term<'a>, Term<'a>) -> tl::Lazy,
}

/// Creates a [`Unary`] from a function name that tiles and expressions share.
macro_rules! unary {
    ($name:ident) => {
        $crate::kernel::operand::Unary {
            now: |tl, x| tl.$name(x),
            later: |x| cubeyard_tl::Lazy::$name(x),
        }
    };
}

/// Creates a [`Binary`] from a function name that tiles and expressions share.
macro_rules! binary {
    ($name:ident) => {
        $crate::kernel::operand::Binary {
            now: |tl, x, y| tl.$name(x, y),
            later: |tl, x, y| cubeyard_tl::fuse::terms::$name(tl, x, y),
        }
    };
}

pub(crate) use {binary, unary};

impl Elements {
    /// Converts a tile or an expression; `None` if the object is neither.
    fn read(run: &Run, of: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(tile) = of.cast::<Tile>() {
            return Ok(Some(Self::Tile(run.tile(tile.get())?)));
        }
        let Ok(lazy) = of.cast::<Lazy>() else { return Ok(None) };
        Ok(Some(Self::Lazy(run.lazy(lazy.get())?)))
    }

    /// Converts a tile or an expression; if the object is neither, the exception names the argument.
    pub(crate) fn expect(run: &Run, name: &str, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let found = || format!("{name}: expected a tile, found {}", kind_of(of));
        Self::read(run, of)?.ok_or_else(|| run.fail(&found()))
    }

    /// Returns the element type and shape.
    pub(crate) fn ty(&self) -> &TileType {
        match self {
            Self::Tile(tile) => tile.ty(),
            Self::Lazy(lazy) => lazy.ty(),
        }
    }

    /// Returns the elements as an expression.
    pub(crate) fn lazy(&self) -> tl::Lazy {
        match self {
            Self::Tile(tile) => tile.lazy(),
            Self::Lazy(lazy) => lazy.clone(),
        }
    }
}

impl Operand {
    /// Converts an operand; `None` if the object is not an operand.
    pub(crate) fn read(run: &Run, of: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if let Some(elements) = Elements::read(run, of)? {
            return Ok(Some(Self::Elements(elements)));
        }
        Ok(scalar(of)?.map(Self::Number))
    }

    /// Converts an operand; if the object is not an operand, the exception names the argument.
    pub(crate) fn expect(run: &Run, name: &str, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let found = || format!("{name}: expected a tile or a number, found {}", kind_of(of));
        Self::read(run, of)?.ok_or_else(|| run.fail(&found()))
    }

    /// Returns the operand as an argument of a tile function; `None` if it is an expression.
    fn value(&self) -> Option<Value<'_>> {
        match self {
            Self::Elements(Elements::Tile(tile)) => Some(Value::Tile(tile)),
            Self::Elements(Elements::Lazy(_)) => None,
            Self::Number(number) => Some(Value::Number(*number)),
        }
    }

    /// Returns the operand as a term of an expression.
    fn term(&self) -> Term<'_> {
        match self {
            Self::Elements(Elements::Tile(tile)) => Term::Tile(tile),
            Self::Elements(Elements::Lazy(lazy)) => Term::Lazy(lazy),
            Self::Number(number) => Term::Number(*number),
        }
    }
}

/// Computes a function of one operand.
pub(crate) fn one(py: Python<'_>, run: &Run, x: &Elements, act: &Unary) -> PyResult<Py<PyAny>> {
    match x {
        Elements::Tile(x) => tile(py, run, |tl| (act.now)(tl, x)),
        Elements::Lazy(x) => lazy(py, run, || (act.later)(x)),
    }
}

/// Computes a function of two operands.
pub(crate) fn two(
    py: Python<'_>,
    run: &Run,
    [x, y]: [&Operand; 2],
    act: &Binary,
) -> PyResult<Py<PyAny>> {
    if let (Some(x), Some(y)) = (x.value(), y.value()) {
        return tile(py, run, |tl| (act.now)(tl, x, y));
    }
    lazy(py, run, || (act.later)(&run.tl, x.term(), y.term()))
}

/// Computes a function of three operands, the first of which is a tile or an expression.
pub(crate) fn three(
    py: Python<'_>,
    run: &Run,
    x: &Elements,
    [y, z]: [&Operand; 2],
    act: &Ternary,
) -> PyResult<Py<PyAny>> {
    if let (Elements::Tile(x), Some(y), Some(z)) = (x, y.value(), z.value()) {
        return tile(py, run, |tl| (act.now)(tl, x, y, z));
    }
    lazy(py, run, || (act.later)(&x.lazy(), y.term(), z.term()))
}

/// Registers a new tile for Python.
pub(crate) fn tile(
    py: Python<'_>,
    run: &Run,
    act: impl FnOnce(&tl::Tl) -> tl::Tile,
) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, run.make(act)?)?.into_any())
}

/// Registers a new expression for Python.
pub(crate) fn lazy(
    py: Python<'_>,
    run: &Run,
    act: impl FnOnce() -> tl::Lazy,
) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, run.make_lazy(act)?)?.into_any())
}

/// Returns the name of an object's class.
pub(crate) fn kind_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}
