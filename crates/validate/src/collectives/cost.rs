//! Durations of the parts of a collective's step on an otherwise idle machine.
//!
//! The model assumes messages of one flit or of whole flits, and enough memory channels to saturate the link.

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{LinkId, NodeKind, Topology};
use cubeyard_sim::{Bandwidth, Span};

/// Durations of messages, loads, stores and additions of tiles.
#[derive(Clone, Copy, Debug)]
pub struct Cost<'t> {
    topology: &'t Topology,
    bytes: u64,
}

impl<'t> Cost<'t> {
    /// Creates the model for messages and tiles of `bytes` bytes of `f16`.
    pub fn new(topology: &'t Topology, bytes: u64) -> Self {
        Self { topology, bytes }
    }

    /// Returns the time until a kernel's first command begins: dispatch and scheduler.
    pub fn start(&self) -> Span {
        let core = &self.topology.spec().pe.core;
        core.dispatch + core.scheduler_overhead
    }

    /// Returns the time from the send of a message to its arrival, before it is written to its slot.
    pub fn message(&self, from: PeRef, to: PeRef) -> Span {
        let [from, to] = [from, to].map(|pe| self.topology.pe_dma(pe));
        let route = self.topology.route(from, to).expect("PEs reach each other");
        self.topology.node(from).overhead + self.carry(&route)
    }

    /// Returns the times of writing a message to its slot, and of reading it.
    pub fn slots(&self) -> [Span; 2] {
        let core = &self.topology.spec().pe.core;
        [core.tcm_write.span(self.bytes), core.tcm_read.span(self.bytes)]
    }

    /// Returns the time of adding two tiles: strips are fetched, added and stored in a pipeline.
    pub fn addition(&self) -> Span {
        let core = &self.topology.spec().pe.core;
        let elements = self.bytes / 2;
        let strips = elements.div_ceil(core.math.strip.into()).max(1);
        let each = |rate: Bandwidth, amount: u64| rate.span(amount.div_ceil(strips));
        let fetch = each(core.tcm_read, 2 * self.bytes);
        let (work, store) = (each(core.math.simple, elements), each(core.tcm_write, self.bytes));
        fetch + work + store + fetch.max(work).max(store) * (strips - 1)
    }

    /// Returns the time of loading a tile from the PE's own memory.
    pub fn load(&self, pe: PeRef) -> Span {
        let (there, back) = self.memory(pe);
        self.topology.flight(&there) + self.burst() + self.carry(&back)
    }

    /// Returns the time of storing a tile there, until the PE receives the acknowledgement.
    pub fn store(&self, pe: PeRef) -> Span {
        let (there, back) = self.memory(pe);
        self.carry(&there) + self.burst() + self.topology.flight(&back)
    }

    /// Returns the time for which a tile occupies the PE's outgoing link; messages sent during a store wait for it.
    pub fn wire(&self) -> Span {
        let wire = self.topology.spec().pe.link.bandwidth;
        wire.span(self.flit()) * self.flits()
    }

    /// Returns the time for which a credit of `bytes` bytes occupies that link.
    pub fn credit(&self, bytes: u64) -> Span {
        self.topology.spec().pe.link.bandwidth.span(bytes)
    }

    fn memory(&self, pe: PeRef) -> (Vec<LinkId>, Vec<LinkId>) {
        let (dma, hbm) = (self.topology.pe_dma(pe), self.topology.hbm(pe));
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

    /// Returns the time of a transfer over a route, leg by leg; a leg ends at a store-and-forward node.
    fn carry(&self, route: &[LinkId]) -> Span {
        let stores = |link: &LinkId| self.node(*link).kind == NodeKind::PcieEndpoint;
        route.split_inclusive(stores).map(|leg| self.cross(leg)).sum()
    }

    /// Returns the time of one leg. The first flit pays every link and node. The last flit starts on a link once it has
    /// arrived and all preceding flits have crossed.
    fn cross(&self, leg: &[LinkId]) -> Span {
        let (mut first, mut last) = (Span::ZERO, Span::ZERO);
        for &link in leg {
            let wire = self.topology.link(link);
            let flit = wire.bandwidth.span(self.flit());
            last = last.max(first + flit * (self.flits() - 1)) + flit + wire.propagation;
            first = first + flit + wire.propagation;
            // A store-and-forward node processes the transfer once it is complete.
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
