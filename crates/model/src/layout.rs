//! Layout of a model's tensors: the part of each PE, and the element of the model at each index of the part.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::cut::{BLOCK, Cut, Phase};

/// Tensor of a model. Weights and caches contain all layers: PE by PE, and within a PE layer by layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Input of a layer: identical in each cube, divided among its PEs.
    Tokens,
    /// Weights of Q, K and V, with columns in the order of the PEs of a [group](crate::cut).
    Qkv,
    /// Weights of the attention output, by panels.
    Output,
    /// Weights of gate, followed by the weights of up.
    GateUp,
    /// Weights of the down projection, by panels.
    Down,
    /// Weights of the head.
    Head,
    /// Embedding table: the features of each word.
    Table,
    /// Biases of Q, K and V, in the order of their columns.
    QkvBias,
    /// Weights of the router.
    Router,
    /// Weights of the norms of heads: of Q, then of K.
    HeadNorms,
    /// Weights of the norms of results: of attention, then of the feed-forward part.
    PostNorms,
    /// Scales of the columns of quantised weights of Q, K and V.
    QkvScales,
    /// Scales of the columns of quantised weights of the attention output.
    OutputScales,
    /// Scales of the columns of quantised weights of gate and up.
    GateUpScales,
    /// Scales of the columns of quantised weights of the down projection.
    DownScales,
    /// Exponents of blocks of 32 weights of gate and up in MXFP4.
    GateUpExponents,
    /// Exponents of blocks of 32 weights of the down projection in MXFP4.
    DownExponents,
    /// Keys of earlier tokens.
    Keys,
    /// Values of earlier tokens.
    Values,
    /// Cosines, then sines, of the positions of a step, in `f32`.
    Angles,
}

/// Position of an element in the undivided matrices of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Index among the matrices of the tensor: the expert; twice the expert for gate, plus one for up; the head of K
    /// and V times the batch, plus the sequence, for caches; 0 for cosines and 1 for sines.
    pub matrix: u64,
    /// Row of the matrix.
    pub row: u64,
    /// Column of the matrix.
    pub column: u64,
}

impl Cut {
    /// Returns the numbers of rows and columns of each matrix of a tensor, as defined by the model: without padding.
    pub fn matrix_shape(&self, held: Held) -> [u64; 2] {
        let spec = &self.spec;
        let (attended, kv) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        match held {
            Held::Tokens => [self.tokens(), spec.hidden],
            Held::Qkv => [spec.hidden, attended + 2 * kv],
            Held::QkvBias | Held::QkvScales => [1, attended + 2 * kv],
            Held::Output => [attended, spec.hidden],
            Held::GateUp => [spec.hidden, spec.ffn],
            Held::GateUpScales => [1, spec.ffn],
            Held::Down => [spec.ffn, spec.hidden],
            Held::GateUpExponents => [spec.hidden.div_ceil(BLOCK), spec.ffn],
            Held::DownExponents => [spec.ffn.div_ceil(BLOCK), spec.hidden],
            Held::OutputScales | Held::DownScales => [1, spec.hidden],
            Held::Head => [spec.hidden, spec.vocab],
            Held::Table => [spec.vocab, spec.hidden],
            Held::Router => [spec.hidden, self.experts()],
            Held::HeadNorms => [2, spec.head_dim],
            Held::PostNorms => [2, spec.hidden],
            Held::Keys | Held::Values => [self.cached(), spec.head_dim],
            Held::Angles => [self.each, spec.head_dim / 2],
        }
    }

    /// Returns the numbers of rows and columns of a tensor that a PE holds for one layer.
    pub(crate) fn shape(&self, held: Held) -> [u64; 2] {
        let (spec, matrices) = (&self.spec, self.matrices());
        match held {
            Held::Tokens => [self.tokens(), self.slice()],
            Held::Qkv => [self.hidden(), self.qkv()],
            Held::QkvBias | Held::QkvScales => [1, self.qkv()],
            Held::Output => [self.attended(), self.slice()],
            Held::OutputScales => [1, self.slice()],
            Held::GateUp => [matrices * self.hidden(), 2 * self.inner() / self.packed()],
            Held::GateUpExponents => [matrices * self.gate_up_blocks(), 2 * self.inner()],
            Held::DownExponents => [matrices * self.down_blocks(), self.slice()],
            Held::GateUpScales => [matrices, 2 * self.inner()],
            Held::Down => [matrices * self.inner() * self.pes, self.slice() / self.packed()],
            Held::DownScales => [matrices, self.slice()],
            Held::Head => [self.hidden(), self.words()],
            Held::Table => [self.words() * self.sips, self.hidden()],
            Held::Router => [self.hidden(), self.experts()],
            Held::HeadNorms => [2, spec.head_dim],
            Held::PostNorms => [2, self.slice()],
            Held::Keys | Held::Values => [self.held * self.heads.slots * self.room, spec.head_dim],
            Held::Angles => [2 * self.each, spec.head_dim / 2],
        }
    }

