//! Operations of the compute engine: what they give, what they compute, and what they cost.

use cubeyard_device::pe::{OpUnit, Strips};
use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::{Bandwidth, Span};

use crate::numeric::{
    self, Array, Binary, NumericError, Reduce, Scan, Ternary, TileType, Unary, infer,
};

/// An operation on tiles.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// On each element.
    Unary(Unary),
    /// On two elements.
    Binary(Binary),
    /// On three elements.
    Ternary(Ternary),
    /// Along an axis, which stays with length 1 if it is kept.
    Reduce(Reduce, usize, bool),
    /// Along an axis.
    Scan(Scan, usize),
    /// Along an axis.
    Softmax(usize),
    /// To another type.
    Cast(DType),
    /// The last two dimensions change places.
    Transpose,
    /// Dimensions change places.
    Permute(Vec<usize>),
    /// Repeated along dimensions of length 1.
    Broadcast(Vec<u64>),
    /// A box out of a tile.
    Slice(Vec<u64>, Vec<u64>),
    /// A tile put into another, from a place on.
    Paste(Vec<u64>),
    /// One value everywhere.
    Full(TileType, f64),
    /// Numbers that count up.
    Arange(DType, f64, u64),
    /// A matrix product, added to a third operand if there is one.
    Dot,
}

/// How fast the vector engine is at an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Simple,
    Special,
    Reduce,
}

