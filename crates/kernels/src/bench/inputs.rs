//! Numbers that benches begin with, and plain products to compare with.

use cubeyard_device::topology::CoreSpec;
use cubeyard_memory::trace::synthetic::SplitMix64;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{RuntimeError, Tensor};

use super::numbers::tensor;
use super::{BenchError, Lab};

/// Half a unit in the last place of an f16 is 2⁻¹¹ of the greatest result. As much again is left for sums in
/// f32 of some thousand products, whose errors of 2⁻²⁴ each stay far below.
pub(super) const F16_SUMS: f64 = 1.0 / 1024.0;

/// Numbers from -1 to 1 that f16 holds exactly, the same for the same seed; none without data.
pub(super) fn numbers(lab: &Lab<'_>, count: u64, seed: u64) -> Vec<f64> {
    let count = if lab.has_data { count } else { 0 };
    // Eleven bits: what f16 holds of numbers up to 1.
    let at = |index| SplitMix64::at(seed, index).draw() >> 53;
    (0..count).map(|index| at(index) as f64 / 1024.0 - 1.0).collect()
}

/// Queries from -8 to 8: their scores differ by enough that some weights are large, so that results are far from
/// the mean of all values, which hardly depends on the order of anything.
pub(super) fn queries(lab: &Lab<'_>, count: u64, seed: u64) -> Vec<f64> {
    numbers(lab, count, seed).into_iter().map(|number| 8.0 * number).collect()
}

/// A tensor of these numbers on the device; of nothing, without data.
pub(super) fn place(
    lab: &Lab<'_>,
    dimensions: &[u64],
    dtype: DType,
    over: &Placement,
    values: &[f64],
) -> Result<Tensor, RuntimeError> {
    tensor(lab, dimensions, dtype, lab.has_data.then_some(values), over)
}

/// The product of matrices of m × k and k × n numbers.
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

/// A matrix of so many columns with its columns as rows.
pub(super) fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    let column = |column: usize| matrix.iter().skip(column).step_by(columns);
    (0..columns).flat_map(column).copied().collect()
}

/// Numbers in another order; none if there are none.
pub(super) fn ordered(values: &[f64], order: &[usize]) -> Vec<f64> {
    if values.is_empty() { Vec::new() } else { order.iter().map(|&from| values[from]).collect() }
}

/// The places of the elements of a matrix of so many columns, if these are stored panel by panel.
pub(super) fn panel_order(rows: u64, columns: u64, width: u64) -> Vec<usize> {
    let (rows, columns, width) = (size(rows), size(columns), size(width));
    let mut order = Vec::with_capacity(rows * columns);
    for first in (0..columns).step_by(width) {
        let end = columns.min(first + width);
        (0..rows).for_each(|row| order.extend(row * columns + first..row * columns + end));
    }
    order
}

/// What a PE is like.
pub(super) fn core(lab: &Lab<'_>) -> CoreSpec {
    lab.context.machine(|machine| machine.topology().spec().pe.core.clone())
}

/// An error, unless so many bytes go into the TCM; `what` takes them, and `advice` follows "choose".
pub(super) fn fits_tcm(
    lab: &Lab<'_>,
    bytes: u64,
    what: &str,
    advice: &str,
) -> Result<(), BenchError> {
    let there = core(lab).scratch;
    let bytes = cubeyard_memory::Bytes::new(bytes);
    if bytes <= there {
        return Ok(());
    }
    let text =
        format!("{what} take {bytes} of the TCM, which has {there} for a kernel; choose {advice}");
    Err(BenchError::Unfit(text))
}

/// An error, unless one number is at least another.
pub(super) fn at_least(name: &str, value: u64, least: u64, why: &str) -> Result<(), BenchError> {
    if value >= least {
        return Ok(());
    }
    Err(BenchError::Unfit(format!("{name}={value}: expected at least {least}, {why}")))
}

/// An error, unless one number is a multiple of another.
pub(super) fn multiple(name: &str, value: u64, of: u64, why: &str) -> Result<(), BenchError> {
    if value.is_multiple_of(of) {
        return Ok(());
    }
    Err(BenchError::Unfit(format!("{name}={value}: expected a multiple of {of}, {why}")))
}

/// A count of things in memory.
pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
