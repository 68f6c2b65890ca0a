//! Matrix products of tiles in the TCM.

use cubeyard_runtime::dtype::DType;
use smallvec::{SmallVec, smallvec};

use super::math::Value;
use super::op::{DotForm, Op};
use super::{Tile, Tl};

/// Options of a matrix product, for [`Tl::dot_with`].
///
/// ```
/// # use cubeyard_runtime::dtype::DType;
/// # use cubeyard_tl::{Dot, Tile, Tl};
/// /// Weights of 8 bits with a scale for each column; the result is as wide as the activations.
/// fn quantised(tl: &Tl, x: &Tile, weights: &Tile, scales: &Tile) -> Tile {
///     let options = Dot { scales: [None, Some(scales)], out: Some(DType::F16), ..Dot::default() };
///     tl.dot_with(x, weights, options)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Dot<'a> {
    /// Tile to add to the product, in the type of the result.
    pub accumulator: Option<&'a Tile>,
    /// Scales of the left and of the right operand; see [`numeric::Product`](crate::numeric::Product).
    pub scales: [Option<&'a Tile>; 2],
    /// Type of the result, if it differs from the type of the sum: `f16` or `bf16` instead of `f32`.
    pub out: Option<DType>,
}

impl Tl {
    /// Returns the matrix product of two matrices, or of each pair of two batches of matrices. Narrow types accumulate in
    /// `f32`, which is also the result's type; `i8` accumulates in `i32`.
    #[track_caller]
    pub fn dot(&self, a: &Tile, b: &Tile) -> Tile {
        self.dot_with(a, b, Dot::default())
    }

    /// Returns the matrix product plus `accumulator`.
    #[track_caller]
    pub fn dot_add(&self, a: &Tile, b: &Tile, accumulator: &Tile) -> Tile {
        self.dot_with(a, b, Dot { accumulator: Some(accumulator), ..Dot::default() })
    }

    /// Returns the matrix product in a type other than the type of the sum: `f16` or `bf16`, rounded once.
    #[track_caller]
    pub fn dot_as(&self, a: &Tile, b: &Tile, dtype: DType) -> Tile {
        self.dot_with(a, b, Dot { out: Some(dtype), ..Dot::default() })
    }

    /// Returns the product of matrices with scales, for example of 8-bit numbers: `(a * scales_a) (b * scales_b)` in
    /// `f32`. Each dimension of a tile of scales divides the corresponding dimension of its operand.
    #[track_caller]
    pub fn dot_scaled(&self, a: &Tile, scales_a: &Tile, b: &Tile, scales_b: &Tile) -> Tile {
        self.dot_with(a, b, Dot { scales: [Some(scales_a), Some(scales_b)], ..Dot::default() })
    }

    /// Returns the matrix product with options.
    #[track_caller]
    pub fn dot_with(&self, a: &Tile, b: &Tile, options: Dot<'_>) -> Tile {
        let Dot { accumulator, scales, out } = options;
        let scaled = scales.map(|scale| scale.is_some());
        let form = DotForm { scaled, adds: accumulator.is_some(), out };
        let mut operands: SmallVec<[Value<'_>; 5]> = smallvec![a.into(), b.into()];
        operands.extend(scales.into_iter().chain([accumulator]).flatten().map(Value::Tile));
        self.compute(Op::Dot(form), &operands)
    }
}
