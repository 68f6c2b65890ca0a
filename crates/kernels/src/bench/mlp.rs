//! Layers of weights as they are defined, to compare with, and how far a result may be off.

use cubeyard_runtime::dtype::DType;

use super::Lab;
use super::inputs::{numbers, product};
use super::numbers::rounding;
use crate::library::Activation;

/// Numbers that become smaller the more of them are added up, so that sums of `features` are about 1, where
/// activations bend; by a power of 2, so that f16 still has them exactly.
pub(super) fn weights(lab: &Lab<'_>, count: u64, features: u64, seed: u64) -> Vec<f64> {
    let shrink = 0.5_f64.powi((features.max(1).ilog2() / 2).cast_signed());
    numbers(lab, count, seed).into_iter().map(|weight| weight * shrink).collect()
}

/// What two layers make of their input.
pub(super) struct Layers {
    pub(super) outputs: Vec<f64>,
    /// The greatest sum of the sizes of what is added up to an output.
    pub(super) largest: f64,
}

impl Layers {
    /// `down f(up x)`, all matrices row by row: x has `features` rows and n columns, and `hidden` is the rows of `up`.
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

/// What may be off relative to the greatest of some results, or to 1, if everything that is added up to them is
/// rounded to f16 so often.
pub(super) fn tolerance(roundings: f64, largest: f64, results: &[f64]) -> f64 {
    let scale = results.iter().fold(1.0_f64, |most, value| most.max(value.abs()));
    roundings * rounding(DType::F16) * largest / scale
}
