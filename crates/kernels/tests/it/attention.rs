//! Attention against a naive reference, and where its result is known: with equal values.

use cubeyard_kernels::{flash_attention, gqa_decode, sequence_attention, sequence_attention_wires};
use cubeyard_runtime::dtype::DType;

use crate::lab::{ALL, Case, Over, close, given, numbers, output, size, transposed, zeroed};

/// Weights and results are rounded to `f16`, with an error of 2⁻¹¹ each; values are at most 1.
const TOLERANCE: f64 = 1.25 / 1024.0;

/// Returns the attention of each query over the keys that it sees.
fn naive(
    q: &[f64],
    k: &[f64],
    v: &[f64],
    features: u64,
    seen: impl Fn(usize) -> usize,
) -> Vec<f64> {
    let features = size(features);
    let of_query = |(place, query): (usize, &[f64])| {
        let keys = k.chunks_exact(features).take(seen(place));
        let dot = |key: &[f64]| query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
        let powers: Vec<f64> =
            keys.map(|key| (dot(key) / (features as f64).sqrt()).exp()).collect();
        let all: f64 = powers.iter().sum();
        let feature = |at: usize| {
            let values = v.chunks_exact(features).map(|value| value[at]);
            powers.iter().zip(values).map(|(power, value)| power / all * value).sum::<f64>()
        };
        (0..features).map(feature).collect::<Vec<_>>()
    };
    q.chunks_exact(features).enumerate().flat_map(of_query).collect()
}

/// Stores the keys of each row block by block, with a column per token.
fn stored(keys: &[f64], tokens: u64, features: u64, block: u64) -> Vec<f64> {
    let rows = keys.chunks_exact(size(tokens * features));
    let blocks = rows.flat_map(|row| row.chunks(size(block * features)));
    blocks.flat_map(|block| transposed(block, features)).collect()
}

/// Queries large enough that weights differ much.
fn queries(count: u64, seed: u64) -> Vec<f64> {
    numbers(count, seed).iter().map(|number| 8.0 * number).collect()
}

#[test]
fn attention_over_sequences_is_the_naive_one_for_any_blocks() {
    let heads = ALL;
    for ([tokens, features], blocks) in
        [([1, 4], [[1, 1], [8, 8]]), ([13, 8], [[4, 3], [3, 16]]), ([40, 16], [[16, 8], [7, 32]])]
    {
        let row = tokens * features;
        let (q, k, v) = (queries(heads * row, 1), numbers(heads * row, 2), numbers(heads * row, 3));
        for causal in [0, 1] {
            let seen = |query: usize| if causal == 1 { query + 1 } else { size(tokens) };
            let parts = [&q, &k, &v].map(|all| all.chunks_exact(size(row)));
            let [of_q, of_k, of_v] = parts;
            let expected: Vec<f64> = of_q
                .zip(of_k)
                .zip(of_v)
                .flat_map(|((q, k), v)| naive(q, k, v, features, seen))
                .collect();
            for [block_q, block_k] in blocks {
                let of = |values: &[f64]| given(Over::Rows, &[heads, row], DType::F16, values);
                let keys = stored(&k, tokens, features, block_k);
                let tensors =
                    vec![of(&q), of(&keys), of(&v), output(Over::Rows, &[heads, row], DType::F16)];
                let arguments = [features, block_q, block_k, causal];
                let found = Case::new(&flash_attention(), tensors, &arguments).run().remove(0);
                close(&found, &expected, TOLERANCE);
            }
        }
    }
}

/// The inputs of a step of decoding: rows of queries that share a cache, and the caches.
struct Step {
    rows: u64,
    group: u64,
    features: u64,
    tokens: u64,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
}

impl Step {
    fn new([rows, group, features, tokens]: [u64; 4]) -> Self {
        let [query, cache] = [group, tokens].map(|count| rows * count * features);
        let (q, k, v) = (queries(query, 4), numbers(cache, 5), numbers(cache, 6));
        Self { rows, group, features, tokens, q, k, v }
    }

