//! The numbers of a layer as matrices, and in the layout of the PEs.

use std::borrow::Cow;

use crate::Lab;
use crate::inputs::{numbers, queries};
use crate::reference::{panel_order, size};
use cubeyard_model::{Cut, Held, Phase};

/// A row-major matrix.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) columns: usize,
    pub(super) values: Vec<f64>,
    /// Unit of quantised values, before the scales of columns.
    pub(super) scale: f64,
}

impl Matrix {
    pub(super) fn new(columns: usize, values: Vec<f64>) -> Self {
        Self { columns, values, scale: 1.0 }
    }

    /// Returns an element; 0 outside of the matrix, where the machine has padding.
    fn at(&self, row: u64, column: u64) -> f64 {
        let (row, column) = (size(row), size(column));
        let element =
            self.values.get(row * self.columns + column).filter(|_| column < self.columns);
        element.copied().unwrap_or_default()
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }
}

/// Inputs of a layer.
pub(super) struct Numbers {
    pub(super) cut: Cut,
    /// Position of the step in its sequences.
    pub(super) position: u64,
    /// A row per token of the step.
    pub(super) tokens: Matrix,
    /// Weights of Q of all heads, then of K, then of V.
    pub(super) qkv: Matrix,
    pub(super) output: Matrix,
    /// Weights of gate, up and down, of each expert.
    pub(super) gate: Vec<Matrix>,
    pub(super) up: Vec<Matrix>,
    pub(super) down: Vec<Matrix>,
    pub(super) router: Matrix,
    /// A row for each sequence, head and token.
    pub(super) keys: Matrix,
    pub(super) values: Matrix,
    /// Biases of Q, K and V, in one row.
    pub(super) bias: Matrix,
    /// Weights of the norms of heads of Q and of K.
    pub(super) head_norms: Matrix,
    /// Weights of the norms of the results of attention and of the feed-forward part.
    pub(super) post_norms: Matrix,
}

/// A matrix beyond the last index, for padding.
const NOWHERE: u64 = u32::MAX as u64;

impl Numbers {
    pub(super) fn new(lab: &Lab, cut: &Cut, position: u64) -> Self {
        let spec = &cut.spec;
        let (attended, kv) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let plain = |rows: u64, columns: u64, seed| Matrix {
            columns: size(columns),
            values: numbers(lab, rows * columns, seed),
            scale: 1.0,
        };
        // Scaled so that products stay about as large as their inputs; a power of 2 preserves the bits.
        let weights = |rows: u64, columns: u64, seed| {
            let mut matrix = plain(rows, columns, seed);
            let scale = 0.5_f64.powf((rows as f64).log2() / 2.0).log2().round().exp2();
            if cut.is_quantised() {
                return quantised(matrix, scale);
            }
            matrix.values.iter_mut().for_each(|value| *value *= scale);
            matrix
        };
        let of_experts = |rows: u64, columns: u64, seed: u64| {
            (0..cut.experts()).map(|expert| weights(rows, columns, seed + 100 * expert)).collect()
        };
        let cache = spec.kv_heads * cut.work.batch * cut.work.context;
        let mut this = Self {
            cut: cut.clone(),
            position,
            tokens: plain(cut.tokens(), spec.hidden, 1),
            qkv: weights(spec.hidden, attended + 2 * kv, 2),
            output: weights(attended, spec.hidden, 3),
            gate: of_experts(spec.hidden, spec.ffn, 4),
            up: of_experts(spec.hidden, spec.ffn, 5),
            down: of_experts(spec.ffn, spec.hidden, 6),
            router: plain(spec.hidden, cut.experts(), 12),
            keys: plain(cache, spec.head_dim, 7),
            values: plain(cache, spec.head_dim, 8),
            bias: plain(1, attended + 2 * kv, 9),
            head_norms: plain(2, spec.head_dim, 10),
            post_norms: plain(2, spec.hidden, 11),
        };
        // Scores differ enough that errors of order show.
        this.keys.values = queries(lab, this.keys.values.len() as u64, 7);
        this
    }

