//! Sums of values, each with the softmax of its score as its weight, over scores that come block by block.

use cubeyard_runtime::dtype::DType;

use crate::tl::{Port, Tile, Tl};

/// Less than any score, and far enough from the least number that differences are numbers.
pub(crate) const NEVER: f64 = -1e30;

/// What is known of some rows so far: the greatest score, the sum of the weights relative to it, and
/// the sum of the values with these weights. When a greater score comes, both sums are scaled down to it.
pub(crate) struct SoftmaxSum {
    greatest: Tile,
    weights: Tile,
    values: Tile,
    /// Of scores, so that powers of 2 do for those of e.
    scale: f64,
}

impl SoftmaxSum {
    /// Of rows without scores, whose values have `size` elements; scores are divided by the root of that.
    #[track_caller]
    pub(crate) fn new(tl: &Tl, rows: u64, size: u64) -> Self {
        Self {
            greatest: tl.full(&[rows, 1], NEVER, DType::F32),
            weights: tl.zeros(&[rows, 1], DType::F32),
            values: tl.zeros(&[rows, size], DType::F32),
            scale: scale(size),
        }
    }

    /// Adds a block: a score for each row and each of some values.
    ///
    /// The engine takes operations in this order, and each waits for what it uses; so those that do not need
    /// each other take turns.
    #[track_caller]
    pub(crate) fn add(&mut self, tl: &Tl, scores: &Tile, values: &Tile) {
        let greatest = tl.maximum(&self.greatest, &tl.max_keep(scores, 1));
        let shift = &greatest * -self.scale;
        let step = &self.greatest - &greatest;
        let powers = tl.fma(scores, self.scale, &shift);
        let step = &step * self.scale;
        let weights = tl.exp2(&powers);
        let fade = tl.exp2(&step);
        let narrow = tl.cast(&weights, values.ty().dtype);
        let (faded, sum) = (&self.values * &fade, tl.sum_keep(&weights, 1));
        self.values = tl.dot_add(&narrow, values, &faded);
        self.weights = tl.fma(&self.weights, &fade, &sum);
        self.greatest = greatest;
    }

    /// Adds what is known of the same rows from other scores.
    #[track_caller]
    pub(super) fn join(&mut self, tl: &Tl, other: &Self) {
        let greatest = tl.maximum(&self.greatest, &other.greatest);
        let fade = |from: &Tile| tl.exp2(&(&(from - &greatest) * self.scale));
        let [mine, others] = [fade(&self.greatest), fade(&other.greatest)];
        self.weights = tl.fma(&self.weights, &mine, &(&other.weights * &others));
        self.values = tl.fma(&self.values, &mine, &(&other.values * &others));
        self.greatest = greatest;
    }

    /// Sends all that is known: three messages.
    #[track_caller]
    pub(super) fn send(&self, tl: &Tl, port: Port) {
        for tile in [&self.greatest, &self.weights, &self.values] {
            tl.send(port, tile);
        }
    }

    /// What another PE sends of so many rows and elements of a value.
    #[track_caller]
    pub(super) fn receive(tl: &Tl, port: Port, [rows, size]: [u64; 2]) -> Self {
        let [greatest, weights, values] =
            [1, 1, size].map(|columns| tl.recv_async(port, &[rows, columns], DType::F32));
        Self { greatest, weights, values, scale: scale(size) }
    }

    /// The natural logarithm of the sum of the weights, not relative to anything: with these, sums of several
    /// parts can be joined.
    #[track_caller]
    pub(crate) fn logarithm(&self, tl: &Tl) -> Tile {
        let powers = tl.fma(&self.greatest, self.scale, &tl.log2(&self.weights));
        &powers * std::f64::consts::LN_2
    }

    /// The sums of the values, with weights whose sum is 1.
    #[track_caller]
    pub(crate) fn result(&self, tl: &Tl, dtype: DType) -> Tile {
        tl.cast(&tl.div(&self.values, &self.weights), dtype)
    }
}

/// Of scores of so many features, so that powers of 2 do for those of e.
fn scale(size: u64) -> f64 {
    std::f64::consts::LOG2_E / (size as f64).sqrt()
}
