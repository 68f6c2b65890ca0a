//! Selection of the tokens of a product, and their features.

use std::ops::Range;

use cubeyard_runtime::dtype::DType;

use super::Here;
use cubeyard_kernels::rms_factor;
use cubeyard_tl::{Dot, Tile};

/// Selection of tokens of a step: row r is token `first + r * step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) first: u64,
    pub(super) step: u64,
}

impl Pick {
    /// All tokens of the step.
    pub(super) const ALL: Self = Self { first: 0, step: 1 };

    /// Returns the token of a row.
    fn token(&self, row: u64) -> u64 {
        self.first + row * self.step
    }
}

impl Here {
    /// Loads some features of some tokens, held by a PE of this cube.
    pub(super) fn tokens_of(
        &self,
        pick: &Pick,
        pe: u64,
        rows: &Range<u64>,
        depth: &Range<u64>,
    ) -> Tile {
        let (x, slice, tokens) = (self.args.tensor(0).whole(), self.cut.slice(), self.cut.tokens());
        let shape = [rows.end - rows.start, depth.end - depth.start];
        let start = (pe * tokens + pick.token(rows.start)) * slice + depth.start;
        self.tl.load(&x.at(start, &shape).strided(&[pick.step * slice, 1]))
    }

    /// Returns the norm factor of each row.
    pub(super) fn scale(&self, pick: &Pick, rows: &Range<u64>) -> Tile {
        let (tl, count, tokens) = (&self.tl, rows.end - rows.start, self.cut.tokens());
        let sums = self.args.tensor(1).whole().at(pick.token(rows.start), &[self.cut.pes, count]);
        let sums = tl.load(&sums.strided(&[tokens, pick.step]));
        let factor = rms_factor(sums.lazy().sum(0), self.cut.spec.hidden);
        tl.reshape(&tl.eval(&factor), &[count, 1])
    }

    /// Loads scales of columns from argument `position`, starting at element `first`.
    pub(super) fn scales(&self, position: usize, first: u64, columns: u64) -> Tile {
        self.tl.load(&self.args.tensor(position).local().at(first, &[1, columns]))
    }

    /// Multiplies activations by weights, which may have column scales, and adds the result to a sum.
    pub(super) fn product(
        &self,
        x: &Tile,
        weights: &Tile,
        scales: Option<&Tile>,
        accumulator: Option<&Tile>,
    ) -> Tile {
        self.tl.dot_with(x, weights, Dot { accumulator, scales: [None, scales], out: None })
    }

    /// Multiplies activations by weights, of which each byte may hold two, and adds the result to a sum. The engine
    /// selects one of the two, and applies the exponents of blocks.
    pub(super) fn packed_product(
        &self,
        x: &Tile,
        weights: &Tile,
        scales: Option<&Tile>,
        accumulator: Option<&Tile>,
        is_packed: bool,
    ) -> Tile {
        let one = is_packed.then(|| self.tl.full(&[1, 1], 1.0, DType::F32));
        self.product(x, weights, scales.or(one.as_ref()), accumulator)
    }

    /// Loads rows of exponents of blocks of packed weights from argument `position`. They reach the engine beside the
    /// weights.
    pub(super) fn exponents(&self, position: usize, first: u64, rows: u64) {
        let all = self.args.tensor(position).local();
        let columns = all.dim(1);
        drop(self.tl.load(&all.at(first * columns, &[rows, columns])));
    }
}