    /// Returns the row of a token in the cache of a head.
    pub(super) fn cached(&self, head: u64, sequence: u64, token: u64) -> usize {
        let work = &self.cut.work;
        size((head * work.batch + sequence) * work.context + token)
    }

    /// Returns a SIP's part of a tensor, in the order of its memory.
    pub(super) fn held(&self, held: Held, sip: u64) -> Vec<f64> {
        match held {
            Held::Tokens => self.shared(&self.tokens),
            Held::Angles => self.angles(),
            Held::Keys => self.by_pe(sip, |cube, pe| self.cache(&self.keys, cube, pe)),
            Held::Values => self.by_pe(sip, |cube, pe| self.cache(&self.values, cube, pe)),
            Held::Qkv | Held::QkvScales | Held::QkvBias => self.qkv_of(held, sip),
            Held::HeadNorms => self.by_pe(sip, |_, _| self.head_norms.values.clone()),
            Held::PostNorms => self.by_pe(sip, |_, pe| self.slice_of(&self.post_norms, pe)),
            Held::Output => {
                let output = self.stored(&self.output);
                self.by_pe(sip, |cube, pe| {
                    let row = |row| self.attended_row(cube, row);
                    self.panels(&output, row, self.cut.attended(), pe)
                })
            }
            Held::GateUp => {
                let [gate, up] = [&self.gate, &self.up].map(|matrices| self.all_stored(matrices));
                self.by_expert(sip, |expert, cube, pe| {
                    self.gate_up([&gate[expert], &up[expert]], self.cut.hidden(), cube, pe)
                })
            }
            Held::GateUpScales => self.by_expert(sip, |expert, cube, pe| {
                let [gate, up] = [&self.gate[expert], &self.up[expert]].map(scales);
                self.gate_up([&gate, &up], 1, cube, pe)
            }),
            Held::Down => {
                let (down, depth) = (self.all_stored(&self.down), self.cut.inner() * self.cut.pes);
                self.by_expert(sip, |expert, cube, pe| {
                    self.panels(&down[expert], |row| cube * depth + row, depth, pe)
                })
            }
            Held::Router => self.by_pe(sip, |_, _| self.router_rows()),
            Held::OutputScales => self.by_pe(sip, |_, pe| self.slice_of(&scales(&self.output), pe)),
            Held::DownScales => {
                self.by_expert(sip, |expert, _, pe| self.slice_of(&scales(&self.down[expert]), pe))
            }
            Held::Head | Held::Table => {
                let (cut, sips) = (&self.cut, self.cut.sips);
                let count = cut.hidden() * cut.vocab();
                vec![0.0; size(if held == Held::Head { count / sips } else { count })]
            }
        }
    }

    fn by_pe(&self, sip: u64, of: impl Fn(u64, u64) -> Vec<f64>) -> Vec<f64> {
        let cubes = (0..self.cut.cubes).map(|cube| sip * self.cut.cubes + cube);
        let pes = cubes.flat_map(|cube| (0..self.cut.pes).map(move |pe| (cube, pe)));
        pes.flat_map(|(cube, pe)| of(cube, pe)).collect()
    }

    /// Returns a SIP's part of a tensor of all experts, of which each PE holds those of its place. `of` is called with an
    /// expert, the number of the cube at its place, and the PE.
    fn by_expert(&self, sip: u64, of: impl Fn(usize, u64, u64) -> Vec<f64>) -> Vec<f64> {
        let (cut, local) = (&self.cut, self.cut.matrices());
        let cubes = cut.sharers() / cut.pes;
        self.by_pe(sip, |cube, pe| {
            let first = cut.place_of(cube) * local;
            (first..first + local).flat_map(|expert| of(size(expert), cube % cubes, pe)).collect()
        })
    }

    /// Returns the weights of the router, with zeros for padded features.
    fn router_rows(&self) -> Vec<f64> {
        let mut rows = self.router.values.clone();
        rows.resize(size(self.cut.hidden()) * self.router.columns, 0.0);
        rows
    }

