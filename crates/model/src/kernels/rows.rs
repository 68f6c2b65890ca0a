//! Products with weights split by rows over cubes: each cube has a partial sum, and an all-reduce adds them up.

use std::ops::Range;

use cubeyard_runtime::dtype::DType;

use super::Here;
use cubeyard_tl::{Ref, Tile};

/// Position of the scales of quantised weights among the arguments.
pub(super) const SCALES: usize = 7;

/// Projects the attention output. If several PEs had parts of a sequence, their outputs are combined first,
/// weighted by part. Arguments: the parts of attention and their weights, the weights of the product by panels, the
/// residual tokens, the output, the layer, and 1 if this SIP's first cube adds the residual; the scales of
/// quantised weights.
pub(super) fn output(here: &Here) {
    here.rows(here.cut.attended(), |rows| {
        if here.cut.is_joined() { here.joined(rows) } else { here.attended(rows) }
    });
}

/// Applies the down projection. Arguments: the inner features, the expert weights of each token if there are any, and
/// then as [`output`]; the number of the SIP, if there are experts.
pub(super) fn down(here: &Here) {
    let cut = &here.cut;
    if cut.routing.is_none() {
        return here.rows(cut.inner() * cut.pes, |rows| here.inner(rows));
    }
    let hits = here.hits(SCALES + usize::from(cut.is_quantised() || cut.is_packed()));
    here.expert_rows(&hits, here.args.whole(5) * cut.matrices());
}

impl Here {
    /// Multiplies the rows that `left` returns, which have `depth` features, block by block, and stores the
    /// sums.
    fn rows(&self, depth: u64, left: impl Fn(&Range<u64>) -> Tile) {
        let (tl, layer, out) = (&self.tl, self.args.whole(5), self.args.tensor(4).local());
        for rows in self.row_blocks(self.cut.tokens()) {
            let (left, count) = (left(&rows), rows.end - rows.start);
            let mut start = 0;
            for panel in self.panels(depth, layer) {
                let width = panel.dim(1);
                let place = |whole: &Ref| whole.block(&[rows.start, start], &[count, width]);
                let panel = self.taken(&panel);
                let sum = self.panel_product(&left, &panel, layer, start);
                let sum = match self.residual(place) {
                    Some(before) => self.narrow(&(sum.lazy() + &before.lazy().cast(DType::F32))),
                    None => self.cast(&sum, self.cut.work.dtype),
                };
                tl.store(&place(&out), &sum);
                start += width;
            }
        }
    }

    /// Returns the panels of a matrix of this PE, with `depth` features.
    pub(super) fn panels(&self, depth: u64, matrix: u64) -> Vec<Ref> {
        self.panels_of(depth, matrix, [self.cut.slice(), self.cut.panel(depth)])
    }

    /// Returns the panels of a down projection of this PE, in whose elements weights may be packed.
    pub(super) fn down_panels(&self, depth: u64, matrix: u64) -> Vec<Ref> {
        let columns = self.cut.slice() / self.cut.packed();
        self.panels_of(depth, matrix, [columns, self.cut.down_panel(depth)])
    }

    /// Returns the panels of a matrix of this PE, of `columns` columns in panels of `width`.
    fn panels_of(&self, depth: u64, matrix: u64, [columns, width]: [u64; 2]) -> Vec<Ref> {
        let (weights, first) = (self.args.tensor(2).local(), matrix * depth * columns);
        let starts = (0..columns.div_ceil(width)).map(|panel| panel * width);
        let panel =
            |start: u64| weights.at(first + start * depth, &[depth, width.min(columns - start)]);
        starts.map(panel).collect()
    }

    /// Multiplies rows by a panel of a matrix, whose columns begin at `start`.
    pub(super) fn panel_product(&self, left: &Tile, panel: &Tile, matrix: u64, start: u64) -> Tile {
        let first = matrix * self.cut.slice() + start;
        let scales = self.cut.is_quantised();
        let scales = scales.then(|| self.scales(SCALES, first, panel.dim(1)));
        self.product(left, panel, scales.as_ref(), None)
    }

    /// Loads the residual tokens, if this cube adds them; the all-reduce distributes them to all cubes.
    pub(super) fn residual(&self, place: impl Fn(&Ref) -> Ref) -> Option<Tile> {
        let adds = self.args.whole(6) == 1 && self.tl.program_id(1) == 0;
        adds.then(|| self.tl.load(&place(&self.args.tensor(3).local())))
    }

    /// Loads the attention output of some tokens, for the heads that this cube multiplies; it
    /// is stored in token order.
    fn attended(&self, rows: &Range<u64>) -> Tile {
        let (all, width) = (self.args.tensor(0).whole(), self.cut.attended());
        self.tl.load(&all.at(rows.start * width, &[rows.end - rows.start, width]))
    }

    /// Loads the attention output of some sequences, each combined from its parts.
    fn joined(&self, rows: &Range<u64>) -> Tile {
        let (tl, parts, count) = (&self.tl, self.cut.parts, rows.end - rows.start);
        let (size, width) = (self.cut.heads.piece, self.cut.attended());
        let (first, heads) = (rows.start * parts, self.cut.heads.share);
        let values = self.args.tensor(0).whole().at(first * width, &[count, parts, heads, size]);
        let weights = self.args.tensor(1).whole().at(first * heads, &[count, parts, heads]);
        let (values, weights) = (tl.load(&values), tl.softmax(&tl.load(&weights), 1));
        let weights = tl.reshape(&weights, &[count, parts, heads, 1]);
        let weighted = values.lazy().cast(weights.ty().dtype) * &weights;
        tl.reshape(&self.narrow(&weighted.sum(1)), &[count, width])
    }

    /// Loads the inner features of some tokens from the PEs of this cube.
    pub(super) fn inner(&self, rows: &Range<u64>) -> Tile {
        let (tl, width, pes) = (&self.tl, self.cut.inner(), self.cut.pes);
        let (all, count) = (self.args.tensor(0).whole(), rows.end - rows.start);
        let parts = all.at(rows.start * width, &[pes, count, width]);
        let parts = parts.strided(&[self.cut.inner_rows() * width, width, 1]);
        tl.reshape(&tl.permute(&tl.load(&parts), &[1, 0, 2]), &[count, pes * width])
    }
}
