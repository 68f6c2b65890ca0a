//! Tiled operations: loads, computations and stores of many tiles that overlap.
//!
//! A composite goes over the tiles of its output, and for each over the steps that make it: for a matrix
//! product, tiles along K. At each step it loads the tiles of those operands that are in memory, and takes
//! the others from the TCM, where a kernel has loaded them before: they are pinned. The sum of the steps stays
//! in the engine's registers until the last; then the output tile is stored. Epilogues are computed after
//! each step, after the last step of each output tile, or once at the end.

mod part;
mod plan;
mod run;

pub use plan::{Plan, TileGrid};
pub(crate) use run::PlanRun;

use cubeyard_device::pe::{CommandId, Work};
use cubeyard_runtime::dtype::DType;

use super::math::no_rate;
use super::op::Op;
use super::order::After;
use super::tape::Effect;
use super::{Ref, Tile, Tl};
use crate::numeric::{Binary, Reduce, TileType, Unary, infer};
use std::rc::Rc;

/// An operand of a composite.
#[derive(Clone, Debug)]
pub enum Source {
    /// In memory; a tile of it is loaded for each step.
    Memory(Ref),
    /// In the TCM.
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

/// Something computed of what a composite has so far.
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// Of each element.
    Unary(Unary),
    /// Of each element and a number.
    Scale(Binary, f64),
    /// Of each element and that of a tile in the TCM, which is a row of the output's columns or a matrix as
    /// large as the output.
    With(Binary, Tile),
}

/// A tiled operation that is being put together. It is ordered by [`store`](Self::store) or
/// [`tile`](Self::tile).
#[derive(Clone, Debug)]
#[must_use = "a composite is ordered by store or tile"]
pub struct Composite {
    tl: Tl,
    kind: Kind,
    sources: Vec<Source>,
    /// After each step, after each output tile, at the end.
    epilogues: [Vec<Epilogue>; 3],
    /// Tiles that are loaded ahead of those that are used.
    ahead: u32,
    tile: Option<[u64; 2]>,
}

/// What is computed at each step.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Gemm,
    /// Of the elements of all operands.
    Map(Op),
    /// Of the elements of each row.
    Reduce(Reduce),
}

/// A composite that has been ordered.
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
    /// A matrix product, tile by tile of the matrix engine.
    #[track_caller]
    pub fn gemm(&self, a: impl Into<Source>, b: impl Into<Source>) -> Composite {
        self.composite(Kind::Gemm, vec![a.into(), b.into()])
    }

    /// An operation on the elements of matrices of one shape.
    #[track_caller]
    pub fn map(&self, op: Op, operands: Vec<Source>) -> Composite {
        self.composite(Kind::Map(op), operands)
    }

    /// A reduction of each row of a matrix, kept as a column.
    #[track_caller]
    pub fn reduce_rows(&self, reduce: Reduce, x: impl Into<Source>) -> Composite {
        self.composite(Kind::Reduce(reduce), vec![x.into()])
    }

    #[track_caller]
    fn composite(&self, kind: Kind, sources: Vec<Source>) -> Composite {
        self.count();
        let (tl, epilogues) = (self.clone(), <[Vec<Epilogue>; 3]>::default());
        Composite { tl, kind, sources, epilogues, ahead: 2, tile: None }
    }
}

impl Composite {
    /// Computes this after each step, on the sum so far.
    pub fn after_step(mut self, epilogue: Epilogue) -> Self {
        self.epilogues[0].push(epilogue);
        self
    }

    /// Computes this on each output tile, before it is stored.
    pub fn after_tile(mut self, epilogue: Epilogue) -> Self {
        self.epilogues[1].push(epilogue);
        self
    }

    /// Computes this once, on all of the output, which therefore stays in the TCM.
    pub fn at_the_end(mut self, epilogue: Epilogue) -> Self {
        self.epilogues[2].push(epilogue);
        self
    }

    /// How many steps ahead tiles are loaded: 2, if nothing is said.
    pub fn ahead(mut self, steps: u32) -> Self {
        self.ahead = steps.max(1);
        self
    }

    /// The rows and columns of an operand's tile, for operations on elements and rows.
    pub fn tiles(mut self, rows: u64, columns: u64) -> Self {
        self.tile = Some([rows, columns]);
        self
    }

