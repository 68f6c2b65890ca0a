//! A composite cut into tiles: its loads, computations and stores, and their dependencies.

mod cost;
mod grid;
mod pipeline;

pub use grid::TileGrid;
pub(super) use pipeline::PlanComputation;

use std::fmt;

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{Dma, OpUnit, Strips};
use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;
use smallvec::smallvec;

use super::super::input::{Input, ValueId};
use super::super::op::{DotForm, Op};
use super::super::{Ref, Tile};
use super::{Composite, CompositeKind, Epilogue, Source};
use crate::numeric::{Binary, TileType};
use cost::Costs;

/// A tiled operation that was issued, cut into tiles.
#[derive(Debug)]
pub struct Plan {
    pub(super) kind: CompositeKind,
    pub(super) grid: TileGrid,
    pub(super) sources: Vec<PlanSource>,
    pub(super) epilogues: [Vec<(Op, Option<PlanOperand>)>; 3],
    costs: Costs,
    output: TileType,
    to: Option<Ref>,
    ahead: u32,
    /// Indices of the operands that are loaded at each step.
    loaded: Vec<usize>,
    /// The output's value if it stays in the TCM.
    pub(crate) value: Option<ValueId>,
}

#[derive(Clone, Debug)]
pub(super) enum PlanSource {
    Memory(Ref),
    Pinned(Input),
}

/// The second operand of an epilogue.
#[derive(Clone, Debug)]
pub(super) enum PlanOperand {
    Number(f64),
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
            .map(|list| list.into_iter().map(|epilogue| operation(&epilogue)).collect::<Vec<_>>());
        for (_, operand) in epilogues.iter().flatten() {
            check_operand(operand.as_ref(), &output)?;
        }
        let mut this = Self {
            kind: composite.kind.clone(),
            grid,
            sources,
            epilogues,
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
            },
            output,
            to,
            ahead: composite.ahead,
            loaded,
            value: None,
        };
        this.check_tiles().map_err(PlanProblem::Text)?;
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
        let epilogues = self.epilogues[1].len() + self.epilogues[2].len();
        let steps = self.epilogues[0].len() as u64 * u64::from(self.grid.steps);
        step + (epilogues as u64 + steps) * self.output.elements()
    }

    /// Returns the pinned tiles.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Input> {
        let sources = self.sources.iter().filter_map(|source| match source {
            PlanSource::Pinned(input) => Some(input),
            PlanSource::Memory(_) => None,
        });
        let operands = self.epilogues.iter().flatten().filter_map(|(_, operand)| match operand {
            Some(PlanOperand::Tile(input)) => Some(input),
            _ => None,
        });
        sources.chain(operands)
    }

    /// Returns a byte array as large as the tiles that are loaded ahead plus two output tiles under way.
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
    pub(crate) fn accesses(&self) -> Vec<Dma> {
        let mut all = Vec::new();
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

fn operation(epilogue: &Epilogue) -> (Op, Option<PlanOperand>) {
    match epilogue {
        Epilogue::Unary(op) => (Op::Unary(*op), None),
        Epilogue::Scale(op, number) => (Op::Binary(*op), Some(PlanOperand::Number(*number))),
        Epilogue::With(op, tile) => (Op::Binary(*op), Some(PlanOperand::Tile(tile.input()))),
    }
}

/// Checks that an epilogue's operand is a row of the output or has the output's shape.
fn check_operand(operand: Option<&PlanOperand>, output: &TileType) -> Result<(), PlanProblem> {
    let Some(ty) = operand.and_then(PlanOperand::ty) else { return Ok(()) };
    let columns = &output.shape[1..];
    if *ty.shape == *columns || ty.shape == output.shape {
        return Ok(());
    }
    let text = format!("an epilogue with {ty} on {output}: expected a row of it, or its shape");
    Err(PlanProblem::Text(text))
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

impl PlanOperand {
    fn ty(&self) -> Option<&TileType> {
        match self {
            Self::Tile(input) => Some(&input.ty),
            Self::Number(_) => None,
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

impl From<Binary> for Op {
    fn from(op: Binary) -> Self {
        Self::Binary(op)
    }
}
