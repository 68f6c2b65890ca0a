//! Online softmax: sums of values weighted by the softmax of their scores, which arrive block by block.

use cubeyard_runtime::dtype::DType;

use super::rows::of_rows;
use cubeyard_tl::{Lazy, Port, Tile, Tl};

/// A score below all others, but far enough from the least `f32` that differences stay finite.
pub const NEVER: f64 = -1e30;

/// The running state of some rows: the greatest score, the sum of the weights relative to it, and the sum of the values
/// with these weights. When a greater score arrives, both sums are scaled down.
pub struct SoftmaxSum {
    greatest: Tile,
    weights: Tile,
    values: Tile,
    /// A product of weights and values that is not added yet, and the factor that scales the previous sum.
    added: Option<[Tile; 2]>,
    /// Factor on scores, so that `exp2` can be used instead of `exp`.
    scale: f64,
}

impl SoftmaxSum {
    /// Creates rows without scores, whose values have `size` elements; scores are divided by the root of `size`.
    #[track_caller]
    pub fn new(tl: &Tl, rows: u64, size: u64) -> Self {
        Self {
            greatest: tl.full(&[rows, 1], NEVER, DType::F32),
            weights: tl.zeros(&[rows, 1], DType::F32),
            values: tl.zeros(&[rows, size], DType::F32),
            added: None,
            scale: scale(size),
        }
    }

    /// Adds a block of scores, one per row and value: a pass over the scores, a product, and a pass that adds it.
    ///
    /// The last pass runs after the scores of the next block, so that the vector unit does not wait for the product.
    #[track_caller]
    pub fn add(&mut self, tl: &Tl, scores: &Lazy, values: &Tile) {
        let columns = scores.ty().shape[1];
        let greatest = of_rows(tl, scores.max_keep(1), columns).maximum(&self.greatest);
        let fade = ((self.greatest.lazy() - &greatest) * self.scale).exp2();
        let weights = scores.fma(self.scale, &(&greatest * -self.scale)).exp2();
        let sum = self.weights.lazy().fma(&fade, &weights.sum_keep(1));
        let narrow = weights.cast(values.ty().dtype);
        let [narrow, sum, fade, greatest] = tl.eval_all([&narrow, &sum, &fade, &greatest]);
        self.settle(tl);
        self.added = Some([tl.dot(&narrow, values), fade]);
        (self.weights, self.greatest) = (sum, greatest);
    }

    /// Adds the product of the last block.
    #[track_caller]
    fn settle(&mut self, tl: &Tl) {
        if let Some([product, fade]) = self.added.take() {
            self.values = tl.eval(&self.values.lazy().fma(&fade, &product));
        }
    }

    /// Combines with the state of the same rows over other scores.
    #[track_caller]
    pub(super) fn join(&mut self, tl: &Tl, other: &Self) {
        self.settle(tl);
        let greatest = self.greatest.lazy().maximum(&other.greatest);
        let fade = |from: &Tile| ((from.lazy() - &greatest) * self.scale).exp2();
        let [mine, others] = [fade(&self.greatest), fade(&other.greatest)];
        let join =
            |mine_of: &Tile, other: &Tile| mine_of.lazy().fma(&mine, &(other.lazy() * &others));
        let (weights, values) =
            (join(&self.weights, &other.weights), join(&self.values, &other.values));
        [self.weights, self.values, self.greatest] = tl.eval_all([&weights, &values, &greatest]);
    }

    /// Sends the state in three messages.
    #[track_caller]
    pub(super) fn send(&mut self, tl: &Tl, port: Port) {
        self.settle(tl);
        for tile in [&self.greatest, &self.weights, &self.values] {
            tl.send(port, tile);
        }
    }

    /// Receives the state of `rows` rows whose values have `size` elements.
    #[track_caller]
    pub(super) fn receive(tl: &Tl, port: Port, [rows, size]: [u64; 2]) -> Self {
        let [greatest, weights, values] =
            [1, 1, size].map(|columns| tl.recv_async(port, &[rows, columns], DType::F32));
        Self { greatest, weights, values, added: None, scale: scale(size) }
    }

    /// Returns the natural logarithm of the absolute sum of the weights, with which results of several parts
    /// can be combined.
    #[track_caller]
    pub fn logarithm(&self, tl: &Tl) -> Tile {
        let powers = self.greatest.lazy().fma(self.scale, &self.weights.lazy().log2());
        tl.eval(&(powers * std::f64::consts::LN_2))
    }

    /// Returns the sums of the values, with weights normalised to 1.
    #[track_caller]
    pub fn result(&self, tl: &Tl, dtype: DType) -> Tile {
        let values = match &self.added {
            Some([product, fade]) => self.values.lazy().fma(fade, product),
            None => self.values.lazy(),
        };
        tl.eval(&(values / &self.weights).cast(dtype))
    }
}

/// Returns the factor on scores of `size` features, so that `exp2` can be used instead of `exp`.
fn scale(size: u64) -> f64 {
    std::f64::consts::LOG2_E / (size as f64).sqrt()
}
