//! Computations on tiles, as methods of `tl`.

use std::rc::Rc;
use std::sync::Arc;

use cubeyard_tl as tl;
use pyo3::prelude::*;

use super::numbers::{axis, dtype, lengths, number, of_rank, whole};
use super::operand::{self, Elements, Operand, Ternary, binary, unary};
use super::run::{Run, RunInfo, Tile};

/// The computations of `tl`; see [`Tl`](super::language::Tl).
#[pyclass(frozen, subclass, module = "cubeyard._native")]
pub(crate) struct TlMath {
    pub(super) info: Arc<RunInfo>,
}

impl TlMath {
    pub(super) fn run(&self, py: Python<'_>) -> PyResult<Rc<Run>> {
        self.info.run(py)
    }

    /// Computes a function of a tile or an expression and two operands, given with their names.
    fn three(
        &self,
        py: Python<'_>,
        [x, y, z]: [(&str, &Bound<'_, PyAny>); 3],
        act: &Ternary,
    ) -> PyResult<Py<PyAny>> {
        let run = self.run(py)?;
        let x = Elements::expect(&run, x.0, x.1)?;
        let [y, z] = [Operand::expect(&run, y.0, y.1)?, Operand::expect(&run, z.0, z.1)?];
        operand::three(py, &run, &x, [&y, &z], act)
    }
}

/// Parses one number for each dimension of a tile.
fn index(name: &str, of: &Bound<'_, PyAny>, tile: &tl::Tile) -> PyResult<Vec<u64>> {
    of_rank(name, of, tile.ty().shape.len())
}

/// Defines the methods: functions of one tile, of two operands, along an axis, and reductions along an axis; other
/// methods are passed through as written.
macro_rules! methods {
    (
        unary { $($(#[$one:meta])* $unary:ident = $of_one:ident;)* }
        binary { $($(#[$two:meta])* $binary:ident = $of_two:ident;)* }
        along { $($(#[$each:meta])* $scan:ident;)* }
        reduce { $($(#[$along:meta])* $reduce:ident, $keeping:ident;)* }
        $($rest:tt)*
    ) => {
        #[pymethods]
        impl TlMath {
            $($(#[$one])*
            fn $unary(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                let run = self.run(py)?;
                operand::one(py, &run, &Elements::expect(&run, "x", x)?, &unary!($of_one))
            })*

            $($(#[$two])*
            fn $binary(
                &self,
                py: Python<'_>,
                x: &Bound<'_, PyAny>,
                y: &Bound<'_, PyAny>,
            ) -> PyResult<Py<PyAny>> {
                let run = self.run(py)?;
                let (x, y) = (Operand::expect(&run, "x", x)?, Operand::expect(&run, "y", y)?);
                operand::two(py, &run, [&x, &y], &binary!($of_two))
            })*

            $($(#[$each])*
            fn $scan(
                &self,
                py: Python<'_>,
                x: &Bound<'_, Tile>,
                axis: &Bound<'_, PyAny>,
            ) -> PyResult<Tile> {
                let run = self.run(py)?;
                let x = run.tile(x.get())?;
                let axis = self::axis(axis, x.ty().shape.len())?;
                run.make(|tl| tl.$scan(&x, axis))
            })*

            $($(#[$along])*
            #[pyo3(signature = (x, axis=None, keep=false))]
            fn $reduce(
                &self,
                py: Python<'_>,
                x: &Bound<'_, PyAny>,
                axis: Option<&Bound<'_, PyAny>>,
                keep: bool,
            ) -> PyResult<Py<PyAny>> {
                let run = self.run(py)?;
                let x = Elements::expect(&run, "x", x)?;
                let rank = x.ty().shape.len();
                let axis = axis.map(|axis| self::axis(axis, rank)).transpose()?;
                match (x, keep) {
                    (Elements::Lazy(x), true) => operand::lazy(py, &run, || x.$keeping(axis)),
                    (Elements::Lazy(x), false) => operand::lazy(py, &run, || x.$reduce(axis)),
                    (Elements::Tile(x), true) => operand::tile(py, &run, |tl| tl.$keeping(&x, axis)),
                    (Elements::Tile(x), false) => operand::tile(py, &run, |tl| tl.$reduce(&x, axis)),
                }
            })*

            $($rest)*
        }
    };
}

methods! {
    unary {
        /// Negates each element.
        neg = neg;
        /// Returns the absolute value of each element.
        abs = abs;
        /// Returns e to the power of each element.
        exp = exp;
        /// Returns 2 to the power of each element.
        exp2 = exp2;
        /// Returns the natural logarithm of each element.
        log = log;
        /// Returns the logarithm to base 2 of each element.
        log2 = log2;
        /// Returns the square root of each element.
        sqrt = sqrt;
        /// Returns 1 / sqrt(x) of each element.
        rsqrt = rsqrt;
        /// Returns 1 / (1 + exp(-x)) of each element.
        sigmoid = sigmoid;
        /// Returns the hyperbolic tangent of each element.
        tanh = tanh;
        /// Returns the error function of each element.
        erf = erf;
        /// Returns the sine of each element.
        sin = sin;
        /// Returns the cosine of each element.
        cos = cos;
        /// Rounds each element down.
        floor = floor;
        /// Rounds each element up.
        ceil = ceil;
        /// Returns max(x, 0) of each element.
        relu = relu;
        /// Inverts every bit.
        not_ = not;
    }
    binary {
        /// Returns the elementwise sum.
        add = add;
        /// Returns the elementwise difference.
        sub = sub;
        /// Returns the elementwise product.
        mul = mul;
        /// Returns the elementwise quotient.
        div = div;
        /// Returns the remainder of the quotient rounded down.
        rem = rem;
        /// Raises `x` to the power of `y`.
        pow = pow;
        /// Returns the greater of two elements.
        maximum = maximum;
        /// Returns the smaller of two elements.
        minimum = minimum;
        /// Returns the bitwise and.
        and_ = and;
        /// Returns the bitwise or.
        or_ = or;
        /// Returns the bitwise exclusive or.
        xor = xor;
        /// Shifts bits left by `y`.
        shl = shl;
        /// Shifts bits right by `y`.
        shr = shr;
        /// Returns whether elements are equal.
        eq = eq;
        /// Returns whether elements differ.
        ne = ne;
        /// Returns whether `x` is less than `y`.
        lt = lt;
        /// Returns whether `x` is at most `y`.
        le = le;
        /// Returns whether `x` is greater than `y`.
        gt = gt;
        /// Returns whether `x` is at least `y`.
        ge = ge;
    }
    along {
        /// Returns the running sum along an axis, each element included.
        cumsum;
        /// Returns the running product along an axis, each element included.
        cumprod;
        /// Returns the exponentials along an axis, divided by their sum.
        softmax;
    }
    reduce {
        /// Sums the elements along an axis, or all elements without one. Reduced axes are kept with length 1 if `keep`.
        sum, sum_keep;
        /// Returns the greatest element along an axis, or of all without one.
        max, max_keep;
        /// Returns the least element along an axis, or of all without one.
        min, min_keep;
        /// Returns the index of the first greatest element along an axis, or among all in row-major order without one.
        argmax, argmax_keep;
        /// Returns the index of the first least element along an axis, or among all in row-major order without one.
        argmin, argmin_keep;
        /// Multiplies the elements along an axis, or all elements without one.
        prod, prod_keep;
        /// Returns the exclusive or of the elements along an axis, or of all without one.
        xor_sum, xor_sum_keep;
    }

    /// Returns `x` where the condition is true, else `y`.
    #[pyo3(name = "where")]
    fn where_(
        &self,
        py: Python<'_>,
        condition: &Bound<'_, PyAny>,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let act = Ternary { now: |tl, c, x, y| tl.where_(c, x, y), later: |c, x, y| c.select(x, y) };
        self.three(py, [("condition", condition), ("x", x), ("y", y)], &act)
    }

    /// Returns `x * y + z`, rounded once.
    fn fma(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        y: &Bound<'_, PyAny>,
        z: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let act = Ternary { now: |tl, x, y, z| tl.fma(x, y, z), later: |x, y, z| x.fma(y, z) };
        self.three(py, [("x", x), ("y", y), ("z", z)], &act)
    }

    /// Limits `x` to the range from `low` to `high`.
    fn clamp(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        low: &Bound<'_, PyAny>,
        high: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let act = Ternary { now: |tl, x, y, z| tl.clamp(x, y, z), later: |x, y, z| x.clamp(y, z) };
        self.three(py, [("x", x), ("low", low), ("high", high)], &act)
    }

    /// Converts the elements to another type.
    fn cast(&self, py: Python<'_>, x: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let run = self.run(py)?;
        let (x, dtype) = (Elements::expect(&run, "x", x)?, self::dtype(dtype)?);
        match x {
            Elements::Tile(x) => operand::tile(py, &run, |tl| tl.cast(&x, dtype)),
            Elements::Lazy(x) => operand::lazy(py, &run, || x.cast(dtype)),
        }
    }

    /// Views the bits of the elements as another type of the same size.
    fn bitcast(&self, py: Python<'_>, x: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let run = self.run(py)?;
        let (x, dtype) = (Elements::expect(&run, "x", x)?, self::dtype(dtype)?);
        match x {
            Elements::Tile(x) => operand::tile(py, &run, |tl| tl.bitcast(&x, dtype)),
            Elements::Lazy(x) => operand::lazy(py, &run, || x.bitcast(dtype)),
        }
    }

    /// Computes an expression in one pass through the TCM.
    fn eval(&self, py: Python<'_>, expression: &Bound<'_, PyAny>) -> PyResult<Tile> {
        let run = self.run(py)?;
        let expression = Elements::expect(&run, "expression", expression)?.lazy();
        run.make(|tl| tl.eval(&expression))
    }

    /// Computes several expressions in one pass; shared parts are computed once.
    fn eval_all(&self, py: Python<'_>, expressions: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Tile>> {
        let run = self.run(py)?;
        let read = |of: (usize, &Bound<'_, PyAny>)| {
            Ok(Elements::expect(&run, &format!("expressions[{}]", of.0), of.1)?.lazy())
        };
        let expressions = expressions.iter().enumerate().map(read).collect::<PyResult<Vec<_>>>()?;
        let tiles = run.attempt(|tl| tl.eval_each(&expressions.iter().collect::<Vec<_>>()))?;
        Ok(tiles.into_iter().map(|tile| run.keep(tile)).collect())
    }

    /// Swaps the last two dimensions.
    fn trans(&self, py: Python<'_>, x: &Bound<'_, Tile>) -> PyResult<Tile> {
        let run = self.run(py)?;
        let x = run.tile(x.get())?;
        run.make(|tl| tl.trans(&x))
    }

    /// Permutes the dimensions: dimension `axes[i]` becomes dimension `i`.
    fn permute(&self, py: Python<'_>, x: &Bound<'_, Tile>, axes: &Bound<'_, PyAny>) -> PyResult<Tile> {
        let run = self.run(py)?;
        let x = run.tile(x.get())?;
        let axes: Vec<_> = lengths("axes", axes)?.into_iter().map(|axis| usize::try_from(axis).unwrap_or(usize::MAX)).collect();
        run.make(|tl| tl.permute(&x, &axes))
    }

    /// Views the same elements in another shape. Moves no data.
    fn reshape(&self, py: Python<'_>, x: &Bound<'_, Tile>, shape: &Bound<'_, PyAny>) -> PyResult<Tile> {
        let run = self.run(py)?;
        let (x, shape) = (run.tile(x.get())?, lengths("shape", shape)?);
        run.make(|tl| tl.reshape(&x, &shape))
    }

    /// Repeats the tile along dimensions of length 1. Elementwise operations broadcast by themselves.
    fn broadcast_to(&self, py: Python<'_>, x: &Bound<'_, Tile>, shape: &Bound<'_, PyAny>) -> PyResult<Tile> {
        let run = self.run(py)?;
        let (x, shape) = (run.tile(x.get())?, lengths("shape", shape)?);
        run.make(|tl| tl.broadcast_to(&x, &shape))
    }

    /// Returns the box of a tile that begins at `start`.
    fn slice(
        &self,
        py: Python<'_>,
        x: &Bound<'_, Tile>,
        start: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        let run = self.run(py)?;
        let x = run.tile(x.get())?;
        let (start, shape) = (index("start", start, &x)?, index("shape", shape, &x)?);
        run.make(|tl| tl.slice(&x, &start, &shape))
    }

    /// Returns a copy of `into` in which the box that begins at `start` is `tile`.
    fn paste(
        &self,
        py: Python<'_>,
        into: &Bound<'_, Tile>,
        start: &Bound<'_, PyAny>,
        tile: &Bound<'_, Tile>,
    ) -> PyResult<Tile> {
        let run = self.run(py)?;
        let (into, tile) = (run.tile(into.get())?, run.tile(tile.get())?);
        let start = index("start", start, &into)?;
        run.make(|tl| tl.paste(&into, &start, &tile))
    }

    /// Returns `count` consecutive numbers from `start` on.
    fn arange(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        count: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        let run = self.run(py)?;
        let (start, count) = (number("start", start)?, whole("count", count)?);
        let dtype = self::dtype(dtype)?;
        run.make(|tl| tl.arange(start, count, dtype))
    }

    /// Returns a tile of zeros.
    fn zeros(&self, py: Python<'_>, shape: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<Tile> {
        let run = self.run(py)?;
        let (shape, dtype) = (lengths("shape", shape)?, self::dtype(dtype)?);
        run.make(|tl| tl.zeros(&shape, dtype))
    }

    /// Returns a tile with all elements equal to `value`.
    fn full(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        dtype: &Bound<'_, PyAny>,
    ) -> PyResult<Tile> {
        let run = self.run(py)?;
        let (shape, dtype) = (lengths("shape", shape)?, self::dtype(dtype)?);
        let value = number("value", value)?;
        run.make(|tl| tl.full(&shape, value, dtype))
    }

    /// Returns the matrix product of two matrices, or of each pair of two batches of them, plus `acc`. Narrow types accumulate in
    /// `f32`, which is also the result's type unless `out_dtype` is `f16` or `bf16`; `i8` accumulates in `i32`.
    #[pyo3(signature = (a, b, acc=None, out_dtype=None))]
    fn dot(
        &self,
        py: Python<'_>,
        a: &Bound<'_, Tile>,
        b: &Bound<'_, Tile>,
        acc: Option<&Bound<'_, Tile>>,
        out_dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tile> {
        let run = self.run(py)?;
        product(&run, [a, b], [None; 2], acc, out_dtype)
    }

    /// Returns the product of scaled matrices, `(a * a_scale) (b * b_scale)` in `f32`, plus `acc`. The dimensions of a
    /// tile of scales divide the dimensions of its operand; `None` means no scales.
    #[pyo3(signature = (a, a_scale, b, b_scale, acc=None, out_dtype=None))]
    fn dot_scaled(
        &self,
        a: &Bound<'_, Tile>,
        a_scale: Option<&Bound<'_, Tile>>,
        b: &Bound<'_, Tile>,
        b_scale: Option<&Bound<'_, Tile>>,
        acc: Option<&Bound<'_, Tile>>,
        out_dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Tile> {
        let run = self.run(a.py())?;
        product(&run, [a, b], [a_scale, b_scale], acc, out_dtype)
    }

    /// Returns the matrix product plus `accumulator`.
    fn dot_add(
        &self,
        py: Python<'_>,
        a: &Bound<'_, Tile>,
        b: &Bound<'_, Tile>,
        accumulator: &Bound<'_, Tile>,
    ) -> PyResult<Tile> {
        let run = self.run(py)?;
        product(&run, [a, b], [None; 2], Some(accumulator), None)
    }
}

fn product(
    run: &Run,
    factors: [&Bound<'_, Tile>; 2],
    scales: [Option<&Bound<'_, Tile>>; 2],
    accumulator: Option<&Bound<'_, Tile>>,
    out: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tile> {
    let tile = |of: Option<&Bound<'_, Tile>>| of.map(|of| run.tile(of.get())).transpose();
    let [a, b] = factors;
    let (a, b) = (run.tile(a.get())?, run.tile(b.get())?);
    let (left, right, accumulator) = (tile(scales[0])?, tile(scales[1])?, tile(accumulator)?);
    let out = out.map(dtype).transpose()?;
    let scales = [left.as_ref(), right.as_ref()];
    run.make(|tl| tl.dot_with(&a, &b, tl::Dot { accumulator: accumulator.as_ref(), scales, out }))
}
