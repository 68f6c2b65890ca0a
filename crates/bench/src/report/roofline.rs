//! The roofline: the rate that the machine allows at each intensity, and the rate of this run.

use super::markup::{joined, picture, shorten};
use super::{Bound, RunReport};
use cubeyard_draw::axis::{LogAxis, power_of_ten, prefixed_power_of_ten, spread};
use cubeyard_units::text::{percent, quantity, significant};

const LEFT: f64 = 76.0;
const RIGHT: f64 = 750.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 350.0;
const HEIGHT: f64 = 400.0;
const LABEL_GAP: f64 = 19.0;
/// Maximum number of bounds drawn: the tightest.
const MOST_BOUNDS: usize = 8;
const RATE: &str = "FLOP/s";

/// Draws the roofline with a sentence; empty if there is no arithmetic, traffic or peak.
pub(super) fn roofline(report: &RunReport) -> String {
    let Some(roofline) = Roofline::new(report) else {
        return String::new();
    };
    let body = roofline.axes() + &roofline.roof() + &roofline.point() + &roofline.labels();
    let picture = picture("roofline", "Roofline", HEIGHT, &body);
    format!("<div class=\"wide\">{picture}</div>\n{}", roofline.sentence())
}

struct Roofline<'a> {
    x: LogAxis,
    y: LogAxis,
    intensity: f64,
    rate: f64,
    ridge: f64,
    peak: f64,
    bandwidth: f64,
    /// Rates that the resources allow at this intensity, with their names, lowest first.
    bounds: Vec<(f64, &'a str)>,
}

impl<'a> Roofline<'a> {
    fn new(report: &'a RunReport) -> Option<Self> {
        let (peak, bandwidth) = (report.peak_rate, report.peak_bandwidth);
        let (intensity, ridge, rate) =
            (report.intensity()?, report.ridge()?, report.achieved_rate());
        // Far from the limits of a double, so that neighbouring values can be drawn too.
        let drawable = |value: f64| (1e-100..1e100).contains(&value);
        if ![peak, bandwidth, intensity, ridge, rate].into_iter().all(drawable) {
            return None;
        }
        let bounds = rates(report);
        let ys: Vec<_> =
            bounds.iter().map(|bound| bound.0).chain([peak, peak / 30.0, rate]).collect();
        let x = LogAxis::around(&[intensity, ridge / 30.0, ridge * 10.0], LEFT, RIGHT);
        let y = LogAxis::around(&ys, BOTTOM, TOP);
        Some(Self { x, y, intensity, rate, ridge, peak, bandwidth, bounds })
    }

    fn axes(&self) -> String {
        let (middle, title, edge) = (f64::midpoint(LEFT, RIGHT), BOTTOM + 40.0, LEFT - 8.0);
        format!(
            "{}{}<path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>\n\
             <text class=\"soft middle\" x=\"{middle}\" y=\"{title}\">FLOP for each byte moved</text>\n\
             <text class=\"soft end\" x=\"{edge}\" y=\"{}\">{RATE}</text>\n",
            self.x.decades().into_iter().map(intensity_tick).collect::<String>(),
            self.y.decades().into_iter().map(rate_tick).collect::<String>(),
            TOP - 14.0
        )
    }

    /// Draws the slope of the memories up to the ridge, then the peak of the engines.
    fn roof(&self) -> String {
        let (x, y) = self.foot();
        let (ridge, peak) = (self.x.position(self.ridge), self.y.position(self.peak));
        format!(
            "<path class=\"under\" d=\"M{x:.1} {y:.1}L{ridge:.1} {peak:.1}H{RIGHT}V{BOTTOM}H{x:.1}Z\"/>\n\
             <path class=\"roof\" d=\"M{x:.1} {y:.1}L{ridge:.1} {peak:.1}H{RIGHT}\"/>\n\
             <path class=\"thin\" d=\"M{ridge:.1} {peak:.1}V{BOTTOM}\"/>\n{}",
            self.slope_name((x, y), (ridge, peak))
        )
    }

    /// Returns the point at which the slope enters the picture.
    fn foot(&self) -> (f64, f64) {
        let lowest = self.y.low() - self.bandwidth.log10();
        let log = lowest.max(self.x.low());
        let intensity = 10_f64.powf(log);
        (self.x.position(intensity), self.y.position(self.bandwidth * intensity))
    }

    /// Draws the bandwidth along the slope, away from the run's own mark.
    fn slope_name(&self, (x0, y0): (f64, f64), (x1, y1): (f64, f64)) -> String {
        let length = (x1 - x0).hypot(y1 - y0);
        if length < 170.0 {
            return String::new();
        }
        let near = |share: f64| (x0 + (x1 - x0) * share - self.x.position(self.intensity)).abs();
        let share = if near(0.33) > near(0.67) { 0.33 } else { 0.67 };
        let (x, y) = (x0 + (x1 - x0) * share, y0 + (y1 - y0) * share);
        let angle = (y1 - y0).atan2(x1 - x0).to_degrees();
        let text = quantity(self.bandwidth, "B/s");
        format!(
            "<text class=\"middle\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" \
             y=\"-8\">{text}</text>\n"
        )
    }

