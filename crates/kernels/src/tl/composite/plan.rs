//! A composite cut into tiles: which loads, computations and stores there are, and what they wait for.

use std::fmt;

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{Dma, OpUnit, Pipeline, Strips};
use cubeyard_device::topology::CoreSpec;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;

use super::super::op::Op;
use super::super::tape::{Input, ValueId};
use super::super::{Ref, Tile};
use super::{Composite, Epilogue, Kind, Source};
use crate::numeric::{Binary, TileType};

/// How an output is cut: tiles of it, and steps that each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileGrid {
    /// Output tiles from top to bottom.
    pub rows: u32,
    /// Output tiles from left to right.
    pub columns: u32,
    /// Steps of each output tile.
    pub steps: u32,
    /// M, K and N of a full tile; for other operations rows, 1 or the columns of a step, and columns.
    pub tile: [u64; 3],
}

/// A tiled operation that has been ordered.
#[derive(Debug)]
pub struct Plan {
    pub(super) kind: Kind,
    pub(super) grid: TileGrid,
    pub(super) sources: Vec<PlanSource>,
    pub(super) epilogues: [Vec<(Op, Option<PlanOperand>)>; 3],
    costs: Costs,
    output: TileType,
    to: Option<Ref>,
    ahead: u32,
    /// The operands that are loaded at each step.
    loaded: Vec<usize>,
    /// The value of an output that stays in the TCM.
    pub(crate) value: Option<ValueId>,
}

/// An operand.
#[derive(Clone, Debug)]
pub(super) enum PlanSource {
    Memory(Ref),
    Pinned(Input),
}

/// The other operand of an epilogue.
#[derive(Clone, Debug)]
pub(super) enum PlanOperand {
    Number(f64),
    Tile(Input),
}

/// What computations cost, each in a full tile.
#[derive(Clone, Debug)]
struct Costs {
    step: Strips,
    /// Of an output tile to the TCM.
    keep: Span,
    epilogues: [Vec<Strips>; 3],
}

pub(super) enum Problem {
    NoRate(DType),
    Text(String),
}

/// Which computation one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Computation {
    /// A step of an output tile.
    Step { out: u32, step: u32 },
    /// An epilogue of a step.
    AfterStep { out: u32, step: u32, number: usize },
    /// An epilogue of an output tile.
    AfterTile { out: u32, number: usize },
    /// An epilogue of all.
    AtTheEnd { number: usize },
}

impl Plan {
    pub(super) fn new(
        composite: &Composite,
        output: TileType,
        to: Option<Ref>,
        core: &CoreSpec,
    ) -> Result<Self, Problem> {
        let grid = grid(composite, core)?;
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
        this.check_tiles().map_err(Problem::Text)?;
        this.costs = this.costs(core)?;
        Ok(this)
    }

    /// Each tile in memory must be one access.
    fn check_tiles(&self) -> Result<(), String> {
        for (index, source) in self.sources.iter().enumerate() {
            if let PlanSource::Memory(reference) = source {
                reference.check_tiles(self.tile_shape(index, self.grid.tile))?;
            }
        }
        let [m, _, n] = self.grid.tile;
        self.to.as_ref().map_or(Ok(()), |to| to.check_tiles([m, n]))
    }

    /// Type and shape of the output.
    pub fn output(&self) -> &TileType {
        &self.output
    }

    /// What it computes: `gemm f32[32, 32]`.
    pub fn brief(&self) -> String {
        let name = match &self.kind {
            Kind::Gemm => "gemm",
            Kind::Map(op) => op.name(),
            Kind::Reduce(reduce) => reduce.name(),
        };
        format!("{name} {}", self.output)
    }

    /// How it is cut into tiles.
    pub fn grid(&self) -> TileGrid {
        self.grid
    }

    /// Floating-point operations.
    pub(super) fn flop(&self) -> u64 {
        let types: Vec<_> = self.sources.iter().map(PlanSource::ty).collect();
        let step = match &self.kind {
            Kind::Gemm => Op::Dot.flop(&types, &self.output),
            Kind::Map(op) => op.flop(&types, &self.output),
            Kind::Reduce(_) => types[0].elements(),
        };
        let epilogues = self.epilogues[1].len() + self.epilogues[2].len();
        let steps = self.epilogues[0].len() as u64 * u64::from(self.grid.steps);
        step + (epilogues as u64 + steps) * self.output.elements()
    }

