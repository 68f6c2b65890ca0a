//! Operations of the compute engine: result types, arithmetic and cost.

use cubeyard_device::pe::{OpUnit, Strips};
use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::{Bandwidth, Span};

use crate::numeric::{
    self, Array, Binary, Constant, Lengths, NumericError, Product, Reduce, Scan, Ternary, TileType,
    Unary, infer,
};

/// An operation on tiles.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Elementwise operation on one operand.
    Unary(Unary),
    /// Elementwise operation on two operands.
    Binary(Binary),
    /// Elementwise operation on three operands.
    Ternary(Ternary),
    /// Reduction along an axis, which is kept with length 1 if the flag is set.
    Reduce(Reduce, usize, bool),
    /// Scan along an axis.
    Scan(Scan, usize),
    /// Softmax along an axis.
    Softmax(usize),
    /// Cast to another element type.
    Cast(DType),
    /// Reinterpretation of the bits as another element type of the same size.
    Bitcast(DType),
    /// Swap of the last two dimensions.
    Transpose,
    /// Permutation of the dimensions.
    Permute(Vec<usize>),
    /// Repetition along dimensions of length 1, to this shape.
    Broadcast(Vec<u64>),
    /// The box of a tile with this start and shape.
    Slice(Vec<u64>, Vec<u64>),
    /// Replacement of the box of a tile that begins at this index.
    Paste(Vec<u64>),
    /// A tile of this shape with all elements equal to a constant.
    Full(Lengths, Constant),
    /// Consecutive numbers: element type, first number, count.
    Arange(DType, Scalar, u64),
    /// A matrix product. The two factors are followed by the scales of the left and of the right factor and the
    /// accumulator, if present.
    Dot(DotForm),
}

/// Operands and result of a matrix product beyond its factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DotForm {
    /// Whether the left and the right factor have scales.
    pub scaled: [bool; 2],
    /// Whether an accumulator is added.
    pub adds: bool,
    /// Type of the result, if it differs from the type of the sum.
    pub out: Option<DType>,
}

impl DotForm {
    /// Returns the options of a product with these operands.
    fn options<'a, T>(self, operands: &[&'a T]) -> Product<'a, T> {
        let mut rest = operands.iter().skip(2).copied();
        let mut next = |is: bool| if is { rest.next() } else { None };
        let scales = self.scaled.map(&mut next);
        Product { scales, accumulator: next(self.adds), out: self.out }
    }
}

/// Rate classes of the vector unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Simple,
    Special,
    Reduce,
}

