//! Diagram of a cube: its routers and the components attached to them.

use cubeyard_device::topology::geometry::{self, connection_router, has_router};
use cubeyard_device::topology::{Position, Side, Spec};
use cubeyard_draw::svg::Area;

use super::diagram::{Anchor, Diagram, EDGE, Paint, TOP};
use super::{counted, wire};

/// Distances between the centres of adjacent routers.
const COLUMN: f64 = 152.0;
const ROW: f64 = 118.0;
const ROUTER: (f64, f64) = (58.0, 28.0);
/// Distance from the centre of an outermost router to a port on the north or west side.
const REACH: f64 = 92.0;
/// Distance from the centre of an outermost router to a port on the south or east side; components lie in between.
const FAR_REACH: f64 = 148.0;
/// Thickness of a port.
const PORT: f64 = 30.0;
/// Maximum number of components drawn at one router; the rest are counted.
const SHOWN: usize = 4;

pub(super) fn draw(spec: &Spec) -> String {
    let routers = u32::try_from(geometry::routers(&spec.routers).count()).unwrap_or(u32::MAX);
    let title =
        format!("A cube: {}, {}", counted(routers, "router"), counted(spec.pe_count(), "PE"));
    let remark = "Traffic goes along the row first, then along the column, and around where there is no router.";
    let mut diagram = Diagram::new(&title, remark);
    let origin = (EDGE + PORT + REACH, TOP + PORT + REACH);
    let middle = |at: Position| {
        (origin.0 + f64::from(at.column) * COLUMN, origin.1 + f64::from(at.row) * ROW)
    };
    let last = Position { row: spec.routers.rows - 1, column: spec.routers.columns - 1 };
    let end = middle(last);
    for &at in &spec.routers.removed {
        let (x, y) = middle(at);
        diagram.gap(Area::centred(x, y, 74.0, ROUTER.1), "no router");
    }
    for at in geometry::routers(&spec.routers) {
        router(&mut diagram, spec, at, middle);
    }
    for side in Side::ALL {
        port(&mut diagram, spec, side, (origin, end), middle);
    }
    let bottom = diagram.legend(EDGE, end.1 + FAR_REACH + PORT + 30.0, &legend(spec));
    diagram.finish((end.0 + FAR_REACH + PORT + EDGE).max(820.0), bottom + EDGE)
}

fn router(
    diagram: &mut Diagram,
    spec: &Spec,
    at: Position,
    middle: impl Fn(Position) -> (f64, f64),
) {
    let (x, y) = middle(at);
    for side in [Side::East, Side::South] {
        let beside = geometry::step(at, side).filter(|&beside| has_router(&spec.routers, beside));
        if let Some(beside) = beside {
            diagram.wire(Paint::Router, &[(x, y), middle(beside)]);
        }
    }
    diagram.chip(Paint::Router, Area::centred(x, y, ROUTER.0, ROUTER.1), &at.to_string());
    let attached = attached(spec, at);
    if let Some(&(paint, _)) = attached.first() {
        diagram.wire(paint, &[(x + 20.0, y), (x + 34.0, y + 30.0)]);
    }
    let all = attached.len();
    let shown = if all > SHOWN { SHOWN - 1 } else { all };
    let more = (all > shown).then(|| (Paint::Frame, format!("{} more", all - shown)));
    for (place, (paint, name)) in attached.into_iter().take(shown).chain(more).enumerate() {
        let y = y + 24.0 + 19.0 * place as f64;
        diagram.chip(paint, Area { x: x + 10.0, y, width: 88.0, height: 18.0 }, &name);
    }
}

