//! Tiles of a kernel, with the operators of Python.

use cubeyard_tl as tl;
use cubeyard_tl::math::Value;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBool, PyTuple};

use super::run::{self, Tile};

/// An operand: a tile or a number.
pub(crate) enum Operand {
    Tile(tl::Tile),
    Number(f64),
}

impl<'a> From<&'a Operand> for Value<'a> {
    fn from(operand: &'a Operand) -> Self {
        match operand {
            Operand::Tile(tile) => Self::Tile(tile),
            Operand::Number(number) => Self::Number(*number),
        }
    }
}

impl Operand {
    /// Reads an operand; `None` if it is neither a tile nor a number.
    pub(crate) fn read(run: &run::Run, of: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(tile) = of.cast::<Tile>() {
            return Ok(Some(Self::Tile(run.tile(tile.get())?)));
        }
        Ok(of.extract().ok().map(Self::Number))
    }

    /// Reads an operand; an exception names the argument if it is neither a tile nor a number.
    pub(crate) fn expect(run: &run::Run, name: &str, of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let found = || format!("{name}: expected a tile or a number, found {}", kind_of(of));
        Self::read(run, of)?.ok_or_else(|| run.fail(&found()))
    }
}

/// Returns the name of an object's class.
pub(crate) fn kind_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// A function of two operands.
type Binary = for<'a> fn(&tl::Tl, Value<'a>, Value<'a>) -> tl::Tile;

impl Tile {
    /// Computes with another operand; `NotImplemented` if it is neither a tile nor a number.
    fn with(&self, other: &Bound<'_, PyAny>, act: Binary) -> PyResult<Py<PyAny>> {
        self.both(other, act)
    }

    /// As [`with`](Self::with), with the operands swapped.
    fn after(&self, other: &Bound<'_, PyAny>, act: Binary) -> PyResult<Py<PyAny>> {
        self.both(other, |tl, this, other| act(tl, other, this))
    }

    fn both(
        &self,
        other: &Bound<'_, PyAny>,
        act: impl for<'a> FnOnce(&tl::Tl, Value<'a>, Value<'a>) -> tl::Tile,
    ) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let run = self.info.run(py)?;
        let Some(other) = Operand::read(&run, other)? else { return Ok(py.NotImplemented()) };
        let this = run.tile(self)?;
        let made = run.make(|tl| act(tl, Value::Tile(&this), (&other).into()))?;
        Ok(Py::new(py, made)?.into_any())
    }

    fn one(&self, py: Python<'_>, act: fn(&tl::Tl, &tl::Tile) -> tl::Tile) -> PyResult<Self> {
        let run = self.info.run(py)?;
        let this = run.tile(self)?;
        run.make(|tl| act(tl, &this))
    }

    /// Makes the exception of a kernel that looks at elements.
    fn looked(&self, py: Python<'_>, what: &str) -> PyErr {
        match self.info.run(py) {
            Ok(_) => run::fail(
                py,
                &format!("{what}: a tile has no elements while the kernel is recorded; {LIVE}"),
            ),
            Err(error) => error,
        }
    }
}

/// Advice for kernels that look at elements.
pub(crate) const LIVE: &str = "run the kernel live, with @cubeyard.jit(live=True) and async def, and read its elements \
                               by `await tl.value(tile)`; or choose elements by tl.where";

#[pymethods]
impl Tile {
    /// NumPy's scalars leave operators to the tile.
    #[classattr]
    fn __array_ufunc__(py: Python<'_>) -> Py<PyAny> {
        py.None()
    }

    /// Length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.ty.shape)
    }

    /// Name of the element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.ty.dtype.name()
    }

    /// The tile with its last two dimensions swapped, as by `tl.trans`.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Self> {
        self.one(py, tl::Tl::trans)
    }

    fn __repr__(&self) -> String {
        format!("Tile({})", self.ty)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Self> {
        self.one(py, tl::Tl::neg)
    }

    fn __pos__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __abs__(&self, py: Python<'_>) -> PyResult<Self> {
        self.one(py, tl::Tl::abs)
    }

    fn __invert__(&self, py: Python<'_>) -> PyResult<Self> {
        self.one(py, tl::Tl::not)
    }

    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.add(x, y))
    }

    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.add(x, y))
    }

    fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.sub(x, y))
    }

    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.sub(x, y))
    }

    fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.mul(x, y))
    }

    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.mul(x, y))
    }

    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.div(x, y))
    }

    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.div(x, y))
    }

    fn __mod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.rem(x, y))
    }

    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.rem(x, y))
    }

    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<i64>) -> PyResult<Py<PyAny>> {
        match modulo {
            None => self.with(other, |tl, x, y| tl.pow(x, y)),
            Some(_) => Ok(other.py().NotImplemented()),
        }
    }

    fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: Option<i64>) -> PyResult<Py<PyAny>> {
        match modulo {
            None => self.after(other, |tl, x, y| tl.pow(x, y)),
            Some(_) => Ok(other.py().NotImplemented()),
        }
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.and(x, y))
    }

    fn __rand__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.and(x, y))
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.or(x, y))
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.or(x, y))
    }

    fn __xor__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.xor(x, y))
    }

    fn __rxor__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.xor(x, y))
    }

    fn __lshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.shl(x, y))
    }

    fn __rlshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.shl(x, y))
    }

    fn __rshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.with(other, |tl, x, y| tl.shr(x, y))
    }

    fn __rrshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.after(other, |tl, x, y| tl.shr(x, y))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, by: CompareOp) -> PyResult<Py<PyAny>> {
        self.with(
            other,
            match by {
                CompareOp::Lt => |tl, x, y| tl.lt(x, y),
                CompareOp::Le => |tl, x, y| tl.le(x, y),
                CompareOp::Eq => |tl, x, y| tl.eq(x, y),
                CompareOp::Ne => |tl, x, y| tl.ne(x, y),
                CompareOp::Gt => |tl, x, y| tl.gt(x, y),
                CompareOp::Ge => |tl, x, y| tl.ge(x, y),
            },
        )
    }

    fn __matmul__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let run = self.info.run(py)?;
        let (a, b) = (run.tile(self)?, run.tile(other.get())?);
        run.make(|tl| tl.dot(&a, &b))
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Err(self.looked(py, "a branch on a tile"))
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        Err(self.looked(py, "a tile as a number"))
    }

    fn __int__(&self, py: Python<'_>) -> PyResult<i64> {
        Err(self.looked(py, "a tile as a number"))
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        Err(self.looked(py, "a tile as an index"))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Err(self.looked(py, "a loop over a tile"))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__(
        &self,
        py: Python<'_>,
        dtype: Option<Py<PyAny>>,
        copy: Option<Py<PyBool>>,
    ) -> PyResult<Py<PyAny>> {
        drop((dtype, copy));
        Err(self.looked(py, "a tile as an array"))
    }
}
