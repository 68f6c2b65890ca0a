//! A mixture of experts against a naive reference.

use std::rc::Rc;

use cubeyard_kernels::{Activation, Routing, moe, moe_wires};
use cubeyard_runtime::dtype::DType;

use crate::lab::{ALL, Case, Over, close, given, numbers, output, product, size};

/// Tokens, experts and features of all PEs.
struct Mixture {
    routing: Rc<Routing>,
    features: u64,
    hidden: u64,
    x: Vec<f64>,
    up: Vec<f64>,
    down: Vec<f64>,
}

impl Mixture {
    /// Routes token `t` to the expert `7 t` and to its successor, with gates 3/4 and 1/4.
    fn new([tokens, experts, features, hidden]: [u64; 4], capacity: usize) -> Self {
        let all = size(ALL * experts);
        let wanted = (0..size(ALL * tokens)).map(|token| {
            let first = 7 * token % all;
            if all == 1 {
                vec![(first, 1.0)]
            } else {
                vec![(first, 0.75), ((first + 1) % all, 0.25)]
            }
        });
        let wanted: Vec<_> = wanted.collect();
        let counts = [ALL, tokens, experts].map(size);
        let routing = Rc::new(Routing::new(&wanted, counts, capacity));
        let weights = ALL * experts * features * hidden;
        let (x, up, down) =
            (numbers(ALL * tokens * features, 1), numbers(weights, 2), numbers(weights, 3));
        Self { routing, features, hidden, x, up, down }
    }

    fn found(&self) -> Vec<f64> {
        let Routing { tokens, experts, capacity, .. } = *self.routing;
        let [tokens, experts, room] =
            [tokens, experts, experts * capacity].map(|count| count as u64 * self.features);
        let of = |values: &[f64], columns| given(Over::Rows, &[ALL, columns], DType::F16, values);
        let tensors = vec![
            of(&self.x, tokens),
            output(Over::Rows, &[ALL, tokens], DType::F16),
            of(&self.up, experts * self.hidden),
            of(&self.down, experts * self.hidden),
            of(&vec![0.0; size(ALL * room)], room),
        ];
        let kernel = moe(&self.routing);
        let mut case = Case::new(&kernel, tensors, &[self.features, self.hidden, 0]);
        case.wires = Some((moe_wires(size(ALL)), 2 * self.features));
        case.run().remove(0)
    }

    fn expected(&self) -> Vec<f64> {
        let (features, each) = (size(self.features), size(self.features * self.hidden));
        let mut sums = vec![0.0; self.x.len()];
        for choice in &self.routing.taken {
            let token = choice.token * features..(choice.token + 1) * features;
            let matrix = choice.expert * each..(choice.expert + 1) * each;
            let shape = [1, self.features, self.hidden];
            let inner = product(&self.x[token.clone()], &self.up[matrix.clone()], shape);
            let inner: Vec<f64> = inner.into_iter().map(|x| Activation::Silu.of(x)).collect();
            let answer = product(&inner, &self.down[matrix], [1, self.hidden, self.features]);
            let sums = sums[token].iter_mut().zip(answer);
            sums.for_each(|(sum, answer)| *sum += choice.gate * answer);
        }
        sums
    }
}

/// Hidden features, the result of an expert and the sum are each rounded to `f16`; they are below 16.
#[test]
fn tokens_get_the_weighted_sums_of_their_experts() {
    for shape in [[1, 1, 4, 4], [3, 2, 8, 12], [5, 3, 16, 7]] {
        let mixture = Mixture::new(shape, 100);
        assert_eq!(mixture.routing.dropped, 0);
        close(&mixture.found(), &mixture.expected(), 16.0 * 3.0 / 2048.0);
    }
}

#[test]
fn tokens_that_all_their_experts_drop_become_zero() {
    let mixture = Mixture::new([6, 1, 8, 8], 1);
    assert!(mixture.routing.dropped > 0);
    let (found, routing) = (mixture.found(), &mixture.routing);
    close(&found, &mixture.expected(), 16.0 * 3.0 / 2048.0);
    let is_dropped = |token: &usize| routing.taken.iter().all(|choice| choice.token != *token);
    let dropped: Vec<usize> = (0..found.len() / 8).filter(is_dropped).collect();
    assert!(!dropped.is_empty());
    assert!(dropped.iter().all(|token| found[token * 8..(token + 1) * 8] == [0.0; 8]));
}
