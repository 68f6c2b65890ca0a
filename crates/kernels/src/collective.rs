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
mod pieces;
mod ring;
mod tree;

pub use direct::Direct;
pub use grid::Grid;
pub use halving::HalvingDoubling;
pub use lrab::Lrab;
pub use ring::Ring;
pub use tree::Tree;

pub(crate) use direct::to as port_to;
pub(crate) use pieces::by_turns;

use std::fmt;
use std::str::FromStr;

use cubeyard_device::input::nearest;
use cubeyard_sim::Span;
use thiserror::Error;

use crate::kernel::{Args, Kernel};
use crate::numeric::Binary;
use crate::tl::{Port, Tile, Tl};

/// How values of ranks are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their sum divided by the number of ranks; of floats only.
    Avg,
    /// Bits set in all; of integers and bools only.
    Band,
    /// Bits set in any; of integers and bools only.
    Bor,
    /// Bits set in an odd number; of integers and bools only.
    Bxor,
}

/// There is no such way to join values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected one of sum, prod, min, max, avg, band, bor, bxor; found `{found}`{}", .nearest.map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`")))]
pub struct NoSuchReduceOp {
    /// What was given.
    pub found: String,
    /// The most similar name.
    pub nearest: Option<&'static str>,
}

impl ReduceOp {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg, Self::Band, Self::Bor, Self::Bxor];

    /// As PyTorch calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::Band => "band",
            Self::Bor => "bor",
            Self::Bxor => "bxor",
        }
    }

    /// What joins two values.
    pub const fn binary(self) -> Binary {
        match self {
            Self::Sum | Self::Avg => Binary::Add,
            Self::Prod => Binary::Mul,
            Self::Min => Binary::Minimum,
            Self::Max => Binary::Maximum,
            Self::Band => Binary::And,
            Self::Bor => Binary::Or,
            Self::Bxor => Binary::Xor,
        }
    }
}

impl FromStr for ReduceOp {
    type Err = NoSuchReduceOp;

    fn from_str(text: &str) -> Result<Self, NoSuchReduceOp> {
        let found = Self::ALL.into_iter().find(|op| op.name() == text);
        found.ok_or_else(|| NoSuchReduceOp {
            found: text.to_owned(),
            nearest: nearest(text, Self::ALL.into_iter().map(Self::name)),
        })
    }
}

/// What ranks do together. Sizes are those of the input: see each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Everybody gets what joins all inputs.
    AllReduce(ReduceOp),
    /// One rank gets what joins all inputs; the others keep theirs.
    Reduce(ReduceOp, usize),
    /// Everybody gets one rank's input.
    Broadcast(usize),
    /// Everybody gets all inputs, one after the other.
    AllGather,
    /// Rank `i` gets part `i` of what joins all inputs.
    ReduceScatter(ReduceOp),
    /// Rank `i` gets part `i` of all inputs, one after the other.
    AllToAll,
    /// One rank gets all inputs, one after the other.
    Gather(usize),
    /// Rank `i` gets part `i` of one rank's input.
    Scatter(usize),
}

impl Operation {
    /// All of them, with what they join by and the rank that has or gets all.
    pub const fn all(op: ReduceOp, root: usize) -> [Self; 8] {
        [
            Self::AllReduce(op),
            Self::Reduce(op, root),
            Self::Broadcast(root),
            Self::AllGather,
            Self::ReduceScatter(op),
            Self::AllToAll,
            Self::Gather(root),
            Self::Scatter(root),
        ]
    }

    /// As PyTorch calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "all_reduce",
            Self::Reduce(..) => "reduce",
            Self::Broadcast(_) => "broadcast",
            Self::AllGather => "all_gather",
            Self::ReduceScatter(_) => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Gather(_) => "gather",
            Self::Scatter(_) => "scatter",
        }
    }

    /// How many times as long as the input the output is, for so many ranks: as a fraction.
    pub const fn growth(self, ranks: u64) -> (u64, u64) {
        match self {
            Self::AllGather | Self::Gather(_) => (ranks, 1),
            Self::ReduceScatter(_) | Self::Scatter(_) => (1, ranks),
            _ => (1, 1),
        }
    }

    /// What algorithm bandwidth is multiplied by to be that of the busiest wire, as NCCL's tests do.
    pub fn bus_factor(self, ranks: usize) -> f64 {
        let ranks = ranks as f64;
        match self {
            Self::AllReduce(_) => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather
            | Self::ReduceScatter(_)
            | Self::AllToAll
            | Self::Gather(_)
            | Self::Scatter(_) => (ranks - 1.0) / ranks,
            Self::Reduce(..) | Self::Broadcast(_) => 1.0,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce(op) | Self::ReduceScatter(op) => {
                write!(f, "{} {}", self.name(), op.name())
            }
            Self::Reduce(op, root) => write!(f, "reduce {} to {root}", op.name()),
            Self::Broadcast(root) | Self::Scatter(root) => {
                write!(f, "{} from {root}", self.name())
            }
            Self::Gather(root) => write!(f, "gather to {root}"),
            Self::AllGather | Self::AllToAll => f.write_str(self.name()),
        }
    }
}

/// How ranks lie to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// How many there are.
    pub ranks: usize,
    /// How many ranks lie in a row, for each dimension of a grid, the fastest first: rank `x + y * w` is
    /// at column `x` of row `y`. Their product is the number of ranks.
    pub grid: Vec<usize>,
    /// Whether the ends of each dimension are joined.
    pub wraps: Vec<bool>,
}

impl World {
    /// Ranks in a ring.
    pub fn ring(ranks: usize) -> Self {
        Self { ranks, grid: vec![ranks], wraps: vec![true] }
    }

    /// How far apart the ranks are that are neighbours in a dimension.
    pub fn stride(&self, dimension: usize) -> usize {
        self.grid[..dimension].iter().product()
    }

    /// Where a rank is in a dimension.
    pub fn coordinate(&self, rank: usize, dimension: usize) -> usize {
        rank / self.stride(dimension) % self.grid[dimension]
    }
}

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

    /// How long it would take alone on the fabric, if that is known: `alpha` for each step, and `beta`
    /// picoseconds for each byte that a rank sends over these [`wires`](Self::wires). `bytes` is the larger of a
    /// rank's input and output, as in [`Operation::bus_factor`].
    fn estimate(
        &self,
        _operation: Operation,
        _world: &World,
        _bytes: u64,
        _alpha: Span,
        _beta: f64,
    ) -> Option<Span> {
        None
    }
}

/// So many steps, and what a rank sends in all of them together.
fn steps(steps: usize, bytes: f64, alpha: Span, beta: f64) -> Option<Span> {
    Span::from_ns(steps as f64 * alpha.ns() + bytes * beta / 1e3)
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
