//! Reproducible inputs of benches, and checks of their parameters and results.

use cubeyard_device::topology::{ComputeEngines, CoreSpec};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{RuntimeError, Tensor, random_bits, uniform};

use super::reference::difference;
use super::{BenchError, Lab};
use crate::report::Check;

/// Tolerance of sums in f16: half a unit in the last place is 2⁻¹¹ of the largest result. The same amount again is left
/// for sums in f32 of some thousand products, whose errors of 2⁻²⁴ each stay far below it.
pub(super) const F16_SUMS: f64 = 1.0 / 1024.0;

/// Returns numbers from -1 to 1 that f16 represents exactly, determined by the seed; empty without data.
pub(super) fn numbers(lab: &Lab, count: u64, seed: u64) -> Vec<f64> {
    let count = if lab.has_data { count } else { 0 };
    // Eleven bits: the precision of f16 for numbers up to 1.
    let at = |index| random_bits(seed, index) >> 53;
    (0..count).map(|index| at(index) as f64 / 1024.0 - 1.0).collect()
}

/// Returns queries from -8 to 8. Scores then differ enough that some weights are large, so that results differ from the
/// mean of all values, which would hide ordering errors.
pub(super) fn queries(lab: &Lab, count: u64, seed: u64) -> Vec<f64> {
    numbers(lab, count, seed).into_iter().map(|number| 8.0 * number).collect()
}

/// Places an input on the device. Without data its bytes are transferred as well, as zeros, so that memory is in the
/// same state when kernels begin.
pub(super) fn place(
    lab: &Lab,
    dimensions: &[u64],
    dtype: DType,
    over: &Placement,
    values: &[f64],
) -> Result<Tensor, RuntimeError> {
    let tensor = if lab.has_data {
        lab.context.from_slice(dimensions, values)?.to_dtype(dtype)?
    } else {
        lab.context.zeros(dimensions, dtype)?
    };
    tensor.to(over)
}

/// Returns numbers distributed uniformly over a range, rounded to an element type; empty without data.
pub(super) fn spread(
    lab: &Lab,
    count: u64,
    dtype: DType,
    seed: u64,
    [least, most]: [f64; 2],
) -> Result<Vec<f64>, RuntimeError> {
    let count = if lab.has_data { count } else { 0 };
    let at = |index| uniform(seed, index);
    (0..count).map(|index| rounded(least + (most - least) * at(index), dtype)).collect()
}

fn rounded(value: f64, dtype: DType) -> Result<f64, RuntimeError> {
    let mut bytes = Vec::new();
    dtype.encode(value, &mut bytes)?;
    Ok(dtype.decode(&bytes))
}

/// Compares the elements of a tensor with the expected ones, in data mode: the largest difference, relative to the
/// largest expected element.
pub(super) fn compare(
    lab: &Lab,
    tensor: &Tensor,
    tolerance: f64,
    expected: impl FnOnce() -> Vec<f64>,
) -> Result<Option<Check>, RuntimeError> {
    let Some(found) = lab.values(tensor)? else { return Ok(None) };
    Ok(Some(difference(&found, &expected(), f64::MIN_POSITIVE, tolerance)))
}

/// Returns the parameters of a PE.
pub(super) fn core(lab: &Lab) -> CoreSpec {
    lab.context.machine(|machine| machine.topology().spec().pe.core.clone())
}

/// Returns the cost of a special operation, such as an exponential, in simple operations of the vector unit.
pub(super) fn special(lab: &Lab) -> u64 {
    let math = core(lab).math;
    math.simple.bytes_per_second() / math.special.bytes_per_second().max(1)
}

/// Returns whether matrix and vector work share an engine.
pub(super) fn takes_turns(lab: &Lab) -> bool {
    core(lab).compute_engines == ComputeEngines::Shared
}

/// Checks that `bytes` bytes fit in the TCM; `what` names their use, and `advice` follows "choose".
pub(super) fn fits_tcm(lab: &Lab, bytes: u64, what: &str, advice: &str) -> Result<(), BenchError> {
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
