//! Picture of a sweep: bus bandwidth over size, both logarithmic, a line for each algorithm, with the bound.

use super::Sweep;
use super::lines::{AlgorithmLine, lines};
use cubeyard_draw::axis::LogAxis;
use cubeyard_draw::plot::{Label, Plot};
use cubeyard_draw::svg::{Area, Canvas};
use cubeyard_units::text::{bytes, quantity};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 400.0;
const PLOT: Plot = Plot {
    area: Area { x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP },
    right: WIDTH - 16.0,
};
/// Style of the bound and of its leader.
const BOUND: &str = "class=\"axis\" stroke=\"#59636e\" stroke-dasharray=\"7 5\"";

/// Draws a self-contained SVG chart.
pub fn svg(sweep: &Sweep) -> String {
    let (mut canvas, title) = (Canvas::default(), title(sweep));
    canvas.text(LEFT, 26.0, "font-size=\"16\"", &title);
    if let Some(chart) = Chart::new(sweep) {
        chart.draw(&mut canvas);
    }
    canvas.finish(&title, WIDTH, HEIGHT)
}

pub(super) fn title(sweep: &Sweep) -> String {
    let (ranks, kind) = (sweep.map.world().ranks, sweep.ranks.kind());
    format!("{} of {}, {ranks} {kind}: bus bandwidth", sweep.operation, sweep.dtype)
}

struct Chart<'a> {
    lines: Vec<AlgorithmLine<'a>>,
    sizes: (f64, f64),
    rates: LogAxis,
    bound: Option<f64>,
}

impl<'a> Chart<'a> {
    /// Makes the chart; `None` if nothing was measured.
    fn new(sweep: &'a Sweep) -> Option<Self> {
        let lines = lines(sweep);
        let points = || lines.iter().flat_map(|line| &line.points);
        let low = points().map(|point| point.0).reduce(f64::min)?;
        let high = points().map(|point| point.0).fold(low * 2.0, f64::max);
        let bound = sweep.bound.as_ref().map(|bound| bound.bus);
        let rates: Vec<_> =
            points().map(|point| point.1).chain(bound).filter(|rate| *rate > 0.0).collect();
        let rates = if rates.is_empty() { vec![1.0] } else { rates };
        let rates = LogAxis::around(&rates, BOTTOM, TOP);
        Some(Self { lines, sizes: (low, high), rates, bound })
    }

    fn x(&self, size: f64) -> f64 {
        let (low, high) = self.sizes;
        LEFT + (size / low).log2() / (high / low).log2() * (RIGHT - LEFT)
    }

    fn y(&self, bandwidth: f64) -> f64 {
        self.rates.position(bandwidth)
    }

    fn draw(&self, canvas: &mut Canvas) {
        let rates = self.rates.decades().into_iter();
        let rates = rates.map(|(y, power)| (y, quantity(10_f64.powi(power), "B/s")));
        let sizes = sizes(self.sizes).into_iter().map(|size| (self.x(size as f64), bytes(size)));
        let (sizes, rates): (Vec<_>, Vec<_>) = (sizes.collect(), rates.collect());
        PLOT.axes(canvas, &sizes, &rates, ["size", ""]);
        let mut labels = Vec::new();
        for AlgorithmLine { name, points, colour, dash } in &self.lines {
            let places: Vec<_> = points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
            let stroke = format!("stroke=\"{colour}\"");
            let dashed = format!("{stroke} stroke-dasharray=\"{dash}\"");
            canvas.line(name, &places, &dashed, Some(colour));
            labels.extend(points.last().map(|point| self.label(name, point.1, &stroke)));
        }
        if let Some(bound) = self.bound {
            canvas.path(&format!("M{LEFT} {:.1}H{RIGHT}", self.y(bound)), BOUND);
            labels.push(self.label("bound", bound, BOUND));
        }
        PLOT.labels(canvas, &labels);
    }

    fn label(&self, name: &str, bandwidth: f64, leader: &str) -> Label {
        Label {
            name: name.to_owned(),
            figures: quantity(bandwidth, "B/s"),
            from: (RIGHT, self.y(bandwidth)),
            leader: leader.to_owned(),
            bold: false,
        }
    }
}

/// Returns powers of two between two sizes, at most nine.
fn sizes((low, high): (f64, f64)) -> Vec<u64> {
    let inside = (0..=50_u32).map(|power| 1_u64 << power);
    let inside: Vec<_> = inside.filter(|size| (low..=high).contains(&(*size as f64))).collect();
    let every = inside.len().div_ceil(9).max(1);
    inside.into_iter().step_by(every).collect()
}