    /// Orders it, with the output in memory: of the type that `to` says.
    #[track_caller]
    pub fn store(self, to: &Ref) -> Handle {
        if !self.epilogues[2].is_empty() {
            let what = "an epilogue at the end needs an output that stays in the TCM: use tile()";
            self.tl.fail(what);
        }
        let plan = self.plan(to.ty().dtype, Some(to.clone()));
        self.order(plan, None)
    }

    /// Orders it, with the output as a tile of this type in the TCM.
    #[track_caller]
    pub fn tile(self, dtype: DType) -> Tile {
        let plan = self.plan(dtype, None);
        let tile = self.tl.tile(plan.output().clone());
        self.order(plan, Some(&tile));
        tile
    }

    #[track_caller]
    fn plan(&self, dtype: DType, to: Option<Ref>) -> Plan {
        let tl = &self.tl;
        let core = &tl.state.site.core;
        let types: Vec<_> = self.sources.iter().map(Source::ty).collect();
        for ty in &types {
            if ty.shape.len() != 2 || ty.elements() == 0 {
                tl.fail(format!("a composite of {ty}: it takes matrices"));
            }
        }
        let output = tl.checked(self.kind.output(&types));
        let output = tl.checked(infer::cast(&output, dtype));
        if let Some(to) = to.as_ref().filter(|to| *to.ty() != output) {
            tl.fail(format!("an output of {output} to {}: they must be the same", to.ty()));
        }
        // Not in a closure: that would be taken for the place in the kernel.
        let plan = match Plan::new(self, output, to, core) {
            Ok(plan) => plan,
            Err(plan::Problem::NoRate(dtype)) => tl.fail(no_rate(dtype, tl)),
            Err(plan::Problem::Text(text)) => tl.fail(text),
        };
        let accesses = plan.accesses();
        tl.check_live(&accesses);
        plan
    }

    /// Orders it: its buffers are taken from the TCM, and given back when it is done.
    #[track_caller]
    fn order(&self, mut plan: Plan, tile: Option<&Tile>) -> Handle {
        let tl = &self.tl;
        let buffers = tl.tile(plan.buffers());
        plan.value = tile.map(|tile| tile.input().value);
        let pinned: Vec<_> = self.pinned().collect();
        let id = tl.next_command();
        let mut scratch = tl.state.scratch.borrow_mut();
        let mut after: After = pinned.iter().map(|tile| tile.producer()).collect();
        let mut loads_after = tl.meet(&plan.accesses());
        loads_after.extend(scratch.users(id, buffers.place()));
        scratch.touch(id, buffers.place());
        if let Some(tile) = tile {
            after.extend(scratch.users(id, tile.place()));
            scratch.touch(id, tile.place());
        }
        after.extend_from_slice(&loads_after);
        pinned.iter().for_each(|tile| scratch.touch(id, tile.place()));
        drop(scratch);
        tl.state.tape.borrow_mut().add_flop(plan.flop());
        let plan = Rc::new(plan);
        let work = Work::Pipeline(Rc::clone(&plan) as Rc<_>);
        let command = tl.push(work, Effect::Composite(plan), after, loads_after);
        if let Some(tile) = tile {
            tile.made_by(command);
        }
        Handle { command }
    }

    /// The tiles of the TCM that it uses.
    fn pinned(&self) -> impl Iterator<Item = &Tile> {
        let sources = self.sources.iter().filter_map(|source| match source {
            Source::Pinned(tile) => Some(tile),
            Source::Memory(_) => None,
        });
        let operands = self.epilogues.iter().flatten().filter_map(|epilogue| match epilogue {
            Epilogue::With(_, tile) => Some(tile),
            _ => None,
        });
        sources.chain(operands)
    }
}

impl Kind {
    /// The kind of what it gives, before a cast.
    fn output(&self, types: &[&TileType]) -> Result<TileType, crate::numeric::NumericError> {
        match self {
            Self::Gemm => infer::dot(types[0], types[1], None),
            Self::Map(op) => op.infer(types),
            Self::Reduce(reduce) => infer::reduce(*reduce, types[0], 1, true),
        }
    }
}
