//! Tiles and expressions of a kernel, with Python's operators.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBool, PyTuple};

use super::operand::{self, Binary, Elements, Operand, Unary, binary, unary};
use super::run::{self, Lazy, Run, Tile};

/// Advice for kernels that read elements.
pub(crate) const LIVE: &str = "run the kernel live, with @cubeyard.jit(live=True) and async def, and read its elements \
                               by `await tl.value(tile)`; or choose elements by tl.where";

/// Defines the methods of a class: its own methods, the operators, and the refused conversions.
macro_rules! methods {
    ($class:ident, $read:ident, $kind:literal, $refused:expr; $($own:tt)*) => {
        impl $class {
            fn elements(&self, py: Python<'_>) -> PyResult<(Rc<Run>, Elements)> {
                let run = self.info.run(py)?;
                let this = Elements::$class(run.$read(self)?);
                Ok((run, this))
            }

            fn one(&self, py: Python<'_>, act: &Unary) -> PyResult<Py<PyAny>> {
                let (run, this) = self.elements(py)?;
                operand::one(py, &run, &this, act)
            }

            /// Computes with another operand; returns `NotImplemented` if the object is not an operand.
            fn with(&self, other: &Bound<'_, PyAny>, act: &Binary) -> PyResult<Py<PyAny>> {
                let (py, (run, this)) = (other.py(), self.elements(other.py())?);
                let Some(other) = Operand::read(&run, other)? else { return Ok(py.NotImplemented()) };
                operand::two(py, &run, [&Operand::Elements(this), &other], act)
            }

            /// As [`with`](Self::with), with the operands swapped.
            fn after(&self, other: &Bound<'_, PyAny>, act: &Binary) -> PyResult<Py<PyAny>> {
                let (py, (run, this)) = (other.py(), self.elements(other.py())?);
                let Some(other) = Operand::read(&run, other)? else { return Ok(py.NotImplemented()) };
                operand::two(py, &run, [&other, &Operand::Elements(this)], act)
            }

            /// Creates the exception for a kernel that reads elements.
            fn looked(&self, py: Python<'_>, what: &str) -> PyErr {
                let what = format!("{what}: {}", $refused);
                self.info.run(py).map_or_else(|error| error, |_| run::fail(py, &what))
            }
        }

        operators! {
            $class, $kind, { $($own)* };
            __add__, __radd__ = add;
            __sub__, __rsub__ = sub;
            __mul__, __rmul__ = mul;
            __truediv__, __rtruediv__ = div;
            __mod__, __rmod__ = rem;
            __and__, __rand__ = and;
            __or__, __ror__ = or;
            __xor__, __rxor__ = xor;
            __lshift__, __rlshift__ = shl;
            __rshift__, __rrshift__ = shr;
        }
    };
}

/// Defines the operators, within the single block of methods that a class may have.
macro_rules! operators {
    ($class:ident, $kind:literal, { $($own:tt)* }; $($left:ident, $right:ident = $name:ident;)*) => {
        #[pymethods]
        impl $class {
            $($own)*

            $(fn $left(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                self.with(other, &binary!($name))
            }

            fn $right(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                self.after(other, &binary!($name))
            })*

            /// NumPy's scalars leave operators to the operand beside them.
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

            fn __repr__(&self) -> String {
                format!("{}({})", stringify!($class), self.ty)
            }

            fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                self.one(py, &unary!(neg))
            }

            fn __pos__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __abs__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                self.one(py, &unary!(abs))
            }

            fn __invert__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                self.one(py, &unary!(not))
            }

            fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: Option<i64>) -> PyResult<Py<PyAny>> {
                match modulo {
                    None => self.with(other, &binary!(pow)),
                    Some(_) => Ok(other.py().NotImplemented()),
                }
            }

            fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: Option<i64>) -> PyResult<Py<PyAny>> {
                match modulo {
                    None => self.after(other, &binary!(pow)),
                    Some(_) => Ok(other.py().NotImplemented()),
                }
            }

            fn __richcmp__(&self, other: &Bound<'_, PyAny>, by: CompareOp) -> PyResult<Py<PyAny>> {
                self.with(
                    other,
                    match by {
                        CompareOp::Lt => &binary!(lt),
                        CompareOp::Le => &binary!(le),
                        CompareOp::Eq => &binary!(eq),
                        CompareOp::Ne => &binary!(ne),
                        CompareOp::Gt => &binary!(gt),
                        CompareOp::Ge => &binary!(ge),
                    },
                )
            }

            fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
                Err(self.looked(py, concat!("a branch on ", $kind)))
            }

            fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
                Err(self.looked(py, concat!($kind, " as a number")))
            }

            fn __int__(&self, py: Python<'_>) -> PyResult<i64> {
                Err(self.looked(py, concat!($kind, " as a number")))
            }

            fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
                Err(self.looked(py, concat!($kind, " as an index")))
            }

            fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Err(self.looked(py, concat!("a loop over ", $kind)))
            }

            #[pyo3(signature = (dtype=None, copy=None))]
            fn __array__(
                &self,
                py: Python<'_>,
                dtype: Option<Py<PyAny>>,
                copy: Option<Py<PyBool>>,
            ) -> PyResult<Py<PyAny>> {
                drop((dtype, copy));
                Err(self.looked(py, concat!($kind, " as an array")))
            }
        }
    };
}

methods! {
    Tile, tile, "a tile", format!("a tile has no elements while the kernel is recorded; {LIVE}");

    /// The tile with its last two dimensions swapped, as by `tl.trans`.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Self> {
        let run = self.info.run(py)?;
        let this = run.tile(self)?;
        run.make(|tl| tl.trans(&this))
    }

    /// Returns an expression that is this tile.
    fn lazy(&self, py: Python<'_>) -> PyResult<Lazy> {
        let run = self.info.run(py)?;
        let this = run.tile(self)?;
        run.make_lazy(|| this.lazy())
    }

    fn __matmul__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<Self> {
        let run = self.info.run(py)?;
        let (a, b) = (run.tile(self)?, run.tile(other.get())?);
        run.make(|tl| tl.dot(&a, &b))
    }
}

methods! {
    Lazy, lazy, "an expression", "an expression has no elements; tl.eval makes a tile of it";

    /// Returns the expression itself, so that functions take tiles and expressions alike.
    #[pyo3(name = "lazy")]
    fn itself(slf: Py<Self>) -> Py<Self> {
        slf
    }
}
