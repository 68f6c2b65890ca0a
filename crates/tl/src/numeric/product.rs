//! Options of matrix products.

use cubeyard_runtime::dtype::DType;

/// Options of a matrix product, over arrays or their types.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a, T> {
    /// Array to add to the product, in the type of the result.
    pub accumulator: Option<&'a T>,
    /// Scales of the left and of the right operand: `f32`, `f16` or `bf16`, of the operand's rank. Each length divides
    /// the operand's length, and each scale applies to a block: `[m, 1]` has one per row of the left operand, `[1, n]`
    /// one per column of the right operand, `[m, k / 32]` one per 32 elements of a row.
    pub scales: [Option<&'a T>; 2],
    /// Type of the result, if it differs from the type of the sum: `f16` or `bf16` instead of `f32`.
    pub out: Option<DType>,
}

impl<T> Default for Product<'_, T> {
    fn default() -> Self {
        Self { accumulator: None, scales: [None; 2], out: None }
    }
}
