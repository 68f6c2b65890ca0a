//! Products with weights split by columns: each PE multiplies all tokens by its columns.

use cubeyard_runtime::dtype::DType;
use std::collections::VecDeque;
use std::ops::Range;

use super::{Here, Pick};
use crate::cut::Hit;
use crate::spec::Activation;
use cubeyard_tl::{Lazy, Ref, Tile};

/// Maximum number of tokens for which parts of rows load as fast as whole ones.
const FEW: u64 = 8;
/// Maximum bytes of weights per load; the TCM has room for several.
const LONGEST: u64 = 1 << 20;
/// Position of the scales of quantised weights among the arguments.
const SCALES: usize = 5;

/// A product of some tokens with a matrix of this PE.
struct Columns {
    /// Selection of the tokens.
    pick: Pick,
    /// Number of tokens.
    count: u64,
    /// Index of the matrix among those of the PE.
    matrix: u64,
    /// Number of columns.
    width: u64,
    /// Whether the weights have scales.
    is_scaled: bool,
}

/// Computes Q, K and V of all tokens. Each PE passes its columns on to the PEs at its position in the cubes of
/// its group, so that each cube has those of the whole group. Arguments: the tokens, their sums of squares, the
/// weights, the output with the rows of one cube after the other, and the layer; the scales of quantised weights, and
/// the biases, if there are any.
pub(super) fn qkv(here: &Here) {
    let (cut, out) = (&here.cut, here.args.tensor(3).local());
    let tokens = cut.tokens();
    let place = |cube: u64, rows: &Range<u64>| {
        let start = cube * tokens + rows.start;
        out.block(&[start, 0], &[rows.end - rows.start, cut.qkv()])
    };
    let bias = here.bias();
    here.columns(&here.all_tokens(cut.qkv()), |rows, product, scale| {
        let mut own = product.lazy() * scale;
        if let Some(bias) = &bias {
            own = own + &bias.lazy().cast(DType::F32);
        }
        let own = here.narrow(&own);
        here.others().for_each(|(_, port)| here.tl.send(port, &own));
        here.tl.store(&place(here.cube, rows), &own);
        for (cube, port) in here.others() {
            let ty = own.ty();
            let come = here.tl.recv_async(port, &ty.shape, ty.dtype);
            here.tl.store(&place(cube, rows), &come);
        }
    });
}

/// Computes up · activation(gate). The columns of a PE's weights are those of gate, then those of up. Arguments: as
/// [`qkv`], with an output for this PE alone.
pub(super) fn gate_up(here: &Here) {
    let (cut, all) = (&here.cut, here.all_tokens(2 * here.cut.inner()));
    if cut.routing.is_none() {
        return here.gate_up(&all, 0);
    }
    let first = all.matrix * cut.matrices();
    for hit in here.gate_up_hits() {
        let (pick, matrix) = (Pick { first: hit.first, step: 1 }, first + hit.matrix);
        here.gate_up(&Columns { pick, count: hit.count, matrix, ..all }, hit.row);
    }
}

/// Computes the logits of the last token of each sequence. Arguments: as [`gate_up`], without scales.
pub(super) fn head(here: &Here) {
    let (cut, out) = (&here.cut, here.args.tensor(3).local());
    let (count, width) = (cut.sequences, cut.words());
    let pick = Pick { first: cut.each - 1, step: cut.each };
    let product = Columns { pick, count, matrix: 0, width, is_scaled: false };
    here.columns(&product, |rows, product, scale| {
        let shape = [rows.end - rows.start, cut.words()];
        let logits = here.narrow(&(product.lazy() * scale));
        here.tl.store(&out.block(&[rows.start, 0], &shape), &logits);
    });
}

impl Here {
    /// Returns the product of all tokens with the matrix of the layer.
    fn all_tokens(&self, width: u64) -> Columns {
        let (count, matrix) = (self.cut.tokens(), self.args.whole(4));
        Columns { pick: Pick::ALL, count, matrix, width, is_scaled: self.cut.is_quantised() }
    }

    /// Returns the experts whose gates this PE multiplies.
    pub(super) fn gate_up_hits(&self) -> Vec<Hit> {
        self.hits(SCALES + usize::from(self.cut.is_quantised()))
    }

    /// Loads the biases of this PE's columns of Q, K and V, if there are any.
    fn bias(&self) -> Option<Tile> {
        let (width, layer) = (self.cut.qkv(), self.args.whole(4));
        let position = SCALES + usize::from(self.cut.is_quantised());
        let load = || self.args.tensor(position).local().at(layer * width, &[1, width]);
        self.cut.spec.family.has_qkv_bias.then(|| self.tl.load(&load()))
    }