    /// The tiles that are pinned.
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

    /// What the tiles take that are loaded ahead, and the output tiles that are being stored.
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
        TileType { dtype: DType::U8, shape: vec![bytes] }
    }

    /// All accesses, to be checked; those to a matrix all at once.
    pub(super) fn accesses(&self) -> Vec<Dma> {
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

    /// The rows and columns of an operand's full tile.
    fn tile_shape(&self, index: usize, [m, k, n]: [u64; 3]) -> [u64; 2] {
        match (&self.kind, index) {
            (Kind::Gemm, 0) | (Kind::Reduce(_), _) => [m, k],
            (Kind::Gemm, _) => [k, n],
            (Kind::Map(_), _) => [m, n],
        }
    }

    /// The box of an operand that a step uses.
    pub(super) fn source_box(&self, index: usize, out: u32, step: u32) -> ([u64; 2], [u64; 2]) {
        let (row, column) = self.place(out);
        let [m, k, n] = self.grid.tile;
        let (row, column) = (u64::from(row) * m, u64::from(column) * n);
        let step = u64::from(step) * k;
        let start = match (&self.kind, index) {
            (Kind::Gemm, 0) | (Kind::Reduce(_), _) => [row, step],
            (Kind::Gemm, _) => [step, column],
            (Kind::Map(_), _) => [row, column],
        };
        clip(start, self.tile_shape(index, self.grid.tile), &self.sources[index].ty().shape)
    }

    /// The box of the output that is an output tile.
    pub(super) fn output_box(&self, out: u32) -> ([u64; 2], [u64; 2]) {
        let (row, column) = self.place(out);
        let [m, _, n] = self.grid.tile;
        clip([u64::from(row) * m, u64::from(column) * n], [m, n], &self.output.shape)
    }

    fn place(&self, out: u32) -> (u32, u32) {
        (out / self.grid.columns, out % self.grid.columns)
    }

    fn outs(&self) -> u32 {
        self.grid.rows * self.grid.columns
    }

    /// Loads of each step.
    fn loads_each(&self) -> u32 {
        u32::try_from(self.loaded.len()).expect("few operands")
    }

    /// Epilogues of a step, of an output tile, or of all.
    fn epilogues_at(&self, level: usize) -> u32 {
        u32::try_from(self.epilogues[level].len()).expect("few epilogues")
    }

    /// Computations of each step, and of each output tile.
    fn per_step(&self) -> u32 {
        1 + self.epilogues_at(0)
    }

    fn per_out(&self) -> u32 {
        self.grid.steps * self.per_step() + self.epilogues_at(1)
    }

    pub(super) fn computation(&self, index: u32) -> Computation {
        let (out, rest) = (index / self.per_out(), index % self.per_out());
        if out >= self.outs() {
            return Computation::AtTheEnd {
                number: (index - self.outs() * self.per_out()) as usize,
            };
        }
        let (step, number) = (rest / self.per_step(), rest % self.per_step());
        if step >= self.grid.steps {
            let number = (rest - self.grid.steps * self.per_step()) as usize;
            return Computation::AfterTile { out, number };
        }
        match number {
            0 => Computation::Step { out, step },
            _ => Computation::AfterStep { out, step, number: number as usize - 1 },
        }
    }

    /// The number of the computation that is a step, counted over all output tiles.
    fn step_index(&self, step: u32) -> u32 {
        step / self.grid.steps * self.per_out() + step % self.grid.steps * self.per_step()
    }

    /// Which operand a load is of, and for which output tile and step.
    pub(super) fn load_of(&self, index: u32) -> (usize, u32, u32) {
        let loads = self.loads_each();
        let (step, which) = (index / loads, index % loads);
        (self.loaded[which as usize], step / self.grid.steps, step % self.grid.steps)
    }

    /// Whether a computation is the last of its output tile.
    pub(super) fn ends_tile(&self, computation: Computation) -> Option<u32> {
        match computation {
            Computation::Step { out, step } => (step + 1 == self.grid.steps
                && self.per_step() == 1
                && self.epilogues[1].is_empty())
            .then_some(out),
            Computation::AfterStep { out, step, number } => (step + 1 == self.grid.steps
                && number + 1 == self.epilogues[0].len()
                && self.epilogues[1].is_empty())
            .then_some(out),
            Computation::AfterTile { out, number } => {
                (number + 1 == self.epilogues[1].len()).then_some(out)
            }
            Computation::AtTheEnd { .. } => None,
        }
    }

    fn costs(&self, core: &CoreSpec) -> Result<Costs, Problem> {
        let [m, k, n] = self.grid.tile;
        let of = |index: usize| {
            let shape = self.tile_shape(index, [m, k, n]);
            let whole = &self.sources[index].ty();
            let shape: Vec<_> = shape.iter().zip(&whole.shape).map(|(a, b)| *a.min(b)).collect();
            TileType { dtype: whole.dtype, shape }
        };
        let types: Vec<_> = (0..self.sources.len()).map(of).collect();
        let types: Vec<_> = types.iter().collect();
        let wrong = |error: crate::numeric::NumericError| Problem::Text(error.to_string());
        let op = match &self.kind {
            Kind::Gemm => Op::Dot,
            Kind::Map(op) => op.clone(),
            Kind::Reduce(reduce) => Op::Reduce(*reduce, 1, true),
        };
        let result = op.infer(&types).map_err(wrong)?;
        let step = op.cost(&types, &result, core).map_err(Problem::NoRate)?;
        let out = TileType {
            dtype: self.output.dtype,
            shape: vec![m.min(self.output.shape[0]), n.min(self.output.shape[1])],
        };
        let registers = |ty: &TileType, rows: u64, columns: u64| TileType {
            dtype: ty.dtype,
            shape: vec![rows, columns],
        };
        let epilogues = [&self.epilogues[0], &self.epilogues[1], &self.epilogues[2]];
        let [steps, tiles, end] = epilogues.map(|list| {
            list.iter()
                .map(|(op, operand)| epilogue_cost(op, operand.as_ref(), &out, core))
                .collect()
        });
        let mut end: Vec<Strips> = end;
        let all = registers(&self.output, self.output.shape[0], self.output.shape[1]);
        for (strips, (op, operand)) in end.iter_mut().zip(&self.epilogues[2]) {
            // At the end the output is in the TCM, and goes through the vector unit once more.
            let operand = operand.as_ref().and_then(PlanOperand::ty);
            let inputs: Vec<_> = std::iter::once(&all).chain(operand).collect();
            *strips = op.cost(&inputs, &all, core).map_err(Problem::NoRate)?;
        }
        Ok(Costs {
            step: Strips { store: Span::ZERO, ..step },
            keep: core.tcm_write.span(out.nbytes()),
            epilogues: [steps, tiles, end],
        })
    }
}

