//! Upper bound on the speed of a collective: bytes that must cross a cut, over the capacity of its links.
//!
//! Whatever the algorithm, an operation moves a known number of bytes from some ranks to the others. A message
//! goes from a PE of one rank to the PE at the same position of another, by a fixed route (`routed.rs`). The
//! links of these routes have a maximum flow (`flow.rs`) in either direction. The sets considered are:
//!
//! - each rank alone (injection),
//! - the ranks on one side of each straight cut through the grid (bisection),
//! - blocks of the grid, such as the cubes of a SIP (bisection).
//!
//! If all PEs of a rank hold equally much, routes of several positions that share links give a tighter bound.
//! For an all-reduce the sum over all ranks is tighter than each alone: every element is combined over n − 1
//! messages and distributed over n − 1, wherever they go.
//!
//! If there are too many routes, as among thousands of PEs, all links are counted as if messages could take any
//! route. The bound is then valid but weaker. Flit headers (`flit_header_bytes`) reduce the bandwidth of every link.

mod flow;
mod routed;
#[cfg(test)]
mod tests;

use std::fmt;

use cubeyard_device::topology::{LinkId, NodeId, Topology};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{Operation, World};
use flow::{MaximumFlow, flow};
use routed::Routes;

/// The kind of cut that limits a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// The links from or to a single rank.
    Injection,
    /// The links across a straight cut through the grid, or around a block of it.
    Bisection,
}

impl BoundKind {
    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Injection => "injection",
            Self::Bisection => "bisection",
        }
    }
}

/// Upper bound on the bus bandwidth of a collective.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The kind of the limiting cut.
    pub kind: BoundKind,
    /// Maximum bus bandwidth, in bytes per second.
    pub bus: f64,
    /// Capacity of the limiting links, in bytes per second.
    pub capacity: f64,
    /// Description of the ranks on one side of these links.
    pub side: String,
    /// Description of these links.
    pub links: String,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, capacity) = (self.kind.name(), self.capacity / 1e9);
        write!(f, "{kind}, {capacity:.0} GB/s out of {}: {}", self.side, self.links)
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let bound = json!({
            "kind": self.kind.name(),
            "busbw_gbs": self.bus / 1e9,
            "capacity_gbs": self.capacity / 1e9,
            "side": self.side,
            "links": self.links,
        });
        bound.serialize(to)
    }
}

/// Distribution of a rank's data over its PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Every PE holds equally much.
    Even,
    /// PEs may hold different amounts, or nothing.
    Any,
}

/// Returns the bound on an operation among ranks, given by the DMA engines of their PEs; `None` for a single
/// rank, which sends nothing.
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
    let alone: Vec<[MaximumFlow; 2]> =
        alone.iter().map(|sides| cuts.flows(sides, Spread::Any)).collect();
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

/// Splits the ranks into `near` and all others.
fn split(all: &[usize], near: &[usize]) -> [Vec<usize>; 2] {
    let far = all.iter().copied().filter(|rank| !near.contains(rank)).collect();
    [near.to_vec(), far]
}

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

    /// Returns the maximum flow from the first side to the second, and back.
    fn flows(&self, [near, far]: &[Vec<usize>; 2], spread: Spread) -> [MaximumFlow; 2] {
        if let Some(routes) = &self.routes {
            return [[&near[..], far], [far, near]].map(|sides| match spread {
                Spread::Even => routes.even_flow(sides),
                Spread::Any => routes.flow(sides),
            });
        }
        let engines = |ranks: &[usize]| -> Vec<NodeId> {
            ranks.iter().flat_map(|&rank| self.members[rank].iter().copied()).collect()
        };
        // Links have equal bandwidth in both directions.
        let flow = flow(self.topology, &engines(near), &engines(far));
        [flow.clone(), flow]
    }

    /// Bounds by the bytes that all ranks together send and receive, over the sum of their capacities.
    fn together(&self, alone: &[[MaximumFlow; 2]]) -> Vec<Bound> {
        let one = |way: usize| {
            let all: f64 = alone.iter().map(|flows| flows[way].rate as f64).sum();
            let narrowest = alone.iter().map(|flows| &flows[way]).min_by_key(|flow| flow.rate)?;
            let seconds = total(self.operation, self.ranks()) / all;
            let name = ["a rank", "all ranks but one"][way].to_owned();
            Some(self.bound(BoundKind::Injection, seconds, narrowest, name))
        };
        [0, 1].into_iter().filter_map(one).collect()
    }

    /// Bounds by the bytes that must cross between `near` and the others in each direction, over the maximum
    /// flow.
    fn found(
        &self,
        kind: BoundKind,
        near: &[usize],
        flows: [MaximumFlow; 2],
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

    fn bound(&self, kind: BoundKind, seconds: f64, flow: &MaximumFlow, side: String) -> Bound {
        let factor = self.operation.bus_factor(self.ranks());
        let links = named(self.topology, &flow.cut);
        Bound { kind, bus: factor / seconds, capacity: flow.rate as f64, side, links }
    }
}

