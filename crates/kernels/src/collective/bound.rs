//! The quickest that a fabric lets any algorithm be: what must cross its links, over what they take.
//!
//! Nothing of this looks at routes or algorithms. For a set of ranks, the links between their PEs and those
//! of all others have a largest flow (`flow.rs`); an operation must bring so many bytes from one side to the
//! other, however it is done. Each rank alone is such a set (injection), and so is each part of the grid on
//! one side of a straight cut, and a block of the grid such as the cubes of a SIP (bisection). For an
//! all-reduce the sum over all ranks says more than each alone: every element is joined over n − 1 messages
//! and handed out over n − 1, wherever they go.
//!
//! Every wire takes as much in either direction, so what leaves a set may also come to it.

mod flow;
#[cfg(test)]
mod tests;

use std::fmt;

use cubeyard_device::topology::{LinkId, NodeId, Topology};

use super::{Operation, World};
use flow::{Flow, flow};

/// What binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// What a rank can send and receive.
    Injection,
    /// What crosses the middle or another straight cut through the grid, or leaves a block of it.
    Bisection,
}

impl BoundKind {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Injection => "injection",
            Self::Bisection => "bisection",
        }
    }
}

/// What a fabric allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What binds.
    pub kind: BoundKind,
    /// The greatest bus bandwidth, in bytes a second.
    pub bus: f64,
    /// What the links take that bind, in bytes a second.
    pub capacity: f64,
    /// Which ranks are on the one side of these links.
    pub side: String,
    /// These links, in words.
    pub links: String,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, capacity) = (self.kind.name(), self.capacity / 1e9);
        write!(f, "{kind}, {capacity:.0} GB/s out of {}: {}", self.side, self.links)
    }
}

/// The bound on an operation among ranks, whose PEs' DMA engines are given by rank; none for one rank alone,
/// which has nothing to send.
pub fn bound(
    topology: &Topology,
    members: &[Vec<NodeId>],
    world: &World,
    operation: Operation,
) -> Option<Bound> {
    let ranks = members.len();
    if ranks < 2 {
        return None;
    }
    let cut = |near: &dyn Fn(usize) -> bool| {
        let side = |wanted: bool| {
            let inside = (0..ranks).filter(move |&rank| near(rank) == wanted);
            inside.flat_map(|rank| members[rank].iter().copied()).collect::<Vec<_>>()
        };
        flow(topology, &side(true), &side(false))
    };
    let alone: Vec<Flow> = (0..ranks).map(|rank| cut(&|other| other == rank)).collect();
    let all: f64 = alone.iter().map(|flow| flow.rate as f64).sum();
    let factor = operation.bus_factor(ranks);
    let found = |kind, seconds: f64, flow: &Flow, side: String| Bound {
        kind,
        bus: factor / seconds,
        capacity: flow.rate as f64,
        side,
        links: named(topology, &flow.cut),
    };
    let narrowest = alone.iter().min_by_key(|flow| flow.rate)?;
    let together = total(operation, ranks) / all;
    let mut bounds = vec![found(BoundKind::Injection, together, narrowest, "a rank".to_owned())];
    for (rank, flow) in alone.iter().enumerate() {
        let crosses = crossing(operation, ranks, &|other| other == rank);
        let seconds = crosses / flow.rate as f64;
        bounds.push(found(BoundKind::Injection, seconds, flow, format!("rank {rank}")));
    }
    for near in halves(world) {
        let flow = cut(&|rank| near.contains(&rank));
        let crosses = crossing(operation, ranks, &|rank| near.contains(&rank));
        let side = format!("{} of {ranks} ranks", near.len());
        let seconds = crosses / flow.rate as f64;
        bounds.push(found(BoundKind::Bisection, seconds, &flow, side));
    }
    bounds.into_iter().min_by(|left, right| left.bus.total_cmp(&right.bus))
}

/// What links carry in a second from some DMA engines to others, in bytes, if nothing else is under way.
pub fn capacity(topology: &Topology, from: &[NodeId], to: &[NodeId]) -> u64 {
    flow(topology, from, to).rate
}

/// The ranks on one side of each straight cut through a grid, in order; and one block for each of its faster
/// dimensions together, as the PEs of a cube and the cubes of a SIP are: all are alike.
fn halves(world: &World) -> Vec<Vec<usize>> {
    let mut below = 1;
    let mut halves = Vec::new();
    for &extent in &world.grid {
        // Of the slowest dimension it is the first straight cut.
        if below > 1 && below * extent < world.ranks {
            halves.push((0..below).collect());
        }
        for place in 1..extent {
            let inside = |rank: &usize| rank / below % extent < place;
            halves.push((0..world.ranks).filter(inside).collect());
        }
        below *= extent;
    }
    halves
}

/// What all ranks together must send, as a multiple of the size of the operation: see
/// [`Operation::bus_factor`] for what that is.
fn total(operation: Operation, ranks: usize) -> f64 {
    let others = ranks as f64 - 1.0;
    match operation {
        Operation::AllReduce(_) => 2.0 * others,
        Operation::Gather(_) | Operation::Scatter(_) => others / ranks as f64,
        _ => others,
    }
}

/// What must cross from some ranks to the others or back, whichever is more, as a multiple of the size.
fn crossing(operation: Operation, ranks: usize, near: &dyn Fn(usize) -> bool) -> f64 {
    let inside = (0..ranks).filter(|&rank| near(rank)).count();
    let (inside, outside) = (inside as f64, (ranks - inside) as f64);
    let all = ranks as f64;
    match operation {
        // What joins one side's inputs must come to the other.
        Operation::AllReduce(_) | Operation::Reduce(..) | Operation::Broadcast(_) => 1.0,
        // The parts of the one side's ranks, joined, or those that its ranks hold.
        Operation::ReduceScatter(_) | Operation::AllGather => inside.max(outside) / all,
        Operation::AllToAll => inside * outside / all,
        Operation::Gather(root) | Operation::Scatter(root) => {
            if near(root) {
                outside / all
            } else {
                inside / all
            }
        }
    }
}

/// Links in words: what they are between, if they are one, else how many and the first.
fn named(topology: &Topology, links: &[LinkId]) -> String {
    let Some(&first) = links.first() else {
        return "no link".to_owned();
    };
    let link = topology.link(first);
    let (from, to) = (&topology.node(link.from).name, &topology.node(link.to).name);
    match links.len() {
        1 => format!("the link {from} → {to}"),
        count => format!("{count} links such as {from} → {to}"),
    }
}
