//! Inputs of a layer: matrices of numbers, and their values in the order of the machine's memory.

use crate::Lab;
use crate::inputs::{numbers, queries};
use crate::reference::size;
use cubeyard_model::{Cut, Held, Origin};

/// Matrix in row-major order.
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

    fn at(&self, row: u64, column: u64) -> f64 {
        self.values[size(row) * self.columns + size(column)]
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// Returns the scale of a column of a quantised matrix; neighbours differ.
    fn column_scale(&self, column: u64) -> f64 {
        self.scale * [1.0, 0.5, 2.0][size(column % 3)]
    }
}

/// Value of cache entries that no token has filled: a wrong number, which would show in the result.
const UNWRITTEN: f64 = 1000.0;

/// Inputs of a layer.
pub(super) struct Numbers {
    pub(super) cut: Cut,
    /// Position of the step in its sequences.
    pub(super) position: u64,
    /// Tokens of the step, one per row.
    pub(super) tokens: Matrix,
    /// Weights of Q for all heads, then of K, then of V.
    pub(super) qkv: Matrix,
    pub(super) output: Matrix,
    /// Weights of gate, up and down, for each expert.
    pub(super) gate: Vec<Matrix>,
    pub(super) up: Vec<Matrix>,
    pub(super) down: Vec<Matrix>,
    pub(super) router: Matrix,
    /// Caches, with a row for each head, sequence and token.
    pub(super) keys: Matrix,
    pub(super) values: Matrix,
    /// Biases of Q, K and V, in one row.
    pub(super) bias: Matrix,
    /// Weights of the norms of heads of Q and of K.
    pub(super) head_norms: Matrix,
    /// Weights of the norms that follow attention and the feed-forward part.
    pub(super) post_norms: Matrix,
}

impl Numbers {
    pub(super) fn new(lab: &Lab, cut: &Cut, position: u64) -> Self {
        let of = |held, count: u64, seed| {
            let [rows, columns] = cut.matrix_shape(held);
            Matrix::new(size(columns), numbers(lab, count * rows * columns, seed))
        };
        let plain = |held, seed| of(held, 1, seed);
        let weights = |held, seed| weights(cut, cut.matrix_shape(held)[0], of(held, 1, seed));
        let of_experts = |held, seed: u64| {
            (0..cut.experts()).map(|expert| weights(held, seed + 100 * expert)).collect()
        };
        let caches = cut.spec.kv_heads * cut.work.batch;
        let mut this = Self {
            cut: cut.clone(),
            position,
            tokens: plain(Held::Tokens, 1),
            qkv: weights(Held::Qkv, 2),
            output: weights(Held::Output, 3),
            gate: of_experts(Held::GateUp, 4),
            up: of_experts(Held::GateUp, 5),
            down: of_experts(Held::Down, 6),
            router: plain(Held::Router, 12),
            keys: of(Held::Keys, caches, 7),
            values: of(Held::Values, caches, 8),
            bias: plain(Held::QkvBias, 9),
            head_norms: plain(Held::HeadNorms, 10),
            post_norms: plain(Held::PostNorms, 11),
        };
        // Scores differ enough to reveal ordering errors.
        this.keys.values = queries(lab, this.keys.values.len() as u64, 7);
        this
    }

    /// Returns the row of a token in a head's cache.
    pub(super) fn cached(&self, head: u64, sequence: u64, token: u64) -> usize {
        let work = &self.cut.work;
        size((head * work.batch + sequence) * work.context + token)
    }

    /// Returns a SIP's part of a tensor, in memory order.
    pub(super) fn held(&self, held: Held, sip: u64) -> Vec<f64> {
        let padding = if matches!(held, Held::Keys | Held::Values) { UNWRITTEN } else { 0.0 };
        let value = |origin: Option<Origin>| origin.map_or(padding, |it| self.value(held, it));
        self.cut.origins(held, sip).map(value).collect()
    }

    /// Arranges rows of tokens as the PEs of a cube hold them: the first features of all tokens, then the next.
    pub(super) fn shared(&self, tokens: &Matrix) -> Vec<f64> {
        let value = |origin: Option<Origin>| origin.map_or(0.0, |it| tokens.at(it.row, it.column));
        self.cut.origins(Held::Tokens, 0).map(value).collect()
    }

    fn value(&self, held: Held, Origin { matrix, row, column }: Origin) -> f64 {
        let gate_or_up = || {
            let all = if matrix.is_multiple_of(2) { &self.gate } else { &self.up };
            &all[size(matrix / 2)]
        };
        match held {
            Held::Tokens => self.tokens.at(row, column),
            Held::Qkv => self.stored(&self.qkv, row, column),
            Held::Output => self.stored(&self.output, row, column),
            Held::GateUp => self.stored(gate_or_up(), row, column),
            Held::Down => self.stored(&self.down[size(matrix)], row, column),
            Held::QkvScales => self.qkv.column_scale(column),
            Held::OutputScales => self.output.column_scale(column),
            Held::GateUpScales => gate_or_up().column_scale(column),
            Held::DownScales => self.down[size(matrix)].column_scale(column),
            Held::QkvBias => self.bias.at(row, column),
            Held::Router => self.router.at(row, column),
            Held::HeadNorms => self.head_norms.at(row, column),
            Held::PostNorms => self.post_norms.at(row, column),
            // The tokens of the step are not in the caches yet.
            Held::Keys | Held::Values if row >= self.position => UNWRITTEN,
            Held::Keys => self.keys.at(matrix * self.cut.work.context + row, column),
            Held::Values => self.values.at(matrix * self.cut.work.context + row, column),
            Held::Angles if matrix == 0 => self.angle(self.position + row, column).cos(),
            Held::Angles => self.angle(self.position + row, column).sin(),
            // Neither the head nor the embedding is run.
            // A layer has neither table nor head, and no weights of 4 bits.
            Held::Head | Held::Table | Held::GateUpExponents | Held::DownExponents => 0.0,
        }
    }

    pub(super) fn angle(&self, position: u64, pair: u64) -> f64 {
        let part = 2.0 * pair as f64 / self.cut.spec.head_dim as f64;
        position as f64 * 500_000_f64.powf(-part)
    }

    /// Returns a weight as stored: without the scale of its column, if it is quantised.
    fn stored(&self, matrix: &Matrix, row: u64, column: u64) -> f64 {
        let value = matrix.at(row, column);
        if self.cut.is_quantised() { value / matrix.column_scale(column) } else { value }
    }
}

/// Scales weights so that products have about the magnitude of their inputs. A power of 2 preserves the bits.
fn weights(cut: &Cut, rows: u64, mut matrix: Matrix) -> Matrix {
    let scale = 0.5_f64.powf((rows as f64).log2() / 2.0).log2().round().exp2();
    if cut.is_quantised() {
        return quantised(matrix, scale);
    }
    matrix.values.iter_mut().for_each(|value| *value *= scale);
    matrix
}

/// Rounds a matrix of numbers up to 1 to whole numbers up to 8, which all 8-bit types represent, times the scales of
/// their columns.
fn quantised(mut matrix: Matrix, scale: f64) -> Matrix {
    matrix.scale = scale / 8.0;
    let scales: Vec<f64> = (0..).map(|at| matrix.column_scale(at)).take(matrix.columns).collect();
    let rows = matrix.values.chunks_exact_mut(matrix.columns);
    let round = |(value, scale): (&mut f64, &f64)| *value = (*value * 8.0).round() * scale;
    rows.for_each(|row| row.iter_mut().zip(&scales).for_each(round));
    matrix
}
