//! Roofline: the rate that the machine allows at each intensity, and the rate of this run.

use super::markup::{WIDTH, picture};
use super::{Bound, RunReport};
use cubeyard_draw::axis::{LogAxis, power_of_ten, prefixed_power_of_ten};
use cubeyard_draw::plot::{Label, Plot};
use cubeyard_draw::remark;
use cubeyard_draw::svg::{Area, Canvas, MIDDLE};
use cubeyard_units::text::{percent, quantity, significant};

const LEFT: f64 = 76.0;
const RIGHT: f64 = 750.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 350.0;
const HEIGHT: f64 = 400.0;
const PLOT: Plot = Plot {
    area: Area { x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP },
    right: WIDTH - 16.0,
};
/// Maximum number of bounds drawn; the tightest are chosen.
const MOST_BOUNDS: usize = 8;
const RATE: &str = "FLOP/s";

/// Draws the roofline with a sentence; empty if there is no arithmetic, traffic or peak.
pub(super) fn roofline(report: &RunReport) -> String {
    let Some(roofline) = Roofline::new(report) else {
        return String::new();
    };
    let mut canvas = Canvas::default();
    roofline.axes(&mut canvas);
    roofline.roof(&mut canvas);
    roofline.point(&mut canvas);
    PLOT.labels(&mut canvas, &roofline.labels());
    let picture = picture("roofline", "Roofline", HEIGHT, &canvas.into_elements());
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
    /// Rates that the resources allow at the run's intensity, with their names, lowest first.
    bounds: Vec<(f64, &'a str)>,
}

impl<'a> Roofline<'a> {
    fn new(report: &'a RunReport) -> Option<Self> {
        let (peak, bandwidth) = (report.peak_rate, report.peak_bandwidth);
        let (intensity, ridge, rate) =
            (report.intensity()?, report.ridge()?, report.achieved_rate());
        // Far from the limits of `f64`, so that neighbouring values can also be drawn.
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

    fn axes(&self, canvas: &mut Canvas) {
        let named = |axis: LogAxis, name: fn(i32) -> String| -> Vec<_> {
            axis.decades().into_iter().map(|(place, power)| (place, name(power))).collect()
        };
        let (across, up) = (named(self.x, power_of_ten), named(self.y, prefixed_power_of_ten));
        PLOT.axes(canvas, &across, &up, ["FLOP for each byte moved", RATE]);
    }

    /// Draws the memory slope up to the ridge, then the peak of the engines.
    fn roof(&self, canvas: &mut Canvas) {
        let (x, y) = self.foot();
        let (ridge, peak) = (self.x.position(self.ridge), self.y.position(self.peak));
        let roof = format!("M{x:.1} {y:.1}L{ridge:.1} {peak:.1}H{RIGHT}");
        canvas.path(&format!("{roof}V{BOTTOM}H{x:.1}Z"), "class=\"under\"");
        canvas.path(&roof, "class=\"roof\"");
        canvas.path(&format!("M{ridge:.1} {peak:.1}V{BOTTOM}"), "class=\"thin\"");
        self.slope_name(canvas, (x, y), (ridge, peak));
    }

    /// Returns the point at which the slope enters the picture.
    fn foot(&self) -> (f64, f64) {
        let lowest = self.y.low() - self.bandwidth.log10();
        let log = lowest.max(self.x.low());
        let intensity = 10_f64.powf(log);
        (self.x.position(intensity), self.y.position(self.bandwidth * intensity))
    }

    /// Labels the slope with the bandwidth, away from the mark of the run.
    fn slope_name(&self, canvas: &mut Canvas, (x0, y0): (f64, f64), (x1, y1): (f64, f64)) {
        if (x1 - x0).hypot(y1 - y0) < 170.0 {
            return;
        }
        let near = |share: f64| (x0 + (x1 - x0) * share - self.x.position(self.intensity)).abs();
        let share = if near(0.33) > near(0.67) { 0.33 } else { 0.67 };
        let (x, y) = (x0 + (x1 - x0) * share, y0 + (y1 - y0) * share);
        let angle = (y1 - y0).atan2(x1 - x0).to_degrees();
        let turned = format!("{MIDDLE} transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\"");
        canvas.text(0.0, -8.0, &turned, &quantity(self.bandwidth, "B/s"));
    }

    /// Draws the run's point, and the marks of the bounds above it.
    fn point(&self, canvas: &mut Canvas) {
        let (x, y) = (self.x.position(self.intensity), self.y.position(self.rate));
        let top = self.bounds.last().map_or(y, |(rate, _)| self.y.position(*rate)).min(y);
        canvas.path(&format!("M{x:.1} {top:.1}V{BOTTOM}"), "class=\"thin\"");
        for (rate, _) in &self.bounds {
            let mark = format!("M{:.1} {:.1}h18", x - 9.0, self.y.position(*rate));
            canvas.path(&mark, "class=\"bound\"");
        }
        canvas.push(&format!("<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/>"));
    }

    /// Returns the labels of the peak, this run and the bounds, each with the end of its mark.
    fn labels(&self) -> Vec<Label> {
        let x = self.x.position(self.intensity);
        let label = |name: &str, rate: f64, from: f64| Label {
            name: name.to_owned(),
            figures: quantity(rate, RATE),
            from: (from, self.y.position(rate)),
            leader: "class=\"leader\"".to_owned(),
            bold: false,
        };
        let peak = label("peak of the engines", self.peak, RIGHT);
        let run = Label { bold: true, ..label("this run", self.rate, x + 6.0) };
        let bounds = self.bounds.iter().map(|(rate, name)| label(name, *rate, x + 9.0));
        [peak, run].into_iter().chain(bounds).collect()
    }

    fn sentence(&self) -> String {
        let (intensity, ridge) = (significant(self.intensity), significant(self.ridge));
        let limit = if self.intensity < self.ridge { "below" } else { "beyond" };
        let whose = if self.intensity < self.ridge { "memories" } else { "engines" };
        let roof = (self.bandwidth * self.intensity).min(self.peak);
        let share = percent(self.rate / roof);
        remark(&format!(
            "{intensity} FLOP for each byte, {limit} the ridge at {ridge}: here the {whose} set the \
             roof, of which this run reaches {share}."
        ))
    }
}

/// Returns the rates that the bounds alone would allow this run, tightest first. Rates far
/// above the peak are omitted.
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
