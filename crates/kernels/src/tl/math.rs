//! What tiles are computed with: the functions of `triton.language`.
//!
//! Operands are tiles, or numbers, which take the type of the tile beside them. Types must be the same, and
//! shapes broadcast; [`Tl::cast`] changes a type. `&a + &b`, `&a * 2.0` and their like are these functions, too.

use std::ops::{Add, Div, Mul, Neg, Sub};

use cubeyard_device::pe::Work;
use cubeyard_runtime::dtype::DType;
use smallvec::SmallVec;

use super::op::Op;
use super::order::After;
use super::tape::{Computation, Effect, Operand};
use super::{Tile, Tl};
use crate::numeric::{Binary, Reduce, Scan, Ternary, TileType, Unary, infer};

/// A tile or a number.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A tile.
    Tile(&'a Tile),
    /// A number, of the type of the tile beside it.
    Number(f64),
}

impl<'a> From<&'a Tile> for Value<'a> {
    fn from(tile: &'a Tile) -> Self {
        Self::Tile(tile)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// Functions of one tile.
macro_rules! unary {
    ($($(#[$about:meta])* $name:ident = $op:ident;)*) => {
        impl Tl {
            $($(#[$about])*
            #[track_caller]
            pub fn $name(&self, x: &Tile) -> Tile {
                self.compute(Op::Unary(Unary::$op), &[x.into()])
            })*
        }
    };
}

/// Functions of two.
macro_rules! binary {
    ($($(#[$about:meta])* $name:ident = $op:ident;)*) => {
        impl Tl {
            $($(#[$about])*
            #[track_caller]
            pub fn $name<'a>(&self, x: impl Into<Value<'a>>, y: impl Into<Value<'a>>) -> Tile {
                self.compute(Op::Binary(Binary::$op), &[x.into(), y.into()])
            })*
        }
    };
}

/// Functions of one tile along an axis, which is gone from the result, or kept with length 1.
macro_rules! reduce {
    ($($(#[$about:meta])* $name:ident, $keep:ident = $op:ident;)*) => {
        impl Tl {
            $($(#[$about])*
            #[track_caller]
            pub fn $name(&self, x: &Tile, axis: usize) -> Tile {
                self.compute(Op::Reduce(Reduce::$op, axis, false), &[x.into()])
            }

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name),
                "), with the axis kept, so that the result broadcasts.")]
            #[track_caller]
            pub fn $keep(&self, x: &Tile, axis: usize) -> Tile {
                self.compute(Op::Reduce(Reduce::$op, axis, true), &[x.into()])
            })*
        }
    };
}

unary! {
    /// The negative.
    neg = Neg;
    /// Without the sign.
    abs = Abs;
    /// e to this power.
    exp = Exp;
    /// 2 to this power.
    exp2 = Exp2;
    /// The natural logarithm.
    log = Log;
    /// The logarithm to base 2.
    log2 = Log2;
    /// The square root.
    sqrt = Sqrt;
    /// 1 divided by the square root.
    rsqrt = Rsqrt;
    /// 1 / (1 + exp(-x)).
    sigmoid = Sigmoid;
    /// The hyperbolic tangent.
    tanh = Tanh;
    /// The error function.
    erf = Erf;
    /// The sine.
    sin = Sin;
    /// The cosine.
    cos = Cos;
    /// Rounded down.
    floor = Floor;
    /// Rounded up.
    ceil = Ceil;
    /// At least 0.
    relu = Relu;
    /// Every bit the other one.
    not = Not;
}

binary! {
    /// The sum.
    add = Add;
    /// The difference.
    sub = Sub;
    /// The product.
    mul = Mul;
    /// The quotient.
    div = Div;
    /// What is left of a quotient rounded down.
    rem = Rem;
    /// The first to the power of the second.
    pow = Pow;
    /// The greater one.
    maximum = Maximum;
    /// The smaller one.
    minimum = Minimum;
    /// Bits set in both.
    and = And;
    /// Bits set in one of them.
    or = Or;
    /// Bits set in exactly one of them.
    xor = Xor;
    /// Bits shifted up.
    shl = Shl;
    /// Bits shifted down.
    shr = Shr;
    /// Whether they are equal.
    eq = Eq;
    /// Whether they are not equal.
    ne = Ne;
    /// Whether the first is less.
    lt = Lt;
    /// Whether the first is less or equal.
    le = Le;
    /// Whether the first is greater.
    gt = Gt;
    /// Whether the first is greater or equal.
    ge = Ge;
}

reduce! {
    /// The sum.
    sum, sum_keep = Sum;
    /// The greatest.
    max, max_keep = Max;
    /// The least.
    min, min_keep = Min;
    /// Where the first of the greatest is.
    argmax, argmax_keep = Argmax;
    /// Where the first of the least is.
    argmin, argmin_keep = Argmin;
    /// The product.
    prod, prod_keep = Prod;
    /// Bits set in an odd number of elements.
    xor_sum, xor_sum_keep = Xor;
}

impl Tl {
    /// `x` where the condition is true, else `y`.
    #[track_caller]
    pub fn where_<'a>(
        &self,
        condition: &'a Tile,
        x: impl Into<Value<'a>>,
        y: impl Into<Value<'a>>,
    ) -> Tile {
        self.compute(Op::Ternary(Ternary::Where), &[condition.into(), x.into(), y.into()])
    }

    /// `x * y + z`, rounded once.
    #[track_caller]
    pub fn fma<'a>(&self, x: &'a Tile, y: impl Into<Value<'a>>, z: impl Into<Value<'a>>) -> Tile {
        self.compute(Op::Ternary(Ternary::Fma), &[x.into(), y.into(), z.into()])
    }

    /// `x`, at least `low` and at most `high`.
    #[track_caller]
    pub fn clamp<'a>(
        &self,
        x: &'a Tile,
        low: impl Into<Value<'a>>,
        high: impl Into<Value<'a>>,
    ) -> Tile {
        self.compute(Op::Ternary(Ternary::Clamp), &[x.into(), low.into(), high.into()])
    }

    /// The sum of the elements along an axis up to each.
    #[track_caller]
    pub fn cumsum(&self, x: &Tile, axis: usize) -> Tile {
        self.compute(Op::Scan(Scan::Cumsum, axis), &[x.into()])
    }

    /// The product of the elements along an axis up to each.
    #[track_caller]
    pub fn cumprod(&self, x: &Tile, axis: usize) -> Tile {
        self.compute(Op::Scan(Scan::Cumprod, axis), &[x.into()])
    }

    /// Exponentials along an axis, divided by their sum.
    #[track_caller]
    pub fn softmax(&self, x: &Tile, axis: usize) -> Tile {
        self.compute(Op::Softmax(axis), &[x.into()])
    }

    /// The elements in another type.
    #[track_caller]
    pub fn cast(&self, x: &Tile, dtype: DType) -> Tile {
        self.compute(Op::Cast(dtype), &[x.into()])
    }

    /// The last two dimensions in each other's place.
    #[track_caller]
    pub fn trans(&self, x: &Tile) -> Tile {
        self.compute(Op::Transpose, &[x.into()])
    }

    /// Dimension `axes[i]` in place `i`.
    #[track_caller]
    pub fn permute(&self, x: &Tile, axes: &[usize]) -> Tile {
        self.compute(Op::Permute(axes.to_vec()), &[x.into()])
    }

    /// The same elements in another shape. Nothing is moved.
    #[track_caller]
    pub fn reshape(&self, x: &Tile, shape: &[u64]) -> Tile {
        let ty = self.checked(infer::reshape(x.ty(), shape));
        self.call();
        x.seen_as(ty)
    }

    /// Repeated along dimensions of length 1. Operations do so by themselves.
    #[track_caller]
    pub fn broadcast_to(&self, x: &Tile, shape: &[u64]) -> Tile {
        self.compute(Op::Broadcast(shape.to_vec()), &[x.into()])
    }

    /// A box out of a tile.
    #[track_caller]
    pub fn slice(&self, x: &Tile, start: &[u64], shape: &[u64]) -> Tile {
        self.compute(Op::Slice(start.to_vec(), shape.to_vec()), &[x.into()])
    }

    /// A tile with another one put into it, from an index on.
    #[track_caller]
    pub fn paste(&self, into: &Tile, start: &[u64], tile: &Tile) -> Tile {
        self.compute(Op::Paste(start.to_vec()), &[into.into(), tile.into()])
    }

    /// `start`, `start + 1`, and so on.
    #[track_caller]
    pub fn arange(&self, start: f64, count: u64, dtype: DType) -> Tile {
        self.compute(Op::Arange(dtype, start, count), &[])
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(&self, shape: &[u64], dtype: DType) -> Tile {
        self.full(shape, 0.0, dtype)
    }

    /// One value everywhere.
    #[track_caller]
    pub fn full(&self, shape: &[u64], value: f64, dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        self.compute(Op::Full(ty, value), &[])
    }

    /// The matrix product. Narrow types are accumulated, and given, in `f32`.
    #[track_caller]
    pub fn dot(&self, a: &Tile, b: &Tile) -> Tile {
        self.compute(Op::Dot, &[a.into(), b.into()])
    }

    /// The matrix product added to `accumulator`.
    #[track_caller]
    pub fn dot_add(&self, a: &Tile, b: &Tile, accumulator: &Tile) -> Tile {
        self.compute(Op::Dot, &[a.into(), b.into(), accumulator.into()])
    }

    /// A call that costs the processor its time only.
    #[track_caller]
    pub(super) fn call(&self) {
        self.count();
        self.state.tape.borrow_mut().push(super::Step::Call);
    }

    #[track_caller]
    fn compute(&self, op: Op, values: &[Value<'_>]) -> Tile {
        let operands = self.operands(&op, values);
        let types: SmallVec<[_; 3]> = operands.iter().map(Operand::ty).collect();
        let ty = self.checked(op.infer(&types));
        let tiles: SmallVec<[_; 3]> = values.iter().filter_map(as_tile).collect();
        let fetched: SmallVec<[_; 3]> = tiles.iter().map(|tile| tile.ty()).collect();
        let strips = match op.cost(&fetched, &ty, &self.state.site.core) {
            Ok(strips) => strips,
            Err(dtype) => self.fail(no_rate(dtype, self)),
        };
        self.state.tape.borrow_mut().add_flop(op.flop(&types, &ty));
        drop(types);
        let tile = self.tile(ty.clone());
        let computation = Computation { op, inputs: operands, output: tile.value(), ty };
        let effect = Effect::Compute(Box::new(computation));
        self.order(Work::Compute(strips), effect, &tiles, &[&tile], After::new());
        tile
    }

    /// The operands, numbers in the type of the tiles beside them.
    #[track_caller]
    fn operands(&self, op: &Op, values: &[Value<'_>]) -> SmallVec<[Operand; 2]> {
        // The first operand of a choice is a condition; its type is not that of the others.
        let skipped = usize::from(matches!(op, Op::Ternary(Ternary::Where)));
        let beside = values.iter().skip(skipped).find_map(as_tile).map(|tile| tile.ty().dtype);
        // Not in a closure: that would be taken for the place in the kernel.
        let mut operands = SmallVec::with_capacity(values.len());
        for value in values {
            operands.push(self.operand(op, value, beside));
        }
        operands
    }

    #[track_caller]
    fn operand(&self, op: &Op, value: &Value<'_>, beside: Option<DType>) -> Operand {
        match (value, beside) {
            (Value::Tile(tile), _) => Operand::Tile(tile.input()),
            (Value::Number(number), Some(dtype)) => {
                let ty = TileType::scalar(dtype);
                self.checked(infer::full(&ty, *number));
                Operand::Number(*number, ty)
            }
            (Value::Number(_), None) => {
                self.fail(format!("{} of numbers alone: one operand must be a tile", op.name()))
            }
        }
    }
}

pub(super) fn no_rate(dtype: DType, tl: &Tl) -> String {
    let rates: Vec<_> = tl.state.site.core.gemm.rates.keys().map(String::as_str).collect();
    format!("dot of {dtype}: the GEMM engine has no rate for it; it has {}", rates.join(", "))
}

fn as_tile<'a>(value: &Value<'a>) -> Option<&'a Tile> {
    match value {
        Value::Tile(tile) => Some(tile),
        Value::Number(_) => None,
    }
}

/// Operators between tiles, and between tiles and numbers.
macro_rules! operators {
    ($($operator:ident, $method:ident, $function:ident;)*) => {
        $(
        impl $operator<&Tile> for &Tile {
            type Output = Tile;

            #[track_caller]
            fn $method(self, other: &Tile) -> Tile {
                self.tl().$function(self, other)
            }
        }

        impl $operator<f64> for &Tile {
            type Output = Tile;

            #[track_caller]
            fn $method(self, other: f64) -> Tile {
                self.tl().$function(self, other)
            }
        }

        impl $operator<&Tile> for f64 {
            type Output = Tile;

            #[track_caller]
            fn $method(self, other: &Tile) -> Tile {
                other.tl().$function(self, other)
            }
        }
        )*
    };
}

operators! {
    Add, add, add;
    Sub, sub, sub;
    Mul, mul, mul;
    Div, div, div;
}

impl Neg for &Tile {
    type Output = Tile;

    #[track_caller]
    fn neg(self) -> Tile {
        self.tl().neg(self)
    }
}