    /// Returns the number of bytes of a tensor that a PE holds, for all layers.
    pub(crate) fn bytes_of(&self, held: Held) -> u64 {
        let is_absent = matches!(held, Held::GateUpExponents | Held::DownExponents);
        if is_absent && !self.is_packed() {
            return 0;
        }
        let [rows, columns] = self.shape(held);
        self.layers_of(held) * rows * columns * self.dtype_of(held).size()
    }

    /// Returns the number of layers that a tensor contains; 0 for a table or head that a stage does not hold.
    pub(crate) fn layers_of(&self, held: Held) -> u64 {
        match held {
            Held::Tokens | Held::Angles => 1,
            Held::Table => u64::from(self.ends.has_embedding),
            Held::Head => u64::from(self.ends.has_head),
            _ => self.layers,
        }
    }

    /// Returns the element type of a tensor.
    pub(crate) fn dtype_of(&self, held: Held) -> DType {
        match held {
            Held::GateUp | Held::Down if self.is_packed() => DType::I8,
            Held::GateUpExponents | Held::DownExponents => DType::U8,
            Held::Qkv | Held::Output | Held::GateUp | Held::Down => self.work.weights,
            Held::QkvScales | Held::OutputScales | Held::GateUpScales | Held::DownScales => {
                DType::F32
            }
            Held::Angles => DType::F32,
            Held::Keys | Held::Values => self.work.kv_type(),
            _ => self.work.dtype,
        }
    }

    /// Returns the division of a tensor among the cubes of a SIP, and among the PEs of a cube.
    pub(crate) fn splits(held: Held) -> [Split; 2] {
        match held {
            Held::Tokens => [Split::Replicate, Split::RowWise],
            Held::Angles => [Split::Replicate; 2],
            _ => [Split::RowWise; 2],
        }
    }

    /// Returns the numbers of cubes and of PEs among which a tensor of a SIP is divided.
    pub(crate) fn holders(&self, held: Held) -> [u64; 2] {
        let count = |(split, all)| if split == Split::Replicate { 1 } else { all };
        let [cube, pe] = Self::splits(held);
        [(cube, self.cubes), (pe, self.pes)].map(count)
    }

    /// Returns the origins of the elements of a SIP's part of a tensor, for one layer, in memory
    /// order; `None` for padding.
    pub fn origins(&self, held: Held, sip: u64) -> impl Iterator<Item = Option<Origin>> {
        let ([rows, columns], [cubes, pes]) = (self.shape(held), self.holders(held));
        let cubes = (0..cubes).map(move |cube| sip * self.cubes + cube);
        let holders = cubes.flat_map(move |cube| (0..pes).map(move |pe| (cube, pe)));
        let [height, width] = self.matrix_shape(held);
        let inside = move |origin: &Origin| origin.row < height && origin.column < width;
        holders.flat_map(move |(cube, pe)| {
            let places = 0..rows * columns;
            places.map(move |place| self.origin(held, [cube, pe], place).filter(inside))
        })
    }

