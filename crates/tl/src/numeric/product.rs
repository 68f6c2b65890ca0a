//! Options of matrix products.

use cubeyard_runtime::dtype::DType;

/// Options of a matrix product, over arrays or their types.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a, T> {
    /// Summand of the type of the result.
    pub accumulator: Option<&'a T>,
    /// Scales of the left and of the right operand: `f32`, `f16` or `bf16`, of the operand's rank. Each length divides that of the
    /// operand, and each scale belongs to a block: `[m, 1]` has one for each row of the left operand, `[1, n]` one for
    /// each column of the right one, `[m, k / 32]` one for every 32 elements of a row.
    pub scales: [Option<&'a T>; 2],
    /// Type of the result, if it is not that of the sum: `f16` or `bf16` instead of `f32`.
    pub out: Option<DType>,
}

impl<T> Default for Product<'_, T> {
    fn default() -> Self {
        Self { accumulator: None, scales: [None; 2], out: None }
    }
}
