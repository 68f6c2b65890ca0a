//! Builds the nodes and links of a spec.

use cubeyard_memory::address::{CubeId, IoChipletId, PeId, SipId};
use cubeyard_sim::Span;

use super::layout::{self, Layout};
use super::{
    Link, LinkId, Node, NodeId, NodeKind, NodePlace, Position, Side, Spec, WireSpec, mesh,
};

/// Nodes and links of a spec, numbered as in the layout.
pub(super) struct Built {
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    /// Index in `links` of the first link to each node; the last entry is the number of links.
    pub(super) into: Vec<u32>,
}

pub(super) fn build(spec: &Spec, layout: &Layout) -> Built {
    let mut builder = GraphBuilder { spec, layout, nodes: Vec::new(), wires: Vec::new() };
    builder.nodes.reserve_exact(layout.count(spec.sips.count));
    builder.push(
        "fabric.switch0".to_owned(),
        NodeKind::Switch,
        spec.switch_overhead,
        NodePlace::default(),
    );
    for sip in 0..spec.sips.count {
        for io in 0..layout::number(spec.io.chiplets.len()) {
            builder.io(sip, io);
        }
        for cube in 0..spec.cube_count() {
            builder.cube(sip, cube);
        }
    }
    assert_eq!(builder.nodes.len(), layout.count(spec.sips.count), "the layout counts every node");
    let (links, into) = link(spec, builder.nodes.len(), &builder.wires);
    Built { nodes: builder.nodes, links, into }
}

struct GraphBuilder<'a> {
    spec: &'a Spec,
    layout: &'a Layout,
    nodes: Vec<Node>,
    wires: Vec<(NodeId, NodeId, WireSpec)>,
}

impl GraphBuilder<'_> {
    fn push(&mut self, name: String, kind: NodeKind, overhead: Span, place: NodePlace) -> NodeId {
        let node = layout::number(self.nodes.len());
        self.nodes.push(Node { name, kind, overhead, place });
        NodeId::numbered(node)
    }

    fn wire(&mut self, from: NodeId, to: NodeId, wire: WireSpec) {
        self.wires.push((from, to, wire));
    }

    fn io(&mut self, sip: u32, io: u32) {
        let spec = self.spec;
        let side = spec.io.chiplets[io as usize];
        let place = NodePlace {
            sip: Some(known(SipId::new(sip))),
            io: Some(known(IoChipletId::new(io))),
            ..NodePlace::default()
        };
        let name = |part: &str| format!("sip{sip}.io{io}.{part}");
        let endpoint_overhead = spec.pcie.endpoint_overhead;
        let endpoint = self.push(name("pcie_ep"), NodeKind::PcieEndpoint, endpoint_overhead, place);
        let noc = self.push(name("io_noc"), NodeKind::IoNoc, spec.io.noc_overhead, place);
        let cpu = self.push(name("io_cpu"), NodeKind::IoCpu, spec.io.cpu_overhead, place);
        self.wire(Layout::switch(), endpoint, spec.pcie.link);
        self.wire(noc, endpoint, spec.io.endpoint_link);
        self.wire(noc, cpu, spec.io.cpu_link);
        for port in 0..layout::io_ports(spec, side) {
            let place = NodePlace { port: Some(port), ..place };
            self.io_port(noc, &name(&format!("io_ucie{port}")), place);
        }
    }

    fn io_port(&mut self, noc: NodeId, name: &str, place: NodePlace) {
        let io = &self.spec.io;
        let port = self.push(name.to_owned(), NodeKind::IoPort, io.port_overhead, place);
        for number in 0..self.spec.connection_count() {
            let place = NodePlace { connection: Some(number), ..place };
            let name = format!("{name}.conn{number}");
            let connection = self.push(name, NodeKind::IoConnection, io.connection_overhead, place);
            self.wire(noc, connection, io.connection_link);
            self.wire(connection, port, io.port_link);
        }
    }

    fn cube(&mut self, sip: u32, cube: u32) {
        let place = NodePlace {
            sip: Some(known(SipId::new(sip))),
            cube: Some(known(CubeId::new(cube))),
            ..NodePlace::default()
        };
        let name = format!("sip{sip}.cube{cube}");
        self.routers(sip, cube, &name, place);
        let (m_cpu, sram) = (self.spec.m_cpu, self.spec.sram);
        let at = NodePlace { router: Some(m_cpu.router), ..place };
        self.attach(format!("{name}.m_cpu"), NodeKind::MCpu, m_cpu.overhead, at, m_cpu.link);
        let at = NodePlace { router: Some(sram.router), ..place };
        self.attach(format!("{name}.sram"), NodeKind::Sram, sram.overhead, at, sram.link);
        for pe in 0..self.spec.pe_count() {
            self.pe(pe, &name, place);
        }
        for side in Side::ALL {
            self.port(sip, cube, side, &name, place);
        }
    }

    fn routers(&mut self, sip: u32, cube: u32, name: &str, place: NodePlace) {
        let (spec, layout) = (self.spec, self.layout);
        for at in mesh::all(&spec.routers) {
            let place = NodePlace { router: Some(at), ..place };
            let overhead = spec.routers.overhead;
            let router = self.push(format!("{name}.{at}"), NodeKind::Router, overhead, place);
            // Towards lower numbers only, so that each pair of neighbours is joined once.
            for side in [Side::North, Side::West] {
                let beside = mesh::step(at, side).and_then(|at| layout.router(sip, cube, at));
                if let Some(beside) = beside {
                    self.wire(beside, router, spec.routers.link);
                }
            }
        }
    }

    /// Adds a node with a wire to the router at its place.
    fn attach(
        &mut self,
        name: String,
        kind: NodeKind,
        overhead: Span,
        place: NodePlace,
        wire: WireSpec,
    ) -> NodeId {
        let node = self.push(name, kind, overhead, place);
        let (sip, cube) = (place.sip.map(SipId::number), place.cube.map(CubeId::number));
        let router = place.router.and_then(|at| self.layout.router(sip?, cube?, at));
        self.wire(router.expect("checked when read: the router is there"), node, wire);
        node
    }

    fn pe(&mut self, pe: u32, name: &str, place: NodePlace) {
        let Spec { pe: spec, hbm, .. } = self.spec;
        let router = Some(spec.routers[pe as usize]);
        let place = NodePlace { pe: Some(known(PeId::new(pe))), router, ..place };
        self.attach(
            format!("{name}.hbm_ctrl.pe{pe}"),
            NodeKind::Hbm,
            hbm.overhead,
            place,
            hbm.link,
        );
        let dma = format!("{name}.pe{pe}.pe_dma");
        self.attach(dma, NodeKind::PeDma, spec.dma_overhead, place, spec.link);
        let cpu = format!("{name}.pe{pe}.pe_cpu");
        self.attach(cpu, NodeKind::PeCpu, spec.cpu_overhead, place, spec.link);
    }

    fn port(&mut self, sip: u32, cube: u32, side: Side, name: &str, place: NodePlace) {
        let ucie = &self.spec.ucie;
        let Some(opposite) = opposite(self.spec, self.layout, sip, cube, side) else { return };
        let name = format!("{name}.ucie_{}", side.letter());
        let place = NodePlace { side: Some(side), ..place };
        let port = self.push(name.clone(), NodeKind::Port, ucie.port_overhead, place);
        for number in 0..self.spec.connection_count() {
            let router = Some(connection_router(self.spec, side, number));
            let place = NodePlace { connection: Some(number), router, ..place };
            let (name, overhead) = (format!("{name}.conn{number}"), ucie.connection_overhead);
            let connection =
                self.attach(name, NodeKind::Connection, overhead, place, ucie.router_link);
            self.wire(connection, port, ucie.port_link);
        }
        // Of two opposite ports, the one with the higher number adds the wire.
        if opposite < port {
            self.wire(opposite, port, ucie.phy);
        }
    }
}

