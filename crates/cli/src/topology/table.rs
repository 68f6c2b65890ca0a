//! Figures of a machine as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cubeyard_device::topology::{
    Atomics, ComputeEngines, MathSpec, SerialNodes, Spec, Summary, Topology,
};
use cubeyard_memory::Bytes;
use cubeyard_sim::Bandwidth;

use crate::grid::{BOLD, DIM, Grid, paint};

const APPENDED: &str = "text can always be appended to";

/// Formats counts, capacities, bandwidths and rates.
pub(crate) fn render(topology: &Topology, colours: bool) -> String {
    let summary = topology.summary();
    let mut table =
        format!("{}\n{}\n", paint(&title(topology, &summary), BOLD, colours), counts(&summary));
    table += &options(topology.spec());
    table.push('\n');
    table += &paint("capacity          PE         cube          SIP       system", DIM, colours);
    table.push('\n');
    for row in capacities(&summary).rows {
        let [name, pe, cube, sip, system] = &row[..] else { continue };
        writeln!(table, "{name:<8} {pe:>11} {cube:>12} {sip:>12} {system:>12}").expect(APPENDED);
    }
    table.push('\n');
    table += &paint("bandwidth, each way                            GB/s", DIM, colours);
    table.push('\n');
    for row in bandwidths(topology, &summary).rows {
        let [name, figure] = &row[..] else { continue };
        writeln!(table, "{name:<40} {figure:>10}").expect(APPENDED);
    }
    table.push('\n');
    let heading = "compute, 10^12 a second                   PE      cube       SIP    system";
    table += &paint(heading, DIM, colours);
    table.push('\n');
    for row in rates(topology, &summary).rows {
        let [name, pe, cube, sip, system] = &row[..] else { continue };
        writeln!(table, "{name:<34}{pe:>10}{cube:>10}{sip:>10}{system:>10}").expect(APPENDED);
    }
    table + &warnings(topology)
}

/// Returns rates of the engines: FLOP of matrix products, and elements of vector operations.
pub(super) fn rates(topology: &Topology, summary: &Summary) -> Grid {
    let core = &topology.spec().pe.core;
    let mut products = BTreeMap::<u64, Vec<&str>>::new();
    for (dtype, rate) in &core.gemm.rates {
        products.entry(*rate).or_default().push(dtype);
    }
    let products = products.iter().rev();
    let products = products.map(|(rate, dtypes)| (format!("GEMM {}", dtypes.join(", ")), *rate));
    let MathSpec { simple, special, reduce, .. } = core.math;
    let vectors = [("simple", simple), ("special", special), ("reduce", reduce)];
    let vectors = vectors.map(|(name, rate)| (format!("MATH {name}"), rate.bytes_per_second()));
    let (cubes, pes) = (u64::from(summary.cubes_per_sip), u64::from(summary.pes_per_cube));
    let row = |(name, rate): (String, u64)| {
        let counts = [1, pes, pes * cubes, pes * cubes * u64::from(summary.sips)];
        let cells = counts.map(|count| (rate as f64 * count as f64 / 1e12).to_string());
        std::iter::once(name).chain(cells).collect()
    };
    let heading = ["compute, 10^12 a second", "PE", "cube", "SIP", "system"];
    Grid::new(&heading, products.chain(vectors).map(row).collect(), 1)
}

/// Formats warnings of bandwidth that no traffic can reach.
fn warnings(topology: &Topology) -> String {
    let lines = topology.unreachable().into_iter().map(|line| format!("warning: {line}\n"));
    lines.enumerate().map(|(at, line)| if at == 0 { format!("\n{line}") } else { line }).collect()
}

