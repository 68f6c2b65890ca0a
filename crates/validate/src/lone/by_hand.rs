//! Latency of a transfer on an idle machine, derived from its route as one would by hand.
//!
//! The first flit takes the time of every link and every node. When the last of `n` flits leaves a link, it is
//! `(n − 1)` flit times of that link behind the first. It then catches up by the overhead of each node that delays the
//! first. At the end it is behind by the largest remainder over all links. This holds for whole flits, and if the
//! channels of the memory keep up with every link, as on the default machine.

use cubeyard_device::message::Direction;
use cubeyard_device::topology::{LinkId, NodeId, NodeKind, Topology};

/// Route to a memory and back.
pub(super) struct Way<'t> {
    topology: &'t Topology,
    start: NodeId,
    there: Vec<LinkId>,
    back: Vec<LinkId>,
    posted: bool,
}

impl<'t> Way<'t> {
    /// Creates the route from a PE, or from the host's endpoint of the target's SIP, to a PE's HBM.
    pub(super) fn new(topology: &'t Topology, from: Option<&str>, to: &str) -> Self {
        let find = |name: &str| topology.find(name).expect("a check names what is there");
        let memory = find(&format!("{to}.hbm"));
        let endpoint =
            || topology.endpoint(topology.node(memory).place.sip.expect("HBM is in a SIP"));
        let start = from.map_or_else(endpoint, find);
        let there = topology.route(start, memory).expect("PEs and the host reach all HBM");
        let back = there.iter().rev().map(|&link| topology.link(link).reverse).collect();
        Self { topology, start, there, back, posted: from.is_none() }
    }

    /// Returns the latency in picoseconds, for `flits` whole flits.
    pub(super) fn latency(&self, direction: Direction, flits: u64) -> u64 {
        self.whole(direction, |route| self.data(route, |leg| self.behind(leg, route, flits)))
    }

    /// Returns the latency if all flits keep the pace of the slowest link; `None` for a route with store-and-forward
    /// nodes, which that form does not cover.
    pub(super) fn latency_without_catching_up(
        &self,
        direction: Direction,
        flits: u64,
    ) -> Option<u64> {
        let slowest = |leg: &[LinkId]| {
            leg.iter().map(|&link| self.flit(link)).max().unwrap_or_default() * (flits - 1)
        };
        let stores = self.there.iter().any(|&link| self.stores(link));
        (!stores).then(|| self.whole(direction, |route| self.data(route, slowest)))
    }

    fn whole(&self, direction: Direction, data: impl Fn(&[LinkId]) -> u64) -> u64 {
        let start = self.overhead(self.start);
        let hbm = &self.topology.spec().hbm;
        let burst = span(hbm.burst.get(), hbm.channel_bandwidth.bytes_per_second());
        let (there, back): (u64, u64) = match direction {
            Direction::Read => (self.command(&self.there), data(&self.back)),
            Direction::Write if self.posted => (data(&self.there), 0),
            Direction::Write => (data(&self.there), self.command(&self.back)),
        };
        start + there + burst + back
    }

    /// Returns the time of a message without payload: propagation, at least a picosecond per link, and
    /// overheads.
    fn command(&self, route: &[LinkId]) -> u64 {
        let wire = |link| self.topology.link(link).propagation.ps().max(1);
        route.iter().map(|&link| wire(link) + self.overhead(self.topology.link(link).to)).sum()
    }

    /// Returns the time of a message with payload: the time of the first flit, and the lag of the last flit at the end
    /// of each leg.
    fn data(&self, route: &[LinkId], behind: impl Fn(&[LinkId]) -> u64) -> u64 {
        let legs = route.split_inclusive(|&link| self.stores(link));
        let first = |leg: &[LinkId]| -> u64 {
            let wire = |link| self.topology.link(link).propagation.ps();
            let cross = |&link: &LinkId| {
                self.flit(link) + wire(link) + self.overhead(self.topology.link(link).to)
            };
            leg.iter().map(cross).sum()
        };
        legs.map(|leg| first(leg) + behind(leg)).sum()
    }

    /// Returns the lag of the last flit behind the first at the end of a leg. Flits do not catch up at a node that
    /// stores the whole transfer. They do at the end of the route, even if that node is store-and-forward.
    fn behind(&self, leg: &[LinkId], route: &[LinkId], flits: u64) -> u64 {
        let is_stored = leg.last() != route.last();
        let mut caught_up = 0;
        let mut most = 0;
        for (from_end, &link) in leg.iter().rev().enumerate() {
            if from_end > 0 || !is_stored {
                caught_up += self.overhead(self.topology.link(link).to);
            }
            most = most.max(((flits - 1) * self.flit(link)).saturating_sub(caught_up));
        }
        most
    }

    /// Returns whether the last link of the data is the slowest and no node after it adds latency, so that the form
    /// without catching up is exact.
    pub(super) fn ends_slowest(&self, direction: Direction) -> bool {
        let data = if direction == Direction::Read { &self.back } else { &self.there };
        let slowest = data.iter().map(|&link| self.flit(link)).max();
        let last = data.last().filter(|&&link| self.overhead(self.topology.link(link).to) == 0);
        last.map(|&link| self.flit(link)) == slowest
    }

    fn stores(&self, link: LinkId) -> bool {
        self.topology.node(self.topology.link(link).to).kind == NodeKind::PcieEndpoint
    }

    fn overhead(&self, node: NodeId) -> u64 {
        self.topology.node(node).overhead.ps()
    }

    fn flit(&self, link: LinkId) -> u64 {
        let bandwidth = self.topology.link(link).bandwidth.bytes_per_second();
        span(self.topology.spec().flit.get(), bandwidth)
    }
}

/// Returns the serialisation time in picoseconds, rounded up.
fn span(bytes: u64, bytes_per_second: u64) -> u64 {
    let ps = (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(bytes_per_second));
    u64::try_from(ps).expect("a flit takes less than a year")
}
