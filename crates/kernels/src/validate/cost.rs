//! What the parts of a collective's step cost on a machine that does nothing else.
//!
//! Messages are one flit, or whole flits; a memory has as many channels as its link needs to be kept busy.

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{LinkId, NodeKind, Topology};
use cubeyard_sim::{Bandwidth, Span};

/// What messages, tiles and their additions cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost<'t> {
    topology: &'t Topology,
    bytes: u64,
}

impl<'t> Cost<'t> {
    /// For messages and tiles of so many bytes of `f16`.
    pub fn new(topology: &'t Topology, bytes: u64) -> Self {
        Self { topology, bytes }
    }

    /// What the first command of a kernel waits for its processor and its scheduler.
    pub fn start(&self) -> Span {
        let core = &self.topology.spec().pe.core;
        core.dispatch + core.scheduler_overhead
    }

    /// A message, from when it is sent until it has come: before it is written to its slot.
    pub fn message(&self, from: PeRef, to: PeRef) -> Span {
        let [from, to] =
            [from, to].map(|PeRef { sip, cube, pe }| self.topology.pe_dma(sip, cube, pe));
        let route = self.topology.route(from, to).expect("PEs reach each other");
        self.topology.node(from).overhead + self.carry(&route)
    }

    /// A message, from the TCM to its slot or out of it.
    pub fn slots(&self) -> [Span; 2] {
        let core = &self.topology.spec().pe.core;
        [core.tcm_write.span(self.bytes), core.tcm_read.span(self.bytes)]
    }

    /// The sum of two tiles: strips that are fetched, added and put back, while the next are fetched.
    pub fn addition(&self) -> Span {
        let core = &self.topology.spec().pe.core;
        let elements = self.bytes / 2;
        let strips = elements.div_ceil(core.math.strip.into()).max(1);
        let each = |rate: Bandwidth, amount: u64| rate.span(amount.div_ceil(strips));
        let fetch = each(core.tcm_read, 2 * self.bytes);
        let (work, store) = (each(core.math.simple, elements), each(core.tcm_write, self.bytes));
        fetch + work + store + fetch.max(work).max(store) * (strips - 1)
    }

    /// A tile from the PE's own memory.
    pub fn load(&self, pe: PeRef) -> Span {
        let (there, back) = self.memory(pe);
        self.topology.flight(&there) + self.burst() + self.carry(&back)
    }

    /// A tile to it, until the PE knows that it is there.
    pub fn store(&self, pe: PeRef) -> Span {
        let (there, back) = self.memory(pe);
        self.carry(&there) + self.burst() + self.topology.flight(&back)
    }

    /// What a tile takes the wire out of a PE: what is sent while it is stored waits for that.
    pub fn wire(&self) -> Span {
        let wire = self.topology.spec().pe.link.bandwidth;
        wire.span(self.flit()) * self.flits()
    }

    /// What a credit takes that wire.
    pub fn credit(&self, bytes: u64) -> Span {
        self.topology.spec().pe.link.bandwidth.span(bytes)
    }

    fn memory(&self, PeRef { sip, cube, pe }: PeRef) -> (Vec<LinkId>, Vec<LinkId>) {
        let (dma, hbm) = (self.topology.pe_dma(sip, cube, pe), self.topology.hbm(sip, cube, pe));
        let there = self.topology.route(dma, hbm).expect("a PE reaches its memory");
        let back = there.iter().rev().map(|&link| self.topology.link(link).reverse).collect();
        (there, back)
    }

    fn burst(&self) -> Span {
        let hbm = &self.topology.spec().hbm;
        hbm.channel_bandwidth.span(hbm.burst.get())
    }

    fn flit(&self) -> u64 {
        self.bytes.min(self.topology.spec().flit.get())
    }

    fn flits(&self) -> u64 {
        self.bytes.div_ceil(self.topology.spec().flit.get()).max(1)
    }

    /// A transfer over a route, leg by leg: a leg ends at a node that stores what comes before it goes on.
    fn carry(&self, route: &[LinkId]) -> Span {
        let stores = |link: &LinkId| self.node(*link).kind == NodeKind::PcieEndpoint;
        route.split_inclusive(stores).map(|leg| self.cross(leg)).sum()
    }

    /// The first flit pays every link and node. The last leaves a link when it has come and crossed by itself, or
    /// when all have crossed behind the first.
    fn cross(&self, leg: &[LinkId]) -> Span {
        let (mut first, mut last) = (Span::ZERO, Span::ZERO);
        for &link in leg {
            let wire = self.topology.link(link);
            let flit = wire.bandwidth.span(self.flit());
            last = last.max(first + flit * (self.flits() - 1)) + flit + wire.propagation;
            first = first + flit + wire.propagation;
            // A node that stores looks at the whole when it is there.
            match self.node(link) {
                node if node.kind == NodeKind::PcieEndpoint => last += node.overhead,
                node => first += node.overhead,
            }
            last = last.max(first);
        }
        last
    }

    fn node(&self, link: LinkId) -> &'t cubeyard_device::topology::Node {
        self.topology.node(self.topology.link(link).to)
    }
}
