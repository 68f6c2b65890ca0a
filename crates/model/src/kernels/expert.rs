//! Feed-forward parts of experts: each PE multiplies the tokens of its place's experts.

use std::ops::Range;

use cubeyard_runtime::dtype::DType;

use super::rows::SCALES;
use super::{Here, Pick};
use crate::cut::Hit;
use cubeyard_tl::{Lazy, Ref, Tile};

/// Tokens of an expert within a block of tokens.
struct ExpertRows {
    /// Index of the expert at its place.
    matrix: u64,
    /// First row in the block.
    row: u64,
    /// Inner features of the tokens.
    left: Tile,
    /// Weight of the expert for each token; `None` if all tokens share the expert.
    shares: Option<Tile>,
}

impl ExpertRows {
    /// Returns the product of each token times the weight of the expert.
    fn weighted(&self, product: &Tile) -> Lazy {
        match &self.shares {
            Some(shares) => product.lazy() * shares,
            None => product.lazy(),
        }
    }
}

/// Computes the weights of all experts for each token: a softmax of the logits. Each PE of a cube processes some
/// tokens. Arguments: the tokens, their sums of squares, the weights of the router, the output, and the layer.
pub(super) fn router(here: &Here) {
    let (cut, tl) = (&here.cut, &here.tl);
    let (share, width) = (cut.routed(), cut.experts());
    let first = here.pe * share;
    let count = share.min(cut.tokens().saturating_sub(first));
    let out = here.args.tensor(3).local();
    for rows in here.row_blocks(count) {
        let logits = here.logits(&Pick { first, step: 1 }, &rows, width);
        let place = out.block(&[rows.start, 0], &[rows.end - rows.start, width]);
        tl.store(&place, &tl.softmax(&logits, 1));
    }
}

impl Here {
    /// Returns the experts of this PE's place that tokens use; argument `position` is the number of the SIP.
    pub(super) fn hits(&self, position: usize) -> Vec<Hit> {
        let cut = &self.cut;
        let cube = self.group * cut.group_cubes + self.cube;
        let place = cut.place_of(self.args.whole(position) * cut.cubes + cube);
        cut.routing.map_or_else(Vec::new, |routing| routing.hits(place))
    }

    /// Computes the router's logits of some tokens.
    fn logits(&self, pick: &Pick, rows: &Range<u64>, width: u64) -> Tile {
        let (tl, slice) = (&self.tl, self.cut.slice());
        let weights = self.args.tensor(2).local();
        let mut sum: Option<Tile> = None;
        for turn in 0..self.cut.pes {
            let pe = (self.pe + turn) % self.cut.pes;
            let x = self.tokens_of(pick, pe, rows, &(0..slice));
            let first = self.args.whole(4) * self.cut.hidden() + pe * slice;
            let weights = tl.load(&weights.at(first * width, &[slice, width]));
            sum = Some(self.product(&x, &weights, None, sum.as_ref()));
        }
        let scale = self.scale(pick, rows);
        let logits = sum.map(|sum| tl.eval(&(sum.lazy() * &scale)));
        logits.unwrap_or(scale)
    }

    /// Applies the down projections of experts, and adds up the results of each token. The matrices of the
    /// layer begin at `first`.
    pub(super) fn expert_rows(&self, hits: &[Hit], first: u64) {
        let (cut, tl) = (&self.cut, &self.tl);
        let (depth, out) = (cut.inner() * cut.pes, self.args.tensor(4).local());
        for rows in self.row_blocks(cut.tokens()) {
            let (experts, count) = (self.experts_of(hits, &rows), rows.end - rows.start);
            let panels = |of: &ExpertRows| self.down_panels(depth, first + of.matrix);
            let panels: Vec<_> = experts.iter().map(panels).collect();
            for of in experts.iter().filter(|_| cut.is_packed()) {
                let blocks = cut.down_blocks();
                self.exponents(SCALES, (first + of.matrix) * blocks, blocks);
            }
            let mut start = 0;
            for (index, panel) in self.down_panels(depth, first).iter().enumerate() {
                let width = panel.dim(1);
                // A byte has weights of two columns, half of the columns apart.
                let starts: Vec<u64> =
                    (0..cut.packed()).map(|half| half * cut.slice() / 2 + start).collect();
                let place =
                    |whole: &Ref, start: u64| whole.block(&[rows.start, start], &[count, width]);
                let before = |&start: &u64| match self.residual(|whole| place(whole, start)) {
                    Some(before) => self.cast(&before, DType::F32),
                    None => tl.zeros(&[count, width], DType::F32),
                };
                let mut sums: Vec<Tile> = starts.iter().map(before).collect();
                for (of, panels) in experts.iter().zip(&panels) {
                    let panel = tl.load(&panels[index]);
                    for sum in &mut sums {
                        let product = self.expert_product(of, &panel, first, start);
                        *sum = self.added(sum, of.row, &of.weighted(&product));
                    }
                }
                for (sum, at) in sums.iter().zip(starts) {
                    tl.store(&place(&out, at), &self.cast(sum, cut.work.dtype));
                }
                start += width;
            }
        }
    }

    /// Multiplies the rows of an expert by a panel of its down projection.
    fn expert_product(&self, of: &ExpertRows, panel: &Tile, first: u64, start: u64) -> Tile {
        if self.cut.is_packed() {
            return self.packed_product(&of.left, panel, None, None, true);
        }
        self.panel_product(&of.left, panel, first + of.matrix, start)
    }

    /// Loads the inner features of the experts of some tokens, and their weights.
    fn experts_of(&self, hits: &[Hit], rows: &Range<u64>) -> Vec<ExpertRows> {
        let mut all = Vec::new();
        for hit in hits {
            let tokens = hit.first.max(rows.start)..(hit.first + hit.count).min(rows.end);
            if !tokens.is_empty() {
                let first = hit.row + tokens.start - hit.first;
                let left = self.inner(&(first..first + tokens.end - tokens.start));
                let is_shared = hit.expert >= self.cut.experts();
                let shares = (!is_shared).then(|| self.shares(hit.expert, &tokens));
                let row = tokens.start - rows.start;
                all.push(ExpertRows { matrix: hit.matrix, row, left, shares });
            }
        }
        all
    }

    /// Loads the weights of an expert for some tokens, as a column; argument 1 contains all weights.
    fn shares(&self, expert: u64, tokens: &Range<u64>) -> Tile {
        let (all, experts) = (self.args.tensor(1).whole(), self.cut.experts());
        let column = all.at(tokens.start * experts + expert, &[tokens.end - tokens.start, 1]);
        self.tl.load(&column.strided(&[experts, 1]))
    }

    /// Adds an expression to the rows of a tile, starting at `row`.
    fn added(&self, sum: &Tile, row: u64, addition: &Lazy) -> Tile {
        let (tl, shape) = (&self.tl, [addition.ty().shape[0], sum.dim(1)]);
        if shape[0] == sum.dim(0) {
            return tl.eval(&(sum.lazy() + addition));
        }
        let part = tl.slice(sum, &[row, 0], &shape);
        tl.paste(sum, &[row, 0], &tl.eval(&(part.lazy() + addition)))
    }
}