pub(super) fn title(topology: &Topology, summary: &Summary) -> String {
    let spec = topology.spec();
    let (cubes, sips) = (spec.cubes, spec.sips);
    let pes = summary.sips * summary.cubes_per_sip * summary.pes_per_cube;
    let counted = |count: u32, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} ({}, {}×{}) of {}×{} cubes of {}: {} in all",
        counted(sips.count, "SIP"),
        sips.topology.name(),
        sips.w,
        sips.h,
        cubes.w,
        cubes.h,
        counted(summary.pes_per_cube, "PE"),
        counted(pes, "PE")
    )
}

pub(super) fn counts(summary: &Summary) -> String {
    let Summary { routers_per_cube, nodes, links, .. } = summary;
    format!("{routers_per_cube} routers a cube, {nodes} nodes and {links} links in all")
}

/// Formats the timing rules that a topology has turned on; empty for a machine as published.
pub(super) fn options(spec: &Spec) -> String {
    let (engines, serial, header) =
        (spec.pe.core.compute_engines, spec.serial_nodes, spec.flit_header);
    let lines = [
        (engines == ComputeEngines::Separate).then(|| "GEMM and MATH are two engines".to_owned()),
        match serial {
            SerialNodes::None => None,
            SerialNodes::Ends => {
                Some("ends of transfers process one overhead at a time".to_owned())
            }
            SerialNodes::All => Some("all nodes process one overhead at a time".to_owned()),
        },
        (spec.pe.core.atomics == Atomics::Acknowledged)
            .then(|| "atomic operations have no read back".to_owned()),
        (header.get() > 0).then(|| format!("each flit of {} has a header of {header}", spec.flit)),
    ];
    lines.into_iter().flatten().map(|line| line + "\n").collect()
}

/// Returns the capacities of memories.
pub(super) fn capacities(summary: &Summary) -> Grid {
    let (sips, cubes, pes) = (summary.sips, summary.cubes_per_sip, summary.pes_per_cube);
    let row = |name: &str, of_pe: Option<Bytes>, of_cube: Bytes| {
        let pe = of_pe.map_or_else(|| "–".to_owned(), |bytes| bytes.to_string());
        let sip = Bytes::new(of_cube.get() * u64::from(cubes));
        let system = Bytes::new(sip.get() * u64::from(sips));
        vec![name.to_owned(), pe, of_cube.to_string(), sip.to_string(), system.to_string()]
    };
    let all = |of_pe: Bytes| Bytes::new(of_pe.get() * u64::from(pes));
    let rows = vec![
        row("HBM", Some(summary.hbm_per_pe), all(summary.hbm_per_pe)),
        row("TCM", Some(summary.tcm_per_pe), all(summary.tcm_per_pe)),
        row("SRAM", None, summary.sram_per_cube),
    ];
    Grid::new(&["memory", "PE", "cube", "SIP", "system"], rows, 1)
}

/// Returns the bandwidths of links and of cuts, in each direction.
pub(super) fn bandwidths(topology: &Topology, summary: &Summary) -> Grid {
    let spec = topology.spec();
    let hbm = format!("HBM of a PE ({} channels)", spec.hbm.channels);
    let side = format!("a side of a cube ({} connections)", spec.ucie.connection_rows.len());
    let rows = [
        (hbm.as_str(), Some(summary.hbm_bandwidth_per_pe)),
        ("a router to the next", Some(summary.router_link)),
        ("the halves of a cube to each other", summary.cube_bisection),
        (side.as_str(), Some(summary.cube_side)),
        ("the halves of a SIP to each other", summary.sip_bisection),
        ("an IO chiplet to the cubes", Some(summary.io_to_cubes)),
        ("a SIP to the switch", Some(summary.pcie_per_sip)),
        ("the halves of the system to each other", summary.system_bisection),
    ];
    let row = |(name, bandwidth): (&str, Option<Bandwidth>)| {
        let figure = bandwidth.map(Bandwidth::gb_per_second);
        vec![name.to_owned(), figure.map_or_else(|| "–".to_owned(), |figure| figure.to_string())]
    };
    Grid::new(&["bandwidth, each way", "GB/s"], rows.into_iter().map(row).collect(), 1)
}
