//! Numbering of nodes: the switch, then the SIPs one after another, all with the same layout.
//!
//! A SIP has its IO chiplets, then its cubes. An IO chiplet has its endpoint, network and processor, then its ports. A
//! cube has its routers, `M_CPU` and SRAM, then the HBM controller, DMA engine and processor of each PE, then its
//! ports. Each port is followed by its connections. So most node numbers are simple sums.

use super::{NodeId, Position, Side, Spec, mesh};

/// Number of nodes of an IO chiplet before its ports.
const IO_FIXED: u32 = 3;
/// Number of nodes of a PE.
const PE_NODES: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Number of nodes of a SIP.
    sip: u32,
    /// First node of each IO chiplet, relative to the SIP.
    io: Vec<u32>,
    cubes: Vec<CubeLayout>,
    /// Number of the router at each position of the grid.
    routers: Vec<Option<u32>>,
    router_columns: u32,
    router_rows: u32,
    router_count: u32,
    connections: u32,
}

#[derive(Clone, Debug)]
struct CubeLayout {
    /// First node of the cube, relative to the SIP.
    base: u32,
    /// Port of each side, relative to the cube.
    ports: [Option<u32>; 4],
}

/// Returns the position of a cube in the grid of its SIP.
pub fn cube_position(spec: &Spec, cube: u32) -> Position {
    Position { row: cube / spec.cubes.w, column: cube % spec.cubes.w }
}

/// Returns the cube at a position of the SIP's grid.
pub(super) fn cube_at(spec: &Spec, at: Position) -> Option<u32> {
    (at.row < spec.cubes.h && at.column < spec.cubes.w).then(|| at.row * spec.cubes.w + at.column)
}

/// Returns the cube next to another one on a side.
pub fn cube_beside(spec: &Spec, cube: u32, side: Side) -> Option<u32> {
    cube_at(spec, mesh::step(cube_position(spec, cube), side)?)
}

/// Returns the number of ports of an IO chiplet: one for each cube along its side.
pub fn io_ports(spec: &Spec, side: Side) -> u32 {
    if side.is_horizontal() { spec.cubes.h } else { spec.cubes.w }
}

/// Returns the cube next to a port of an IO chiplet.
pub fn io_cube(spec: &Spec, side: Side, port: u32) -> u32 {
    let (row, column) = match side {
        Side::North => (0, port),
        Side::East => (port, spec.cubes.w - 1),
        Side::South => (spec.cubes.h - 1, port),
        Side::West => (port, 0),
    };
    row * spec.cubes.w + column
}

impl Layout {
    pub(super) fn new(spec: &Spec) -> Self {
        let mut routers = vec![None; (spec.routers.rows * spec.routers.columns) as usize];
        let mut router_count = 0;
        for at in mesh::all(&spec.routers) {
            routers[mesh::number(&spec.routers, at)] = Some(router_count);
            router_count += 1;
        }
        let mut layout = Self {
            sip: 0,
            io: Vec::new(),
            cubes: Vec::new(),
            routers,
            router_columns: spec.routers.columns,
            router_rows: spec.routers.rows,
            router_count,
            connections: spec.connection_count(),
        };
        for &side in &spec.io.chiplets {
            layout.io.push(layout.sip);
            layout.sip += IO_FIXED + io_ports(spec, side) * layout.port_nodes();
        }
        for cube in 0..spec.cube_count() {
            layout.push_cube(spec, cube);
        }
        layout
    }

    fn push_cube(&mut self, spec: &Spec, cube: u32) {
        let mut nodes = self.router_count + 2 + spec.pe_count() * PE_NODES;
        let ports = Side::ALL.map(|side| {
            let is_beside_io = spec.io.chiplets.contains(&side);
            let has_port = is_beside_io || cube_beside(spec, cube, side).is_some();
            let port = nodes;
            nodes += u32::from(has_port) * self.port_nodes();
            has_port.then_some(port)
        });
        self.cubes.push(CubeLayout { base: self.sip, ports });
        self.sip += nodes;
    }

    /// Returns the number of nodes of a port and its connections.
    fn port_nodes(&self) -> u32 {
        1 + self.connections
    }

    /// Returns the number of nodes of a machine with this many SIPs.
    pub(super) fn count(&self, sips: u32) -> usize {
        (1 + sips * self.sip) as usize
    }

    pub(super) fn switch() -> NodeId {
        NodeId::numbered(0)
    }

    fn io(&self, sip: u32, io: u32) -> u32 {
        1 + sip * self.sip + self.io[io as usize]
    }

    pub(super) fn endpoint(&self, sip: u32, io: u32) -> NodeId {
        NodeId::numbered(self.io(sip, io))
    }

    pub(super) fn io_noc(&self, sip: u32, io: u32) -> NodeId {
        NodeId::numbered(self.io(sip, io) + 1)
    }

    pub(super) fn io_cpu(&self, sip: u32, io: u32) -> NodeId {
        NodeId::numbered(self.io(sip, io) + 2)
    }

    pub(super) fn io_port(&self, sip: u32, io: u32, port: u32) -> NodeId {
        NodeId::numbered(self.io(sip, io) + IO_FIXED + port * self.port_nodes())
    }

    fn cube(&self, sip: u32, cube: u32) -> u32 {
        1 + sip * self.sip + self.cubes[cube as usize].base
    }

    pub(super) fn router(&self, sip: u32, cube: u32, at: Position) -> Option<NodeId> {
        if at.row >= self.router_rows || at.column >= self.router_columns {
            return None;
        }
        let index = self.routers[(at.row * self.router_columns + at.column) as usize]?;
        Some(NodeId::numbered(self.cube(sip, cube) + index))
    }

    pub(super) fn m_cpu(&self, sip: u32, cube: u32) -> NodeId {
        NodeId::numbered(self.cube(sip, cube) + self.router_count)
    }

    pub(super) fn sram(&self, sip: u32, cube: u32) -> NodeId {
        NodeId::numbered(self.cube(sip, cube) + self.router_count + 1)
    }

    pub(super) fn hbm(&self, sip: u32, cube: u32, pe: u32) -> NodeId {
        NodeId::numbered(self.cube(sip, cube) + self.router_count + 2 + pe * PE_NODES)
    }

    pub(super) fn pe_dma(&self, sip: u32, cube: u32, pe: u32) -> NodeId {
        NodeId::numbered(self.hbm(sip, cube, pe).number() + 1)
    }

    pub(super) fn pe_cpu(&self, sip: u32, cube: u32, pe: u32) -> NodeId {
        NodeId::numbered(self.hbm(sip, cube, pe).number() + 2)
    }

    pub(super) fn port(&self, sip: u32, cube: u32, side: Side) -> Option<NodeId> {
        let port = self.cubes[cube as usize].ports[side as usize]?;
        Some(NodeId::numbered(self.cube(sip, cube) + port))
    }
}

/// Returns a connection of a port, of a cube or of an IO chiplet.
pub(super) fn connection(port: NodeId, connection: u32) -> NodeId {
    NodeId::numbered(port.number() + 1 + connection)
}

/// Converts an index to the `u32` of an id.
pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).expect("the largest machine has far fewer nodes and links")
}
