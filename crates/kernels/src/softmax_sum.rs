//! Online softmax: sums of values weighted by the softmax of their scores, which arrive block by block.

use cubeyard_runtime::dtype::DType;

use cubeyard_tl::{Port, Tile, Tl};

/// A score below all others, yet far enough from the least `f32` that differences stay finite.
pub const NEVER: f64 = -1e30;

/// The running state of some rows: the greatest score, the sum of the weights relative to it, and the sum of
/// the values with these weights. When a greater score arrives, both sums are rescaled.
pub struct SoftmaxSum {
    greatest: Tile,
    weights: Tile,
    values: Tile,
    /// Factor on scores, so that `exp2` can be used in place of `exp`.
    scale: f64,
}

impl SoftmaxSum {
    /// Starts rows without scores, whose values have `size` elements; scores are divided by the root of `size`.
    #[track_caller]
    pub fn new(tl: &Tl, rows: u64, size: u64) -> Self {
        Self {
            greatest: tl.full(&[rows, 1], NEVER, DType::F32),
            weights: tl.zeros(&[rows, 1], DType::F32),
            values: tl.zeros(&[rows, size], DType::F32),
            scale: scale(size),
        }
    }

    /// Adds a block of scores, one for each row and value.
    ///
    /// The engine executes operations in order, and each waits for its operands; so independent operations are
    /// interleaved.
    #[track_caller]
    pub fn add(&mut self, tl: &Tl, scores: &Tile, values: &Tile) {
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

    /// Combines with the state of the same rows over other scores.
    #[track_caller]
    pub(super) fn join(&mut self, tl: &Tl, other: &Self) {
        let greatest = tl.maximum(&self.greatest, &other.greatest);
        let fade = |from: &Tile| tl.exp2(&(&(from - &greatest) * self.scale));
        let [mine, others] = [fade(&self.greatest), fade(&other.greatest)];
        self.weights = tl.fma(&self.weights, &mine, &(&other.weights * &others));
        self.values = tl.fma(&self.values, &mine, &(&other.values * &others));
        self.greatest = greatest;
    }

    /// Sends the state in three messages.
    #[track_caller]
    pub(super) fn send(&self, tl: &Tl, port: Port) {
        for tile in [&self.greatest, &self.weights, &self.values] {
            tl.send(port, tile);
        }
    }

    /// Receives the state of `rows` rows whose values have `size` elements.
    #[track_caller]
    pub(super) fn receive(tl: &Tl, port: Port, [rows, size]: [u64; 2]) -> Self {
        let [greatest, weights, values] =
            [1, 1, size].map(|columns| tl.recv_async(port, &[rows, columns], DType::F32));
        Self { greatest, weights, values, scale: scale(size) }
    }

    /// Returns the natural logarithm of the absolute sum of the weights, with which results of several parts
    /// can be combined.
    #[track_caller]
    pub fn logarithm(&self, tl: &Tl) -> Tile {
        let powers = tl.fma(&self.greatest, self.scale, &tl.log2(&self.weights));
        &powers * std::f64::consts::LN_2
    }

    /// Returns the sums of the values, with weights normalised to 1.
    #[track_caller]
    pub fn result(&self, tl: &Tl, dtype: DType) -> Tile {
        tl.cast(&tl.div(&self.values, &self.weights), dtype)
    }
}

/// Returns the factor on scores of `size` features, so that `exp2` can be used in place of `exp`.
fn scale(size: u64) -> f64 {
    std::f64::consts::LOG2_E / (size as f64).sqrt()
}
