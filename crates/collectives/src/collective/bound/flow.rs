//! Maximum flow between sets of nodes, and a minimum cut.
//!
//! Dinic's algorithm: flow is added along shortest augmenting paths until there is none. The nodes that the
//! last search reaches are one side of a minimum cut.

use cubeyard_device::topology::{Link, LinkId, NodeId, Topology};
use cubeyard_memory::Bytes;

/// A maximum flow with its minimum cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MaximumFlow {
    /// Rate of the flow, in bytes per second.
    pub(super) rate: u64,
    /// The links of a minimum cut; their capacities add up to the rate.
    pub(super) cut: Vec<LinkId>,
}

/// Capacity beyond any link; the sum of a few thousand of these fits in 64 bits.
const ENDLESS: u64 = 1 << 50;

/// Returns the maximum flow over all links of a machine between two sets of nodes.
pub(super) fn flow(topology: &Topology, from: &[NodeId], to: &[NodeId]) -> MaximumFlow {
    flow_over(topology, from, to, &|_| true)
}

/// Returns the maximum flow over the links that `is_open` admits.
pub(super) fn flow_over(
    topology: &Topology,
    from: &[NodeId],
    to: &[NodeId],
    is_open: &dyn Fn(LinkId) -> bool,
) -> MaximumFlow {
    let count = topology.nodes().len();
    let mut graph = Graph::new(count + 2);
    let (source, sink) = (count, count + 1);
    let own = |link: &Link| topology.link(link.reverse).reverse;
    for link in topology.links().iter().filter(|link| is_open(own(link))) {
        graph.join(link.from.index(), link.to.index(), payload(topology, link));
    }
    from.iter().for_each(|node| graph.join(source, node.index(), ENDLESS));
    to.iter().for_each(|node| graph.join(node.index(), sink, ENDLESS));
    let rate = graph.fill(source, sink);
    let is_near = |node: NodeId| graph.level[node.index()] != UNREACHED;
    let crosses = |link: &&Link| is_near(link.from) && !is_near(link.to);
    let cut = topology.links().iter().filter(crosses).map(own).filter(|&link| is_open(link));
    let cut = cut.collect();
    MaximumFlow { rate, cut }
}

/// Returns the payload bandwidth of a link in bytes per second: without the headers of full flits.
pub(super) fn payload(topology: &Topology, link: &Link) -> u64 {
    let [flit, header] = [topology.spec().flit, topology.spec().flit_header].map(Bytes::get);
    let rate = u128::from(link.bandwidth.bytes_per_second()) * u128::from(flit);
    u64::try_from(rate.div_ceil(u128::from((flit + header).max(1)))).unwrap_or(u64::MAX)
}

const UNREACHED: u32 = u32::MAX;

/// A directed edge with its residual capacity. Edges 2i and 2i + 1 are opposite.
#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    room: u64,
}

struct Graph {
    edges: Vec<Edge>,
    /// Edges out of each node.
    out: Vec<Vec<usize>>,
    /// Distance of each node from the source.
    level: Vec<u32>,
    /// For each node, the position in `out` of the first edge that may still be useful.
    next: Vec<usize>,
}

impl Graph {
    fn new(nodes: usize) -> Self {
        let (out, level, next) = (vec![Vec::new(); nodes], vec![UNREACHED; nodes], vec![0; nodes]);
        Self { edges: Vec::new(), out, level, next }
    }

    fn join(&mut self, from: usize, to: usize, room: u64) {
        self.out[from].push(self.edges.len());
        self.edges.push(Edge { to, room });
        self.out[to].push(self.edges.len());
        self.edges.push(Edge { to: from, room: 0 });
    }

    fn fill(&mut self, source: usize, sink: usize) -> u64 {
        let mut rate = 0;
        while self.search(source, sink) {
            self.next.fill(0);
            while let Some(more) = self.add(source, sink) {
                rate += more;
            }
        }
        rate
    }

    /// Computes distances over edges with residual capacity; returns whether the sink is reached.
    fn search(&mut self, source: usize, sink: usize) -> bool {
        self.level.fill(UNREACHED);
        self.level[source] = 0;
        let mut reached = vec![source];
        let mut place = 0;
        while let Some(&node) = reached.get(place) {
            place += 1;
            for &edge in &self.out[node] {
                let Edge { to, room } = self.edges[edge];
                if room > 0 && self.level[to] == UNREACHED {
                    self.level[to] = self.level[node] + 1;
                    reached.push(to);
                }
            }
        }
        self.level[sink] != UNREACHED
    }

    /// Augments one shortest path to the sink; returns the flow added.
    fn add(&mut self, source: usize, sink: usize) -> Option<u64> {
        let mut way: Vec<usize> = Vec::new();
        loop {
            let node = way.last().map_or(source, |&edge| self.edges[edge].to);
            if node == sink {
                break;
            }
            if let Some(edge) = self.onward(node) {
                way.push(edge);
                continue;
            }
            // A dead end: skip the edge that led here.
            let edge = way.pop()?;
            self.next[self.edges[edge ^ 1].to] += 1;
        }
        let room = way.iter().map(|&edge| self.edges[edge].room).min()?;
        for edge in way {
            self.edges[edge].room -= room;
            self.edges[edge ^ 1].room += room;
        }
        Some(room)
    }

    /// Returns the next edge out of a node that leads one step further from the source.
    fn onward(&mut self, node: usize) -> Option<usize> {
        while let Some(&edge) = self.out[node].get(self.next[node]) {
            let Edge { to, room } = self.edges[edge];
            if room > 0 && self.level[to] == self.level[node] + 1 {
                return Some(edge);
            }
            self.next[node] += 1;
        }
        None
    }
}