    /// Returns the origin of the element at an index of a PE's part. The cube is counted over all SIPs. The origin of
    /// padding may be outside the matrix.
    fn origin(&self, held: Held, [cube, pe]: [u64; 2], place: u64) -> Option<Origin> {
        let [rows, columns] = self.shape(held);
        let (row, column) = (place / columns, place % columns);
        let of = |matrix, row, column| Some(Origin { matrix, row, column });
        let sliced = |column| pe * self.slice() + column;
        match held {
            Held::Router | Held::HeadNorms => of(0, row, column),
            Held::Tokens | Held::PostNorms | Held::OutputScales => of(0, row, sliced(column)),
            Held::Angles => of(row / self.each, row % self.each, column),
            Held::Keys | Held::Values => {
                let (matrix, token) = self.cached_at([cube, pe], row)?;
                of(matrix, token, column)
            }
            Held::Qkv | Held::QkvBias | Held::QkvScales => {
                of(0, row, self.projected_column([cube, pe], column)?)
            }
            Held::Output => {
                let (row, column) = self.in_panels(rows, place);
                of(0, self.attended_row(cube, row)?, sliced(column))
            }
            Held::GateUp | Held::GateUpScales => {
                let (height, inner) = (rows / self.matrices(), self.inner());
                let expert = self.expert_at(cube, row / height);
                let first = (self.cube_of_place(cube) * self.pes + pe) * inner;
                of(2 * expert + column / inner, row % height, first + column % inner)
            }
            Held::Down => {
                let depth = rows / self.matrices();
                let expert = self.expert_at(cube, row / depth);
                let (row, column) = self.in_panels(depth, place % (depth * columns));
                of(expert, self.cube_of_place(cube) * depth + row, sliced(column))
            }
            Held::DownScales => of(self.expert_at(cube, row), 0, sliced(column)),
            // Their contents are not simulated.
            Held::GateUpExponents | Held::DownExponents => None,
            Held::Head => of(0, row, (cube * self.pes + pe) * columns + column),
            Held::Table => of(0, (cube % self.cubes * self.pes + pe) * rows + row, column),
        }
    }

    /// Returns the expert of one of the matrices of a cube.
    fn expert_at(&self, cube: u64, matrix: u64) -> u64 {
        let Some(routing) = self.routing else { return matrix };
        match matrix.checked_sub(routing.local) {
            Some(shared) => routing.experts.count + shared,
            None => self.place_of(cube) * routing.local + matrix,
        }
    }

    /// Returns the index of a cube among the cubes that share its experts.
    fn cube_of_place(&self, cube: u64) -> u64 {
        cube % (self.sharers() / self.pes)
    }

    /// Returns the row and column at an index of weights with `rows` rows, which are stored panel by panel.
    fn in_panels(&self, rows: u64, place: u64) -> (u64, u64) {
        let (slice, panel) = (self.slice(), self.panel(rows));
        let (first, within) = (place / (rows * panel) * panel, place % (rows * panel));
        let width = panel.min(slice - first);
        (within / width, first + within % width)
    }

    /// Returns the column of Q, K and V at an index of a PE's part: the heads of the group in order, distributed first
    /// over the first PEs of all cubes. `None` for padding.
    fn projected_column(&self, [cube, pe]: [u64; 2], column: u64) -> Option<u64> {
        let unit = pe * self.group_cubes + cube % self.group_cubes;
        let (place, size) = (unit * self.qkv() + column, self.spec.head_dim);
        let head = self.projected_head(cube / self.group_cubes, place / size)?;
        Some(head * size + place % size)
    }

    /// Returns the head at an index of a group's projection. Heads of Q come first, then heads of K, then heads of V.
    fn projected_head(&self, group: u64, place: u64) -> Option<u64> {
        let (heads, spec) = (&self.heads, &self.spec);
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

    /// Returns the row of the output weights at an index of a cube's part; `None` for padding.
    fn attended_row(&self, cube: u64, place: u64) -> Option<u64> {
        let heads = &self.heads;
        let piece = cube % self.group_cubes * heads.share + place / heads.piece;
        let (head, part) = (piece / heads.pieces, piece % heads.pieces);
        let slot = cube / self.group_cubes * heads.slots + head / heads.queries;
        let is_padding = head >= heads.slots * heads.queries;
        let head = heads.query_head(slot, head % heads.queries).filter(|_| !is_padding)?;
        Some(head * self.spec.head_dim + part * heads.piece + place % heads.piece)
    }

    /// Returns the matrix and the token of a row of a PE's cache; `None` for padding.
    fn cached_at(&self, [cube, pe]: [u64; 2], row: u64) -> Option<(u64, u64)> {
        let unit = pe * self.group_cubes + cube % self.group_cubes;
        let (slots, turn) = (self.heads.slots, row / self.room / self.heads.slots);
        let slot = cube / self.group_cubes * slots + row / self.room % slots;
        let (sequence, part) = if self.parts > 1 {
            (unit / self.parts, unit % self.parts)
        } else if self.work.phase == Phase::Prefill {
            // A step of prefill has one sequence per PE.
            (turn * self.units() + unit, 0)
        } else {
            (unit * self.held + turn, 0)
        };
        let head = self.heads.kv_head(slot).filter(|_| sequence < self.work.batch)?;
        let token = part * self.stretch + row % self.room;
        (row % self.room < self.stretch).then_some((head * self.work.batch + sequence, token))
    }
}
