//! Maximum flow between ranks over the links that their messages use.
//!
//! A message travels from a PE of one rank to the PE at the same position of another, by a fixed route. All data
//! between ranks uses these routes. Links on no route carry nothing.

use cubeyard_device::topology::{LinkId, NodeId, Topology};

use super::flow::{MaximumFlow, flow_over, payload};

/// Limit on the number of routes; above it, the computation takes too long.
const MOST_ROUTES: usize = 100_000;

/// Limit on the PEs per rank for which positions are considered one by one.
const MOST_POSITIONS: usize = 16;

/// The routes between ranks.
pub(super) struct Routes<'a> {
    topology: &'a Topology,
    members: &'a [Vec<NodeId>],
    /// Links of each route, by position, sender and receiver; empty from a rank to itself.
    ways: Vec<Vec<LinkId>>,
}

impl<'a> Routes<'a> {
    /// Finds the routes between ranks, given by the DMA engines of their PEs; `None` if they are too many.
    pub(super) fn new(topology: &'a Topology, members: &'a [Vec<NodeId>]) -> Option<Self> {
        let (ranks, positions) = (members.len(), members.first()?.len());
        let count = ranks.checked_mul(ranks)?.checked_mul(positions)?;
        if count > MOST_ROUTES || members.iter().any(|pes| pes.len() != positions) {
            return None;
        }
        let mut ways = Vec::with_capacity(count);
        for position in 0..positions {
            for from in members {
                for to in members {
                    ways.push(topology.route(from[position], to[position]).ok()?);
                }
            }
        }
        Some(Self { topology, members, ways })
    }

    fn positions(&self) -> std::ops::Range<usize> {
        0..self.members[0].len()
    }

    /// Returns the routes at a position from some ranks to others.
    fn ways<'s>(
        &'s self,
        position: usize,
        [from, to]: [&'s [usize]; 2],
    ) -> impl Iterator<Item = &'s [LinkId]> {
        let ranks = self.members.len();
        let pairs = from.iter().flat_map(move |&from| to.iter().map(move |&to| (from, to)));
        pairs.map(move |(from, to)| &self.ways[(position * ranks + from) * ranks + to][..])
    }

    /// Returns the maximum flow from some ranks to others at some positions.
    fn flow_of(&self, positions: std::ops::Range<usize>, sides: [&[usize]; 2]) -> MaximumFlow {
        let mut used = vec![false; self.topology.links().len()];
        for position in positions.clone() {
            let links = self.ways(position, sides).flatten();
            links.for_each(|link| used[link.index()] = true);
        }
        let engines = |ranks: &[usize]| -> Vec<NodeId> {
            ranks.iter().flat_map(|&rank| self.members[rank][positions.clone()].to_vec()).collect()
        };
        let [from, to] = sides.map(engines);
        flow_over(self.topology, &from, &to, &|link| used[link.index()])
    }

    /// Returns the maximum flow from some ranks to others.
    pub(super) fn flow(&self, sides: [&[usize]; 2]) -> MaximumFlow {
        self.flow_of(self.positions(), sides)
    }

    /// Returns the maximum flow from some ranks to others if every position sends equally much: the minimum
    /// over the cuts of single positions.
    pub(super) fn even_flow(&self, sides: [&[usize]; 2]) -> MaximumFlow {
        let all = self.flow(sides);
        if self.positions().len() > MOST_POSITIONS {
            return all;
        }
        let each = self.positions().map(|position| self.flow_of(position..position + 1, sides));
        let held = each.filter_map(|flow| self.held_up(flow.cut, sides)).chain([all]);
        held.min_by_key(|flow| flow.rate).expect("that of all positions")
    }

    /// Returns the flow that a set of links allows if every position sends equally much; the routes of a
    /// position cross the set a minimum number of times.
    fn held_up(&self, cut: Vec<LinkId>, sides: [&[usize]; 2]) -> Option<MaximumFlow> {
        let mut is_cut = vec![false; self.topology.links().len()];
        cut.iter().for_each(|link| is_cut[link.index()] = true);
        let times = |way: &[LinkId]| way.iter().filter(|link| is_cut[link.index()]).count() as u64;
        let least = |position| self.ways(position, sides).map(times).min().unwrap_or(0);
        let crossings: u64 = self.positions().map(least).sum();
        let rates = cut.iter().map(|&link| payload(self.topology, self.topology.link(link)));
        let all = rates.sum::<u64>().checked_mul(self.positions().len() as u64)?;
        Some(MaximumFlow { rate: all.checked_div(crossings)?, cut })
    }
}
