//! Computations on tiles: the functions of `triton.language`.
//!
//! Operands are tiles and numbers. All tiles of a call have the same type, and shapes broadcast; [`Tl::cast`] changes a
//! type. Numbers are [converted](promoted) to the type of the tiles, with two exceptions: a float with integer tiles,
//! and a whole number with bool tiles, convert the tiles in the same pass. The operators `+`, `-`, `*` and `/` on tiles
//! call these functions.

use std::ops::{Add, Div, Mul, Neg, Sub};

use cubeyard_device::pe::Work;
use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;
use smallvec::SmallVec;

use super::functions;
use super::fuse::{self, Term};
use super::op::Op;
use super::order::TileUse;
use super::tape::{Computation, Effect, Operand};
use super::{Tile, Tl};
use crate::numeric::{Binary, Constant, Reduce, Scan, Ternary, TileType, Unary, infer, promoted};

/// An operand: a tile or a number.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A tile in the TCM.
    Tile(&'a Tile),
    /// A number.
    Number(Scalar),
}

impl<'a> From<&'a Tile> for Value<'a> {
    fn from(tile: &'a Tile) -> Self {
        Self::Tile(tile)
    }
}

functions::numbers!(Value);

impl<'a> From<&Value<'a>> for Term<'a> {
    fn from(value: &Value<'a>) -> Self {
        match value {
            Value::Tile(tile) => Self::Tile(tile),
            Value::Number(number) => Self::Number(*number),
        }
    }
}

