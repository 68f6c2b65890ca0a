//! Reference implementation of a layer, in `f64`.

use super::numbers::{Matrix, Numbers};
use crate::attention::attention;
use crate::reference::{product, size};
use cubeyard_kernels::EPSILON;
use cubeyard_model::spec::Activation;

/// Returns the tokens of a step after the layer.
pub(super) fn layer(numbers: &Numbers) -> Matrix {
    let tokens = &numbers.tokens;
    let attended = attend(numbers, &projected(numbers, &normal(tokens)));
    let middle = plus(tokens, &result(numbers, 0, times(&attended, &numbers.output)));
    let inner = normal(&middle);
    plus(&middle, &result(numbers, 1, feed_forward(numbers, &inner)))
}

/// Returns the result of the feed-forward part, or of the experts of each token, weighted by the router's softmax.
fn feed_forward(numbers: &Numbers, tokens: &Matrix) -> Matrix {
    let Some(routing) = &numbers.cut.routing else { return expert(numbers, 0, tokens) };
    let logits = times(tokens, &numbers.router);
    let mut sum = Matrix::new(tokens.columns, vec![0.0; tokens.values.len()]);
    for hit in (0..routing.places).flat_map(|place| routing.hits(place)) {
        let all = expert(numbers, size(hit.expert), tokens);
        for token in (hit.first..hit.first + hit.count).map(|token| size(token % routing.tokens)) {
            let powers: Vec<f64> = logits.row(token).iter().map(|logit| logit.exp()).collect();
            let weight = powers[size(hit.expert)] / powers.iter().sum::<f64>();
            let first = token * sum.columns;
            let row = sum.values[first..first + sum.columns].iter_mut();
            row.zip(all.row(token)).for_each(|(sum, value)| *sum += weight * value);
        }
    }
    sum
}

fn expert(numbers: &Numbers, expert: usize, tokens: &Matrix) -> Matrix {
    let (gate, up) = (times(tokens, &numbers.gate[expert]), times(tokens, &numbers.up[expert]));
    let activated = |(gate, up): (&f64, &f64)| activation(numbers, *gate) * up;
    let joined = gate.values.iter().zip(&up.values).map(activated).collect();
    times(&Matrix { values: joined, ..gate }, &numbers.down[expert])
}

fn projected(numbers: &Numbers, tokens: &Matrix) -> Matrix {
    let mut qkv = times(tokens, &numbers.qkv);
    if numbers.cut.spec.family.has_qkv_bias {
        let rows = qkv.values.chunks_exact_mut(qkv.columns);
        rows.for_each(|row| row.iter_mut().zip(&numbers.bias.values).for_each(|(x, b)| *x += b));
    }
    qkv
}

fn activation(numbers: &Numbers, x: f64) -> f64 {
    match numbers.cut.spec.family.activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Gelu => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + u.tanh())
        }
    }
}

/// Normalises the result of attention or of the feed-forward part, if the model has these norms.
fn result(numbers: &Numbers, which: usize, matrix: Matrix) -> Matrix {
    if !numbers.cut.spec.family.has_post_norms {
        return matrix;
    }
    let (mut matrix, weights) = (normal(&matrix), numbers.post_norms.row(which));
    let rows = matrix.values.chunks_exact_mut(matrix.columns);
    rows.for_each(|row| row.iter_mut().zip(weights).for_each(|(x, weight)| *x *= weight));
    matrix
}

fn normal(tokens: &Matrix) -> Matrix {
    let row = |row: &[f64]| {
        let mean = row.iter().map(|value| value * value).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + EPSILON).sqrt();
        row.iter().map(|value| value * scale).collect::<Vec<_>>()
    };
    let values = tokens.values.chunks_exact(tokens.columns).flat_map(row).collect();
    Matrix::new(tokens.columns, values)
}

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let values = product(&a.values, &b.values, a.columns as u64, b.columns as u64);
    Matrix::new(b.columns, values)
}

fn plus(a: &Matrix, b: &Matrix) -> Matrix {
    let values = a.values.iter().zip(&b.values).map(|(a, b)| a + b).collect();
    Matrix::new(a.columns, values)
}

/// Returns the attention output of each token, with all heads in a row.
fn attend(numbers: &Numbers, qkv: &Matrix) -> Matrix {
    let (cut, spec) = (&numbers.cut, &numbers.cut.spec);
    let columns = size(spec.heads * spec.head_dim);
    let mut attended = Matrix::new(columns, vec![0.0; columns * size(cut.tokens())]);
    for sequence in 0..cut.sequences {
        for head in 0..spec.heads {
            of_head(numbers, qkv, sequence, head, &mut attended);
        }
    }
    attended
}

fn of_head(numbers: &Numbers, qkv: &Matrix, sequence: u64, head: u64, attended: &mut Matrix) {
    let (cut, spec) = (&numbers.cut, &numbers.cut.spec);
    let (features, kv) = (size(spec.head_dim), head / spec.group());
    let (from, until) =
        (numbers.cached(kv, sequence, 0), numbers.cached(kv, sequence, numbers.position));
    let kept = |cache: &Matrix| cache.values[from * features..until * features].to_vec();
    let (mut keys, mut values) = (kept(&numbers.keys), kept(&numbers.values));
    let row = |token: u64| size(sequence * cut.each + token);
    let part = |token: u64, head: u64| {
        let first = size(head) * features;
        qkv.row(row(token))[first..first + features].to_vec()
    };
    let normed = |which: usize, features: Vec<f64>| {
        if !spec.family.has_qk_norm {
            return features;
        }
        let weights = numbers.head_norms.row(which).iter();
        let normal = normal(&Matrix::new(features.len(), features));
        normal.values.iter().zip(weights).map(|(x, weight)| x * weight).collect()
    };
    let mut queries = Vec::new();
    for token in 0..cut.each {
        let at = numbers.position + token;
        queries.extend(turned(numbers, at, &normed(0, part(token, head))));
        keys.extend(turned(numbers, at, &normed(1, part(token, spec.heads + kv))));
        values.extend(part(token, spec.heads + spec.kv_heads + kv));
    }
    let seen = |token: usize| size(numbers.position) + token + 1;
    let all = attention(&queries, &keys, &values, spec.head_dim, seen);
    for (token, out) in all.chunks_exact(features).enumerate() {
        let first = row(token as u64) * attended.columns + size(head) * features;
        attended.values[first..first + features].copy_from_slice(out);
    }
}

/// Rotates pairs of features, one from each half, by the angle of the position.
fn turned(numbers: &Numbers, position: u64, features: &[f64]) -> Vec<f64> {
    let half = features.len() / 2;
    let angle = |pair: usize| numbers.angle(position, pair as u64);
    let first = (0..half)
        .map(|pair| features[pair] * angle(pair).cos() - features[half + pair] * angle(pair).sin());
    let second = (0..half)
        .map(|pair| features[half + pair] * angle(pair).cos() + features[pair] * angle(pair).sin());
    first.chain(second).collect()
}
