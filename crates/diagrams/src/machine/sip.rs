//! Diagram of a SIP: its cubes and IO chiplets.

use cubeyard_device::topology::{Side, Spec, geometry};
use cubeyard_draw::svg::Area;

use super::diagram::{Anchor, Diagram, EDGE, Paint, TOP};
use super::{chiplets, counted, wire};

const CUBE: f64 = 112.0;
/// Distance between the centres of adjacent cubes.
const PITCH: f64 = 176.0;
/// Thickness of an IO chiplet.
const CHIPLET: f64 = 112.0;
/// Side length of a port.
const PORT: f64 = 22.0;

pub(super) fn draw(spec: &Spec) -> String {
    let (cubes, chiplets) = (spec.cube_count(), chiplets(spec));
    let title = format!("A SIP: {}, {}", counted(cubes, "cube"), counted(chiplets, "IO chiplet"));
    let remark = "Cube y · w + x is in column x, row y. Traffic goes along the row first, then along the column.";
    let mut diagram = Diagram::new(&title, remark);
    let has =
        |side| f64::from(u8::from(spec.io.chiplets.contains(&side))) * (CHIPLET + PITCH - CUBE);
    let origin = (EDGE + has(Side::West), TOP + has(Side::North));
    for cube in 0..cubes {
        self::cube(&mut diagram, spec, origin, cube);
    }
    for (io, &side) in spec.io.chiplets.iter().enumerate() {
        chiplet(&mut diagram, spec, origin, io, side);
    }
    let (w, h) = (f64::from(spec.cubes.w), f64::from(spec.cubes.h));
    let right = origin.0 + (w - 1.0) * PITCH + CUBE + has(Side::East);
    let bottom = origin.1 + (h - 1.0) * PITCH + CUBE + has(Side::South);
    let bottom = diagram.legend(EDGE, bottom + 34.0, &legend(spec));
    diagram.finish((right + EDGE).max(760.0), bottom + EDGE)
}

fn legend(spec: &Spec) -> Vec<(Paint, &'static str, String)> {
    let (ucie, io) = (&spec.ucie, &spec.io);
    let connections = spec.connection_count();
    vec![
        (
            Paint::Port,
            "UCIe port, and the wire to the one opposite",
            format!("{} a port; {} each way", ucie.port_overhead, wire(ucie.phy)),
        ),
        (
            Paint::Port,
            "connections of a port, each to a router",
            format!("{connections} × {} each way", wire(ucie.router_link)),
        ),
        (
            Paint::Router,
            "network of the IO chiplet (io_noc)",
            format!(
                "{}; {connections} × {} to each port",
                io.noc_overhead,
                wire(io.connection_link)
            ),
        ),
        (
            Paint::Processor,
            "processor of the IO chiplet (io_cpu)",
            format!("{}; {}", io.cpu_overhead, wire(io.cpu_link)),
        ),
        (
            Paint::Pcie,
            "PCIe endpoint (pcie_ep)",
            format!(
                "{}, stores and forwards; {}",
                spec.pcie.endpoint_overhead,
                wire(spec.pcie.link)
            ),
        ),
    ]
}

fn middle(spec: &Spec, origin: (f64, f64), cube: u32) -> (f64, f64) {
    let at = geometry::cube_position(spec, cube);
    let along = |start: f64, place: u32| start + CUBE / 2.0 + f64::from(place) * PITCH;
    (along(origin.0, at.column), along(origin.1, at.row))
}

/// Returns the centre of the port on a side of a box around a point.
fn port((x, y): (f64, f64), half: f64, side: Side) -> (f64, f64) {
    let reach = half + PORT / 2.0 - 8.0;
    match side {
        Side::North => (x, y - reach),
        Side::East => (x + reach, y),
        Side::South => (x, y + reach),
        Side::West => (x - reach, y),
    }
}

fn cube(diagram: &mut Diagram, spec: &Spec, origin: (f64, f64), cube: u32) {
    let (x, y) = middle(spec, origin, cube);
    let lines = [counted(spec.pe_count(), "PE"), format!("{} HBM", spec.hbm.capacity)];
    diagram.labelled(
        Paint::Frame,
        Area::centred(x, y, CUBE, CUBE),
        &format!("cube {cube}"),
        &lines,
    );
    for side in Side::ALL {
        let beside = geometry::cube_beside(spec, cube, side);
        if beside.is_none() && !spec.io.chiplets.contains(&side) {
            continue;
        }
        let at = port((x, y), CUBE / 2.0, side);
        if let (Some(beside), Side::East | Side::South) = (beside, side) {
            let other = port(middle(spec, origin, beside), CUBE / 2.0, side.opposite());
            diagram.wire(Paint::Port, &[at, other]);
        }
        port_box(diagram, at, &side.letter().to_ascii_uppercase().to_string());
    }
}

fn port_box(diagram: &mut Diagram, (x, y): (f64, f64), name: &str) {
    diagram.chip(Paint::Port, Area::centred(x, y, PORT, PORT), name);
}

fn chiplet(diagram: &mut Diagram, spec: &Spec, origin: (f64, f64), io: usize, side: Side) {
    let ports = geometry::io_ports(spec, side);
    let first = middle(spec, origin, geometry::io_cube(spec, side, 0));
    let last = middle(spec, origin, geometry::io_cube(spec, side, ports - 1));
    // The chiplet is as long as the row or column of cubes. Its distance is the gap between adjacent cubes.
    let distance = CUBE / 2.0 + (PITCH - CUBE) + CHIPLET / 2.0;
    let (dx, dy) = match side {
        Side::North => (0.0, -distance),
        Side::East => (distance, 0.0),
        Side::South => (0.0, distance),
        Side::West => (-distance, 0.0),
    };
    let (x, y) = (f64::midpoint(first.0, last.0) + dx, f64::midpoint(first.1, last.1) + dy);
    let (across, along) = (last.0 - first.0 + CHIPLET, last.1 - first.1 + CHIPLET);
    diagram.area(Paint::Frame, Area::centred(x, y, across, along));
    parts(diagram, (x, y), side, &format!("io{io}"), across > 2.0 * CHIPLET);
    for number in 0..ports {
        let cube = middle(spec, origin, geometry::io_cube(spec, side, number));
        let at = port((cube.0 + dx, cube.1 + dy), CHIPLET / 2.0, side.opposite());
        diagram.wire(Paint::Port, &[at, port(cube, CUBE / 2.0, side)]);
        port_box(diagram, at, &number.to_string());
    }
}

/// Draws the components of an IO chiplet, side by side if it is wide enough.
fn parts(diagram: &mut Diagram, (x, y): (f64, f64), side: Side, name: &str, is_wide: bool) {
    let parts = [(Paint::Router, "io_noc"), (Paint::Processor, "io_cpu"), (Paint::Pcie, "pcie_ep")];
    // The components are drawn away from the ports, which are on the side of the cubes.
    let (x, y) = match side {
        Side::West => (x - 6.0, y),
        Side::East => (x + 6.0, y),
        Side::North => (x, y - 6.0),
        Side::South => (x, y + 6.0),
    };
    let name_y = if is_wide { y - 14.0 } else { y - 36.0 };
    diagram.name(x, name_y, Anchor::Middle, name);
    for (place, (paint, part)) in parts.into_iter().enumerate() {
        let step = place as f64 - 1.0;
        let (x, y) =
            if is_wide { (x + 76.0 * step, y + 10.0) } else { (x, y + 10.0 + 26.0 * step) };
        diagram.chip(paint, Area::centred(x, y, 64.0, 21.0), part);
    }
}