impl Op {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Ternary(op) => op.name(),
            Self::Reduce(op, ..) => op.name(),
            Self::Scan(op, _) => op.name(),
            Self::Softmax(_) => "softmax",
            Self::Cast(_) => "cast",
            Self::Transpose => "transpose",
            Self::Permute(_) => "permute",
            Self::Broadcast(_) => "broadcast",
            Self::Slice(..) => "slice",
            Self::Paste(_) => "paste",
            Self::Full(..) => "full",
            Self::Arange(..) => "arange",
            Self::Dot => "dot",
        }
    }

    /// The kind of the result.
    ///
    /// # Panics
    /// If there are not as many operands as it takes, which is up to us.
    pub fn infer(&self, inputs: &[&TileType]) -> Result<TileType, NumericError> {
        match self {
            Self::Unary(op) => infer::unary(*op, inputs[0]),
            Self::Binary(op) => infer::binary(*op, inputs[0], inputs[1]),
            Self::Ternary(op) => infer::ternary(*op, inputs[0], inputs[1], inputs[2]),
            Self::Reduce(op, axis, keep) => infer::reduce(*op, inputs[0], *axis, *keep),
            Self::Scan(op, axis) => infer::scan(*op, inputs[0], *axis),
            Self::Softmax(axis) => infer::softmax(inputs[0], *axis),
            Self::Cast(dtype) => infer::cast(inputs[0], *dtype),
            Self::Transpose => infer::transpose(inputs[0]),
            Self::Permute(axes) => infer::permute(inputs[0], axes),
            Self::Broadcast(shape) => infer::broadcast_to(inputs[0], shape),
            Self::Slice(start, shape) => infer::slice(inputs[0], start, shape),
            Self::Paste(start) => infer::paste(inputs[0], start, inputs[1]),
            Self::Full(ty, value) => infer::full(ty, *value),
            Self::Arange(dtype, start, count) => infer::arange(*dtype, *start, *count),
            Self::Dot => infer::dot(inputs[0], inputs[1], inputs.get(2).copied()),
        }
    }

    /// The result.
    ///
    /// # Panics
    /// As [`infer`](Self::infer).
    pub fn compute(&self, inputs: &[&Array]) -> Result<Array, NumericError> {
        match self {
            Self::Unary(op) => numeric::unary(*op, inputs[0]),
            Self::Binary(op) => numeric::binary(*op, inputs[0], inputs[1]),
            Self::Ternary(op) => numeric::ternary(*op, inputs[0], inputs[1], inputs[2]),
            Self::Reduce(op, axis, keep) => numeric::reduce(*op, inputs[0], *axis, *keep),
            Self::Scan(op, axis) => numeric::scan(*op, inputs[0], *axis),
            Self::Softmax(axis) => numeric::softmax(inputs[0], *axis),
            Self::Cast(dtype) => numeric::cast(inputs[0], *dtype),
            Self::Transpose => numeric::transpose(inputs[0]),
            Self::Permute(axes) => numeric::permute(inputs[0], axes),
            Self::Broadcast(shape) => numeric::broadcast_to(inputs[0], shape),
            Self::Slice(start, shape) => numeric::slice(inputs[0], start, shape),
            Self::Paste(start) => {
                let mut into = inputs[0].clone();
                numeric::paste(&mut into, start, inputs[1])?;
                Ok(into)
            }
            Self::Full(ty, value) => Array::full(ty.clone(), *value),
            Self::Arange(dtype, start, count) => Array::arange(*dtype, *start, *count),
            Self::Dot => numeric::dot(inputs[0], inputs[1], inputs.get(2).copied()),
        }
    }

    /// What it costs, or the type that the matrix engine has no rate for.
    pub fn cost(
        &self,
        inputs: &[&TileType],
        output: &TileType,
        core: &CoreSpec,
    ) -> Result<Strips, DType> {
        match self {
            Self::Dot => dot_cost(inputs, output, core),
            _ => Ok(self.math_cost(inputs, output, core)),
        }
    }

    /// How many floating-point operations it is, as people count them: only of products, and of arithmetic
    /// once per element.
    pub fn flop(&self, inputs: &[&TileType], output: &TileType) -> u64 {
        match self {
            Self::Dot => (2 * inputs[0].elements()).saturating_mul(inputs[1].shape[1]),
            Self::Unary(_) | Self::Binary(_) | Self::Ternary(Ternary::Clamp) => output.elements(),
            Self::Ternary(Ternary::Fma) => 2 * output.elements(),
            Self::Reduce(..) | Self::Scan(..) => inputs[0].elements(),
            // The greatest, the difference, the exponential, the sum, the quotient.
            Self::Softmax(_) => 5 * output.elements(),
            _ => 0,
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::Unary(op) => match op {
                Unary::Neg | Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Relu | Unary::Not => {
                    Class::Simple
                }
                _ => Class::Special,
            },
            Self::Binary(Binary::Div | Binary::Rem | Binary::Pow) | Self::Softmax(_) => {
                Class::Special
            }
            Self::Reduce(..) | Self::Scan(..) => Class::Reduce,
            _ => Class::Simple,
        }
    }

    /// Strips through the vector unit: as many as the longest operand has.
    fn math_cost(&self, inputs: &[&TileType], output: &TileType, core: &CoreSpec) -> Strips {
        let elements = inputs.iter().map(|ty| ty.elements()).max().unwrap_or(0);
        let elements = elements.max(output.elements());
        let read: u64 = inputs.iter().map(|ty| ty.nbytes()).sum();
        let rate = match self.class() {
            Class::Simple => core.math.simple,
            Class::Special => core.math.special,
            Class::Reduce => core.math.reduce,
        };
        let strips = elements.div_ceil(core.math.strip.into()).max(1);
        // Two passes: one for the greatest and the sum, one for the quotients.
        let passes = if matches!(self, Self::Softmax(_)) { 2 } else { 1 };
        Strips {
            unit: OpUnit::Math,
            count: u32::try_from(strips * passes).unwrap_or(u32::MAX),
            fetch: each(core.tcm_read, read, strips),
            work: each(rate, elements, strips),
            store: each(core.tcm_write, output.nbytes(), strips * passes),
        }
    }
}

/// What each of some strips takes, if all together move so much.
fn each(rate: Bandwidth, amount: u64, strips: u64) -> Span {
    rate.span(amount.div_ceil(strips))
}

/// Tiles of the matrix engine, each fetched in full; what they add up to is stored at the end.
fn dot_cost(inputs: &[&TileType], output: &TileType, core: &CoreSpec) -> Result<Strips, DType> {
    let (left, right) = (inputs[0], inputs[1]);
    let work = core.gemm.tile(left.dtype.name()).ok_or(left.dtype)?;
    let tiles = |length: u64, edge: u32| length.div_ceil(edge.into()).max(1);
    let edges =
        [(left.shape[0], core.gemm.m), (left.shape[1], core.gemm.k), (right.shape[1], core.gemm.n)];
    let count: u64 = edges.iter().map(|&(length, edge)| tiles(length, edge)).product();
    let [m, k, n] = edges.map(|(length, edge)| length.min(edge.into()));
    let operands = (m * k + k * n) * left.dtype.size();
    let accumulator = inputs.get(2).map_or(0, |ty| ty.nbytes().div_ceil(count));
    Ok(Strips {
        unit: OpUnit::Gemm,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        fetch: core.tcm_read.span(operands + accumulator),
        work,
        store: each(core.tcm_write, output.nbytes(), count),
    })
}