/// Returns the router that a connection on a side of a cube is wired to.
pub fn connection_router(spec: &Spec, side: Side, connection: u32) -> Position {
    let lane = connection as usize;
    match side {
        Side::North => Position { row: 0, column: spec.ucie.connection_columns[lane] },
        Side::South => {
            Position { row: spec.routers.rows - 1, column: spec.ucie.connection_columns[lane] }
        }
        Side::West => Position { row: spec.ucie.connection_rows[lane], column: 0 },
        Side::East => {
            Position { row: spec.ucie.connection_rows[lane], column: spec.routers.columns - 1 }
        }
    }
}

/// Returns the port opposite a side of a cube: a port of the next cube, or of an IO chiplet.
fn opposite(spec: &Spec, layout: &Layout, sip: u32, cube: u32, side: Side) -> Option<NodeId> {
    if let Some(beside) = layout::cube_beside(spec, cube, side) {
        return layout.port(sip, beside, side.opposite());
    }
    let io = spec.io.chiplets.iter().position(|&chiplet| chiplet == side)?;
    let at = layout::cube_position(spec, cube);
    let port = if side.is_horizontal() { at.row } else { at.column };
    Some(layout.io_port(sip, layout::number(io), port))
}

/// Returns both directions of each wire, ordered by destination and source, and the index of the first link
/// to each destination.
fn link(spec: &Spec, nodes: usize, wires: &[(NodeId, NodeId, WireSpec)]) -> (Vec<Link>, Vec<u32>) {
    let mut links: Vec<Link> = Vec::with_capacity(2 * wires.len());
    for &(from, to, WireSpec { bandwidth, length_mm }) in wires {
        let propagation = Span::from_ns(length_mm * spec.ns_per_mm);
        let propagation = propagation.expect("checked when read: no wire is that long");
        let link =
            Link { from, to, reverse: LinkId::numbered(0), bandwidth, propagation, length_mm };
        links.extend([link, Link { from: to, to: from, ..link }]);
    }
    links.sort_unstable_by_key(|link| (link.to, link.from));
    let mut into = vec![0; nodes + 1];
    for link in &links {
        into[link.to.index() + 1] += 1;
    }
    for node in 0..nodes {
        into[node + 1] += into[node];
    }
    for index in 0..links.len() {
        let Link { from, to, .. } = links[index];
        let reverse = between(&links, &into, to, from).expect("every link has a reverse");
        links[index].reverse = reverse;
    }
    (links, into)
}

/// Finds the link from one node to another by binary search.
pub(super) fn between(links: &[Link], into: &[u32], from: NodeId, to: NodeId) -> Option<LinkId> {
    let (start, end) = (into[to.index()], into[to.index() + 1]);
    let arriving = &links[start as usize..end as usize];
    let place = arriving.binary_search_by_key(&from, |link| link.from).ok()?;
    Some(LinkId::numbered(start + layout::number(place)))
}

/// Unwraps an id whose number was checked when the file was read.
fn known<T, E: std::fmt::Debug>(id: Result<T, E>) -> T {
    id.expect("checked when read: addresses can name it")
}
