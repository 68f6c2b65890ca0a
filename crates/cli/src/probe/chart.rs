//! Bandwidth of cases over size, as a chart.

use cubeyard_device::probe::{CaseReport, SWEEP_BYTES};
use cubeyard_draw::axis::ticks;
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};
use cubeyard_draw::plot::{Label, Plot};
use cubeyard_draw::svg::{Area, COLOURS, Canvas, colour};

use crate::grid::bytes;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 460.0;
const AREA: Area = Area { x: 70.0, y: 40.0, width: 560.0, height: 360.0 };
const PLOT: Plot = Plot { area: AREA, right: WIDTH - 16.0 };
const TITLE: &str = "Bandwidth over size";
const SIZE: Axis = Axis { label: "size", quantity: Quantity::Bytes, spacing: Spacing::Binary };
const BANDWIDTH: Axis =
    Axis { label: "bandwidth", quantity: Quantity::BytesPerSecond, spacing: Spacing::Linear };
/// Dashes of lines, after each time that the colours were used up.
const DASHES: [&str; 3] = ["", "8 4", "2 4"];

/// Bandwidths in bytes per second at each size, with the names of all cases that have them.
struct CaseLine {
    name: String,
    values: Vec<f64>,
}

/// Draws the figure; empty without cases.
pub(super) fn figure(reports: &[CaseReport]) -> String {
    let lines = lines(reports);
    if lines.is_empty() {
        return String::new();
    }
    let drawn = lines.iter().enumerate().map(|(at, line)| Line {
        name: line.name.clone(),
        colour: colour(at).to_owned(),
        dash: dash(at).to_owned(),
        width: 2.5,
        shape: Shape::Dotted,
        values: line.values.clone(),
    });
    let positions = SWEEP_BYTES.iter().map(|bytes| *bytes as f64).collect();
    let title = TITLE.to_owned();
    let chart = Chart { title, across: SIZE, up: BANDWIDTH, positions, lines: drawn.collect() };
    chart.figure(&svg(&lines))
}

/// Returns a line for each case; cases with the same values share one.
fn lines(reports: &[CaseReport]) -> Vec<CaseLine> {
    let mut lines: Vec<CaseLine> = Vec::new();
    for report in reports {
        let values: Vec<_> = report.sweep.iter().map(|it| it.gb_per_second() * 1e9).collect();
        let name = &report.case.name;
        match lines.iter_mut().find(|line| line.values == values) {
            Some(line) => line.name.extend([", ", name]),
            None => lines.push(CaseLine { name: name.clone(), values }),
        }
    }
    lines
}

fn dash(at: usize) -> &'static str {
    DASHES[at / COLOURS.len() % DASHES.len()]
}

fn svg(lines: &[CaseLine]) -> String {
    let most = lines.iter().flat_map(|line| &line.values).fold(1.0, |most: f64, it| most.max(*it));
    let step = AREA.width / (SWEEP_BYTES.len() - 1).max(1) as f64;
    let x = |at: usize| AREA.x + at as f64 * step;
    let y = |value: f64| AREA.bottom() - value / (most * 1.06) * AREA.height;
    let up = ticks(most * 1.06, 1e9, 8).into_iter().map(|(value, text)| (y(value), text));
    let across = SWEEP_BYTES.iter().enumerate().map(|(at, size)| (x(at), bytes(*size)));
    let mut canvas = Canvas::default();
    PLOT.axes(&mut canvas, &across.collect::<Vec<_>>(), &up.collect::<Vec<_>>(), ["size", "GB/s"]);
    let mut labels = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let points: Vec<_> =
            line.values.iter().enumerate().map(|(at, value)| (x(at), y(*value))).collect();
        let stroke = format!("stroke=\"{}\" stroke-dasharray=\"{}\"", colour(at), dash(at));
        canvas.line(&line.name, &points, &stroke, None);
        labels.extend(points.last().zip(line.values.last()).map(|(from, value)| Label {
            name: line.name.clone(),
            figures: format!("{:.1}", value / 1e9),
            from: *from,
            leader: stroke.clone(),
            bold: false,
        }));
    }
    PLOT.labels(&mut canvas, &labels);
    canvas.finish(TITLE, WIDTH, HEIGHT)
}