/// Defines functions of one tile.
macro_rules! define_unary {
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

/// Defines functions of two operands.
macro_rules! define_binary {
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

/// Defines reductions along an axis, which is removed from the result or kept with length 1. Without an axis, all
/// elements are reduced to one.
macro_rules! define_reduce {
    ($($(#[$about:meta])* $name:ident, $keep:ident = $op:ident;)*) => {
        impl Tl {
            $($(#[$about])*
            #[track_caller]
            pub fn $name(&self, x: &Tile, axis: impl Into<Option<usize>>) -> Tile {
                self.reduced(Reduce::$op, x, axis.into(), false)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name),
                "), with the axis kept, so that the result broadcasts.")]
            #[track_caller]
            pub fn $keep(&self, x: &Tile, axis: impl Into<Option<usize>>) -> Tile {
                self.reduced(Reduce::$op, x, axis.into(), true)
            })*
        }
    };
}

functions::unary!(define_unary);

functions::binary!(define_binary);

functions::reduce!(define_reduce);

impl Tl {
    /// Reduces a tile along an axis, or as a row of all elements without one.
    #[track_caller]
    fn reduced(&self, op: Reduce, x: &Tile, axis: Option<usize>, keep: bool) -> Tile {
        if let Some(axis) = axis {
            return self.compute(Op::Reduce(op, axis, keep), &[x.into()]);
        }
        let row = self.reshape(x, &[x.ty().elements()]);
        let one = self.compute(Op::Reduce(op, 0, false), &[(&row).into()]);
        if keep { self.reshape(&one, &vec![1; x.ty().shape.len()]) } else { one }
    }

    /// Returns `x` where the condition is true, else `y`.
    #[track_caller]
    pub fn where_<'a>(
        &self,
        condition: &'a Tile,
        x: impl Into<Value<'a>>,
        y: impl Into<Value<'a>>,
    ) -> Tile {
        self.compute(Op::Ternary(Ternary::Where), &[condition.into(), x.into(), y.into()])
    }

    /// Returns `x * y + z`, rounded once.
    #[track_caller]
    pub fn fma<'a>(&self, x: &'a Tile, y: impl Into<Value<'a>>, z: impl Into<Value<'a>>) -> Tile {
        self.compute(Op::Ternary(Ternary::Fma), &[x.into(), y.into(), z.into()])
    }

    /// Clamps `x` to the range from `low` to `high`.
    #[track_caller]
    pub fn clamp<'a>(
        &self,
        x: &'a Tile,
        low: impl Into<Value<'a>>,
        high: impl Into<Value<'a>>,
    ) -> Tile {
        self.compute(Op::Ternary(Ternary::Clamp), &[x.into(), low.into(), high.into()])
    }

    /// Returns the inclusive running sum along an axis.
    #[track_caller]
    pub fn cumsum(&self, x: &Tile, axis: usize) -> Tile {
        self.compute(Op::Scan(Scan::Cumsum, axis), &[x.into()])
    }

    /// Returns the inclusive running product along an axis.
    #[track_caller]
    pub fn cumprod(&self, x: &Tile, axis: usize) -> Tile {
        self.compute(Op::Scan(Scan::Cumprod, axis), &[x.into()])
    }

    /// Returns the exponentials along an axis, divided by their sum.
    #[track_caller]
    pub fn softmax(&self, x: &Tile, axis: usize) -> Tile {
        self.compute(Op::Softmax(axis), &[x.into()])
    }

    /// Converts the elements to another type.
    #[track_caller]
    pub fn cast(&self, x: &Tile, dtype: DType) -> Tile {
        self.compute(Op::Cast(dtype), &[x.into()])
    }

    /// Views the bits of the elements as another type of the same size, in one pass through the TCM.
    #[track_caller]
    pub fn bitcast(&self, x: &Tile, dtype: DType) -> Tile {
        self.compute(Op::Bitcast(dtype), &[x.into()])
    }

    /// Swaps the last two dimensions.
    #[track_caller]
    pub fn trans(&self, x: &Tile) -> Tile {
        self.compute(Op::Transpose, &[x.into()])
    }

    /// Permutes the dimensions: dimension `axes[i]` becomes dimension `i`.
    #[track_caller]
    pub fn permute(&self, x: &Tile, axes: &[usize]) -> Tile {
        self.compute(Op::Permute(axes.to_vec()), &[x.into()])
    }

    /// Views the same elements in another shape. Moves no data.
    #[track_caller]
    pub fn reshape(&self, x: &Tile, shape: &[u64]) -> Tile {
        let ty = self.checked(infer::reshape(x.ty(), shape));
        self.call();
        x.seen_as(ty)
    }

    /// Repeats the tile along dimensions of length 1. Elementwise operations broadcast automatically.
    #[track_caller]
    pub fn broadcast_to(&self, x: &Tile, shape: &[u64]) -> Tile {
        self.compute(Op::Broadcast(shape.to_vec()), &[x.into()])
    }

    /// Returns the box of a tile that begins at `start`.
    #[track_caller]
    pub fn slice(&self, x: &Tile, start: &[u64], shape: &[u64]) -> Tile {
        self.compute(Op::Slice(start.to_vec(), shape.to_vec()), &[x.into()])
    }

    /// Returns a copy of `into` in which the box that begins at `start` is replaced by `tile`.
    #[track_caller]
    pub fn paste(&self, into: &Tile, start: &[u64], tile: &Tile) -> Tile {
        self.compute(Op::Paste(start.to_vec()), &[into.into(), tile.into()])
    }

    /// Returns `count` consecutive numbers, starting at `start`.
    #[track_caller]
    pub fn arange(&self, start: impl Into<Scalar>, count: u64, dtype: DType) -> Tile {
        self.compute(Op::Arange(dtype, start.into(), count), &[])
    }

    /// Returns a tile of zeros.
    #[track_caller]
    pub fn zeros(&self, shape: &[u64], dtype: DType) -> Tile {
        self.full(shape, 0, dtype)
    }

    /// Returns a tile with all elements equal to `value`.
    #[track_caller]
    pub fn full(&self, shape: &[u64], value: impl Into<Scalar>, dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        let constant = self.checked(Constant::new(value, dtype));
        self.compute(Op::Full(ty.shape, constant), &[])
    }

    /// Adds a call that costs only processor time.
    #[track_caller]
    pub(super) fn call(&self) {
        self.count();
        self.state.tape.borrow_mut().push(super::Instruction::Dispatch(1));
    }

    #[track_caller]
    pub(super) fn compute(&self, op: Op, values: &[Value<'_>]) -> Tile {
        let (beside, dtype) = self.types(&op, values);
        if beside != dtype {
            let terms: SmallVec<[_; 3]> = values.iter().map(Term::from).collect();
            return self.eval(&fuse::applied(self, op, &terms));
        }
        let mut operands = SmallVec::with_capacity(values.len());
        // Not in a closure: `track_caller` would report the closure as the line of the kernel.
        for value in values {
            operands.push(self.operand(value, dtype));
        }
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
        let reads = tiles.iter().map(|tile| TileUse::Read(tile));
        self.order(Work::Compute(strips), effect, reads.chain([TileUse::Write(&tile)]));
        tile
    }

    /// Returns the type of a call's tiles, and the type to which its tiles and numbers are converted; both are `None`
    /// for a call without tiles.
    #[track_caller]
    fn types(&self, op: &Op, values: &[Value<'_>]) -> (Option<DType>, Option<DType>) {
        let values = &values[op.conditions()..];
        let beside = values.iter().find_map(as_tile).map(|tile| tile.ty().dtype);
        if beside.is_none() && !values.is_empty() {
            self.fail(op.alone());
        }
        (beside, beside.map(|dtype| promoted(dtype, values.iter().filter_map(as_number))))
    }

    #[track_caller]
    fn operand(&self, value: &Value<'_>, dtype: Option<DType>) -> Operand {
        match (value, dtype) {
            (Value::Tile(tile), _) => Operand::Tile(tile.input()),
            (Value::Number(number), Some(dtype)) => {
                let constant = self.checked(Constant::new(*number, dtype));
                Operand::Number(constant, TileType::scalar(dtype))
            }
            (Value::Number(_), None) => unreachable!("a call with numbers has a tile"),
        }
    }
}

pub(super) fn no_rate(dtype: DType, tl: &Tl) -> String {
    let rates: Vec<_> = tl.state.site.core.gemm.rates.keys().map(String::as_str).collect();
    format!("dot of {dtype}: GEMM has no rate for it; it has {}", rates.join(", "))
}

fn as_tile<'a>(value: &Value<'a>) -> Option<&'a Tile> {
    match value {
        Value::Tile(tile) => Some(tile),
        Value::Number(_) => None,
    }
}

fn as_number(value: &Value<'_>) -> Option<Scalar> {
    match value {
        Value::Tile(_) => None,
        Value::Number(number) => Some(*number),
    }
}

/// Defines operators between tiles, and between tiles and numbers.
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

        operators!(@ $operator, $method, $function: Scalar, i32, i64, f64);
        )*
    };
    (@ $operator:ident, $method:ident, $function:ident: $($number:ty),*) => {
        $(
        impl $operator<$number> for &Tile {
            type Output = Tile;

            #[track_caller]
            fn $method(self, other: $number) -> Tile {
                self.tl().$function(self, other)
            }
        }

        impl $operator<&Tile> for $number {
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
