//! Diagram of the SIPs and the switch between them.

use cubeyard_device::topology::{Side, SipTopology, Topology};
use cubeyard_draw::svg::Area;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;

use super::diagram::{Diagram, EDGE, Paint, TOP};
use super::{chiplets, counted, wire};

const WIDTH: f64 = 226.0;
const HEIGHT: f64 = 112.0;
/// Distance between the left edges of adjacent SIPs; PCIe runs in between.
const COLUMN: f64 = 262.0;
const ROW: f64 = 140.0;
/// Number of SIPs in a row of a ring.
const RING_COLUMNS: u32 = 4;

pub(super) fn draw(topology: &Topology) -> String {
    let spec = topology.spec();
    let sips = spec.sips;
    let (columns, shape) = match sips.topology {
        SipTopology::Ring1d => (sips.count.min(RING_COLUMNS), "a ring"),
        SipTopology::Torus2d => (sips.w, "a torus"),
        SipTopology::Mesh2dNoWrap => (sips.w, "a mesh"),
    };
    let remark = match sips.topology {
        SipTopology::Ring1d => {
            format!("Neighbours in {shape}. All traffic between SIPs passes the switch.")
        }
        _ => format!(
            "Neighbours in {shape} of {} × {}. All traffic between SIPs passes the switch.",
            sips.w, sips.h
        ),
    };
    let title = format!("The system: {}", counted(sips.count, "SIP"));
    let mut diagram = Diagram::new(&title, &remark);
    let rows = sips.count.div_ceil(columns);
    let width = (f64::from(columns) * COLUMN + 2.0 * EDGE).max(580.0);
    let switch = Area { x: EDGE, y: TOP, width: width - 2.0 * EDGE, height: 58.0 };
    let overhead = format!("fabric.switch0 · {} a transfer", spec.switch_overhead);
    diagram.labelled(Paint::Pcie, switch, "PCIe switch", &[overhead]);
    let first = switch.bottom() + 44.0;
    for sip in topology.sips() {
        let (column, row) = (sip.number() % columns, sip.number() / columns);
        let area = Area {
            x: EDGE + 36.0 + f64::from(column) * COLUMN,
            y: first + f64::from(row) * ROW,
            width: WIDTH,
            height: HEIGHT,
        };
        let (trunk, y) = (area.x - 18.0, area.y + HEIGHT / 2.0);
        diagram.wire(Paint::Pcie, &[(trunk, switch.bottom()), (trunk, y), (area.x, y)]);
        diagram.labelled(Paint::Frame, area, &sip.to_string(), &figures(topology, sip));
    }
    let bottom = first + f64::from(rows) * ROW + 6.0;
    let link = format!("{} each way", wire(spec.pcie.link));
    let bottom =
        diagram.legend(EDGE, bottom, &[(Paint::Pcie, "PCIe link of each IO chiplet", link)]);
    diagram.finish(width, bottom + EDGE)
}

/// Lists the components of a SIP and its neighbours.
fn figures(topology: &Topology, sip: SipId) -> Vec<String> {
    let spec = topology.spec();
    let (cubes, pes) = (spec.cube_count(), spec.cube_count() * spec.pe_count());
    let hbm = Bytes::new(spec.hbm.capacity.get() * u64::from(cubes));
    let io = chiplets(spec);
    let beside: Vec<_> = Side::ALL
        .into_iter()
        .filter_map(|side| {
            let letter = side.letter().to_ascii_uppercase();
            Some(format!("{letter} {}", topology.sip_neighbour(sip, side)?))
        })
        .collect();
    let beside = if beside.is_empty() { "no neighbours".to_owned() } else { beside.join(" · ") };
    vec![
        format!("{}, {}", counted(cubes, "cube"), counted(pes, "PE")),
        format!("{hbm} of HBM"),
        counted(io, "IO chiplet"),
        beside,
    ]
}
