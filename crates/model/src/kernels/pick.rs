//! Selection of the tokens of a product, and their features.

use std::ops::Range;

use super::Here;
use cubeyard_kernels::rms_factor;
use cubeyard_tl::{Dot, Ref, Tile};

/// Selection of tokens of a step: row r is token `first + r * step`. With a step of 1, the first token follows the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pick {
    pub(super) first: u64,
    pub(super) step: u64,
}

impl Pick {
    /// All tokens of the step.
    pub(super) const ALL: Self = Self { first: 0, step: 1 };

    /// Returns the first token and the length of each run of consecutive tokens in some rows.
    pub(super) fn runs(&self, rows: &Range<u64>, tokens: u64) -> Vec<(u64, u64)> {
        let (mut start, count) = (self.first + rows.start * self.step, rows.end - rows.start);
        if self.step > 1 {
            return vec![(start, count)];
        }
        start %= tokens;
        let before = count.min(tokens - start);
        let runs = [(start, before), (0, count - before)];
        runs.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl Here {
    /// Loads some features of some tokens that a PE of this cube holds.
    pub(super) fn tokens_of(
        &self,
        pick: &Pick,
        pe: u64,
        rows: &Range<u64>,
        depth: &Range<u64>,
    ) -> Tile {
        let (x, slice, tokens) = (self.args.tensor(0).whole(), self.cut.slice(), self.cut.tokens());
        let width = depth.end - depth.start;
        let run = |(token, count): (u64, u64)| {
            let start = (pe * tokens + token) * slice + depth.start;
            x.at(start, &[count, width]).strided(&[pick.step * slice, 1])
        };
        self.load_runs(&pick.runs(rows, tokens), 0, run)
    }

    /// Returns the norm's factor for each row.
    pub(super) fn scale(&self, pick: &Pick, rows: &Range<u64>) -> Tile {
        let (tl, count, tokens) = (&self.tl, rows.end - rows.start, self.cut.tokens());
        let sums = self.args.tensor(1).whole();
        let run = |(token, count): (u64, u64)| {
            sums.at(token, &[self.cut.pes, count]).strided(&[tokens, pick.step])
        };
        let sums = self.load_runs(&pick.runs(rows, tokens), 1, run);
        let factor = rms_factor(sums.lazy().sum(0), self.cut.spec.hidden);
        tl.reshape(&tl.eval(&factor), &[count, 1])
    }

    /// Loads runs of tokens as one matrix, in which they follow each other along an axis.
    pub(super) fn load_runs(
        &self,
        runs: &[(u64, u64)],
        axis: usize,
        run: impl Fn((u64, u64)) -> Ref,
    ) -> Tile {
        let tl = &self.tl;
        if let [only] = runs {
            return tl.load(&run(*only));
        }
        let refs: Vec<_> = runs.iter().map(|&at| run(at)).collect();
        let mut shape = [refs[0].dim(0), refs[0].dim(1)];
        shape[axis] = refs.iter().map(|of| of.dim(axis)).sum();
        let mut all = tl.zeros(&shape, refs[0].ty().dtype);
        let mut start = [0, 0];
        for of in refs {
            all = tl.paste(&all, &start, &tl.load(&of));
            start[axis] += of.dim(axis);
        }
        all
    }

    /// Loads scales of columns, which are argument `position`, from an element on.
    pub(super) fn scales(&self, position: usize, first: u64, columns: u64) -> Tile {
        self.tl.load(&self.args.tensor(position).local().at(first, &[1, columns]))
    }

    /// Multiplies activations by weights, which may have scales of their columns, and adds the result to a sum.
    pub(super) fn product(
        &self,
        x: &Tile,
        weights: &Tile,
        scales: Option<&Tile>,
        accumulator: Option<&Tile>,
    ) -> Tile {
        self.tl.dot_with(x, weights, Dot { accumulator, scales: [None, scales], out: None })
    }
}
