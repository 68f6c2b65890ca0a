//! The numbers of a layer as matrices, and in the layout of the PEs.

use crate::Lab;
use crate::inputs::{numbers, queries};
use crate::reference::{panel_order, size};
use cubeyard_model::{Cut, Held};

/// A row-major matrix.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) columns: usize,
    pub(super) values: Vec<f64>,
}

impl Matrix {
    fn at(&self, row: u64, column: u64) -> f64 {
        self.values[size(row) * self.columns + size(column)]
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
    pub(super) gate: Matrix,
    pub(super) up: Matrix,
    pub(super) down: Matrix,
    /// A row for each sequence, head and token.
    pub(super) keys: Matrix,
    pub(super) values: Matrix,
}

impl Numbers {
    pub(super) fn new(lab: &Lab, cut: &Cut, position: u64) -> Self {
        let spec = &cut.spec;
        let (attended, kv) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let plain = |rows: u64, columns: u64, seed| Matrix {
            columns: size(columns),
            values: numbers(lab, rows * columns, seed),
        };
        // Scaled so that products stay about as large as their inputs; a power of 2 preserves the bits.
        let weights = |rows: u64, columns: u64, seed| {
            let mut matrix = plain(rows, columns, seed);
            let scale = 0.5_f64.powf((rows as f64).log2() / 2.0).log2().round().exp2();
            matrix.values.iter_mut().for_each(|value| *value *= scale);
            matrix
        };
        let cache = spec.kv_heads * cut.work.batch * cut.work.context;
        let mut this = Self {
            cut: cut.clone(),
            position,
            tokens: plain(cut.tokens(), spec.hidden, 1),
            qkv: weights(spec.hidden, attended + 2 * kv, 2),
            output: weights(attended, spec.hidden, 3),
            gate: weights(spec.hidden, spec.ffn, 4),
            up: weights(spec.hidden, spec.ffn, 5),
            down: weights(spec.ffn, spec.hidden, 6),
            keys: plain(cache, spec.head_dim, 7),
            values: plain(cache, spec.head_dim, 8),
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
            Held::Qkv => self.by_pe(sip, |cube, pe| self.columns_of_group(cube, pe)),
            Held::Output => self.by_pe(sip, |cube, pe| {
                self.panels(&self.output, cube * self.cut.attended(), self.cut.attended(), pe)
            }),
            Held::GateUp => self.by_pe(sip, |cube, pe| self.gate_up(cube, pe)),
            Held::Down => self.by_pe(sip, |cube, pe| {
                let depth = self.cut.inner() * self.cut.pes;
                self.panels(&self.down, cube * depth, depth, pe)
            }),
            Held::Head | Held::Table => {
                let (spec, sips) = (&self.cut.spec, self.cut.sips);
                let count = spec.hidden * spec.vocab;
                vec![0.0; size(if held == Held::Head { count / sips } else { count })]
            }
        }
    }

    fn by_pe(&self, sip: u64, of: impl Fn(u64, u64) -> Vec<f64>) -> Vec<f64> {
        let cubes = (0..self.cut.cubes).map(|cube| sip * self.cut.cubes + cube);
        let pes = cubes.flat_map(|cube| (0..self.cut.pes).map(move |pe| (cube, pe)));
        pes.flat_map(|(cube, pe)| of(cube, pe)).collect()
    }

    /// Arranges rows of tokens as the PEs of a cube hold them: the first features of all tokens, then the next.
    pub(super) fn shared(&self, tokens: &Matrix) -> Vec<f64> {
        let slice = size(self.cut.slice());
        let rows = || tokens.values.chunks_exact(tokens.columns);
        let of = |pe: usize| rows().flat_map(move |row| &row[pe * slice..(pe + 1) * slice]);
        (0..size(self.cut.pes)).flat_map(of).copied().collect()
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
    fn columns_of_group(&self, cube: u64, pe: u64) -> Vec<f64> {
        let (cut, spec) = (&self.cut, &self.cut.spec);
        let (head, unit) = (cube / cut.group_cubes, pe * cut.group_cubes + cube % cut.group_cubes);
        let column = |place: u64| {
            let (which, feature) = (place / spec.head_dim, place % spec.head_dim);
            let group = spec.group();
            let head = match which.checked_sub(group) {
                None => head * group + which,
                Some(kind) => spec.heads + kind * spec.kv_heads + head,
            };
            head * spec.head_dim + feature
        };
        let columns = unit * cut.qkv()..(unit + 1) * cut.qkv();
        let row = |row| columns.clone().map(move |place| self.qkv.at(row, column(place)));
        (0..spec.hidden).flat_map(row).collect()
    }

    fn gate_up(&self, cube: u64, pe: u64) -> Vec<f64> {
        let (cut, width) = (&self.cut, self.cut.inner());
        let first = (cube * cut.pes + pe) * width;
        let row = |row| {
            let of = move |matrix: &Matrix| {
                (first..first + width).map(|column| matrix.at(row, column)).collect::<Vec<_>>()
            };
            of(&self.gate).into_iter().chain(of(&self.up))
        };
        (0..cut.spec.hidden).flat_map(row).collect()
    }

    /// Returns some rows of a matrix, restricted to the columns of a PE, panel by panel.
    fn panels(&self, matrix: &Matrix, first: u64, rows: u64, pe: u64) -> Vec<f64> {
        let slice = self.cut.slice();
        let order = panel_order(rows, slice, self.cut.panel(rows)).into_iter();
        let place = |element: usize| (element as u64 / slice, element as u64 % slice);
        order.map(place).map(|(row, column)| matrix.at(first + row, pe * slice + column)).collect()
    }

    /// Returns the cache of a PE, with wrong numbers in place of the step's own tokens.
    fn cache(&self, cache: &Matrix, cube: u64, pe: u64) -> Vec<f64> {
        let (cut, work) = (&self.cut, &self.cut.work);
        let (head, unit) = (cube / cut.group_cubes, pe * cut.group_cubes + cube % cut.group_cubes);
        let row = |row: u64| {
            let (turn, rest) = (row / cut.room, row % cut.room);
            let (sequence, part) = if cut.parts > 1 {
                (unit / cut.parts, unit % cut.parts)
            } else {
                (unit * cut.held + turn, 0)
            };
            let token = part * cut.room + rest;
            if sequence < work.batch && token < self.position {
                return cache.row(self.cached(head, sequence, token)).to_vec();
            }
            vec![1000.0; cache.columns]
        };
        (0..cut.held * cut.room).flat_map(row).collect()
    }
}
