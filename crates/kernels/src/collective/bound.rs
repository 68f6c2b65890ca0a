//! The quickest that a fabric lets any algorithm be: what must cross links, over what they take.
//!
//! An operation must bring so many bytes from some ranks to the others, however it is done, and they go in messages
//! from a PE of one rank to the PE at the same position of another, each by the one route that there is
//! (`routed.rs`). The links of these routes have a largest flow (`flow.rs`), in either direction. Each rank alone is
//! such a set of ranks (injection), and so is each part of the grid on one side of a straight cut, and a block of the
//! grid such as the cubes of a SIP (bisection). Where every PE of a rank holds as much, routes of several positions
//! that must share links say more. For an all-reduce the sum over all ranks says more than each alone: every element is
//! joined over n − 1 messages and handed out over n − 1, wherever they go.
//!
//! Where there are too many routes to look at, as among thousands of PEs, all links count as if messages could take
//! any way: that is a bound as well, if not as close.

mod flow;
mod routed;
#[cfg(test)]
mod tests;

use std::fmt;

use cubeyard_device::topology::{LinkId, NodeId, Topology};

use super::{Operation, World};
use flow::{Flow, flow};
use routed::Routes;

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

/// How what a rank holds is spread over its PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Every PE holds as much.
    Even,
    /// Some PEs may hold more than others, or nothing.
    Any,
}

/// The bound on an operation among ranks, whose PEs' DMA engines are given by rank; none for one rank alone,
/// which has nothing to send.
pub fn bound(
    topology: &Topology,
    members: &[Vec<NodeId>],
    world: &World,
    operation: Operation,
    spread: Spread,
) -> Option<Bound> {
    let ranks = members.len();
    if ranks < 2 {
        return None;
    }
    let all: Vec<usize> = (0..ranks).collect();
    let cuts = Cuts { topology, members, routes: Routes::new(topology, members), operation };
    let alone: Vec<_> = all.iter().map(|&rank| split(&all, &[rank])).collect();
    let alone: Vec<[Flow; 2]> = alone.iter().map(|sides| cuts.flows(sides, Spread::Any)).collect();
    let mut bounds = cuts.together(&alone);
    for (rank, flows) in alone.into_iter().enumerate() {
        let names = [format!("rank {rank}"), format!("all ranks but {rank}")];
        bounds.extend(cuts.found(BoundKind::Injection, &[rank], flows, names));
    }
    for near in halves(world) {
        let flows = cuts.flows(&split(&all, &near), spread);
        let names =
            [near.len(), ranks - near.len()].map(|count| format!("{count} of {ranks} ranks"));
        bounds.extend(cuts.found(BoundKind::Bisection, &near, flows, names));
    }
    bounds.into_iter().min_by(|left, right| left.bus.total_cmp(&right.bus))
}

/// Some ranks, and all others.
fn split(all: &[usize], near: &[usize]) -> [Vec<usize>; 2] {
    let far = all.iter().copied().filter(|rank| !near.contains(rank)).collect();
    [near.to_vec(), far]
}

/// Cuts between ranks.
struct Cuts<'a> {
    topology: &'a Topology,
    members: &'a [Vec<NodeId>],
    routes: Option<Routes<'a>>,
    operation: Operation,
}

impl Cuts<'_> {
    fn ranks(&self) -> usize {
        self.members.len()
    }

    /// What can pass from the one side to the other, and back.
    fn flows(&self, [near, far]: &[Vec<usize>; 2], spread: Spread) -> [Flow; 2] {
        if let Some(routes) = &self.routes {
            return [[&near[..], far], [far, near]].map(|sides| match spread {
                Spread::Even => routes.even_flow(sides),
                Spread::Any => routes.flow(sides),
            });
        }
        let engines = |ranks: &[usize]| -> Vec<NodeId> {
            ranks.iter().flat_map(|&rank| self.members[rank].iter().copied()).collect()
        };
        // Every wire takes as much in either direction.
        let flow = flow(self.topology, &engines(near), &engines(far));
        [flow.clone(), flow]
    }

    /// What all ranks together must send and receive, over what each of them can.
    fn together(&self, alone: &[[Flow; 2]]) -> Vec<Bound> {
        let one = |way: usize| {
            let all: f64 = alone.iter().map(|flows| flows[way].rate as f64).sum();
            let narrowest = alone.iter().map(|flows| &flows[way]).min_by_key(|flow| flow.rate)?;
            let seconds = total(self.operation, self.ranks()) / all;
            let name = ["a rank", "all ranks but one"][way].to_owned();
            Some(self.bound(BoundKind::Injection, seconds, narrowest, name))
        };
        [0, 1].into_iter().filter_map(one).collect()
    }

    /// What must pass between some ranks and the others in each direction, over what can.
    fn found(
        &self,
        kind: BoundKind,
        near: &[usize],
        flows: [Flow; 2],
        names: [String; 2],
    ) -> Vec<Bound> {
        let is_near = |rank: usize| near.contains(&rank);
        let leaving = [
            leaving(self.operation, self.ranks(), &is_near),
            leaving(self.operation, self.ranks(), &|rank| !is_near(rank)),
        ];
        let each = leaving.into_iter().zip(flows).zip(names).filter(|((share, _), _)| *share > 0.0);
        each.map(|((share, flow), name)| self.bound(kind, share / flow.rate as f64, &flow, name))
            .collect()
    }

    fn bound(&self, kind: BoundKind, seconds: f64, flow: &Flow, side: String) -> Bound {
        let factor = self.operation.bus_factor(self.ranks());
        let links = named(self.topology, &flow.cut);
        Bound { kind, bus: factor / seconds, capacity: flow.rate as f64, side, links }
    }
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

/// What must go from some ranks to the others, as a multiple of the size.
fn leaving(operation: Operation, ranks: usize, near: &dyn Fn(usize) -> bool) -> f64 {
    let inside = (0..ranks).filter(|&rank| near(rank)).count();
    let (inside, outside) = (inside as f64, (ranks - inside) as f64);
    let all = ranks as f64;
    let only_if = |is_so: bool, share: f64| if is_so { share } else { 0.0 };
    match operation {
        // What joins this side's inputs.
        Operation::AllReduce(_) => 1.0,
        Operation::Reduce(_, root) => only_if(!near(root), 1.0),
        Operation::Broadcast(root) => only_if(near(root), 1.0),
        // The parts of the other side's ranks, joined.
        Operation::ReduceScatter(_) => outside / all,
        // What this side's ranks hold.
        Operation::AllGather => inside / all,
        Operation::AllToAll => inside * outside / all,
        Operation::Gather(root) => only_if(!near(root), inside / all),
        Operation::Scatter(root) => only_if(near(root), outside / all),
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
