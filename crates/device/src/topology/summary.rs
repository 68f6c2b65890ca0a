//! The figures of a machine: how much of what, and how fast.

use cubeyard_memory::Bytes;
use cubeyard_sim::Bandwidth;

use super::{Position, RoutersSpec, Spec, Topology, WireSpec, layout, mesh};

/// What a machine has, in numbers. Bandwidths are for one direction; both can be used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// SIPs of the system.
    pub sips: u32,
    /// Cubes of a SIP.
    pub cubes_per_sip: u32,
    /// PEs of a cube.
    pub pes_per_cube: u32,
    /// Routers of a cube.
    pub routers_per_cube: u32,
    /// Nodes of the graph.
    pub nodes: usize,
    /// Directed links of the graph.
    pub links: usize,
    /// The HBM of a PE.
    pub hbm_per_pe: Bytes,
    /// The TCM of a PE.
    pub tcm_per_pe: Bytes,
    /// The SRAM of a cube.
    pub sram_per_cube: Bytes,
    /// All channels of a PE's HBM.
    pub hbm_bandwidth_per_pe: Bandwidth,
    /// From a router to its neighbour.
    pub router_link: Bandwidth,
    /// Between the halves of a cube, cut where it is narrowest of the two ways through the middle; none
    /// where there is one router only.
    pub cube_bisection: Option<Bandwidth>,
    /// Through one side of a cube, over all connections.
    pub cube_side: Bandwidth,
    /// Between the halves of a SIP, likewise; none where there is one cube only.
    pub sip_bisection: Option<Bandwidth>,
    /// Between an IO chiplet and the cubes, over all ports of the first chiplet.
    pub io_to_cubes: Bandwidth,
    /// Between a SIP and the switch, over all IO chiplets.
    pub pcie_per_sip: Bandwidth,
    /// Between the halves of the system, through the switch; none where there is one SIP only.
    pub system_bisection: Option<Bandwidth>,
}

impl Topology {
    /// The figures of this machine.
    pub fn summary(&self) -> Summary {
        let spec = self.spec();
        let side = self::side(spec, spec.ucie.router_link, spec.ucie.port_link);
        let io_side = self::side(spec, spec.io.connection_link, spec.io.port_link);
        let routers = mesh::all(&spec.routers).count();
        let io_ports = layout::io_ports(spec, spec.io.chiplets[0]);
        let pcie = spec.pcie.link.bandwidth.min(spec.io.endpoint_link.bandwidth);
        let pcie_per_sip = times(pcie, spec.io.chiplets.len());
        let cut = |links: Option<usize>, link| links.map(|links| times(link, links));
        Summary {
            sips: spec.sips.count,
            cubes_per_sip: spec.cube_count(),
            pes_per_cube: spec.pe_count(),
            routers_per_cube: layout::number(routers),
            nodes: self.nodes().len(),
            links: self.links().len(),
            hbm_per_pe: spec.hbm.slice,
            tcm_per_pe: spec.pe.tcm,
            sram_per_cube: spec.sram.capacity,
            hbm_bandwidth_per_pe: times(spec.hbm.channel_bandwidth, spec.hbm.channels as usize),
            router_link: spec.routers.link.bandwidth,
            cube_bisection: cut(router_cut(&spec.routers), spec.routers.link.bandwidth),
            cube_side: side,
            sip_bisection: cut(grid_cut(spec.cubes.w, spec.cubes.h), side),
            io_to_cubes: times(side.min(io_side), io_ports as usize),
            pcie_per_sip,
            system_bisection: cut(
                (spec.sips.count > 1).then_some((spec.sips.count / 2) as usize),
                pcie_per_sip,
            ),
        }
    }
}

/// Several of a kind together. Beyond 64 bits it is the most that 64 bits can say.
pub(super) fn times(bandwidth: Bandwidth, count: usize) -> Bandwidth {
    let bytes = bandwidth.bytes_per_second().saturating_mul(count.max(1) as u64);
    Bandwidth::from_bytes_per_second(bytes).unwrap_or(bandwidth)
}

/// What passes one port: its connections together, unless the wire between the dies is slower.
fn side(spec: &Spec, inner: WireSpec, outer: WireSpec) -> Bandwidth {
    let connection = inner.bandwidth.min(outer.bandwidth);
    times(connection, spec.connection_count() as usize).min(spec.ucie.phy.bandwidth)
}

/// Across the middle of a grid: as many links as the other way is long.
fn grid_cut(w: u32, h: u32) -> Option<usize> {
    let ways = [(w > 1).then_some(h as usize), (h > 1).then_some(w as usize)];
    ways.into_iter().flatten().min()
}

/// Across the middle of a cube's routers, of which some are not there.
fn router_cut(routers: &RoutersSpec) -> Option<usize> {
    let pair = |a: Position, b: Position| mesh::has(routers, a) && mesh::has(routers, b);
    let across_columns = (routers.columns > 1).then(|| {
        let east = routers.columns / 2;
        let at = |row, column| Position { row, column };
        (0..routers.rows).filter(|&row| pair(at(row, east - 1), at(row, east))).count()
    });
    let across_rows = (routers.rows > 1).then(|| {
        let south = routers.rows / 2;
        let at = |row, column| Position { row, column };
        (0..routers.columns)
            .filter(|&column| pair(at(south - 1, column), at(south, column)))
            .count()
    });
    // A cut without links is one that removed routers made; it divides nothing.
    [across_columns, across_rows].into_iter().flatten().filter(|&links| links > 0).min()
}
