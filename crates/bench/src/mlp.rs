//! Reference implementation of two-layer networks, and the tolerance of their results.

use cubeyard_runtime::dtype::DType;

use super::Lab;
use super::inputs::numbers;
use super::reference::product;
use cubeyard_kernels::Activation;
use cubeyard_tl::numeric::rounding;

/// Returns weights scaled so that sums over `features` are about 1, where activations are nonlinear. The scale is a
/// power of 2, so that f16 represents the weights exactly.
pub(super) fn weights(lab: &Lab, count: u64, features: u64, seed: u64) -> Vec<f64> {
    let shrink = 0.5_f64.powi((features.max(1).ilog2() / 2).cast_signed());
    numbers(lab, count, seed).into_iter().map(|weight| weight * shrink).collect()
}

/// Reference result of two layers.
pub(super) struct Layers {
    pub(super) outputs: Vec<f64>,
    /// Largest sum of absolute values over the summands of any output.
    pub(super) largest: f64,
}

impl Layers {
    /// Computes `down f(up x)`; all matrices are row-major, x has `features` rows and n columns, and `up` has
    /// `hidden` rows.
    pub(super) fn new(
        activation: Activation,
        [up, down, x]: [&[f64]; 3],
        [features, hidden, n]: [u64; 3],
    ) -> Self {
        let middle = product(up, x, features, n);
        let middle: Vec<_> = middle.iter().map(|&sum| activation.of(sum)).collect();
        let sizes = |of: &[f64]| of.iter().map(|value| value.abs()).collect::<Vec<_>>();
        let sizes = product(&sizes(down), &sizes(&middle), hidden, n);
        let largest = sizes.into_iter().fold(0.0, f64::max);
        Self { outputs: product(down, &middle, hidden, n), largest }
    }
}

/// Returns the tolerance relative to the largest result, or to 1, if all summands are rounded
/// to f16 `roundings` times.
pub(super) fn tolerance(roundings: f64, largest: f64, results: &[f64]) -> f64 {
    let scale = results.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    roundings * rounding(DType::F16) * largest / scale
}