impl Op {
    /// Returns the name of the operation, as in `tl`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(op) => op.name(),
            Self::Binary(op) => op.name(),
            Self::Ternary(op) => op.name(),
            Self::Reduce(op, ..) => op.name(),
            Self::Scan(op, _) => op.name(),
            Self::Softmax(_) => "softmax",
            Self::Cast(_) => "cast",
            Self::Bitcast(_) => "bitcast",
            Self::Transpose => "transpose",
            Self::Permute(_) => "permute",
            Self::Broadcast(_) => "broadcast",
            Self::Slice(..) => "slice",
            Self::Paste(_) => "paste",
            Self::Full(..) => "full",
            Self::Arange(..) => "arange",
            Self::Dot(form) if form.scaled.contains(&true) => "dot_scaled",
            Self::Dot(_) => "dot",
        }
    }

    /// Returns the number of leading operands that are conditions, such as the first operand of `where`: their type may
    /// differ.
    pub(crate) fn conditions(&self) -> usize {
        usize::from(matches!(self, Self::Ternary(Ternary::Where)))
    }

    /// Describes the use of the operation on numbers without a tile.
    pub(crate) fn alone(&self) -> String {
        format!("{} of numbers alone: one operand must be a tile", self.name())
    }

    /// Returns the type of the result.
    ///
    /// # Panics
    /// If the number of operands is wrong.
    pub fn infer(&self, inputs: &[&TileType]) -> Result<TileType, NumericError> {
        match self {
            Self::Unary(op) => infer::unary(*op, inputs[0]),
            Self::Binary(op) => infer::binary(*op, inputs[0], inputs[1]),
            Self::Ternary(op) => infer::ternary(*op, inputs[0], inputs[1], inputs[2]),
            Self::Reduce(op, axis, keep) => infer::reduce(*op, inputs[0], *axis, *keep),
            Self::Scan(op, axis) => infer::scan(*op, inputs[0], *axis),
            Self::Softmax(axis) => infer::softmax(inputs[0], *axis),
            Self::Cast(dtype) => infer::cast(inputs[0], *dtype),
            Self::Bitcast(dtype) => infer::bitcast(inputs[0], *dtype),
            Self::Transpose => infer::transpose(inputs[0]),
            Self::Permute(axes) => infer::permute(inputs[0], axes),
            Self::Broadcast(shape) => infer::broadcast_to(inputs[0], shape),
            Self::Slice(start, shape) => infer::slice(inputs[0], start, shape),
            Self::Paste(start) => infer::paste(inputs[0], start, inputs[1]),
            Self::Full(shape, constant) => TileType::new(constant.dtype(), shape),
            Self::Arange(dtype, start, count) => infer::arange(*dtype, *start, *count),
            Self::Dot(form) => infer::product(inputs[0], inputs[1], &form.options(inputs)),
        }
    }

    /// Computes the result.
    ///
    /// # Panics
    /// Under the same condition as [`infer`](Self::infer).
    pub fn compute(&self, inputs: &[&Array]) -> Result<Array, NumericError> {
        match self {
            Self::Unary(op) => numeric::unary(*op, inputs[0]),
            Self::Binary(op) => numeric::binary(*op, inputs[0], inputs[1]),
            Self::Ternary(op) => numeric::ternary(*op, inputs[0], inputs[1], inputs[2]),
            Self::Reduce(op, axis, keep) => numeric::reduce(*op, inputs[0], *axis, *keep),
            Self::Scan(op, axis) => numeric::scan(*op, inputs[0], *axis),
            Self::Softmax(axis) => numeric::softmax(inputs[0], *axis),
            Self::Cast(dtype) => numeric::cast(inputs[0], *dtype),
            Self::Bitcast(dtype) => numeric::bitcast(inputs[0], *dtype),
            Self::Transpose => numeric::transpose(inputs[0]),
            Self::Permute(axes) => numeric::permute(inputs[0], axes),
            Self::Broadcast(shape) => numeric::broadcast_to(inputs[0], shape),
            Self::Slice(start, shape) => numeric::slice(inputs[0], start, shape),
            Self::Paste(start) => {
                let mut into = inputs[0].clone();
                numeric::paste(&mut into, start, inputs[1])?;
                Ok(into)
            }
            Self::Full(shape, constant) => Array::filled(shape, *constant),
            Self::Arange(dtype, start, count) => Array::arange(*dtype, *start, *count),
            Self::Dot(form) => numeric::product(inputs[0], inputs[1], &form.options(inputs)),
        }
    }

    /// Returns the cost, or the element type for which the matrix unit has no rate.
    pub fn cost(
        &self,
        inputs: &[&TileType],
        output: &TileType,
        core: &CoreSpec,
    ) -> Result<Strips, DType> {
        match self {
            Self::Dot(_) => dot_cost(inputs, output, core),
            _ => Ok(self.math_cost(inputs, output, core)),
        }
    }

    /// Returns the number of floating-point operations by the usual count: 2·m·k·n for a product, about one per element
    /// for other arithmetic, none for data movement.
    pub fn flop(&self, inputs: &[&TileType], output: &TileType) -> u64 {
        match self {
            Self::Dot(_) => (2 * inputs[0].elements())
                .saturating_mul(inputs[1].shape.last().copied().unwrap_or(1)),
            Self::Unary(_) | Self::Binary(_) | Self::Ternary(Ternary::Clamp) => output.elements(),
            Self::Ternary(Ternary::Fma) => 2 * output.elements(),
            Self::Reduce(..) | Self::Scan(..) => inputs[0].elements(),
            // Maximum, difference, exponential, sum and quotient.
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

    /// Returns the rate of the vector unit, in elements.
    pub(crate) fn math_rate(&self, core: &CoreSpec) -> Bandwidth {
        match self.class() {
            Class::Simple => core.math.simple,
            Class::Special => core.math.special,
            Class::Reduce => core.math.reduce,
        }
    }

    /// Returns the strips through the vector unit; their number follows from the largest operand or the result.
    fn math_cost(&self, inputs: &[&TileType], output: &TileType, core: &CoreSpec) -> Strips {
        let elements = inputs.iter().map(|ty| ty.elements()).max().unwrap_or(0);
        let elements = elements.max(output.elements());
        let read: u64 = inputs.iter().map(|ty| ty.nbytes()).sum();
        let rate = self.math_rate(core);
        let strips = elements.div_ceil(core.math.strip.into()).max(1);
        // Two passes: one for maximum and sum, one for the quotients.
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

/// Returns the duration of one of `strips` equal parts of `amount`.
fn each(rate: Bandwidth, amount: u64, strips: u64) -> Span {
    rate.span(amount.div_ceil(strips))
}

/// Returns the cost of a product in tiles of the matrix unit: each tile fetches its operands in full, and the result
/// is stored at the end. Operands of two types are multiplied at the rate of the slower one. Scales and the accumulator
/// are fetched once, spread over the tiles; the engine applies scales while adding, at no extra cost.
fn dot_cost(inputs: &[&TileType], output: &TileType, core: &CoreSpec) -> Result<Strips, DType> {
    let (left, right) = (inputs[0], inputs[1]);
    let rated = |ty: &TileType| core.gemm.tile(ty.dtype.name()).ok_or(ty.dtype);
    let work = rated(left)?.max(rated(right)?);
    let tiles = |length: u64, edge: u32| length.div_ceil(edge.into()).max(1);
    let (batch, [rows, inner]) = matrices(left);
    let (_, [_, columns]) = matrices(right);
    let edges = [(rows, core.gemm.m), (inner, core.gemm.k), (columns, core.gemm.n)];
    let each_matrix: u64 = edges.iter().map(|&(length, edge)| tiles(length, edge)).product();
    let count = batch.max(1) * each_matrix;
    let [m, k, n] = edges.map(|(length, edge)| length.min(edge.into()));
    let operands = m * k * left.dtype.size() + k * n * right.dtype.size();
    let others: u64 = inputs[2..].iter().map(|ty| ty.nbytes().div_ceil(count)).sum();
    Ok(Strips {
        unit: OpUnit::Gemm,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        fetch: core.tcm_read.span(operands + others),
        work,
        store: each(core.tcm_write, output.nbytes(), count),
    })
}

/// Returns the number of matrices in a factor of a product, and their rows and columns.
fn matrices(ty: &TileType) -> (u64, [u64; 2]) {
    match *ty.shape {
        [rows, columns] => (1, [rows, columns]),
        [batch, rows, columns] => (batch, [rows, columns]),
        _ => unreachable!("the types of a product were checked"),
    }
}

#[cfg(test)]
mod tests {
    use cubeyard_device::topology::Topology;

    use super::*;

    #[test]
    fn a_product_of_two_types_fetches_each_and_takes_the_slower_rate() {
        let core = &Topology::embedded().spec().pe.core.clone();
        let dot = Op::Dot(DotForm::default());
        let cost = |a, b| {
            let [a, b] = [a, b].map(|dtype| TileType::new(dtype, &[64, 64]).unwrap());
            let output = dot.infer(&[&a, &b]).unwrap();
            dot.cost(&[&a, &b], &output, core).unwrap()
        };
        let (eight, sixteen) = (DType::Fp8E4m3, DType::F16);
        let (narrow, wide) = (cost(eight, eight), cost(sixteen, sixteen));
        assert!(narrow.work < wide.work, "fp8 has a higher rate");
        for mixed in [cost(eight, sixteen), cost(sixteen, eight)] {
            assert_eq!((mixed.work, mixed.count), (wide.work, wide.count));
            assert!(narrow.fetch < mixed.fetch && mixed.fetch < wide.fetch);
        }
    }
}