    /// Computes the inner features of a product, and stores them from row `first` of the output on.
    fn gate_up(&self, product: &Columns, first: u64) {
        let (tl, out, width) = (&self.tl, self.args.tensor(3).local(), product.width / 2);
        self.columns(product, |rows, product, scale| {
            let shape = [rows.end - rows.start, width];
            let part = |first| tl.slice(product, &[0, first], &shape).lazy() * scale;
            let [gate, up] = [0, width].map(part);
            let inner = self.activated(&gate) * &up;
            tl.store(&out.block(&[first + rows.start, 0], &shape), &self.narrow(&inner));
        });
    }

    /// Returns the activation of the gate.
    fn activated(&self, gate: &Lazy) -> Lazy {
        match self.cut.spec.family.activation {
            Activation::Silu => gate * &gate.sigmoid(),
            // (1 + tanh u) / 2 is sigmoid(2 u), with u = √(2/π) (x + 0.044715 x³).
            Activation::Gelu => {
                let twice = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
                let cubic = (gate * gate) * (0.044_715 * twice) + twice;
                gate * &(gate * &cubic).sigmoid()
            }
        }
    }

    /// Multiplies tokens by this PE's columns, and passes the product and the norm's factor of each row to `take`, block
    /// of rows by block of rows.
    fn columns(&self, product: &Columns, take: impl Fn(&Range<u64>, &Tile, &Tile)) {
        let &Columns { pick, count, width, .. } = product;
        let scales = product.is_scaled.then(|| self.scales(SCALES, product.matrix * width, width));
        for rows in self.row_blocks(count) {
            let mut sum: Option<Tile> = None;
            let depths = self.depths(width);
            // Tokens are loaded before all weights: a short read waits behind the long ones of the PE that
            // holds it. With several blocks of rows they alternate, so that one is multiplied while the next is
            // loaded.
            let load =
                |(part, depth): &(u64, Range<u64>)| self.tokens_of(&pick, *part, &rows, depth);
            let is_all = rows.end - rows.start == count;
            let early = (!is_all).then(|| self.scale(&pick, &rows));
            let mut tokens: VecDeque<_> = depths.iter().filter(|_| is_all).map(load).collect();
            for at in depths {
                let x = tokens.pop_front().unwrap_or_else(|| load(&at));
                let weights = self.taken(&self.weights_at(&at, product.matrix, width));
                sum = Some(self.product(&x, &weights, scales.as_ref(), sum.as_ref()));
            }
            if let Some(sum) = sum {
                take(&rows, &sum, &early.unwrap_or_else(|| self.scale(&pick, &rows)));
            }
        }
    }

    /// Returns the weights of this PE's columns in the order in which they are multiplied.
    pub(super) fn column_weights(&self, matrix: u64, width: u64) -> Vec<Ref> {
        self.depths(width).iter().map(|at| self.weights_at(at, matrix, width)).collect()
    }

    /// References the weights of some features.
    fn weights_at(&self, (part, depth): &(u64, Range<u64>), matrix: u64, width: u64) -> Ref {
        let first = matrix * self.cut.hidden() + part * self.cut.slice() + depth.start;
        self.args.tensor(2).local().at(first * width, &[depth.end - depth.start, width])
    }

    /// Returns the order in which features are multiplied: the PE that holds them, and the range of its own.
    /// Each PE begins with its own, so that they do not all read from one. With few tokens, weights are split
    /// finer, and the first of them most, since nothing is multiplied while they load. With many, parts of rows
    /// would use only some channels of the memory.
    fn depths(&self, width: u64) -> Vec<(u64, Range<u64>)> {
        let (pes, slice, [_, tile, _]) = (self.cut.pes, self.cut.slice(), self.tl.gemm_tile());
        let element = self.args.tensor(2).local().ty().dtype.size();
        let long = (slice * width * element).div_ceil(LONGEST);
        let mut depths = Vec::new();
        for turn in 0..pes {
            let count = match turn {
                _ if self.cut.tokens() > FEW => 1,
                0 => 4,
                _ => 2,
            };
            let (step, mut start) = ((slice / count.max(long)).max(1).next_multiple_of(tile), 0);
            while start < slice {
                let end = (start + step).min(slice);
                depths.push(((self.pe + turn) % pes, start..end));
                start = end;
            }
        }
        depths
    }
}