/// What an epilogue costs on what is in the registers: only its own operand is fetched.
fn epilogue_cost(
    op: &Op,
    operand: Option<&PlanOperand>,
    out: &TileType,
    core: &CoreSpec,
) -> Strips {
    let strips = op.cost(&[out], out, core);
    let strips = strips.expect("epilogues are for the vector unit, which has a rate for all types");
    let row = operand.and_then(PlanOperand::ty).map_or(0, |ty| {
        let rows = if ty.shape.len() == 2 { out.shape[0] } else { 1 };
        rows * out.shape[1] * ty.dtype.size()
    });
    let fetch = core.tcm_read.span(row.div_ceil(u64::from(strips.count)));
    Strips { fetch, store: Span::ZERO, ..strips }
}

fn operation(epilogue: &Epilogue) -> (Op, Option<PlanOperand>) {
    match epilogue {
        Epilogue::Unary(op) => (Op::Unary(*op), None),
        Epilogue::Scale(op, number) => (Op::Binary(*op), Some(PlanOperand::Number(*number))),
        Epilogue::With(op, tile) => (Op::Binary(*op), Some(PlanOperand::Tile(tile.input()))),
    }
}

/// An operand of an epilogue is a row of the output's columns, or as large as the output.
fn check_operand(operand: Option<&PlanOperand>, output: &TileType) -> Result<(), Problem> {
    let Some(ty) = operand.and_then(PlanOperand::ty) else { return Ok(()) };
    let columns = &output.shape[1..];
    if ty.shape == columns || ty.shape == output.shape {
        return Ok(());
    }
    let text = format!("an epilogue with {ty} on {output}: it must be a row of it, or as large");
    Err(Problem::Text(text))
}