/// Returns the maximum flow on an idle fabric from each set of ranks to all others, in bytes per second.
///
/// Ranks are given by the DMA engines of their PEs. Messages take the fixed routes between PEs at the same position
/// of two ranks.
pub fn capacities(topology: &Topology, members: &[Vec<NodeId>], sets: &[Vec<usize>]) -> Vec<u64> {
    let all: Vec<usize> = (0..members.len()).collect();
    let routes = Routes::new(topology, members);
    let engines = |ranks: &[usize]| -> Vec<NodeId> {
        ranks.iter().flat_map(|&rank| members[rank].iter().copied()).collect()
    };
    let rate = |near: &Vec<usize>| {
        let [near, far] = split(&all, near);
        match &routes {
            Some(routes) => routes.flow([&near, &far]).rate,
            None => flow(topology, &engines(&near), &engines(&far)).rate,
        }
    };
    sets.iter().map(rate).collect()
}

/// Returns the ranks on one side of each straight cut through a grid, and one block per set of faster
/// dimensions. A block is, for example, the PEs of a cube or the cubes of a SIP; all such blocks are equivalent.
fn halves(world: &World) -> Vec<Vec<usize>> {
    let mut below = 1;
    let mut halves = Vec::new();
    for &extent in &world.grid {
        // A block of the slowest dimension is the first straight cut.
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

/// Returns the bytes that all ranks together must send, as a multiple of the operation's size as defined for
/// [`Operation::bus_factor`].
fn total(operation: Operation, ranks: usize) -> f64 {
    let others = ranks as f64 - 1.0;
    match operation {
        Operation::AllReduce(_) => 2.0 * others,
        Operation::Gather(_) | Operation::Scatter(_) => others / ranks as f64,
        _ => others,
    }
}

/// Returns the bytes that must leave the ranks `near`, as a multiple of the operation's size.
fn leaving(operation: Operation, ranks: usize, near: &dyn Fn(usize) -> bool) -> f64 {
    let inside = (0..ranks).filter(|&rank| near(rank)).count();
    let (inside, outside) = (inside as f64, (ranks - inside) as f64);
    let all = ranks as f64;
    let only_if = |is_so: bool, share: f64| if is_so { share } else { 0.0 };
    match operation {
        // The combined inputs of this side.
        Operation::AllReduce(_) => 1.0,
        Operation::Reduce(_, root) => only_if(!near(root), 1.0),
        Operation::Broadcast(root) => only_if(near(root), 1.0),
        // The combined parts of the other side's ranks.
        Operation::ReduceScatter(_) => outside / all,
        // The inputs of this side's ranks.
        Operation::AllGather => inside / all,
        Operation::AllToAll => inside * outside / all,
        Operation::Gather(root) => only_if(!near(root), inside / all),
        Operation::Scatter(root) => only_if(near(root), outside / all),
    }
}

/// Describes links: a single one by its ends, several by their number and the first.
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
