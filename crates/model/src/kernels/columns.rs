//! Products with weights split by columns: each PE multiplies all tokens by its columns.

use std::collections::VecDeque;
use std::ops::Range;

use super::Here;
use cubeyard_kernels::rms_factor;
use cubeyard_tl::{Ref, Tile};

/// Maximum number of tokens for which parts of rows load as fast as whole ones.
const FEW: u64 = 8;
/// Maximum bytes of weights per load; the TCM has room for several.
const LONGEST: u64 = 1 << 20;

/// Computes Q, K and V of all tokens. Each PE passes its columns on to the PEs at its position in the cubes of
/// its group, so that each cube has those of the whole group. Arguments: the tokens, their sums of squares, the
/// weights, the output with the rows of one cube after the other, and the layer.
pub(super) fn qkv(here: &Here) {
    let (cut, out) = (&here.cut, here.args.tensor(3).local());
    let tokens = cut.tokens();
    let place = |cube: u64, rows: &Range<u64>| {
        let start = cube * tokens + rows.start;
        out.block(&[start, 0], &[rows.end - rows.start, cut.qkv()])
    };
    here.columns(tokens, 1, cut.qkv(), |rows, product, scale| {
        let own = here.narrow(&(product.lazy() * scale));
        here.others().for_each(|(_, port)| here.tl.send(port, &own));
        here.tl.store(&place(here.cube, rows), &own);
        for (cube, port) in here.others() {
            let ty = own.ty();
            let come = here.tl.recv_async(port, &ty.shape, ty.dtype);
            here.tl.store(&place(cube, rows), &come);
        }
    });
}

/// Computes up · gate · sigmoid(gate). The columns of a PE's weights are those of gate, then those of up.
/// Arguments: as [`qkv`], with an output for this PE alone.
pub(super) fn gate_up(here: &Here) {
    let (tl, out, width) = (&here.tl, here.args.tensor(3).local(), here.cut.inner());
    here.columns(here.cut.tokens(), 1, 2 * width, |rows, product, scale| {
        let shape = [rows.end - rows.start, width];
        let part = |first| tl.slice(product, &[0, first], &shape).lazy() * scale;
        let [gate, up] = [0, width].map(part);
        let inner = &gate * &gate.sigmoid() * &up;
        tl.store(&out.block(&[rows.start, 0], &shape), &here.narrow(&inner));
    });
}

/// Computes the logits of the last token of each sequence. Arguments: as [`gate_up`].
pub(super) fn head(here: &Here) {
    let (cut, out) = (&here.cut, here.args.tensor(3).local());
    here.columns(cut.sequences, cut.each, cut.words(), |rows, product, scale| {
        let shape = [rows.end - rows.start, cut.words()];
        let logits = here.narrow(&(product.lazy() * scale));
        here.tl.store(&out.block(&[rows.start, 0], &shape), &logits);
    });
}

impl Here {
    /// Multiplies the last of every `step` tokens by this PE's columns, `count` tokens in all, and passes the
    /// product and the norm's factor of each row to `take`, block of rows by block of rows.
    fn columns(&self, count: u64, step: u64, width: u64, take: impl Fn(&Range<u64>, &Tile, &Tile)) {
        for rows in self.row_blocks(count) {
            let mut sum: Option<Tile> = None;
            let depths = self.depths(width);
            // Tokens are loaded before all weights: a short read waits behind the long ones of the PE that
            // holds it. With several blocks of rows they alternate, so that one is multiplied while the next is
            // loaded.
            let load = |(part, depth): &(u64, Range<u64>)| {
                self.tl.load(&self.part(*part, &rows, step, depth))
            };
            let is_all = rows.end - rows.start == count;
            let early = (!is_all).then(|| self.scale(&rows, step));
            let mut tokens: VecDeque<_> = depths.iter().filter(|_| is_all).map(load).collect();
            for at in depths {
                let x = tokens.pop_front().unwrap_or_else(|| load(&at));
                let weights = self.taken(&self.weights_at(&at, width));
                sum = Some(match sum {
                    Some(sum) => self.tl.dot_add(&x, &weights, &sum),
                    None => self.tl.dot(&x, &weights),
                });
            }
            if let Some(sum) = sum {
                take(&rows, &sum, &early.unwrap_or_else(|| self.scale(&rows, step)));
            }
        }
    }

    /// Returns the weights of this PE's columns in the order in which they are multiplied.
    pub(super) fn column_weights(&self, width: u64) -> Vec<Ref> {
        self.depths(width).iter().map(|at| self.weights_at(at, width)).collect()
    }

    /// References the weights of some features.
    fn weights_at(&self, (part, depth): &(u64, Range<u64>), width: u64) -> Ref {
        let first = self.args.whole(4) * self.cut.spec.hidden;
        let start = (first + part * self.cut.slice() + depth.start) * width;
        self.args.tensor(2).local().at(start, &[depth.end - depth.start, width])
    }

    /// Returns the order in which features are multiplied: the PE that holds them, and the range of its own.
    /// Each PE begins with its own, so that they do not all read from one. With few tokens, weights are split
    /// finer, and the first of them most, since nothing is multiplied while they load. With many, parts of rows
    /// would use only some channels of the memory.
    fn depths(&self, width: u64) -> Vec<(u64, Range<u64>)> {
        let (pes, slice, [_, tile, _]) = (self.cut.pes, self.cut.slice(), self.tl.gemm_tile());
        let long = (slice * width * self.cut.work.dtype.size()).div_ceil(LONGEST);
        let mut depths = Vec::new();
        for turn in 0..pes {
            let count = match turn {
                _ if self.cut.tokens() > FEW => 1,
                0 => 4,
                _ => 2,
            };
            let (step, mut start) = ((slice / count.max(long)).next_multiple_of(tile), 0);
            while start < slice {
                let end = (start + step).min(slice);
                depths.push(((self.pe + turn) % pes, start..end));
                start = end;
            }
        }
        depths
    }

    /// References some features of some tokens that a PE of this cube holds.
    fn part(&self, pe: u64, rows: &Range<u64>, step: u64, depth: &Range<u64>) -> Ref {
        let (x, slice) = (self.args.tensor(0).whole(), self.cut.slice());
        let first = pe * self.cut.tokens() + rows.start * step + step - 1;
        let shape = [rows.end - rows.start, depth.end - depth.start];
        x.at(first * slice + depth.start, &shape).strided(&[step * slice, 1])
    }

    /// Returns the norm's factor for each row.
    fn scale(&self, rows: &Range<u64>, step: u64) -> Tile {
        let (tl, count, tokens) = (&self.tl, rows.end - rows.start, self.cut.tokens());
        let sums = self.args.tensor(1).whole();
        let sums = sums.at(rows.start * step + step - 1, &[self.cut.pes, count]);
        let sums = tl.load(&sums.strided(&[tokens, step]));
        let factor = rms_factor(sums.lazy().sum(0), self.cut.spec.hidden);
        tl.reshape(&tl.eval(&factor), &[count, 1])
    }
}