fn grid(composite: &Composite, core: &CoreSpec) -> Result<TileGrid, Problem> {
    let first = composite.sources[0].ty();
    let tiles = |length: u64, edge: u64| {
        u32::try_from(length.div_ceil(edge))
            .map_err(|_| Problem::Text(format!("{length} in tiles of {edge}: too many")))
    };
    let edge = |length: u64, most: u64| length.min(most).max(1);
    let tile = match (&composite.kind, composite.tile) {
        (Kind::Gemm, _) => [core.gemm.m, core.gemm.k, core.gemm.n].map(u64::from),
        (_, Some([rows, columns])) if rows > 0 && columns > 0 => [rows, columns, columns],
        (_, Some(_)) => return Err(Problem::Text("tiles of no rows or columns".to_owned())),
        // As many whole strips as rows allow.
        (_, None) => {
            let columns = edge(first.shape[1], core.math.strip.into());
            let rows = edge(first.shape[0], u64::from(core.math.strip) / columns);
            [rows, columns, columns]
        }
    };
    let [m, k, n] = tile;
    Ok(match &composite.kind {
        Kind::Gemm => TileGrid {
            rows: tiles(first.shape[0], m)?,
            columns: tiles(composite.sources[1].ty().shape[1], n)?,
            steps: tiles(first.shape[1], k)?,
            tile,
        },
        Kind::Map(_) => TileGrid {
            rows: tiles(first.shape[0], m)?,
            columns: tiles(first.shape[1], n)?,
            steps: 1,
            tile,
        },
        Kind::Reduce(_) => TileGrid {
            rows: tiles(first.shape[0], m)?,
            columns: 1,
            steps: tiles(first.shape[1], k)?,
            tile: [m, k, 1],
        },
    })
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

/// A box, as far as it is inside.
fn clip(start: [u64; 2], shape: [u64; 2], whole: &[u64]) -> ([u64; 2], [u64; 2]) {
    let left = |axis: usize| shape[axis].min(whole[axis].saturating_sub(start[axis]));
    (start, [left(0), left(1)])
}

impl Pipeline for Plan {
    fn parts(&self) -> [u32; 3] {
        let loads = self.outs() * self.grid.steps * self.loads_each();
        let computations = self.outs() * self.per_out() + self.epilogues_at(2);
        [loads, computations, if self.to.is_some() { self.outs() } else { 0 }]
    }

    fn load(&self, index: u32) -> Dma {
        let (source, out, step) = self.load_of(index);
        let PlanSource::Memory(reference) = &self.sources[source] else {
            unreachable!("only operands in memory are loaded")
        };
        let (start, shape) = self.source_box(source, out, step);
        reference.box_access(Direction::Read, start, shape)
    }

    fn load_after(&self, index: u32) -> u32 {
        let step = index / self.loads_each();
        step.checked_sub(self.ahead).map_or(0, |earlier| self.step_index(earlier) + 1)
    }

    fn compute(&self, index: u32) -> Strips {
        let computation = self.computation(index);
        let strips = match computation {
            Computation::Step { .. } => self.costs.step,
            Computation::AfterStep { number, .. } => self.costs.epilogues[0][number],
            Computation::AfterTile { number, .. } => self.costs.epilogues[1][number],
            Computation::AtTheEnd { number } => self.costs.epilogues[2][number],
        };
        match self.ends_tile(computation) {
            Some(_) => {
                let each = Span::from_ps(self.costs.keep.ps().div_ceil(strips.count.into()));
                Strips { store: each, ..strips }
            }
            None => strips,
        }
    }

    fn compute_after(&self, index: u32) -> [u32; 2] {
        let loads = self.loads_each();
        let all = self.outs() * self.grid.steps * loads;
        let (out, loads) = match self.computation(index) {
            Computation::Step { out, step } | Computation::AfterStep { out, step, .. } => {
                (out, (out * self.grid.steps + step + 1) * loads)
            }
            Computation::AfterTile { out, .. } => (out, (out + 1) * self.grid.steps * loads),
            Computation::AtTheEnd { .. } => (self.outs() - 1, all),
        };
        let stores = if self.to.is_some() { out.saturating_sub(1) } else { 0 };
        [loads, stores]
    }

    fn store(&self, index: u32) -> Dma {
        let to = self.to.as_ref().expect("only outputs in memory are stored");
        let (start, shape) = self.output_box(index);
        to.box_access(Direction::Write, start, shape)
    }

    fn store_after(&self, index: u32) -> u32 {
        (index + 1) * self.per_out()
    }
}

/// As in `gemm f32[32, 32] of 1 × 1 tiles in 48 steps`.
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
