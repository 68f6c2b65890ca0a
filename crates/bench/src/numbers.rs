//! Reproducible inputs of benches, and tolerances of their results.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::uniform;
use cubeyard_runtime::{RuntimeError, Tensor};

use super::Lab;
use crate::report::Check;

/// Returns the maximum relative error of rounding to nearest; 0 for integers, which are exact.
pub(super) fn rounding(dtype: DType) -> f64 {
    let bits = match dtype {
        DType::Fp8E5m2 => 3,
        DType::Fp8E4m3 => 4,
        DType::Bf16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => return 0.0,
    };
    0.5_f64.powi(bits)
}

/// Returns the maximum error of a sum of so many terms in `f32`, in any order, relative to the sum of their
/// absolute values.
pub(super) fn sum_rounding(terms: u64) -> f64 {
    terms as f64 * rounding(DType::F32)
}

/// Returns numbers spread uniformly over a range, rounded to an element type; `None` without data.
pub(super) fn spread(
    lab: &Lab<'_>,
    count: u64,
    dtype: DType,
    seed: u64,
    [least, most]: [f64; 2],
) -> Result<Option<Vec<f64>>, RuntimeError> {
    if !lab.has_data {
        return Ok(None);
    }
    let at = |index| uniform(seed, index);
    let values = (0..count).map(|index| rounded(least + (most - least) * at(index), dtype));
    values.collect::<Result<_, _>>().map(Some)
}

fn rounded(value: f64, dtype: DType) -> Result<f64, RuntimeError> {
    let mut bytes = Vec::new();
    dtype.encode(value, &mut bytes)?;
    Ok(dtype.decode(&bytes))
}

/// Makes a tensor of these numbers, or an uninitialised one if there are none.
pub(super) fn tensor(
    lab: &Lab<'_>,
    dimensions: &[u64],
    dtype: DType,
    values: Option<&[f64]>,
    over: &Placement,
) -> Result<Tensor, RuntimeError> {
    let tensor = match values {
        Some(values) => lab.context.from_slice(dimensions, values)?.to_dtype(dtype)?,
        None => lab.context.empty(dimensions, dtype)?,
    };
    tensor.to(over)
}

/// Compares the elements of a tensor with the expected ones, in data mode: the greatest difference, relative to
/// the greatest expected element.
pub(super) fn compare(
    lab: &Lab<'_>,
    tensor: &Tensor,
    tolerance: f64,
    expected: Option<&[f64]>,
) -> Result<Option<Check>, RuntimeError> {
    let (Some(found), Some(expected)) = (lab.values(tensor)?, expected) else { return Ok(None) };
    Ok(Some(difference(&found, expected, f64::MIN_POSITIVE, tolerance)))
}

/// Combines two checks: all elements, and the worst error.
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

/// Returns the greatest difference from the expected numbers, relative to the greatest of these, or to `least`
/// if all are smaller.
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