    /// Arranges rows of tokens as the PEs of a cube hold them: the first features of all tokens, then the next.
    pub(super) fn shared(&self, tokens: &Matrix) -> Vec<f64> {
        let (slice, rows) = (self.cut.slice(), (tokens.values.len() / tokens.columns) as u64);
        let features = |pe: u64| pe * slice..(pe + 1) * slice;
        let row = |pe, row| features(pe).map(move |feature| tokens.at(row, feature));
        let of = |pe| (0..rows).flat_map(move |at| row(pe, at));
        (0..self.cut.pes).flat_map(of).collect()
    }

    /// Returns the cosines, then the sines, for each position of the step.
    fn angles(&self) -> Vec<f64> {
        let positions = || (0..self.cut.each).map(|token| self.position + token);
        let half = self.cut.spec.head_dim / 2;
        let angles = || positions().flat_map(|at| (0..half).map(move |pair| self.angle(at, pair)));
        angles().map(f64::cos).chain(angles().map(f64::sin)).collect()
    }

    pub(super) fn angle(&self, position: u64, pair: u64) -> f64 {
        let part = 2.0 * pair as f64 / self.cut.spec.head_dim as f64;
        position as f64 * 500_000_f64.powf(-part)
    }

    /// Returns the columns of Q, K and V of a PE: those of its group's heads in order, distributed to the first
    /// PE of each cube first.
    fn columns_of_group(&self, matrix: &Matrix, rows: u64, cube: u64, pe: u64) -> Vec<f64> {
        let cut = &self.cut;
        let (group, unit) = (cube / cut.group_cubes, pe * cut.group_cubes + cube % cut.group_cubes);
        let size = cut.spec.head_dim;
        let column = |place: u64| {
            let head = self.projected_head(group, place / size);
            head.map_or(NOWHERE, |head| head * size + place % size)
        };
        let columns = unit * cut.qkv()..(unit + 1) * cut.qkv();
        let row = |row| columns.clone().map(move |place| matrix.at(row, column(place)));
        (0..rows).flat_map(row).collect()
    }

    /// Returns the head of a model, those of Q before those of K and V, that a group projects at a place.
    fn projected_head(&self, group: u64, place: u64) -> Option<u64> {
        let (heads, spec) = (&self.cut.heads, &self.cut.spec);
        let (slot, within) =
            (group * heads.slots + place / heads.of_slot(), place % heads.of_slot());
        if place >= heads.projected() {
            return None;
        }
        match within.checked_sub(heads.queries) {
            None => heads.query_head(slot, within),
            Some(kind) => Some(spec.heads + kind * spec.kv_heads + heads.kv_head(slot)?),
        }
    }

    /// Returns the row of the output's weights that a cube has at a place.
    fn attended_row(&self, cube: u64, place: u64) -> u64 {
        let (cut, heads) = (&self.cut, &self.cut.heads);
        let piece = cube % cut.group_cubes * heads.share + place / heads.piece;
        let (head, part) = (piece / heads.pieces, piece % heads.pieces);
        let slot = cube / cut.group_cubes * heads.slots + head / heads.queries;
        let is_padding = head >= heads.slots * heads.queries;
        let head = heads.query_head(slot, head % heads.queries).filter(|_| !is_padding);
        let feature = part * heads.piece + place % heads.piece;
        head.map_or(NOWHERE, |head| head * cut.spec.head_dim + feature)
    }

    /// Returns a matrix of features, restricted to those of a PE.
    fn slice_of(&self, matrix: &Matrix, pe: u64) -> Vec<f64> {
        let features = pe * self.cut.slice()..(pe + 1) * self.cut.slice();
        let row = |row| features.clone().map(move |feature| matrix.at(row, feature));
        let rows = matrix.values.len() / matrix.columns;
        (0..rows as u64).flat_map(row).collect()
    }

    /// Returns the weights, scales or biases of Q, K and V on a SIP.
    fn qkv_of(&self, held: Held, sip: u64) -> Vec<f64> {
        let (matrix, rows) = match held {
            Held::Qkv => (self.stored(&self.qkv), self.cut.hidden()),
            Held::QkvScales => (Cow::Owned(scales(&self.qkv)), 1),
            _ => (Cow::Borrowed(&self.bias), 1),
        };
        self.by_pe(sip, |cube, pe| self.columns_of_group(&matrix, rows, cube, pe))
    }