    /// Draws the run, and the marks of the bounds above it.
    fn point(&self) -> String {
        let (x, y) = (self.x.position(self.intensity), self.y.position(self.rate));
        let ticks = self.bounds.iter().map(|(rate, _)| {
            let y = self.y.position(*rate);
            format!("<path class=\"bound\" d=\"M{:.1} {y:.1}H{:.1}\"/>\n", x - 9.0, x + 9.0)
        });
        let top = self.bounds.last().map_or(y, |(rate, _)| self.y.position(*rate)).min(y);
        format!(
            "<path class=\"thin\" d=\"M{x:.1} {top:.1}V{BOTTOM}\"/>\n{}\
             <circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/>\n",
            ticks.collect::<String>()
        )
    }

    /// Draws rates and names at the right, each connected to its mark.
    fn labels(&self) -> String {
        let x = self.x.position(self.intensity);
        let peak =
            Label { rate: self.peak, name: "peak of the engines", from: RIGHT, class: "peak" };
        let run = Label { rate: self.rate, name: "this run", from: x + 6.0, class: "run" };
        let bound = |&(rate, name)| Label { rate, name, from: x + 9.0, class: "bound" };
        let labels: Vec<_> = [peak, run].into_iter().chain(self.bounds.iter().map(bound)).collect();
        let heights: Vec<_> = labels.iter().map(|label| self.y.position(label.rate)).collect();
        let moved = spread(&heights, LABEL_GAP, BOTTOM);
        let places = heights.into_iter().zip(moved);
        labels.iter().zip(places).map(|(label, (y, to))| label.drawn(y, to)).collect()
    }

    fn sentence(&self) -> String {
        let (intensity, ridge) = (significant(self.intensity), significant(self.ridge));
        let limit = if self.intensity < self.ridge { "below" } else { "beyond" };
        let whose = if self.intensity < self.ridge { "memories" } else { "engines" };
        let roof = (self.bandwidth * self.intensity).min(self.peak);
        let share = percent(self.rate / roof);
        let text = format!(
            "{intensity} FLOP for each byte, {limit} the ridge at {ridge}: here the {whose} set the \
             roof, of which this run reaches {share}."
        );
        format!("<p class=\"remark\">{}</p>\n", joined(&text))
    }
}

/// A label at the right.
struct Label<'a> {
    rate: f64,
    name: &'a str,
    /// End of its mark.
    from: f64,
    class: &'a str,
}

impl Label<'_> {
    /// Draws a line from its mark at height `y` to its text at height `to`.
    fn drawn(&self, y: f64, to: f64) -> String {
        let Self { rate, name, from, class } = self;
        let (rate, name, baseline) = (quantity(*rate, RATE), shorten(name, 22), to + 4.5);
        format!(
            "<g class=\"{class}\"><path class=\"leader\" d=\"M{from:.1} {y:.1}H{RIGHT}L{} {to:.1}h8\"/>\
             <text class=\"end\" x=\"{}\" y=\"{baseline:.1}\">{rate}</text>\
             <text x=\"{}\" y=\"{baseline:.1}\">{name}</text></g>\n",
            RIGHT + 14.0,
            RIGHT + 138.0,
            RIGHT + 148.0
        )
    }
}

fn intensity_tick((x, power): (f64, i32)) -> String {
    let (y, name) = (BOTTOM + 18.0, power_of_ten(power));
    format!(
        "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>\
         <text class=\"soft middle\" x=\"{x:.1}\" y=\"{y}\">{name}</text>\n"
    )
}

fn rate_tick((y, power): (f64, i32)) -> String {
    let (x, baseline, name) = (LEFT - 8.0, y + 4.0, prefixed_power_of_ten(power));
    format!(
        "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
         <text class=\"soft end\" x=\"{x}\" y=\"{baseline:.1}\">{name}</text>\n"
    )
}

/// Returns the rates that the bounds alone would allow this run, tightest first, without those far above the
/// peak.
fn rates(report: &RunReport) -> Vec<(f64, &str)> {
    let rate = |bound: &Bound| report.flop as f64 / (bound.span.ps() as f64 / 1e12);
    let rates = report.bounds.iter().map(|bound| (rate(bound), bound.resource.as_str()));
    let mut rates: Vec<_> = rates.filter(|(rate, _)| *rate <= 100.0 * report.peak_rate).collect();
    rates.sort_by(|left, right| left.0.total_cmp(&right.0));
    rates.truncate(MOST_BOUNDS);
    rates
}

#[cfg(test)]
mod tests;
