//! Chart of a sweep: bus bandwidth over size, a line for each algorithm, with the bound.

use super::Sweep;
use cubeyard_draw::axis::spread;
use cubeyard_draw::xml::escape;
use cubeyard_units::text::{bytes, quantity};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 400.0;
/// Colours that are distinct for colour-blind readers (Okabe and Ito).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4b5563"];

/// Draws a self-contained SVG chart.
pub fn svg(sweep: &Sweep) -> String {
    let body = Chart::new(sweep).map_or_else(String::new, |chart| chart.draw());
    let title = escape(&title(sweep));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', \
         Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#1f2328\" role=\"img\">\n\
         <title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"16\">{title}</text>\n{body}</svg>\n"
    )
}

/// Wraps the chart in an HTML page.
pub fn page(sweep: &Sweep) -> String {
    let title = escape(&title(sweep));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title} – Cubeyard</title>\n<style>body{{margin:24px;background:#f6f8fa}}\
         svg{{max-width:100%;height:auto}}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
        svg(sweep)
    )
}

fn title(sweep: &Sweep) -> String {
    let (ranks, kind) = (sweep.places.world().ranks, sweep.ranks.kind());
    format!("{} of {}, {ranks} {kind}: bus bandwidth", sweep.operation, sweep.dtype)
}

/// A line: its name, and its points of size and bandwidth.
type Line<'a> = (&'a str, Vec<(f64, f64)>);

struct Chart<'a> {
    lines: Vec<Line<'a>>,
    sizes: (f64, f64),
    most: f64,
    bound: Option<f64>,
}

impl<'a> Chart<'a> {
    /// Makes the chart; `None` if nothing was measured.
    fn new(sweep: &'a Sweep) -> Option<Self> {
        let mut lines: Vec<Line<'a>> = Vec::new();
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

    fn draw(&self) -> String {
        let lines = self.lines.iter().enumerate();
        let lines: String = lines.map(|(place, line)| self.line(colour(place), line)).collect();
        self.axes() + &self.bound_line() + &lines + &self.labels()
    }

    fn axes(&self) -> String {
        let rates = ticks(self.most).into_iter().map(|rate| {
            let (y, name) = (self.y(rate), quantity(rate, "B/s"));
            format!(
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#d8dee4\"/><text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\" fill=\"#59636e\">{name}</text>\n",
                LEFT - 8.0,
                y + 4.0
            )
        });
        let sizes = sizes(self.sizes).into_iter().map(|size| {
            let (x, name) = (self.x(size as f64), bytes(size));
            format!(
                "<path d=\"M{x:.1} {BOTTOM}v5\" stroke=\"#59636e\"/><text x=\"{x:.1}\" y=\"{}\" \
                 text-anchor=\"middle\" fill=\"#59636e\">{name}</text>\n",
                BOTTOM + 20.0
            )
        });
        let grid: String = rates.chain(sizes).collect();
        let (middle, below) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0);
        format!(
            "{grid}<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"#59636e\"/>\n\
             <text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\" fill=\"#59636e\">size</text>\n"
        )
    }

    fn bound_line(&self) -> String {
        let line = |bound| {
            let y = self.y(bound);
            format!(
                "<path class=\"bound\" d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#1f2328\" \
                 stroke-dasharray=\"7 5\"/>\n"
            )
        };
        self.bound.map_or_else(String::new, line)
    }

    fn line(&self, colour: &str, (name, points): &Line<'_>) -> String {
        let places: Vec<_> = points.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let dot = |(x, y): &(f64, f64)| {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")
        };
        format!(
            "<g><title>{}</title><path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"2\"/>{}</g>\n",
            escape(name),
            path.join("L"),
            places.iter().map(dot).collect::<String>()
        )
    }

    /// Draws the names at the right, each beside the end of its line.
    fn labels(&self) -> String {
        let last = |(place, (name, points)): (usize, &Line<'_>)| {
            let end = points.last().map_or(0.0, |point| point.1);
            (end, escape(name), colour(place))
        };
        let mut labels: Vec<_> = self.lines.iter().enumerate().map(last).collect();
        let bound = |bound| (bound, format!("bound {}", quantity(bound, "B/s")), "#1f2328");
        labels.extend(self.bound.map(bound));
        let heights: Vec<_> = labels.iter().map(|label| self.y(label.0)).collect();
        let moved = spread(&heights, 16.0, BOTTOM);
        let text = |((_, name, colour), y): (&(f64, String, &str), f64)| {
            format!(
                "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>\n",
                RIGHT + 10.0,
                y + 4.0
            )
        };
        labels.iter().zip(moved).map(text).collect()
    }
}

fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

/// Returns round rates up to the maximum, at most nine.
fn ticks(most: f64) -> Vec<f64> {
    let power = 10_f64.powf((most / 8.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step * 8.0 >= most).unwrap_or(10.0 * power);
    (0..=8_u8).map(|place| f64::from(place) * step).take_while(|rate| *rate <= most).collect()
}

/// Returns powers of two between two sizes, at most nine.
fn sizes((low, high): (f64, f64)) -> Vec<u64> {
    let inside = (0..=50_u32).map(|power| 1_u64 << power);
    let inside: Vec<_> = inside.filter(|size| (low..=high).contains(&(*size as f64))).collect();
    let every = inside.len().div_ceil(9).max(1);
    inside.into_iter().step_by(every).collect()
}
