//! The picture of a chart: axes, lines, and their names with the values at their ends.

use super::{Chart, Line, Shape, Spacing};
use crate::axis::LogAxis;
use crate::plot::{Label, Plot};
use crate::svg::{Area, Canvas};
use crate::xml::{escape, shorten};

const AREA: Area = Area { x: 90.0, y: 76.0, width: 590.0, height: 324.0 };
/// Rectangle of the lines and of the names beside them.
pub(super) const PLOT: Plot = Plot { area: AREA, right: super::WIDTH - 16.0 };
/// Largest number of positions for which each has a tick.
const MOST_TICKS: usize = 9;
/// Longest label of a tick, in characters.
const LONGEST_TICK: usize = 12;
/// Top of a linear axis, as a factor of the largest value.
const HEADROOM: f64 = 1.06;
/// Minimum height of a step of a line that is drawn, in pixels.
const LEAST_STEP: f64 = 0.05;

/// Coordinates of the values of an axis.
#[derive(Clone, Copy)]
enum Scale {
    /// Range of values and of coordinates. Equal ratios have equal lengths if the flag is set.
    Range {
        values: (f64, f64),
        is_log: bool,
        places: (f64, f64),
    },
    Decades(LogAxis),
}

impl Scale {
    /// Creates an axis of whole decades around the positive values.
    fn decades(values: &[f64], (from, to): (f64, f64)) -> Self {
        let positive: Vec<_> = values.iter().copied().filter(|value| *value > 0.0).collect();
        let known = if positive.is_empty() { vec![1.0] } else { positive };
        Self::Decades(LogAxis::around(&known, from, to))
    }

    fn position(&self, value: f64) -> f64 {
        match *self {
            Self::Range { values: (low, high), is_log, places: (from, to) } => {
                let scaled = |value: f64| if is_log { value.ln() } else { value };
                let share = (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
                from + share.clamp(0.0, 1.0) * (to - from)
            }
            Self::Decades(axis) => axis.position(value),
        }
    }
}

/// Chart with the scales of its axes.
pub(super) struct Still<'a> {
    chart: &'a Chart,
    across: Scale,
    up: Scale,
    /// Top of a linear axis.
    top: f64,
}

impl<'a> Still<'a> {
    /// Scales the axes to the values; `None` if there are none.
    pub(super) fn new(chart: &'a Chart) -> Option<Self> {
        let values = chart.lines.iter().flat_map(|line| &line.values).copied();
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let most = values.iter().copied().reduce(f64::max)?;
        let (low, high) = (*chart.positions.first()?, *chart.positions.last()?);
        let is_log = chart.across.spacing != Spacing::Linear;
        let high = if high > low { high } else { low * 2.0 + 1.0 };
        let places = (AREA.x, AREA.right());
        let across = Scale::Range { values: (low, high), is_log, places };
        let top = if most > 0.0 { most * HEADROOM } else { 1.0 };
        let places = (AREA.bottom(), AREA.y);
        let up = if chart.up.spacing == Spacing::Linear {
            Scale::Range { values: (0.0, top), is_log: false, places }
        } else {
            Scale::decades(&values, places)
        };
        Some(Self { chart, across, up, top })
    }

    pub(super) fn draw(&self, canvas: &mut Canvas) {
        self.axes(canvas);
        // Emphasized lines are wide and are drawn below the others, so that they do not hide them.
        let (bold, others): (Vec<&Line>, Vec<_>) =
            self.chart.lines.iter().partition(|line| line.is_bold);
        bold.into_iter().chain(others).for_each(|line| self.line(canvas, line));
        let labels: Vec<_> = self.chart.lines.iter().filter_map(|it| self.label(it)).collect();
        PLOT.labels(canvas, &labels);
    }

    fn axes(&self, canvas: &mut Canvas) {
        let (across, unit) = self.ticks_across();
        let across: Vec<_> =
            across.into_iter().map(|(at, text)| (self.across.position(at), text)).collect();
        let label = &self.chart.across.label;
        let below = if unit.is_empty() { label.clone() } else { format!("{label} in {unit}") };
        let (up, unit) = self.ticks_up();
        PLOT.axes(canvas, &across, &up, [&below, unit]);
    }

