//! Collective operations among many ranks.
//!
//! A rank is a SIP, a cube or a PE. It holds its part of a tensor on all its PEs. The PEs at the same position
//! of every rank form a group, so a collective runs once per position, all at the same time, and uses the links
//! of all PEs. An [`Algorithm`] defines the channels between ranks and the kernel that each PE runs.

pub mod bound;
mod combine;
mod direct;
mod grid;
mod halving;
mod line;
mod lrab;
mod member;
mod operation;
mod order;
mod pieces;
mod ring;
mod schedule;
mod tree;
mod world;

pub use combine::combine;
pub use direct::Direct;
pub use grid::Grid;
pub use halving::HalvingDoubling;
pub use lrab::Lrab;
pub use operation::{Operation, ReduceOp};
pub use order::{Order, Orders, PePart};
pub use ring::Ring;
pub use schedule::{Flow, Schedule, Stage};
pub use tree::Tree;
pub use world::World;

pub use direct::to as port_to;
pub use pieces::by_turns;
pub(crate) use pieces::part;

use std::fmt;
use std::rc::Rc;

use cubeyard_tl::Port;
use cubeyard_tl::kernel::Kernel;
use member::Member;

/// A channel between two ranks, at every position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Rank and port of each end.
    pub ends: [(usize, Port); 2],
}

/// Parameters of a collective's kernel.
#[derive(Clone, Debug)]
pub struct Job {
    /// The operation to perform.
    pub operation: Operation,
    /// The ranks and their arrangement.
    pub world: World,
    /// Maximum number of elements per message.
    pub piece: u64,
}

/// An algorithm for collective operations.
///
/// The kernel's arguments are the input, the output, the rank of the launch's first PE, and the rank increments
/// per cube and per PE. The output may share memory with the input.
pub trait Algorithm: fmt::Debug {
    /// Returns the name used in files and reports.
    fn name(&self) -> &'static str;

    /// Returns the reason why the algorithm cannot perform an operation in a world; `None` if it can.
    fn refuses(&self, operation: Operation, world: &World) -> Option<String>;

    /// Returns the channels that the algorithm needs.
    fn wires(&self, world: &World) -> Vec<Wire>;

    /// Returns the kernel that each PE runs.
    fn kernel(&self, job: &Job) -> Kernel;

    /// Returns the messages of an operation for the cost model; `None` if the algorithm refuses the operation.
    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule>;

    /// Returns the orders in which a reduction combines the elements of PEs at one position.
    ///
    /// Returns `None` if the algorithm refuses the operation or does not state its order. Its numbers then need a
    /// simulation.
    ///
    /// The output of every rank is combined in the same order: all ranks get the same bits.
    fn orders(&self, _operation: Operation, _world: &World, _part: PePart) -> Option<Orders> {
        None
    }
}

/// An algorithm shared by reference count, as a front provides it.
impl Algorithm for Rc<dyn Algorithm> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn refuses(&self, operation: Operation, world: &World) -> Option<String> {
        (**self).refuses(operation, world)
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        (**self).wires(world)
    }

    fn kernel(&self, job: &Job) -> Kernel {
        (**self).kernel(job)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        (**self).schedule(operation, world)
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        (**self).orders(operation, world, part)
    }
}

/// Returns all algorithms.
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

/// Makes a kernel of an algorithm in which each PE runs `body`. The name of the kernel holds all its parameters.
fn kernel(algorithm: &dyn Algorithm, job: &Job, body: fn(&Member)) -> Kernel {
    let Job { operation, world, piece } = job;
    let grid: Vec<_> = world.grid.iter().map(ToString::to_string).collect();
    let name = format!("{} {operation} of {} by {piece}", algorithm.name(), grid.join("x"));
    let job = job.clone();
    Kernel::new(&name, move |tl, args| {
        let job = job.clone();
        Box::pin(async move { body(&Member::new(tl, args, job)) })
    })
}