    fn expected(&self) -> Vec<Vec<f64>> {
        let [query, cache] = [self.group, self.tokens].map(|count| size(count * self.features));
        let caches = self.k.chunks_exact(cache).zip(self.v.chunks_exact(cache));
        let rows = self.q.chunks_exact(query).zip(caches);
        rows.map(|(q, (k, v))| naive(q, k, v, self.features, |_| size(self.tokens))).collect()
    }

    /// Decodes with rows over the PEs.
    fn decoded(&self, block: u64) -> Vec<f64> {
        let (of_query, of_cache) =
            ([self.rows, self.group * self.features], [self.rows, self.tokens * self.features]);
        let keys = stored(&self.k, self.tokens, self.features, block);
        let tensors = vec![
            given(Over::Rows, &of_query, DType::F16, &self.q),
            given(Over::Rows, &of_cache, DType::F16, &keys),
            given(Over::Rows, &of_cache, DType::F16, &self.v),
            output(Over::Rows, &of_query, DType::F16),
        ];
        Case::new(&gqa_decode(), tensors, &[self.features, block]).run().remove(0)
    }

    /// Decodes with the tokens of every cache over the PEs; returns the results by row.
    fn decoded_by_tokens(&self, block: u64) -> Vec<Vec<f64>> {
        let (each, row) = (self.tokens / ALL, size(self.tokens * self.features));
        let of_pe = |all: &[f64], pe: u64| -> Vec<f64> {
            let part = size(pe * each * self.features)..size((pe + 1) * each * self.features);
            all.chunks_exact(row).flat_map(|cache| cache[part.clone()].to_vec()).collect()
        };
        let keys = (0..ALL).flat_map(|pe| stored(&of_pe(&self.k, pe), each, self.features, block));
        let values: Vec<f64> = (0..ALL).flat_map(|pe| of_pe(&self.v, pe)).collect();
        let (keys, slots) = (keys.collect::<Vec<_>>(), self.rows.div_ceil(ALL));
        let query = self.group * self.features;
        let of_cache = [self.tokens, self.rows * self.features];
        let tensors = vec![
            given(Over::Copies, &[self.rows, query], DType::F16, &self.q),
            given(Over::Rows, &of_cache, DType::F16, &keys),
            given(Over::Rows, &of_cache, DType::F16, &values),
            zeroed(Over::Rows, &[ALL, slots * query], DType::F16),
        ];
        let kernel = sequence_attention();
        let mut case = Case::new(&kernel, tensors, &[self.features, block]);
        case.wires = Some((sequence_attention_wires(size(ALL)), 4 * query));
        let found = case.run().remove(0);
        let at = |row: u64| size((row % ALL * slots + row / ALL) * query);
        (0..self.rows).map(|row| found[at(row)..at(row) + size(query)].to_vec()).collect()
    }
}

#[test]
fn decoding_is_the_naive_attention_of_each_row() {
    for (shape, blocks) in
        [([4, 1, 4, 1], [1, 8]), ([5, 3, 8, 13], [4, 64]), ([8, 4, 16, 50], [16, 7])]
    {
        let step = Step::new(shape);
        let expected = step.expected().concat();
        for block in blocks {
            close(&step.decoded(block), &expected, TOLERANCE);
        }
    }
}

#[test]
fn decoding_with_tokens_over_the_pes_is_the_naive_attention_of_each_row() {
    for (shape, block) in [([1, 1, 4, 4], 1), ([3, 2, 8, 20], 5), ([9, 4, 16, 44], 8)] {
        let step = Step::new(shape);
        let found = step.decoded_by_tokens(block);
        close(&found.concat(), &step.expected().concat(), TOLERANCE);
    }
}

/// Weights add up to 1, so equal values are the result, whatever the queries and keys are.
#[test]
fn attention_over_equal_values_is_the_value() {
    let mut step = Step::new([4, 2, 8, 24]);
    step.v.fill(0.625);
    let expected = vec![0.625; step.q.len()];
    close(&step.decoded(5), &expected, TOLERANCE);
    close(&step.decoded_by_tokens(6).concat(), &expected, TOLERANCE);
}
