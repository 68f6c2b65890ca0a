//! Tiled operations: overlapping loads, computations and stores of many tiles.
//!
//! A composite iterates over its output tiles, and for each output tile over its steps: for a matrix product, the tiles
//! along K. Each step loads a tile of every operand in memory. The other operands are pinned: the kernel has already
//! loaded them into the TCM. The sum over the steps stays in the engine's registers; after the last step the output
//! tile is stored. Epilogues are computed after each step, after the last step of each output tile, or once at the end.

mod indices;
mod part;
mod plan;
mod run;

pub use plan::{Plan, TileGrid};
pub(crate) use run::PlanRun;

use cubeyard_device::pe::{CommandId, Work};
use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;

use super::math::no_rate;
use super::op::Op;
use super::order::TileUse;
use super::tape::Effect;
use super::{Ref, Tile, Tl};
use crate::numeric::{Binary, Reduce, TileType, Unary, infer};
use std::rc::Rc;

/// An operand of a composite.
#[derive(Clone, Debug)]
pub enum Source {
    /// An operand in memory, of which each step loads a tile.
    Memory(Ref),
    /// An operand in the TCM.
    Pinned(Tile),
}

impl From<&Ref> for Source {
    fn from(reference: &Ref) -> Self {
        Self::Memory(reference.clone())
    }
}

impl From<&Tile> for Source {
    fn from(tile: &Tile) -> Self {
        Self::Pinned(tile.clone())
    }
}

impl Source {
    fn ty(&self) -> &TileType {
        match self {
            Self::Memory(reference) => reference.ty(),
            Self::Pinned(tile) => tile.ty(),
        }
    }
}

/// An elementwise operation on the intermediate result of a composite. The epilogue's tiles are in the TCM. Each is a
/// row of the output (`[n]` or `[1, n]`), a column of it (`[m, 1]`), or has the output's shape.
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// An operation on each element.
    Unary(Unary),
    /// An operation on each element and a number.
    Scale(Binary, Scalar),
    /// An operation on each element and the matching element of a tile.
    With(Binary, Tile),
    /// The sum of each element and the product of two tiles, rounded once; for example for an accumulator that is
    /// scaled by rows.
    AddProduct(Tile, Tile),
}

impl Epilogue {
    fn tiles(&self) -> impl Iterator<Item = &Tile> {
        let tiles = match self {
            Self::Unary(_) | Self::Scale(..) => [None, None],
            Self::With(_, tile) => [Some(tile), None],
            Self::AddProduct(x, y) => [Some(x), Some(y)],
        };
        tiles.into_iter().flatten()
    }
}

/// A builder of a tiled operation. [`store`](Self::store) or [`tile`](Self::tile) issues it.
#[derive(Clone, Debug)]
#[must_use = "a composite is ordered by store or tile"]
pub struct Composite {
    tl: Tl,
    kind: CompositeKind,
    sources: Vec<Source>,
    /// Epilogues after each step, after each output tile, and at the end.
    epilogues: [Vec<Epilogue>; 3],
    /// Reductions of the rows of the output.
    rows: Vec<Reduce>,
    /// Number of steps by which loads run ahead of computations.
    ahead: u32,
    tile: Option<[u64; 2]>,
}

/// The computation of each step.
#[derive(Clone, Debug, PartialEq)]
enum CompositeKind {
    Gemm,
    /// Elementwise over all operands.
    Map(Op),
    /// Over the elements of each row.
    Reduce(Reduce),
}

/// A handle to an issued composite, for [`Tl::wait`].
#[derive(Clone, Debug)]
pub struct Handle {
    command: CommandId,
}

impl Handle {
    pub(super) fn command(&self) -> CommandId {
        self.command
    }
}

impl Tl {
    /// Builds a matrix product in tiles of the matrix unit.
    #[track_caller]
    pub fn gemm(&self, a: impl Into<Source>, b: impl Into<Source>) -> Composite {
        self.composite(CompositeKind::Gemm, vec![a.into(), b.into()])
    }

    /// Builds an elementwise operation on matrices of one shape.
    #[track_caller]
    pub fn map(&self, op: Op, operands: Vec<Source>) -> Composite {
        self.composite(CompositeKind::Map(op), operands)
    }

    /// Builds a reduction of each row of a matrix; the result is a column. Indices are relative to the start of the
    /// row.
    #[track_caller]
    pub fn reduce_rows(&self, reduce: Reduce, x: impl Into<Source>) -> Composite {
        self.composite(CompositeKind::Reduce(reduce), vec![x.into()])
    }

    #[track_caller]
    fn composite(&self, kind: CompositeKind, sources: Vec<Source>) -> Composite {
        self.count();
        let (tl, epilogues) = (self.clone(), <[Vec<Epilogue>; 3]>::default());
        Composite { tl, kind, sources, epilogues, rows: Vec::new(), ahead: 2, tile: None }
    }
}

impl Composite {
    /// Adds an epilogue that runs after each step, on the sum so far.
    pub fn after_step(mut self, epilogue: Epilogue) -> Self {
        self.epilogues[0].push(epilogue);
        self
    }

    /// Adds an epilogue that runs on each output tile before it is stored.
    pub fn after_tile(mut self, epilogue: Epilogue) -> Self {
        self.epilogues[1].push(epilogue);
        self
    }

    /// Adds an epilogue that runs once, on the whole output, which therefore stays in the TCM.
    pub fn at_the_end(mut self, epilogue: Epilogue) -> Self {
        self.epilogues[2].push(epilogue);
        self
    }

