//! Collectives: operations of many ranks on what each of them holds.
//!
//! A rank is a SIP, a cube or a PE. It holds its part of a tensor on all its PEs; the PEs at the same position
//! of every rank work together, so a collective runs as often at once as a rank has PEs, and uses all of
//! their links. An [`Algorithm`] says which ranks are wired to each other, and what the PE of a rank runs.

pub mod bound;
mod direct;
mod grid;
mod halving;
mod line;
mod lrab;
mod operation;
mod pieces;
mod ring;
mod schedule;
mod tree;
mod world;

pub use direct::Direct;
pub use grid::Grid;
pub use halving::HalvingDoubling;
pub use lrab::Lrab;
pub use operation::{NoSuchReduceOp, Operation, ReduceOp};
pub use ring::Ring;
pub use schedule::{Flow, Schedule, Stage};
pub use tree::Tree;
pub use world::World;

pub(crate) use direct::to as port_to;
pub(crate) use pieces::by_turns;

use std::fmt;

use crate::kernel::{Args, Kernel};
use crate::tl::{Port, Tile, Tl};

/// A channel between two ranks: at each position of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Rank and port of each end.
    pub ends: [(usize, Port); 2],
}

/// What a PE of a collective is told.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is done.
    pub operation: Operation,
    /// Among whom.
    pub world: World,
    /// The most elements of a message.
    pub piece: u64,
}

/// A way to do collectives.
///
/// The kernel has as arguments the input, the output, the rank of the launch's first PE, and how many more
/// ranks each cube and each PE of it is. The output may be in the input's memory.
pub trait Algorithm: fmt::Debug {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Why it cannot do an operation in a world, if it cannot.
    fn refuses(&self, operation: Operation, world: &World) -> Option<String>;

    /// The channels that it needs.
    fn wires(&self, world: &World) -> Vec<Wire>;

    /// What each PE runs.
    fn kernel(&self, job: &Job) -> Kernel;

    /// What goes where, for a model of what it costs. None of an operation that it refuses.
    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule>;
}

/// All algorithms.
pub fn algorithms() -> Vec<Box<dyn Algorithm>> {
    vec![
        Box::new(Direct),
        Box::new(Ring),
        Box::new(Grid),
        Box::new(Tree),
        Box::new(HalvingDoubling),
        Box::new(Lrab),
    ]
}

/// A kernel of an algorithm, whose name says all that it depends on.
fn kernel<F>(
    algorithm: &dyn Algorithm,
    job: &Job,
    body: impl Fn(Tl, Args, Job) -> F + 'static,
) -> Kernel
where
    F: Future<Output = ()> + 'static,
{
    let Job { operation, world, piece } = job;
    let grid: Vec<_> = world.grid.iter().map(ToString::to_string).collect();
    let name = format!("{} {operation} of {} by {piece}", algorithm.name(), grid.join("x"));
    let job = job.clone();
    Kernel::new(&name, move |tl, args| Box::pin(body(tl, args, job.clone())))
}

/// The rank that a PE belongs to: the first of its launch, and so many more for each cube and PE.
#[track_caller]
fn rank_of(tl: &Tl, args: &Args) -> usize {
    let cubes = tl.program_id(1) * args.whole(3);
    let pes = tl.program_id(0) * args.whole(4);
    usize::try_from(args.whole(2) + cubes + pes).expect("fewer ranks than addresses")
}

/// Joins two tiles.
#[track_caller]
fn join(tl: &Tl, op: ReduceOp, a: &Tile, b: &Tile) -> Tile {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => tl.add(a, b),
        ReduceOp::Prod => tl.mul(a, b),
        ReduceOp::Min => tl.minimum(a, b),
        ReduceOp::Max => tl.maximum(a, b),
        ReduceOp::Band => tl.and(a, b),
        ReduceOp::Bor => tl.or(a, b),
        ReduceOp::Bxor => tl.xor(a, b),
    }
}

/// What a tile that joins all ranks becomes at the end.
#[track_caller]
fn finish(tl: &Tl, op: ReduceOp, ranks: usize, tile: Tile) -> Tile {
    if op == ReduceOp::Avg { tl.div(&tile, ranks as f64) } else { tile }
}
