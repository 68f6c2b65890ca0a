//! Diagram of a PE and its slice of the HBM.

use cubeyard_device::topology::Spec;
use cubeyard_draw::svg::Area;

use super::diagram::{Anchor, Diagram, EDGE, Paint, TOP};
use super::wire;

/// Maximum number of channels drawn; the rest are counted.
const SHOWN: u32 = 16;
const BOX: (f64, f64) = (176.0, 62.0);

pub(super) fn draw(spec: &Spec) -> String {
    let remark = "What is attached to a PE's router. Each wire goes both ways.";
    let mut diagram = Diagram::new("A PE and its slice of the HBM", remark);
    let pe = Area { x: 420.0, y: TOP, width: 424.0, height: 196.0 };
    let shown = spec.hbm.channels.min(SHOWN);
    let rows = f64::from(shown.div_ceil(4));
    let slice = Area {
        x: 420.0,
        y: pe.bottom() + 24.0,
        width: 424.0,
        height: (74.0 + rows * 30.0).max(144.0),
    };
    let router = Area::centred(EDGE + 70.0, pe.bottom(), 140.0, 84.0);
    diagram.labelled(
        Paint::Router,
        router,
        "router",
        &[format!("{} a transfer", spec.routers.overhead)],
    );
    diagram.area(Paint::Frame, pe);
    diagram.name(pe.x + 14.0, pe.y + 24.0, Anchor::Start, "PE");
    diagram.area(Paint::Frame, slice);
    diagram.name(
        slice.x + 14.0,
        slice.y + 24.0,
        Anchor::Start,
        &format!("slice of the HBM, {}", spec.hbm.slice),
    );
    let place = |y: f64| Area { x: pe.x + 14.0, y, width: BOX.0, height: BOX.1 };
    let dma = place(pe.y + 38.0);
    let cpu = place(pe.y + 118.0);
    let tcm = Area { x: pe.right() - 14.0 - BOX.0, ..dma };
    diagram.labelled(Paint::Pe, dma, "pe_dma", &[format!("{} a transfer", spec.pe.dma_overhead)]);
    diagram.labelled(
        Paint::Processor,
        cpu,
        "pe_cpu",
        &[format!("{} a transfer", spec.pe.cpu_overhead)],
    );
    diagram.labelled(Paint::Memory, tcm, "TCM", &[spec.pe.tcm.to_string()]);
    diagram.wire(Paint::Pe, &[(dma.right(), dma.middle().1), (tcm.x, tcm.middle().1)]);
    let controller = Area { width: 124.0, ..place(slice.y + 62.0) };
    let overhead = format!("{} a transfer", spec.hbm.overhead);
    diagram.labelled(Paint::Memory, controller, "hbm_ctrl", &[overhead]);
    channels(&mut diagram, spec, controller, slice);
    let ends = [
        (Paint::Pe, dma, wire(spec.pe.link), -24.0),
        (Paint::Processor, cpu, wire(spec.pe.link), 0.0),
        (Paint::Memory, controller, wire(spec.hbm.link), 24.0),
    ];
    for (paint, area, figures, shift) in ends {
        let (from, to) = (router.middle().1 + shift, area.middle().1);
        let bend = 200.0 + if shift < 0.0 { 0.0 } else { 12.0 };
        diagram.wire(paint, &[(router.right(), from), (bend, from), (bend, to), (area.x, to)]);
        diagram.text(bend + 14.0, to - 7.0, Anchor::Start, &figures);
    }
    diagram.finish(pe.right() + EDGE, slice.bottom() + EDGE)
}

fn channels(diagram: &mut Diagram, spec: &Spec, controller: Area, slice: Area) {
    let hbm = spec.hbm;
    let shown = hbm.channels.min(SHOWN);
    let left = controller.right() + 40.0;
    let rows = f64::from(shown.div_ceil(4));
    let top = (controller.middle().1 + 3.0 - rows * 15.0).max(slice.y + 62.0);
    for channel in 0..shown {
        let (column, row) = (channel % 4, channel / 4);
        let area = Area {
            x: left + f64::from(column) * 58.0,
            y: top + f64::from(row) * 30.0,
            width: 52.0,
            height: 24.0,
        };
        diagram.chip(Paint::Memory, area, &format!("ch {channel}"));
    }
    let y = controller.middle().1;
    diagram.wire(Paint::Memory, &[(controller.right(), y), (left, y)]);
    let more = if hbm.channels > shown { format!(" (first {shown} shown)") } else { String::new() };
    let figures = format!(
        "{} × {}{more}; bursts of {}, turn-around {}",
        hbm.channels, hbm.channel_bandwidth, hbm.burst, hbm.turn_around
    );
    diagram.text(slice.x + 14.0, slice.y + 44.0, Anchor::Start, &figures);
}
