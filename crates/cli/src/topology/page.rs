//! Machine as an HTML page.

use cubeyard_device::topology::Topology;
use cubeyard_diagrams::{View, machine};
use cubeyard_draw::xml::escape;
use cubeyard_draw::{header, page, section, tile, tiles};
use cubeyard_units::text::{count, quantity};

use super::table;
use crate::page::list;

/// Draws a picture of each level of a machine, and its figures.
pub(super) fn page_of(topology: &Topology) -> String {
    let summary = topology.summary();
    let main = [
        header("Topology", &table::title(topology, &summary), &warnings(topology)),
        View::ALL.map(|view| picture(topology, view)).concat(),
        figures(topology),
        section("Rules", &list(table::options(topology.spec()).lines())),
        section("Memory", &table::capacities(&summary).html("Capacities")),
        section(
            "Links",
            &table::bandwidths(topology, &summary).html("Bandwidth of links and of cuts"),
        ),
        section(
            "Engines",
            &table::rates(topology, &summary).html("FLOP of products, elements of vectors"),
        ),
    ];
    page("Topology", "", &main.concat(), "")
}

fn figures(topology: &Topology) -> String {
    let summary = topology.summary();
    let pes = u64::from(summary.sips)
        * u64::from(summary.cubes_per_sip)
        * u64::from(summary.pes_per_cube);
    let hbm = summary.hbm_per_pe.get() * pes;
    let bandwidth = summary.hbm_bandwidth_per_pe.bytes_per_second() as f64 * pes as f64;
    tiles(
        &[
            tile(
                "PEs",
                &count(pes),
                &format!("{} a cube, {} cubes a SIP", summary.pes_per_cube, summary.cubes_per_sip),
            ),
            tile("HBM", &crate::grid::bytes(hbm), &format!("{} a PE", summary.hbm_per_pe)),
            tile("HBM bandwidth", &quantity(bandwidth, "B/s"), "of all PEs together"),
            tile(
                "nodes",
                &count(summary.nodes as u64),
                &format!("{} links", count(summary.links as u64)),
            ),
        ]
        .concat(),
    )
}

fn warnings(topology: &Topology) -> String {
    let lines: Vec<_> = topology.unreachable().iter().map(ToString::to_string).collect();
    lines.join(" ")
}

fn picture(topology: &Topology, view: View) -> String {
    let title = match view {
        View::System => "The system",
        View::Sip => "A SIP",
        View::Cube => "A cube",
        View::Pe => "A PE",
    };
    let name = escape(view.name());
    section(
        title,
        &format!("<div class=\"wide paper {name}\">\n{}</div>\n", machine(topology, view)),
    )
}
