//! Products with weights split by columns: each PE multiplies all tokens by its columns.

use cubeyard_runtime::dtype::DType;
use std::collections::VecDeque;
use std::ops::Range;

use super::{Here, Pick};
use crate::cut::Hit;
use crate::spec::Activation;
use cubeyard_tl::{Lazy, Ref, Tile};

/// Maximum number of bytes of weights per load; the TCM has room for several loads.
const LONGEST: u64 = 1 << 20;
/// Position of the scales of quantised weights among the arguments.
const SCALES: usize = 5;

/// Product of some tokens with a matrix of this PE.
struct Columns {
    /// Selection of the tokens.
    pick: Pick,
    /// Number of tokens.
    count: u64,
    /// Index of the matrix among the PE's matrices.
    matrix: u64,
    /// Number of columns.
    width: u64,
    /// Whether the weights have scales.
    is_scaled: bool,
    /// Number of products with the same bytes: 2 if each has the weights of two columns, else 1.
    packed: u64,
}

/// Tokens of a product, loaded before it begins.
struct EarlyTokens {
    /// Features in the order of multiplication.
    features: VecDeque<Tile>,
    /// Norm factor of each token.
    scale: Tile,
}

/// Computes Q, K and V of all tokens. Each PE passes its columns on to the PEs at its position in the cubes of its
/// group, so that each cube has the columns of the whole group. Arguments: the tokens, their sums of squares, the
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
    here.columns(&here.all_tokens(cut.qkv()), None, |rows, products, scale| {
        let mut own = products[0].lazy() * scale;
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

/// Computes up · activation(gate). A PE's weights have the columns of gate, then the columns of up. Arguments: as
/// [`qkv`], with an output for this PE alone.
pub(super) fn gate_up(here: &Here) {
    let (cut, mut all) = (&here.cut, here.all_tokens(2 * here.cut.inner()));
    if cut.is_packed() {
        // A byte has a weight of gate and one of up.
        (all.width, all.packed, all.is_scaled) = (cut.inner(), 2, false);
    }
    if cut.routing.is_none() {
        return here.gate_up(&all, 0, None);
    }
    let (first, hits) = (all.matrix * cut.matrices(), here.gate_up_hits());
    let product = |hit: &Hit| {
        let (pick, matrix) = (Pick { first: hit.first, step: 1 }, first + hit.matrix);
        Columns { pick, count: hit.count, matrix, ..all }
    };
    // A short read waits behind long reads in the PE that holds the data, so the tokens of all experts are loaded
    // before the first weights, if there is room for them.
    let fits = cut.inner_rows() <= cut.most_rows();
    let early = hits.iter().filter(|_| fits).map(|hit| here.early_tokens(&product(hit)));
    let mut early: VecDeque<_> = early.collect();
    for hit in &hits {
        here.gate_up(&product(hit), hit.row, early.pop_front());
    }
}

/// Computes the logits of the last token of each sequence. Arguments: as [`gate_up`], without scales.
pub(super) fn head(here: &Here) {
    let (cut, out) = (&here.cut, here.args.tensor(3).local());
    let (count, width) = (cut.sequences, cut.words());
    let pick = Pick { first: cut.each - 1, step: cut.each };
    let product = Columns { pick, count, matrix: 0, width, is_scaled: false, packed: 1 };
    here.columns(&product, None, |rows, products, scale| {
        let shape = [rows.end - rows.start, cut.words()];
        let logits = here.narrow(&(products[0].lazy() * scale));
        here.tl.store(&out.block(&[rows.start, 0], &shape), &logits);
    });
}

impl Here {
    /// Returns the product of all tokens with the matrix of the layer.
    fn all_tokens(&self, width: u64) -> Columns {
        let (count, matrix) = (self.cut.tokens(), self.args.whole(4));
        let is_scaled = self.cut.is_quantised();
        Columns { pick: Pick::ALL, count, matrix, width, is_scaled, packed: 1 }
    }

    /// Returns the experts whose gates this PE multiplies.
    pub(super) fn gate_up_hits(&self) -> Vec<Hit> {
        self.hits(SCALES + usize::from(self.cut.is_quantised() || self.cut.is_packed()))
    }

    /// Loads the biases of this PE's columns of Q, K and V, if there are any.
    fn bias(&self) -> Option<Tile> {
        let (width, layer) = (self.cut.qkv(), self.args.whole(4));
        let position = SCALES + usize::from(self.cut.is_quantised());
        let load = || self.args.tensor(position).local().at(layer * width, &[1, width]);
        self.cut.spec.family.has_qkv_bias.then(|| self.tl.load(&load()))
    }

    /// Computes the inner features of a product, and stores them, starting at row `first` of the output.
    fn gate_up(&self, product: &Columns, first: u64, early: Option<EarlyTokens>) {
        let (tl, out, width) = (&self.tl, self.args.tensor(3).local(), self.cut.inner());
        if product.packed == 2 {
            self.exponents(
                SCALES,
                product.matrix * self.cut.gate_up_blocks(),
                self.cut.gate_up_blocks(),
            );
        }
        self.columns(product, early, |rows, products, scale| {
            let shape = [rows.end - rows.start, width];
            let part = |first| tl.slice(&products[0], &[0, first], &shape).lazy() * scale;
            let [gate, up] = match products {
                [gate, up] => [gate, up].map(|product| product.lazy() * scale),
                _ => [0, width].map(part),
            };
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

    /// Loads all tokens of a product.
    fn early_tokens(&self, product: &Columns) -> EarlyTokens {
        let (pick, rows) = (&product.pick, 0..product.count);
        let depths = self.depths(product.width);
        let load = |(part, depth): &(u64, Range<u64>)| self.tokens_of(pick, *part, &rows, depth);
        EarlyTokens { features: depths.iter().map(load).collect(), scale: self.scale(pick, &rows) }
    }

    /// Multiplies tokens by this PE's columns, one block of rows at a time, and passes the product (two if weights are
    /// packed) and the norm factor of each row to `take`. `early` contains all tokens of the product, if they were loaded early.
    fn columns(
        &self,
        product: &Columns,
        early: Option<EarlyTokens>,
        take: impl Fn(&Range<u64>, &[Tile], &Tile),
    ) {
        let &Columns { pick, count, width, packed, .. } = product;
        let scales = product.is_scaled.then(|| self.scales(SCALES, product.matrix * width, width));
        let (mut features, scale) =
            early.map_or_else(Default::default, |early| (early.features, Some(early.scale)));
        for rows in self.row_blocks(count) {
            let mut sums: Vec<Tile> = Vec::new();
            let depths = self.depths(width);
            // Tokens are loaded before all weights: a short read waits behind long reads in the PE that holds the
            // data. With several blocks of rows, tokens and weights alternate, so that one block is multiplied
            // while the next is loaded.
            let load =
                |(part, depth): &(u64, Range<u64>)| self.tokens_of(&pick, *part, &rows, depth);
            let is_all = rows.end - rows.start == count;
            let scale = scale.clone().or_else(|| (!is_all).then(|| self.scale(&pick, &rows)));
            if scale.is_none() {
                features = depths.iter().map(load).collect();
            }
            for at in depths {
                let x = features.pop_front().unwrap_or_else(|| load(&at));
                let weights = self.taken(&self.weights_at(&at, product.matrix, width));
                let add = |of: u64| {
                    let sum = sums.get(usize::try_from(of).expect("at most two"));
                    self.packed_product(&x, &weights, scales.as_ref(), sum, packed == 2)
                };
                sums = (0..packed).map(add).collect();
            }
            if !sums.is_empty() {
                take(&rows, &sums, &scale.unwrap_or_else(|| self.scale(&pick, &rows)));
            }
        }
    }

    /// Returns the weights of this PE's columns in the order of multiplication.
    pub(super) fn column_weights(&self, matrix: u64, width: u64) -> Vec<Ref> {
        self.depths(width).iter().map(|at| self.weights_at(at, matrix, width)).collect()
    }

    /// Returns a reference to the weights of some features.
    fn weights_at(&self, (part, depth): &(u64, Range<u64>), matrix: u64, width: u64) -> Ref {
        let first = matrix * self.cut.hidden() + part * self.cut.slice() + depth.start;
        self.args.tensor(2).local().at(first * width, &[depth.end - depth.start, width])
    }

    /// Returns the order in which features are multiplied: the PE that holds them, and the range among its features.
    /// Each PE begins with its own features, so that not all PEs read from one. All features of a PE are loaded at
    /// once, unless their weights are long: parts of rows would use only some of the memory channels.
    fn depths(&self, width: u64) -> Vec<(u64, Range<u64>)> {
        let (pes, slice, [_, tile, _]) = (self.cut.pes, self.cut.slice(), self.tl.gemm_tile());
        let element = self.args.tensor(2).local().ty().dtype.size();
        let loads = (slice * width * element).div_ceil(LONGEST).max(1);
        let step = (slice / loads).max(1).next_multiple_of(tile);
        let starts = || (0..slice.div_ceil(step)).map(|load| load * step);
        let of_pe = |pe: u64| starts().map(move |start| (pe, start..(start + step).min(slice)));
        (0..pes).flat_map(|turn| of_pe((self.pe + turn) % pes)).collect()
    }
}
