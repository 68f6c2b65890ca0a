//! Reference results computed in plain loops, and their comparison with results of kernels.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::numeric::rounding;

use crate::report::Check;

/// Returns the product of an m × k and a k × n matrix.
pub(super) fn product(a: &[f64], b: &[f64], k: u64, n: u64) -> Vec<f64> {
    let (k, n) = (size(k), size(n));
    let mut product = vec![0.0; a.len() / k * n];
    for (a, sums) in a.chunks_exact(k).zip(product.chunks_exact_mut(n)) {
        for (a, b) in a.iter().zip(b.chunks_exact(n)) {
            sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
        }
    }
    product
}

/// Transposes a matrix with the given number of columns.
pub(super) fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    let column = |column: usize| matrix.iter().skip(column).step_by(columns);
    (0..columns).flat_map(column).copied().collect()
}

/// Permutes values; empty if there are none.
pub(super) fn ordered(values: &[f64], order: &[usize]) -> Vec<f64> {
    if values.is_empty() { Vec::new() } else { order.iter().map(|&from| values[from]).collect() }
}

/// Returns the row-major indices of a matrix's elements in panel-major order.
pub(super) fn panel_order(rows: u64, columns: u64, width: u64) -> Vec<usize> {
    let (rows, columns, width) = (size(rows), size(columns), size(width));
    let mut order = Vec::with_capacity(rows * columns);
    for first in (0..columns).step_by(width) {
        let end = columns.min(first + width);
        (0..rows).for_each(|row| order.extend(row * columns + first..row * columns + end));
    }
    order
}

/// Returns the maximum error of a sum of `terms` terms in `f32`, in any order, relative to the sum of
/// their absolute values.
pub(super) fn sum_rounding(terms: u64) -> f64 {
    terms as f64 * rounding(DType::F32)
}

/// Combines two checks: the sum of their elements, and the larger error.
pub(super) fn worse(one: Option<Check>, other: Option<Check>) -> Option<Check> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Check {
            elements: one.elements + other.elements,
            worst: one.worst.max(other.worst),
            tolerance: one.tolerance,
        }),
        (one, other) => one.or(other),
    }
}

/// Returns the largest difference from the expected numbers, relative to the largest expected number, or to
/// `least` if all are smaller.
pub(super) fn difference(found: &[f64], expected: &[f64], least: f64, tolerance: f64) -> Check {
    assert_eq!(found.len(), expected.len(), "a reference has as many elements as its result");
    let scale = expected.iter().fold(least, |scale, value| scale.max(value.abs()));
    // NaN counts as an infinite error.
    let error = |found: f64, expected: f64| match (found - expected).abs() / scale {
        error if error.is_nan() => f64::INFINITY,
        error => error,
    };
    let errors = found.iter().zip(expected).map(|(found, expected)| error(*found, *expected));
    let worst = errors.fold(0.0, f64::max);
    Check { elements: found.len() as u64, worst, tolerance }
}

/// Converts a count to `usize`, saturating.
pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
