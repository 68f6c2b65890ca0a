//! Report of a machine.

use std::collections::BTreeMap;

use cubeyard_sim::Bandwidth;
use serde::Serialize;

use super::{ComputeEngines, MathSpec, SerialNodes, Summary, Topology};

/// Report of `cubeyard topology`: figures of a machine. Bandwidths are for one direction; a bisection is null if there
/// is only one part.
#[derive(Clone, Debug, Serialize)]
pub struct TopologyReport {
    sips: u32,
    sip_topology: &'static str,
    sip_grid: [u32; 2],
    cubes_per_sip: u32,
    cube_grid: [u32; 2],
    pes_per_cube: u32,
    routers_per_cube: u32,
    io_chiplets_per_sip: usize,
    nodes: usize,
    links: usize,
    flit_bytes: u64,
    flit_header_bytes: u64,
    serial_nodes: SerialNodes,
    hbm_bytes_per_pe: u64,
    hbm_channels_per_pe: u32,
    hbm_burst_bytes: u64,
    tcm_bytes_per_pe: u64,
    sram_bytes_per_cube: u64,
    hbm_bytes_per_s_per_pe: u64,
    router_link_bytes_per_s: u64,
    cube_bisection_bytes_per_s: Option<u64>,
    cube_side_bytes_per_s: u64,
    sip_bisection_bytes_per_s: Option<u64>,
    io_to_cubes_bytes_per_s: u64,
    pcie_bytes_per_s_per_sip: u64,
    system_bisection_bytes_per_s: Option<u64>,
    tcm_read_bytes_per_s_per_pe: u64,
    tcm_write_bytes_per_s_per_pe: u64,
    compute_engines: ComputeEngines,
    gemm_flop_per_s_per_pe: BTreeMap<String, u64>,
    math_elements_per_s_per_pe: BTreeMap<&'static str, u64>,
    warnings: Vec<String>,
}

impl Topology {
    /// Returns the figures of `cubeyard topology`.
    pub fn report(&self) -> TopologyReport {
        let (spec, summary) = (self.spec(), self.summary());
        let Summary { sips, cubes_per_sip, pes_per_cube, routers_per_cube, nodes, links, .. } =
            summary;
        let bytes = Bandwidth::bytes_per_second;
        let core = &spec.pe.core;
        let MathSpec { simple, special, reduce, .. } = core.math;
        let math =
            [("simple", bytes(simple)), ("special", bytes(special)), ("reduce", bytes(reduce))];
        TopologyReport {
            sips,
            sip_topology: spec.sips.topology.name(),
            sip_grid: [spec.sips.w, spec.sips.h],
            cubes_per_sip,
            cube_grid: [spec.cubes.w, spec.cubes.h],
            pes_per_cube,
            routers_per_cube,
            io_chiplets_per_sip: spec.io.chiplets.len(),
            nodes,
            links,
            flit_bytes: spec.flit.get(),
            flit_header_bytes: spec.flit_header.get(),
            serial_nodes: spec.serial_nodes,
            hbm_bytes_per_pe: summary.hbm_per_pe.get(),
            hbm_channels_per_pe: spec.hbm.channels,
            hbm_burst_bytes: spec.hbm.burst.get(),
            tcm_bytes_per_pe: summary.tcm_per_pe.get(),
            sram_bytes_per_cube: summary.sram_per_cube.get(),
            hbm_bytes_per_s_per_pe: bytes(summary.hbm_bandwidth_per_pe),
            router_link_bytes_per_s: bytes(summary.router_link),
            cube_bisection_bytes_per_s: summary.cube_bisection.map(bytes),
            cube_side_bytes_per_s: bytes(summary.cube_side),
            sip_bisection_bytes_per_s: summary.sip_bisection.map(bytes),
            io_to_cubes_bytes_per_s: bytes(summary.io_to_cubes),
            pcie_bytes_per_s_per_sip: bytes(summary.pcie_per_sip),
            system_bisection_bytes_per_s: summary.system_bisection.map(bytes),
            tcm_read_bytes_per_s_per_pe: bytes(core.tcm_read),
            tcm_write_bytes_per_s_per_pe: bytes(core.tcm_write),
            compute_engines: core.compute_engines,
            gemm_flop_per_s_per_pe: core.gemm.rates.clone(),
            math_elements_per_s_per_pe: BTreeMap::from(math),
            warnings: self.unreachable().iter().map(ToString::to_string).collect(),
        }
    }
}
