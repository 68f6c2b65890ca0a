//! A composite cut into tiles: its loads, computations and stores, and their dependencies.

mod cost;
mod epilogue_types;
mod grid;
mod overlap;
mod pipeline;

pub use grid::TileGrid;
pub(super) use pipeline::PlanComputation;

use std::fmt;

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{OpUnit, Strips};
use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;
use smallvec::{SmallVec, smallvec};

use super::super::input::{Input, ValueId};
use super::super::op::{DotForm, Op};
use super::super::reference::Accesses;
use super::super::{Ref, Tile};
use super::{Composite, CompositeKind, Epilogue, Source};
use crate::numeric::{Reduce, Ternary, TileType, infer};
use cost::Costs;

/// An issued tiled operation, cut into tiles.
#[derive(Debug)]
pub struct Plan {
    pub(super) kind: CompositeKind,
    pub(super) grid: TileGrid,
    pub(super) sources: Vec<PlanSource>,
    pub(super) epilogues: [Vec<PlanEpilogue>; 3],
    pub(super) rows: Vec<Reduce>,
    /// Result types of the row reductions.
    columns: Vec<TileType>,
    costs: Costs,
    output: TileType,
    to: Option<Ref>,
    ahead: u32,
    /// Indices of the operands that are loaded at each step.
    loaded: Vec<usize>,
    /// The output's value, if it stays in the TCM.
    pub(crate) value: Option<ValueId>,
    /// Values of the row reductions.
    pub(crate) row_values: Vec<ValueId>,
}

#[derive(Clone, Debug)]
pub(super) enum PlanSource {
    Memory(Ref),
    Pinned(Input),
}

/// An operation on the intermediate result, in registers.
#[derive(Clone, Debug)]
pub(super) struct PlanEpilogue {
    pub(super) op: Op,
    pub(super) operands: SmallVec<[PlanOperand; 3]>,
}

/// An operand of an epilogue.
#[derive(Clone, Debug)]
pub(super) enum PlanOperand {
    /// The intermediate result.
    Result,
    Number(Scalar),
    Tile(Input),
}

pub(super) enum PlanProblem {
    NoRate(DType),
    Text(String),
}

impl Plan {
    pub(super) fn new(
        composite: &Composite,
        output: TileType,
        to: Option<Ref>,
        core: &CoreSpec,
    ) -> Result<Self, PlanProblem> {
        let grid = grid::grid(composite, core)?;
        let sources: Vec<_> = composite.sources.iter().map(PlanSource::of).collect();
        let is_loaded = |&index: &usize| matches!(sources[index], PlanSource::Memory(_));
        let loaded: Vec<_> = (0..sources.len()).filter(is_loaded).collect();
        let epilogues = composite
            .epilogues
            .clone()
            .map(|list| list.iter().map(PlanEpilogue::of).collect::<Vec<_>>());
        for ty in epilogues.iter().flatten().flat_map(PlanEpilogue::types) {
            check_operand(ty, &output)?;
        }
        let result = epilogue_types::check(composite, &epilogues, &output)?;
        let columns = columns(composite, &result)?;
        let mut this = Self {
            kind: composite.kind.clone(),
            grid,
            sources,
            epilogues,
            rows: composite.rows.clone(),
            columns,
            costs: Costs {
                step: Strips {
                    unit: OpUnit::Math,
                    count: 1,
                    fetch: Span::ZERO,
                    work: Span::ZERO,
                    store: Span::ZERO,
                },
                keep: Span::ZERO,
                epilogues: <[Vec<Strips>; 3]>::default(),
                rows: Vec::new(),
                column: Span::ZERO,
            },
            output,
            to,
            ahead: composite.ahead,
            loaded,
            value: None,
            row_values: Vec::new(),
        };
        this.check_tiles().and_then(|()| this.check_apart()).map_err(PlanProblem::Text)?;
        this.costs = this.costs(core)?;
        Ok(this)
    }

    /// Checks that each tile in memory is a single access.
    fn check_tiles(&self) -> Result<(), String> {
        for (index, source) in self.sources.iter().enumerate() {
            if let PlanSource::Memory(reference) = source {
                reference.check_tiles(self.tile_shape(index, self.grid.tile))?;
            }
        }
        let [m, _, n] = self.grid.tile;
        self.to.as_ref().map_or(Ok(()), |to| to.check_tiles([m, n]))
    }

    /// Returns type and shape of the output.
    pub fn output(&self) -> &TileType {
        &self.output
    }

    /// Returns type and shape of each row reduction.
    pub(super) fn columns(&self) -> &[TileType] {
        &self.columns
    }

    /// Names the operation and its output, e.g. `gemm f32[32, 32]`.
    pub fn brief(&self) -> String {
        let name = match &self.kind {
            CompositeKind::Gemm => "gemm",
            CompositeKind::Map(op) => op.name(),
            CompositeKind::Reduce(reduce) => reduce.name(),
        };
        format!("{name} {}", self.output)
    }

    /// Returns the grid of tiles.
    pub fn grid(&self) -> TileGrid {
        self.grid
    }

    /// Returns the number of floating-point operations, as [`Op::flop`] counts them.
    pub(super) fn flop(&self) -> u64 {
        let types: Vec<_> = self.sources.iter().map(PlanSource::ty).collect();
        let step = match &self.kind {
            CompositeKind::Gemm => Op::Dot(DotForm::default()).flop(&types, &self.output),
            CompositeKind::Map(op) => op.flop(&types, &self.output),
            CompositeKind::Reduce(_) => types[0].elements(),
        };
        let epilogues = self.epilogues[1].len() + self.epilogues[2].len() + self.rows.len();
        let steps = self.epilogues[0].len() as u64 * u64::from(self.grid.steps);
        step + (epilogues as u64 + steps) * self.output.elements()
    }

