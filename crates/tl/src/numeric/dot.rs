//! Products of matrices.

use cubeyard_runtime::dtype::DType;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, LinalgScalar};

use super::cast::converted;
use super::tile::length;
use super::value::{Data, Number};
use super::{Array, NumericError, TileType, infer};

const FITS: &str = "a tile has as many elements as its shape says";

/// Returns the product of an m×k and a k×n matrix, plus `accumulator` if there is one.
///
/// Both have the same element type, or one is an 8-bit float and the other an 8-bit or 16-bit one. Floats of at most 32 bits accumulate in `f32`, which is the result's type; `f64` gives `f64`; `i8`, `u8` and
/// `i16` give `i32`, `u64` gives `u64`, and all other integers give `i64`. The order in which floats are summed
/// depends on the host processor, so the last bits can differ between kinds of processors, but not between
/// runs.
pub fn dot(a: &Array, b: &Array, accumulator: Option<&Array>) -> Result<Array, NumericError> {
    let ty = infer::dot(a.ty(), b.ty(), accumulator.map(Array::ty))?;
    let sums = accumulator.cloned().map_or_else(|| Array::full(ty.clone(), 0.0), Ok)?;
    let shape = Product::of(a.ty(), b.ty());
    if shape.inner == 0 || ty.elements() == 0 {
        return Ok(sums);
    }
    let data = match (a.data(), b.data(), sums.into_data()) {
        (Data::Single(a), Data::Single(b), Data::Single(sums)) => {
            Data::Single(shape.reals(a, b, sums))
        }
        (Data::Double(a), Data::Double(b), Data::Double(sums)) => {
            Data::Double(shape.reals(a, b, sums))
        }
        (a, b, sums) => converted(&shape.integers(a, b, &sums), ty.dtype),
    };
    Ok(Array::rounded(ty, data))
}

/// Dimensions of a product, none of them 0.
#[derive(Clone, Copy)]
struct Product {
    rows: usize,
    inner: usize,
    columns: usize,
}

impl Product {
    fn of(a: &TileType, b: &TileType) -> Self {
        Self { rows: length(a.shape[0]), inner: length(a.shape[1]), columns: length(b.shape[1]) }
    }

    fn reals<T: LinalgScalar>(self, a: &[T], b: &[T], mut sums: Vec<T>) -> Vec<T> {
        let a = ArrayView2::from_shape((self.rows, self.inner), a).expect(FITS);
        let b = ArrayView2::from_shape((self.inner, self.columns), b).expect(FITS);
        let mut into = ArrayViewMut2::from_shape((self.rows, self.columns), &mut sums).expect(FITS);
        general_mat_mul(T::one(), &a, &b, T::one(), &mut into);
        sums
    }

    /// Multiplies in 64 bits with wrapping, which is exact modulo any narrower width, signed or unsigned.
    fn integers(self, a: &Data, b: &Data, sums: &Data) -> Data {
        let [a, b, mut sums] = [a, b, sums].map(words);
        for (row, sums) in a.chunks_exact(self.inner).zip(sums.chunks_exact_mut(self.columns)) {
            for (&factor, other) in row.iter().zip(b.chunks_exact(self.columns)) {
                let pairs = sums.iter_mut().zip(other);
                pairs.for_each(|(sum, &value)| *sum = factor.fma(value, *sum));
            }
        }
        Data::Signed(sums)
    }
}

/// Returns integers as signed ones of the same bits.
fn words(data: &Data) -> Vec<i64> {
    match converted(data, DType::I64) {
        Data::Signed(words) => words,
        _ => unreachable!("an i64 is signed"),
    }
}
