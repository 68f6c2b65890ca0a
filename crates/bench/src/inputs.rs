//! Inputs of benches, and plain reference products.

use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::random_bits;
use cubeyard_runtime::{RuntimeError, Tensor};

use super::numbers::tensor;
use super::{BenchError, Lab};

/// Tolerance of sums in f16: half a unit in the last place is 2⁻¹¹ of the greatest result. As much again is
/// left for sums in f32 of some thousand products, whose errors of 2⁻²⁴ each stay far below.
pub(super) const F16_SUMS: f64 = 1.0 / 1024.0;

/// Returns numbers from -1 to 1 that f16 represents exactly, determined by the seed; empty without data.
pub(super) fn numbers(lab: &Lab<'_>, count: u64, seed: u64) -> Vec<f64> {
    let count = if lab.has_data { count } else { 0 };
    // Eleven bits: the precision of f16 for numbers up to 1.
    let at = |index| random_bits(seed, index) >> 53;
    (0..count).map(|index| at(index) as f64 / 1024.0 - 1.0).collect()
}

/// Returns queries from -8 to 8: scores differ enough that some weights are large, so that results differ from
/// the mean of all values, which would hide errors of order.
pub(super) fn queries(lab: &Lab<'_>, count: u64, seed: u64) -> Vec<f64> {
    numbers(lab, count, seed).into_iter().map(|number| 8.0 * number).collect()
}

/// Places a tensor of these numbers on the device; uninitialised without data.
pub(super) fn place(
    lab: &Lab<'_>,
    dimensions: &[u64],
    dtype: DType,
    over: &Placement,
    values: &[f64],
) -> Result<Tensor, RuntimeError> {
    tensor(lab, dimensions, dtype, lab.has_data.then_some(values), over)
}

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

/// Transposes a matrix with this number of columns.
pub(super) fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    let column = |column: usize| matrix.iter().skip(column).step_by(columns);
    (0..columns).flat_map(column).copied().collect()
}

/// Permutes numbers; empty if there are none.
pub(super) fn ordered(values: &[f64], order: &[usize]) -> Vec<f64> {
    if values.is_empty() { Vec::new() } else { order.iter().map(|&from| values[from]).collect() }
}

/// Returns the row-major indices of a matrix's elements in the order of storage by panels.
pub(super) fn panel_order(rows: u64, columns: u64, width: u64) -> Vec<usize> {
    let (rows, columns, width) = (size(rows), size(columns), size(width));
    let mut order = Vec::with_capacity(rows * columns);
    for first in (0..columns).step_by(width) {
        let end = columns.min(first + width);
        (0..rows).for_each(|row| order.extend(row * columns + first..row * columns + end));
    }
    order
}

/// Returns the parameters of a PE.
pub(super) fn core(lab: &Lab<'_>) -> CoreSpec {
    lab.context.machine(|machine| machine.topology().spec().pe.core.clone())
}

/// Checks that so many bytes fit in the TCM; `what` names their use, and `advice` follows "choose".
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

/// Checks that a number is at least `least`.
pub(super) fn at_least(name: &str, value: u64, least: u64, why: &str) -> Result<(), BenchError> {
    if value >= least {
        return Ok(());
    }
    Err(BenchError::Unfit(format!("{name}={value}: expected at least {least}, {why}")))
}

/// Checks that a number is a multiple of `of`.
pub(super) fn multiple(name: &str, value: u64, of: u64, why: &str) -> Result<(), BenchError> {
    if value.is_multiple_of(of) {
        return Ok(());
    }
    Err(BenchError::Unfit(format!("{name}={value}: expected a multiple of {of}, {why}")))
}

/// Converts a count to `usize`, saturating.
pub(super) fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