    /// Returns positions with their labels, and the unit of the labels.
    fn ticks_across(&self) -> (Vec<(f64, String)>, &'static str) {
        let Chart { positions, names, across, .. } = self.chart;
        let text = |place: usize| match names.get(place) {
            Some(name) => shorten(name, LONGEST_TICK),
            None => across.quantity.text(positions[place]),
        };
        if across.spacing == Spacing::Linear && names.is_empty() && positions.len() > MOST_TICKS {
            let (mut ticks, unit) = across.quantity.ticks(positions[positions.len() - 1], 8);
            ticks.retain(|(at, _)| *at >= positions[0]);
            return (ticks, unit);
        }
        let every = positions.len().div_ceil(MOST_TICKS);
        let places = (0..positions.len()).step_by(every);
        (places.map(|place| (positions[place], text(place))).collect(), "")
    }

    /// Returns heights in the picture with their labels, and the unit of the labels.
    fn ticks_up(&self) -> (Vec<(f64, String)>, &'static str) {
        let quantity = self.chart.up.quantity;
        if let Scale::Decades(axis) = self.up {
            let label = |(y, power)| (y, quantity.text(10_f64.powi(power)));
            return (axis.decades().into_iter().map(label).collect(), "");
        }
        let (ticks, unit) = quantity.ticks(self.top, 8);
        (ticks.into_iter().map(|(value, text)| (self.up.position(value), text)).collect(), unit)
    }

    /// Returns the points of a line in the picture.
    fn points(&self, line: &Line) -> Vec<(f64, f64)> {
        let pairs = self.chart.positions.iter().zip(&line.values);
        let known = pairs.filter(|(_, value)| value.is_finite());
        known.map(|(at, value)| (self.across.position(*at), self.up.position(*value))).collect()
    }

    fn line(&self, canvas: &mut Canvas, line: &Line) {
        let points = self.points(line);
        let (Some(&(first, _)), Some(&(x, y))) = (points.first(), points.last()) else { return };
        let stroke = line.stroke();
        let (path, fill, dots) = match line.shape {
            Shape::Dotted => (straight(&points), "none", dots(&points, &line.colour)),
            Shape::Scattered => (String::new(), "none", dots(&points, &line.colour)),
            Shape::Stepped => (stepped(&points), "none", String::new()),
            Shape::Filled => {
                let bottom = AREA.bottom();
                let area = format!("{}V{bottom:.1}H{first:.1}Z", stepped(&points));
                (area, line.colour.as_str(), String::new())
            }
        };
        let cross = format!("M{:.1} {:.1}l10 10m0 -10l-10 10", x - 5.0, y - 5.0);
        let cross = format!("<path d=\"{cross}\" {stroke}/>");
        let end = if line.is_broken { cross } else { String::new() };
        canvas.push(&format!(
            "<g fill-opacity=\"0.3\" stroke-linejoin=\"round\" stroke-width=\"{}\"><title>{}</title>\
             <path d=\"{path}\" fill=\"{fill}\" {stroke}/>{dots}{end}</g>",
            line.width,
            escape(&line.name),
        ));
    }

    fn label(&self, line: &Line) -> Option<Label> {
        let last = line.values.iter().copied().rfind(|value| value.is_finite())?;
        let figures = line.figures.clone();
        Some(Label {
            name: line.name.clone(),
            figures: figures.unwrap_or_else(|| self.chart.up.quantity.text(last)),
            from: *self.points(line).last()?,
            leader: line.stroke(),
            bold: line.is_bold,
        })
    }
}

/// Returns a path of straight lines through points.
fn straight(points: &[(f64, f64)]) -> String {
    let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    format!("M{}", points.join("L"))
}

/// Returns a path of steps through points, without steps too low to be seen.
fn stepped(points: &[(f64, f64)]) -> String {
    let (end, mut y) = points[points.len() - 1];
    let mut path = String::new();
    for (place, (x, next)) in points.iter().enumerate() {
        if place == 0 {
            path = format!("M{x:.1} {next:.1}");
        } else if (next - y).abs() >= LEAST_STEP {
            path.extend([format!("H{x:.1}V{next:.1}")]);
        } else {
            continue;
        }
        y = *next;
    }
    path + &format!("H{end:.1}")
}

fn dots(points: &[(f64, f64)], colour: &str) -> String {
    let dot = |(x, y): &(f64, f64)| {
        format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"1\"/>"
        )
    };
    points.iter().map(dot).collect()
}