/// Returns the components attached to a router, in the order of its nodes.
fn attached(spec: &Spec, at: Position) -> Vec<(Paint, String)> {
    let mut attached = Vec::new();
    if spec.m_cpu.router == at {
        attached.push((Paint::Processor, "m_cpu".to_owned()));
    }
    if spec.sram.router == at {
        attached.push((Paint::Memory, "sram".to_owned()));
    }
    for (pe, _) in spec.pe.routers.iter().enumerate().filter(|(_, router)| **router == at) {
        attached.push((Paint::Pe, format!("pe{pe}")));
        attached.push((Paint::Memory, format!("hbm_ctrl.pe{pe}")));
    }
    attached
}

/// Draws the port on a side with its connections.
fn port(
    diagram: &mut Diagram,
    spec: &Spec,
    side: Side,
    (start, end): ((f64, f64), (f64, f64)),
    middle: impl Fn(Position) -> (f64, f64),
) {
    let (half_router, deep) = (ROUTER.0 / 2.0, PORT / 2.0);
    let across =
        Area { x: start.0 - half_router, y: 0.0, width: end.0 - start.0 + ROUTER.0, height: PORT };
    let down =
        Area { x: 0.0, y: start.1 - half_router, width: PORT, height: end.1 - start.1 + ROUTER.0 };
    let area = match side {
        Side::North => Area { y: start.1 - REACH - PORT, ..across },
        Side::South => Area { y: end.1 + FAR_REACH, ..across },
        Side::West => Area { x: start.0 - REACH - PORT, ..down },
        Side::East => Area { x: end.0 + FAR_REACH, ..down },
    };
    for connection in 0..spec.connection_count() {
        let (x, y) = middle(connection_router(spec, side, connection));
        // Halfway to the port, clear of the router's components.
        let (at, to) = match side {
            Side::North => ((x, y - 50.0), (x, area.bottom() - deep)),
            Side::South => ((x, area.y - 20.0), (x, area.y + deep)),
            Side::West => ((x - 60.0, y), (area.right() - deep, y)),
            Side::East => ((area.x - 34.0, y), (area.x + deep, y)),
        };
        diagram.wire(Paint::Port, &[(x, y), to]);
        diagram.chip(
            Paint::Port,
            Area::centred(at.0, at.1, 46.0, 20.0),
            &format!("conn{connection}"),
        );
    }
    diagram.area(Paint::Port, area);
    let (x, y) = area.middle();
    let name = format!("ucie_{}", side.letter());
    if side.is_horizontal() {
        diagram.standing_name(x + 5.0, y, &name);
    } else {
        diagram.name(x, y + 5.0, Anchor::Middle, &name);
    }
}

fn legend(spec: &Spec) -> Vec<(Paint, &'static str, String)> {
    let Spec { routers, pe, hbm, sram, m_cpu, ucie, .. } = spec;
    vec![
        (
            Paint::Router,
            "router, and the wire to the next",
            format!("{}; {}", routers.overhead, wire(routers.link)),
        ),
        (
            Paint::Pe,
            "PE: its DMA engine and processor",
            format!("{} and {}; {} each", pe.dma_overhead, pe.cpu_overhead, wire(pe.link)),
        ),
        (
            Paint::Memory,
            "controller of a PE's slice of the HBM",
            format!("{}; {}; {} a slice", hbm.overhead, wire(hbm.link), hbm.slice),
        ),
        (
            Paint::Memory,
            "SRAM",
            format!("{}; {}; {}", sram.overhead, wire(sram.link), sram.capacity),
        ),
        (
            Paint::Processor,
            "management processor (m_cpu)",
            format!("{}; {}", m_cpu.overhead, wire(m_cpu.link)),
        ),
        (
            Paint::Port,
            "connection of a UCIe port",
            format!(
                "{}; {} to the router; {} to the port",
                ucie.connection_overhead,
                wire(ucie.router_link),
                wire(ucie.port_link)
            ),
        ),
        (
            Paint::Port,
            "UCIe port (ucie_n, e, s, w)",
            format!(
                "{}; {} to the next cube; there where a neighbour is",
                ucie.port_overhead,
                wire(ucie.phy)
            ),
        ),
    ]
}
