//! Products whose weights are split by columns: each PE multiplies all of the tokens with its columns.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use super::{Here, kernel};
use crate::kernel::Kernel;
use crate::library::EPSILON;
use crate::model::cut::Cut;
use crate::tl::{Ref, Tile};

/// Tokens of which parts of rows are loaded as quickly as whole ones.
const FEW: u64 = 8;
/// Bytes of weights that a load brings at most: the TCM has room for several.
const LONGEST: u64 = 1 << 20;

/// Q, K and V of all tokens. Each PE passes its columns on to the PEs at its position in the cubes of its
/// group, so that each cube has all of its group. Arguments: the tokens, their sums of squares, the weights, the
/// output with the rows of each cube after each other, and the layer.
pub(in crate::model) fn qkv(cut: &Rc<Cut>) -> Kernel {
    kernel("qkv", cut, |here| {
        let (cut, out) = (&here.cut, here.args.tensor(3).local());
        let tokens = cut.tokens();
        let place = |cube: u64, rows: &Range<u64>| {
            let start = cube * tokens + rows.start;
            out.block(&[start, 0], &[rows.end - rows.start, cut.qkv()])
        };
        here.columns(tokens, 1, cut.qkv(), |rows, product| {
            let own = here.narrow(product);
            here.others().for_each(|(_, port)| here.tl.send(port, &own));
            here.tl.store(&place(here.cube, rows), &own);
            for (cube, port) in here.others() {
                let ty = own.ty();
                let come = here.tl.recv_async(port, &ty.shape, ty.dtype);
                here.tl.store(&place(cube, rows), &come);
            }
        });
    })
}

/// Up, times gate with its sigmoid. The columns of a PE's weights are those of gate, then those of up.
/// Arguments: as [`qkv`], with an output for this PE alone.
pub(in crate::model) fn gate_up(cut: &Rc<Cut>) -> Kernel {
    kernel("gate and up", cut, |here| {
        let (tl, out, width) = (&here.tl, here.args.tensor(3).local(), here.cut.inner());
        here.columns(here.cut.tokens(), 1, 2 * width, |rows, product| {
            let shape = [rows.end - rows.start, width];
            let [gate, up] = [0, width].map(|first| tl.slice(product, &[0, first], &shape));
            let inner = &(&gate * &tl.sigmoid(&gate)) * &up;
            tl.store(&out.block(&[rows.start, 0], &shape), &here.narrow(&inner));
        });
    })
}

/// The logits of the last token of each sequence. Arguments: as [`gate_up`].
pub(in crate::model) fn head(cut: &Rc<Cut>) -> Kernel {
    kernel("head", cut, |here| {
        let (cut, out) = (&here.cut, here.args.tensor(3).local());
        here.columns(cut.sequences, cut.each, cut.words(), |rows, product| {
            let shape = [rows.end - rows.start, cut.words()];
            here.tl.store(&out.block(&[rows.start, 0], &shape), &here.narrow(product));
        });
    })
}

impl Here {
    /// Multiplies the last of every `step` tokens with this PE's columns, `count` tokens in all, and hands out
    /// the normal product of some rows after others.
    fn columns(&self, count: u64, step: u64, width: u64, take: impl Fn(&Range<u64>, &Tile)) {
        let weights = self.args.tensor(2).local();
        let first = self.args.whole(4) * self.cut.spec.hidden;
        for rows in self.row_blocks(count) {
            let mut sum: Option<Tile> = None;
            let depths = self.depths(width);
            // Before all weights: a short read waits behind the long ones of the PE that has it. With more
            // blocks than one by turns, so that the products of one go on while the next is loaded.
            let load = |(part, depth): &(u64, Range<u64>)| {
                self.tl.load(&self.part(*part, &rows, step, depth))
            };
            let is_all = rows.end - rows.start == count;
            let mut tokens: VecDeque<_> = depths.iter().filter(|_| is_all).map(load).collect();
            for at in depths {
                let x = tokens.pop_front().unwrap_or_else(|| load(&at));
                let (part, depth) = at;
                let start = (first + part * self.cut.slice() + depth.start) * width;
                let shape = [depth.end - depth.start, width];
                let weights = self.tl.load(&weights.at(start, &shape));
                sum = Some(match sum {
                    Some(sum) => self.tl.dot_add(&x, &weights, &sum),
                    None => self.tl.dot(&x, &weights),
                });
            }
            if let Some(sum) = sum {
                take(&rows, &(&sum * &self.scale(&rows, step)));
            }
        }
    }

    /// The features that are multiplied one after the other: of which PE, and which of its own. Each begins
    /// with its own, so that they do not all ask one PE. Where there are few tokens, weights are cut finer, and the
    /// first of them most, since nothing is multiplied while they are loaded. With many, a part of each row is on
    /// some channels of the memory only.
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

    /// Some of the features that a PE of this cube has, of some tokens.
    fn part(&self, pe: u64, rows: &Range<u64>, step: u64, depth: &Range<u64>) -> Ref {
        let (x, slice) = (self.args.tensor(0).whole(), self.cut.slice());
        let first = pe * self.cut.tokens() + rows.start * step + step - 1;
        let shape = [rows.end - rows.start, depth.end - depth.start];
        x.at(first * slice + depth.start, &shape).strided(&[step * slice, 1])
    }

    /// What the norm multiplies each row with.
    fn scale(&self, rows: &Range<u64>, step: u64) -> Tile {
        let (tl, count, tokens) = (&self.tl, rows.end - rows.start, self.cut.tokens());
        let sums = self.args.tensor(1).whole();
        let sums = sums.at(rows.start * step + step - 1, &[self.cut.pes, count]);
        let sums = tl.load(&sums.strided(&[tokens, step]));
        let mean = &tl.sum(&sums, 0) * (1.0 / self.cut.spec.hidden as f64);
        tl.reshape(&tl.rsqrt(&(&mean + EPSILON)), &[count, 1])
    }
}