    /// Returns the pinned tiles.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Input> {
        let sources = self.sources.iter().filter_map(|source| match source {
            PlanSource::Pinned(input) => Some(input),
            PlanSource::Memory(_) => None,
        });
        sources.chain(self.epilogues.iter().flatten().flat_map(PlanEpilogue::tiles))
    }

    /// Returns a byte array as large as the tiles loaded ahead plus two output tiles in flight.
    pub(super) fn buffers(&self) -> TileType {
        let [m, k, n] = self.grid.tile;
        let loads: u64 = self
            .loaded
            .iter()
            .map(|&index| {
                let elements = self.tile_shape(index, [m, k, n]).iter().product::<u64>();
                elements * self.sources[index].ty().dtype.size()
            })
            .sum();
        let stores = if self.to.is_some() { 2 * m * n * self.output.dtype.size() } else { 0 };
        let bytes = loads * u64::from(self.ahead) + stores;
        TileType { dtype: DType::U8, shape: smallvec![bytes] }
    }

    /// Returns all accesses for checking; each matrix counts as a whole.
    pub(crate) fn accesses(&self) -> Accesses {
        let mut all = Accesses::new();
        for source in &self.sources {
            if let PlanSource::Memory(reference) = source {
                all.extend(reference.accesses(Direction::Read, None));
            }
        }
        if let Some(to) = &self.to {
            all.extend(to.accesses(Direction::Write, None));
        }
        all
    }
}

impl PlanEpilogue {
    fn of(epilogue: &Epilogue) -> Self {
        let tile = |tile: &Tile| PlanOperand::Tile(tile.input());
        let result = PlanOperand::Result;
        match epilogue {
            Epilogue::Unary(op) => Self { op: Op::Unary(*op), operands: smallvec![result] },
            Epilogue::Scale(op, number) => {
                let operands = smallvec![result, PlanOperand::Number(*number)];
                Self { op: Op::Binary(*op), operands }
            }
            Epilogue::With(op, other) => {
                Self { op: Op::Binary(*op), operands: smallvec![result, tile(other)] }
            }
            Epilogue::AddProduct(x, y) => Self {
                op: Op::Ternary(Ternary::Fma),
                operands: smallvec![tile(x), tile(y), result],
            },
        }
    }

    fn tiles(&self) -> impl Iterator<Item = &Input> {
        self.operands.iter().filter_map(|operand| match operand {
            PlanOperand::Tile(input) => Some(input),
            _ => None,
        })
    }

    /// Returns the types of the epilogue's tiles.
    fn types(&self) -> impl Iterator<Item = &TileType> {
        self.tiles().map(|input| &input.ty)
    }
}

/// Returns the types of a composite's row reductions, for an intermediate result of this type.
fn columns(composite: &Composite, result: &TileType) -> Result<Vec<TileType>, PlanProblem> {
    if composite.rows.is_empty() {
        return Ok(Vec::new());
    }
    if !composite.epilogues[2].is_empty() {
        let text =
            "reductions of rows come before an epilogue at the end: reduce its result instead";
        return Err(PlanProblem::Text(text.to_owned()));
    }
    composite.rows.iter().map(|reduce| column(*reduce, result)).collect()
}

fn column(reduce: Reduce, ty: &TileType) -> Result<TileType, PlanProblem> {
    if matches!(reduce, Reduce::Argmax | Reduce::Argmin) {
        let text = format!(
            "{} of rows of a composite: expected sum, max, min, prod or xor",
            reduce.name()
        );
        return Err(PlanProblem::Text(text));
    }
    infer::reduce(reduce, ty, 1, true).map_err(|error| PlanProblem::Text(error.to_string()))
}

/// Checks that a tile of an epilogue is a row or a column of the output, or has the output's shape.
fn check_operand(ty: &TileType, output: &TileType) -> Result<(), PlanProblem> {
    let [rows, columns] = [output.shape[0], output.shape[1]];
    let fits = match *ty.shape {
        [length] => length == columns,
        [height, width] => (height == 1 || height == rows) && (width == 1 || width == columns),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let text = format!(
        "an epilogue with {ty} on {output}: expected a row or a column of it, or its shape"
    );
    Err(PlanProblem::Text(text))
}

/// Returns whether a tile of an epilogue has an element for each row and for each column of the output.
pub(super) fn spread(ty: &TileType) -> [bool; 2] {
    match *ty.shape {
        [height, width] => [height > 1, width > 1],
        _ => [false, true],
    }
}

impl PlanSource {
    fn of(source: &Source) -> Self {
        match source {
            Source::Memory(reference) => Self::Memory(reference.clone()),
            Source::Pinned(tile) => Self::Pinned(Tile::input(tile)),
        }
    }

    pub(super) fn ty(&self) -> &TileType {
        match self {
            Self::Memory(reference) => reference.ty(),
            Self::Pinned(input) => &input.ty,
        }
    }
}

/// Formats e.g. `gemm f32[32, 32] of 1 × 1 tiles in 48 steps`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TileGrid { rows, columns, steps, .. } = self.grid;
        write!(f, "{} of {rows} × {columns} tiles", self.brief())?;
        if steps > 1 { write!(f, " in {steps} steps") } else { Ok(()) }
    }
}