    /// Adds a reduction of each row of the output, after the epilogues of its tiles and before it is rounded to its
    /// type. It is a second result of [`tile_and_rows`](Self::tile_and_rows) or
    /// [`store_and_rows`](Self::store_and_rows). The column of a row of tiles stays in the unit until its last tile.
    pub fn rows(mut self, reduce: Reduce) -> Self {
        self.rows.push(reduce);
        self
    }

    /// Sets the number of steps by which loads run ahead (default 2, at least 1).
    pub fn ahead(mut self, steps: u32) -> Self {
        self.ahead = steps.max(1);
        self
    }

    /// Sets rows and columns of an operand's tile, for elementwise operations and reductions.
    pub fn tiles(mut self, rows: u64, columns: u64) -> Self {
        self.tile = Some([rows, columns]);
        self
    }

    /// Issues the operation with its output stored to memory, in the type of `to`.
    #[track_caller]
    pub fn store(self, to: &Ref) -> Handle {
        self.check_no_rows();
        self.store_and_rows(to).0
    }

    /// Does the same as [`store`](Self::store), and returns the [row reductions](Self::rows) as columns in the TCM.
    #[track_caller]
    pub fn store_and_rows(self, to: &Ref) -> (Handle, Vec<Tile>) {
        if !self.epilogues[2].is_empty() {
            let what = "an epilogue at the end needs an output that stays in the TCM: use tile()";
            self.tl.fail(what);
        }
        let plan = self.plan(to.ty().dtype, Some(to.clone()));
        self.order(plan, None)
    }

    /// Issues the operation with its output as a tile of type `dtype` in the TCM.
    #[track_caller]
    pub fn tile(self, dtype: DType) -> Tile {
        self.check_no_rows();
        self.tile_and_rows(dtype).0
    }

    /// Does the same as [`tile`](Self::tile), and returns the [row reductions](Self::rows) as columns in the TCM.
    #[track_caller]
    pub fn tile_and_rows(self, dtype: DType) -> (Tile, Vec<Tile>) {
        let plan = self.plan(dtype, None);
        let tile = self.tl.tile(plan.output().clone());
        let (_, rows) = self.order(plan, Some(&tile));
        (tile, rows)
    }

    #[track_caller]
    fn check_no_rows(&self) {
        if !self.rows.is_empty() {
            self.tl.fail(
                "a reduction of rows is a second result: use tile_and_rows or store_and_rows",
            );
        }
    }

    #[track_caller]
    fn plan(&self, dtype: DType, to: Option<Ref>) -> Plan {
        let tl = &self.tl;
        let core = &tl.state.site.core;
        let types: Vec<_> = self.sources.iter().map(Source::ty).collect();
        for ty in &types {
            if ty.shape.len() != 2 || ty.elements() == 0 {
                tl.fail(format!("a composite of {ty}: expected a matrix with elements"));
            }
        }
        let output = tl.checked(self.kind.output(&types));
        let output = tl.checked(infer::cast(&output, dtype));
        if let Some(to) = to.as_ref().filter(|to| *to.ty() != output) {
            tl.fail(format!("an output of {output} to {}: they must be equal", to.ty()));
        }
        // Not in a closure: `track_caller` would report the closure as the line of the kernel.
        let plan = match Plan::new(self, output, to, core) {
            Ok(plan) => plan,
            Err(plan::PlanProblem::NoRate(dtype)) => tl.fail(no_rate(dtype, tl)),
            Err(plan::PlanProblem::Text(text)) => tl.fail(text),
        };
        let accesses = plan.accesses();
        tl.check_live(&accesses);
        plan
    }

    /// Issues the command. Its buffers are taken from the TCM and released when it is done.
    #[track_caller]
    fn order(&self, mut plan: Plan, tile: Option<&Tile>) -> (Handle, Vec<Tile>) {
        let tl = &self.tl;
        let buffers = tl.tile(plan.buffers());
        // Not in a closure: `track_caller` would report the closure as the line of the kernel.
        let mut rows = Vec::with_capacity(self.rows.len());
        for ty in plan.columns() {
            rows.push(tl.tile(ty.clone()));
        }
        plan.value = tile.map(|tile| tile.input().value);
        plan.row_values = rows.iter().map(|tile| tile.input().value).collect();
        tl.state.tape.borrow_mut().add_flop(plan.flop());
        let plan = Rc::new(plan);
        let work = Work::Pipeline(Rc::clone(&plan) as Rc<_>);
        let made = tile.into_iter().chain(&rows).map(TileUse::Write);
        let uses = self.pinned().map(TileUse::Read).chain(made).chain([TileUse::Take(&buffers)]);
        let command = tl.order(work, Effect::Composite(plan), uses);
        (Handle { command }, rows)
    }

    /// Returns the TCM tiles that the operation uses.
    fn pinned(&self) -> impl Iterator<Item = &Tile> {
        let sources = self.sources.iter().filter_map(|source| match source {
            Source::Pinned(tile) => Some(tile),
            Source::Memory(_) => None,
        });
        sources.chain(self.epilogues.iter().flatten().flat_map(Epilogue::tiles))
    }
}

impl CompositeKind {
    /// Returns the type of the result before the cast to the output type.
    fn output(&self, types: &[&TileType]) -> Result<TileType, crate::numeric::NumericError> {
        match self {
            Self::Gemm => infer::dot(types[0], types[1], None),
            Self::Map(op) => op.infer(types),
            Self::Reduce(reduce) => infer::reduce(*reduce, types[0], 1, true),
        }
    }
}
