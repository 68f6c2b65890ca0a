//! Counts, sizes and bandwidths of a machine.

use cubeyard_memory::Bytes;
use cubeyard_sim::Bandwidth;

use super::{Position, RoutersSpec, Spec, Topology, WireSpec, layout, mesh};

/// Counts, sizes and bandwidths of a machine. Bandwidths are for one direction; both can be used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of SIPs in the system.
    pub sips: u32,
    /// Number of cubes in a SIP.
    pub cubes_per_sip: u32,
    /// Number of PEs in a cube.
    pub pes_per_cube: u32,
    /// Number of routers in a cube.
    pub routers_per_cube: u32,
    /// Number of nodes in the graph.
    pub nodes: usize,
    /// Number of directed links in the graph.
    pub links: usize,
    /// Size of a PE's slice of the HBM.
    pub hbm_per_pe: Bytes,
    /// Size of a PE's TCM.
    pub tcm_per_pe: Bytes,
    /// Size of a cube's SRAM.
    pub sram_per_cube: Bytes,
    /// Bandwidth of all channels of a PE's HBM together.
    pub hbm_bandwidth_per_pe: Bandwidth,
    /// Bandwidth between neighbouring routers.
    pub router_link: Bandwidth,
    /// Bandwidth between the halves of a cube, at the narrower of the two cuts through its middle; `None` if the cube
    /// has only one router.
    pub cube_bisection: Option<Bandwidth>,
    /// Bandwidth through one side of a cube, over all connections.
    pub cube_side: Bandwidth,
    /// Bandwidth between the halves of a SIP, at the narrower cut; `None` if the SIP has only one cube.
    pub sip_bisection: Option<Bandwidth>,
    /// Bandwidth between the first IO chiplet and the cubes, over all its ports.
    pub io_to_cubes: Bandwidth,
    /// Bandwidth between a SIP and the switch, over all IO chiplets.
    pub pcie_per_sip: Bandwidth,
    /// Bandwidth between the halves of the system, through the switch; `None` if the system has only one SIP.
    pub system_bisection: Option<Bandwidth>,
}

impl Topology {
    /// Returns the summary of this machine.
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

/// Multiplies a bandwidth by a count, saturating at 2⁶⁴ − 1 bytes per second.
pub(super) fn times(bandwidth: Bandwidth, count: usize) -> Bandwidth {
    let bytes = bandwidth.bytes_per_second().saturating_mul(count.max(1) as u64);
    Bandwidth::from_bytes_per_second(bytes).unwrap_or(bandwidth)
}

/// Returns the bandwidth of one port: the total of its connections, or the wire between the dies if that is slower.
fn side(spec: &Spec, inner: WireSpec, outer: WireSpec) -> Bandwidth {
    let connection = inner.bandwidth.min(outer.bandwidth);
    times(connection, spec.connection_count() as usize).min(spec.ucie.phy.bandwidth)
}

/// Returns the number of links across the middle of a grid, at the narrower cut.
fn grid_cut(w: u32, h: u32) -> Option<usize> {
    let ways = [(w > 1).then_some(h as usize), (h > 1).then_some(w as usize)];
    ways.into_iter().flatten().min()
}

/// Returns the number of links across the middle of a cube's routers, at the narrower cut.
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
    // Removed routers can leave a cut without links; it divides nothing.
    [across_columns, across_rows].into_iter().flatten().filter(|&links| links > 0).min()
}
