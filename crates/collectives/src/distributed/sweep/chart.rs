//! Chart of a sweep: bus bandwidth over size, a line for each algorithm, with the bound.

use super::Sweep;
use cubeyard_draw::axis::multiples;
use cubeyard_draw::plot::{Label, Plot};
use cubeyard_draw::svg::{Area, Canvas, colour};
use cubeyard_draw::xml::escape;
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

/// Wraps the chart in an HTML page.
pub fn page(sweep: &Sweep) -> String {
    let main = format!("<section class=\"wide\">\n{}</section>\n", svg(sweep));
    cubeyard_draw::page(&title(sweep), "", &main, "")
}

fn title(sweep: &Sweep) -> String {
    let (ranks, kind) = (sweep.map.world().ranks, sweep.ranks.kind());
    format!("{} of {}, {ranks} {kind}: bus bandwidth", sweep.operation, sweep.dtype)
}

/// A line: its name, and its points of size and bandwidth.
type Series<'a> = (&'a str, Vec<(f64, f64)>);

struct Chart<'a> {
    lines: Vec<Series<'a>>,
    sizes: (f64, f64),
    most: f64,
    bound: Option<f64>,
}

impl<'a> Chart<'a> {
    /// Makes the chart; `None` if nothing was measured.
    fn new(sweep: &'a Sweep) -> Option<Self> {
        let mut lines: Vec<Series<'a>> = Vec::new();
        for row in &sweep.rows {
            let Ok(figures) = &row.figures else { continue };
            let point = (row.bytes as f64, figures.bus_bandwidth);
            match lines.iter_mut().find(|(name, _)| *name == row.algorithm) {
                Some((_, points)) => points.push(point),
                None => lines.push((&row.algorithm, vec![point])),
            }
        }
        let points = || lines.iter().flat_map(|(_, points)| points);
        let low = points().map(|point| point.0).reduce(f64::min)?;
        let high = points().map(|point| point.0).fold(low * 2.0, f64::max);
        let bound = sweep.bound.as_ref().map(|bound| bound.bus);
        let most = points().map(|point| point.1).chain(bound).fold(1.0, f64::max) * 1.08;
        Some(Self { lines, sizes: (low, high), most, bound })
    }

    fn x(&self, size: f64) -> f64 {
        let (low, high) = self.sizes;
        LEFT + (size / low).log2() / (high / low).log2() * (RIGHT - LEFT)
    }

    fn y(&self, bandwidth: f64) -> f64 {
        BOTTOM - bandwidth / self.most * (BOTTOM - TOP)
    }

    fn draw(&self, canvas: &mut Canvas) {
        let rates = multiples(self.most, 8).map(|rate| (self.y(rate), quantity(rate, "B/s")));
        let sizes = sizes(self.sizes).into_iter().map(|size| (self.x(size as f64), bytes(size)));
        let (sizes, rates): (Vec<_>, Vec<_>) = (sizes.collect(), rates.collect());
        PLOT.axes(canvas, &sizes, &rates, ["size", ""]);
        let mut labels = Vec::new();
        for (place, (name, points)) in self.lines.iter().enumerate() {
            let stroke = format!("stroke=\"{}\"", colour(place));
            self.line(canvas, colour(place), name, points);
            labels.extend(points.last().map(|point| self.label(name, point.1, &stroke)));
        }
        if let Some(bound) = self.bound {
            canvas.path(&format!("M{LEFT} {:.1}H{RIGHT}", self.y(bound)), BOUND);
            labels.push(self.label("bound", bound, BOUND));
        }
        PLOT.labels(canvas, &labels);
    }

    fn line(&self, canvas: &mut Canvas, colour: &str, name: &str, points: &[(f64, f64)]) {
        let places: Vec<_> = points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let dot = |(x, y): &(f64, f64)| {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")
        };
        canvas.push(&format!(
            "<g><title>{}</title><path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>{}</g>",
            escape(name),
            path.join("L"),
            places.iter().map(dot).collect::<String>()
        ));
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