    /// Returns weights as they are stored: without the scales of their columns. Called once for each matrix, not for each
    /// PE: a copy of it takes longer than the part of a PE.
    fn stored<'m>(&self, matrix: &'m Matrix) -> Cow<'m, Matrix> {
        if !self.cut.is_quantised() {
            return Cow::Borrowed(matrix);
        }
        let mut stored = matrix.clone();
        let scales = scales(matrix).values;
        let rows = stored.values.chunks_exact_mut(stored.columns);
        rows.for_each(|row| row.iter_mut().zip(&scales).for_each(|(x, scale)| *x /= scale));
        Cow::Owned(stored)
    }

    fn all_stored<'m>(&self, matrices: &'m [Matrix]) -> Vec<Cow<'m, Matrix>> {
        matrices.iter().map(|matrix| self.stored(matrix)).collect()
    }

    fn gate_up(&self, [gate, up]: [&Matrix; 2], rows: u64, cube: u64, pe: u64) -> Vec<f64> {
        let (cut, width) = (&self.cut, self.cut.inner());
        let first = (cube * cut.pes + pe) * width;
        let row = |row| {
            let of = move |matrix: &Matrix| {
                (first..first + width).map(|column| matrix.at(row, column)).collect::<Vec<_>>()
            };
            of(gate).into_iter().chain(of(up))
        };
        (0..rows).flat_map(row).collect()
    }

    /// Returns some rows of a matrix, restricted to the columns of a PE, panel by panel.
    fn panels(&self, matrix: &Matrix, row_at: impl Fn(u64) -> u64, rows: u64, pe: u64) -> Vec<f64> {
        let slice = self.cut.slice();
        let order = panel_order(rows, slice, self.cut.panel(rows)).into_iter();
        let place = |element: usize| (element as u64 / slice, element as u64 % slice);
        order.map(place).map(|(row, column)| matrix.at(row_at(row), pe * slice + column)).collect()
    }

    /// Returns the cache of a PE, with wrong numbers in place of the step's own tokens.
    fn cache(&self, cache: &Matrix, cube: u64, pe: u64) -> Vec<f64> {
        let (cut, work) = (&self.cut, &self.cut.work);
        let (group, unit) = (cube / cut.group_cubes, pe * cut.group_cubes + cube % cut.group_cubes);
        let slots = cut.heads.slots;
        let row = |row: u64| {
            let (turn, rest) = (row / cut.room / slots, row % cut.room);
            let head = cut.heads.kv_head(group * slots + row / cut.room % slots);
            let (sequence, part) = if cut.parts > 1 {
                (unit / cut.parts, unit % cut.parts)
            } else if work.phase == Phase::Prefill {
                // A step of prefill has one sequence of each PE.
                (turn * cut.units() + unit, 0)
            } else {
                (unit * cut.held + turn, 0)
            };
            let token = part * cut.room + rest;
            if let Some(head) = head
                && sequence < work.batch
                && token < self.position
            {
                return cache.row(self.cached(head, sequence, token)).to_vec();
            }
            vec![1000.0; cache.columns]
        };
        (0..cut.held * slots * cut.room).flat_map(row).collect()
    }
}

/// Rounds a matrix of numbers up to 1 to whole numbers up to 8, which all types of 8 bits represent, times the scales of
/// their columns.
fn quantised(mut matrix: Matrix, scale: f64) -> Matrix {
    let rows = matrix.values.chunks_exact_mut(matrix.columns);
    rows.for_each(|row| {
        row.iter_mut().enumerate().for_each(|(column, value)| {
            *value = (*value * 8.0).round() * scale / 8.0 * column_scale(column);
        });
    });
    matrix.scale = scale / 8.0;
    matrix
}

/// Returns the scale of a column, relative to that of the matrix; neighbours differ.
fn column_scale(column: usize) -> f64 {
    [1.0, 0.5, 2.0][column % 3]
}

/// Returns the scales of the columns of a quantised matrix.
fn scales(matrix: &Matrix) -> Matrix {
    let values = (0..matrix.columns).map(|column| matrix.scale * column_scale(column)).collect();
    Matrix { columns: matrix.columns, values, scale: matrix.scale }
}
