//! Products of matrices.

use cubeyard_runtime::dtype::DType;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, LinalgScalar};

use super::cast::converted;
use super::infer::sum_dtype;
use super::tile::length;
use super::value::{Data, Number};
use super::{Array, NumericError, Product, TileType, infer};

const FITS: &str = "a tile has as many elements as its shape says";

impl<'a> Product<'a, Array> {
    fn types(&self) -> Product<'a, TileType> {
        let accumulator = self.accumulator.map(Array::ty);
        Product {
            accumulator,
            scales: self.scales.map(|scale| scale.map(Array::ty)),
            out: self.out,
        }
    }
}

/// Returns the product of an m×k and a k×n matrix, plus `accumulator` if given; or the product of each pair of two
/// batches of matrices.
///
/// Both operands have the same element type, or one is an 8-bit float and the other an 8-bit or 16-bit float. Floats of
/// at most 32 bits accumulate in `f32`, which is the result's type; `f64` gives `f64`; `i8`, `u8` and `i16` give `i32`,
/// `u64` gives `u64`, and all other integers give `i64`. The order in which floats are summed depends on the host
/// processor, so the last bits can differ between kinds of processors, but not between runs.
pub fn dot(a: &Array, b: &Array, accumulator: Option<&Array>) -> Result<Array, NumericError> {
    product(a, b, &Product { accumulator, ..Product::default() })
}

/// Returns the same product as [`dot`], with options.
///
/// Operands with scales are converted to `f32` and multiplied by the scales, each product rounded; then they accumulate
/// in `f32`. If the result's type differs from the sum's, it is rounded once.
pub fn product(a: &Array, b: &Array, with: &Product<'_, Array>) -> Result<Array, NumericError> {
    let ty = infer::product(a.ty(), b.ty(), &with.types())?;
    let is_scaled = with.scales.iter().any(Option::is_some);
    let sum = ty.with_dtype(sum_dtype(a.ty().dtype, is_scaled));
    let sums = match with.accumulator {
        Some(accumulator) => accumulator.clone().into_data(),
        None => Array::full(sum.clone(), 0.0)?.into_data(),
    };
    let shape = Dimensions::of(a.ty(), b.ty());
    if shape.inner == 0 || ty.elements() == 0 {
        return Ok(Array::rounded(ty, sums));
    }
    let data = if is_scaled {
        let [a, b] = [(a, with.scales[0]), (b, with.scales[1])].map(dequantised);
        shape.multiply(&a, &b, sums, sum.dtype)
    } else {
        shape.multiply(a.data(), b.data(), sums, sum.dtype)
    };
    Ok(Array::rounded(ty, data))
}

/// Returns the elements as `f32`, each multiplied by the scale of its block.
fn dequantised((array, scale): (&Array, Option<&Array>)) -> Data {
    let Data::Single(mut values) = converted(array.data(), DType::F32) else {
        unreachable!("an f32 is single")
    };
    let Some(scale) = scale else { return Data::Single(values) };
    let Data::Single(factors) = converted(scale.data(), DType::F32) else {
        unreachable!("an f32 is single")
    };
    let (whole, blocks) = (&array.ty().shape, &scale.ty().shape);
    for (index, value) in values.iter_mut().enumerate() {
        *value *= factors[block_of(index, whole, blocks)];
    }
    Data::Single(values)
}

/// Returns the index of an element's block, both in row-major order.
fn block_of(index: usize, whole: &[u64], blocks: &[u64]) -> usize {
    let (mut rest, mut block, mut stride) = (index, 0, 1);
    for (&length, &count) in whole.iter().zip(blocks).rev() {
        let [length, count] = [length, count].map(self::length);
        block += rest % length / (length / count) * stride;
        (rest, stride) = (rest / length, stride * count);
    }
    block
}

/// Dimensions of a product: the number of matrices, and the dimensions of each.
#[derive(Clone, Copy)]
struct Dimensions {
    batch: usize,
    rows: usize,
    inner: usize,
    columns: usize,
}

impl Dimensions {
    fn of(a: &TileType, b: &TileType) -> Self {
        let last = |ty: &TileType, place: usize| length(ty.shape[ty.shape.len() - place]);
        let batch = if a.shape.len() == 3 { length(a.shape[0]) } else { 1 };
        Self { batch, rows: last(a, 2), inner: last(a, 1), columns: last(b, 1) }
    }

    fn multiply(self, a: &Data, b: &Data, sums: Data, sum: DType) -> Data {
        match (a, b, sums) {
            (Data::Single(a), Data::Single(b), Data::Single(sums)) => {
                Data::Single(self.each(a, b, sums, Self::reals))
            }
            (Data::Double(a), Data::Double(b), Data::Double(sums)) => {
                Data::Double(self.each(a, b, sums, Self::reals))
            }
            (a, b, sums) => {
                let [a, b, sums] = [a, b, &sums].map(words);
                converted(&Data::Signed(self.each(&a, &b, sums, Self::integers)), sum)
            }
        }
    }

    /// Multiplies each pair of matrices.
    fn each<T>(
        self,
        a: &[T],
        b: &[T],
        mut sums: Vec<T>,
        multiply: fn(Self, &[T], &[T], &mut [T]),
    ) -> Vec<T> {
        let Self { rows, inner, columns, .. } = self;
        let pairs = a.chunks_exact(rows * inner).zip(b.chunks_exact(inner * columns));
        for ((a, b), sums) in pairs.zip(sums.chunks_exact_mut(rows * columns)).take(self.batch) {
            multiply(self, a, b, sums);
        }
        sums
    }

    fn reals<T: LinalgScalar>(self, a: &[T], b: &[T], sums: &mut [T]) {
        let a = ArrayView2::from_shape((self.rows, self.inner), a).expect(FITS);
        let b = ArrayView2::from_shape((self.inner, self.columns), b).expect(FITS);
        let mut into = ArrayViewMut2::from_shape((self.rows, self.columns), sums).expect(FITS);
        general_mat_mul(T::one(), &a, &b, T::one(), &mut into);
    }

    /// Multiplies in 64 bits with wrapping, which is exact modulo any narrower width, signed or unsigned.
    fn integers(self, a: &[i64], b: &[i64], sums: &mut [i64]) {
        for (row, sums) in a.chunks_exact(self.inner).zip(sums.chunks_exact_mut(self.columns)) {
            for (&factor, other) in row.iter().zip(b.chunks_exact(self.columns)) {
                let pairs = sums.iter_mut().zip(other);
                pairs.for_each(|(sum, &value)| *sum = factor.fma(value, *sum));
            }
        }
    }
}

/// Returns the bits of integers as signed integers.
fn words(data: &Data) -> Vec<i64> {
    match converted(data, DType::I64) {
        Data::Signed(words) => words,
        _ => unreachable!("an i64 is signed"),
    }
}
