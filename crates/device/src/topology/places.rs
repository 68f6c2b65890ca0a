//! Finds nodes and neighbours by place.

use cubeyard_memory::address::{CubeId, SipId};

use super::{LinkId, NodeId, Position, Side, SipTopology, SipsSpec, Topology, mesh, route};
use crate::ids::{PeGrid, PeRef};

/// Nodes by place. Each function panics if the machine has no such SIP, cube or PE; those returned by
/// [`sips`](Topology::sips), [`cubes`](Topology::cubes) and [`pes`](Topology::pes) exist.
impl Topology {
    /// Returns the PCIe endpoint of a SIP's first IO chiplet.
    pub fn endpoint(&self, sip: SipId) -> NodeId {
        self.layout.endpoint(self.known(sip), 0)
    }

    /// Returns the PCIe endpoint through which traffic from outside the SIP reaches a cube.
    pub fn endpoint_of(&self, sip: SipId, cube: CubeId) -> NodeId {
        let io = route::nearest_io(&self.spec, self.known_cube(cube));
        self.layout.endpoint(self.known(sip), io)
    }

    /// Returns the processor of a SIP's first IO chiplet.
    pub fn io_cpu(&self, sip: SipId) -> NodeId {
        self.layout.io_cpu(self.known(sip), 0)
    }

    /// Returns the management processor of a cube.
    pub fn m_cpu(&self, sip: SipId, cube: CubeId) -> NodeId {
        self.layout.m_cpu(self.known(sip), self.known_cube(cube))
    }

    /// Returns the shared memory of a cube.
    pub fn sram(&self, sip: SipId, cube: CubeId) -> NodeId {
        self.layout.sram(self.known(sip), self.known_cube(cube))
    }

    /// Returns the controller of a PE's slice of the HBM.
    pub fn hbm(&self, pe: PeRef) -> NodeId {
        let [sip, cube, pe] = self.known_pe(pe);
        self.layout.hbm(sip, cube, pe)
    }

    /// Returns the DMA engine of a PE.
    pub fn pe_dma(&self, pe: PeRef) -> NodeId {
        let [sip, cube, pe] = self.known_pe(pe);
        self.layout.pe_dma(sip, cube, pe)
    }

    /// Returns the processor of a PE.
    pub fn pe_cpu(&self, pe: PeRef) -> NodeId {
        let [sip, cube, pe] = self.known_pe(pe);
        self.layout.pe_cpu(sip, cube, pe)
    }

    /// Returns the PE that a node belongs to.
    pub fn pe_of(&self, node: NodeId) -> Option<PeRef> {
        self.node(node).place.pe_ref()
    }

    /// Returns all PEs of a SIP.
    pub fn grid(&self, sip: SipId) -> PeGrid {
        PeGrid { sip, cubes: self.cubes().collect(), pes: self.pes().collect() }
    }

    /// Returns whether the machine has this PE.
    pub fn has_pe(&self, pe: PeRef) -> bool {
        pe.sip.number() < self.spec.sips.count
            && pe.cube.number() < self.spec.cube_count()
            && pe.pe.number() < self.spec.pe_count()
    }

    /// Describes a link, as in `sip0.cube0.r0c0 → sip0.cube0.r0c1`.
    pub fn link_name(&self, link: LinkId) -> String {
        let link = self.link(link);
        format!("{} → {}", self.node(link.from).name, self.node(link.to).name)
    }

    /// Returns the neighbour of a SIP. Rings and tori wrap around; no SIP is its own neighbour.
    pub fn sip_neighbour(&self, sip: SipId, side: Side) -> Option<SipId> {
        let SipsSpec { topology, w, h, .. } = self.spec.sips;
        let number = self.known(sip);
        let at = Position { row: number / w, column: number % w };
        let wraps = topology != SipTopology::Mesh2dNoWrap;
        let beside = match side {
            Side::North if at.row == 0 => wraps.then_some(Position { row: h - 1, ..at }),
            Side::West if at.column == 0 => wraps.then_some(Position { column: w - 1, ..at }),
            Side::South if at.row == h - 1 => wraps.then_some(Position { row: 0, ..at }),
            Side::East if at.column == w - 1 => wraps.then_some(Position { column: 0, ..at }),
            _ => mesh::step(at, side),
        };
        let beside = beside.filter(|&beside| beside != at)?;
        SipId::new(beside.row * w + beside.column).ok()
    }

    fn known(&self, sip: SipId) -> u32 {
        assert!(sip.number() < self.spec.sips.count, "the machine has no {sip}");
        sip.number()
    }

    fn known_cube(&self, cube: CubeId) -> u32 {
        assert!(cube.number() < self.spec.cube_count(), "the SIPs have no {cube}");
        cube.number()
    }

    fn known_pe(&self, pe: PeRef) -> [u32; 3] {
        assert!(self.has_pe(pe), "the machine has no {pe}");
        [pe.sip.number(), pe.cube.number(), pe.pe.number()]
    }
}
