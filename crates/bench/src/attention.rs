//! Reference implementation of attention, and the layout of its keys.

use cubeyard_runtime::dtype::DType;

use super::inputs::special;
use super::reference::{size, transposed};
use super::{Lab, Work};

/// Tolerance of attention in f16: weights and result are each rounded with an error of 2⁻¹¹. Scores, sums and
/// powers in f32 add far less, and values are at most 1, so 2⁻¹⁰ plus a margin.
pub(super) const F16_ATTENTION: f64 = 1.25 / 1024.0;

/// Commands per block of K and V in all attention kernels: two loads, two products, and a pass after each.
pub(super) const COMMANDS_OF_BLOCK: u64 = 6;

/// Returns the work of scores in the engines of PEs, where `queries` share a key and the output has `out` bytes. Each
/// score is a product over features, an exponential, and, stored to the TCM in f16, a factor of a value. Maxima, sums
/// and scaling are not included.
pub(super) fn attention_work(
    lab: &Lab,
    scores: u64,
    features: u64,
    queries: u64,
    out: u64,
) -> Work {
    Work {
        gemm: Some((DType::F16, 4 * scores * features)),
        largest: Some([queries, u64::MAX, u64::MAX]),
        elements: scores * special(lab),
        results: 2 * scores + out,
        ..Work::default()
    }
}

/// Returns the sum of values for each query, weighted by the softmax of its scores; `seen` returns the number of
/// leading keys that a query sees.
pub(super) fn attention(
    queries: &[f64],
    keys: &[f64],
    values: &[f64],
    features: u64,
    seen: impl Fn(usize) -> usize,
) -> Vec<f64> {
    let features = size(features);
    let queries = queries.chunks_exact(features).enumerate();
    queries.flat_map(|(place, query)| one(query, keys, values, seen(place))).collect()
}

fn one(query: &[f64], keys: &[f64], values: &[f64], seen: usize) -> Vec<f64> {
    let features = query.len();
    let keys = keys.chunks_exact(features).take(seen);
    let dot = |key: &[f64]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
    let scores: Vec<f64> = keys.map(|key| dot(key) / (features as f64).sqrt()).collect();
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - greatest).exp()).collect();
    let all: f64 = weights.iter().sum();
    let mut sum = vec![0.0; features];
    for (weight, value) in weights.iter().zip(values.chunks_exact(features)) {
        sum.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight / all * value);
    }
    sum
}

/// Stores keys in the layout that kernels expect: block by block, each with a column per token.
pub(super) fn stored_keys(keys: &[f64], tokens: u64, features: u64, block: u64) -> Vec<f64> {
    let (tokens, features, block) = (size(tokens), size(features), size(block));
    let sequences = keys.chunks_exact(tokens * features);
    let blocks = sequences.flat_map(|keys| keys.chunks(block.saturating_mul(features)));
    blocks.flat_map(|keys| transposed(keys, features)).collect()
}
