//! The chart of one report.

use super::{PANEL_HEIGHT, WIDTH};
use crate::report::significant;
use crate::{Point, Report, Row};
use cubeyard_draw::axis::{BYTE_UNITS, TIME_UNITS, multiples, ticks, unit};
use cubeyard_draw::plot::{Label, Plot};
use cubeyard_draw::svg::{Area, COLOURS, Canvas, END, SOFT, colour};
use cubeyard_draw::xml::{escape, shorten};
use cubeyard_units::Bytes;
use cubeyard_units::text::count;

const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 320.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = PANEL_HEIGHT - 52.0;
const PLOT: Plot = Plot {
    area: Area { x: LEFT, y: TOP, width: RIGHT - LEFT, height: BOTTOM - TOP },
    right: WIDTH - 16.0,
};
/// Dashes of lines whose colours repeat.
const DASHES: [&str; 3] = ["none", "7 3", "2 3"];

/// The chart of one report.
pub(super) struct Panel<'a> {
    report: &'a Report,
    /// The row whose replay came furthest: it has the most of the live bytes.
    longest: Option<&'a Row>,
    /// Ends of the axes, in microseconds or events, and in bytes.
    end: f64,
    most: f64,
}

/// A line of the chart with its label.
struct Series {
    label: Label,
    path: String,
    /// Point at which the policy failed.
    failed: Option<(f64, f64)>,
}

impl<'a> Panel<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let longest = report.rows.iter().max_by_key(|row| row.outcome.events);
        let reserved = report.rows.iter().map(|row| row.outcome.peak_reserved);
        let live = report.rows.iter().map(|row| row.outcome.peak_live);
        let most = reserved.chain(live).chain(report.recorded_reserved()).max().unwrap_or_default();
        let end = longest.map_or(1, |row| {
            let timeline = &row.outcome.timeline;
            if timeline.is_timed { timeline.end_us } else { (timeline.total_events as u64).max(1) }
        });
        Self { report, longest, end: end as f64, most: most.get().max(1) as f64 * 1.05 }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (value / self.end)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (value / self.most)
    }

    pub(super) fn draw(&self, canvas: &mut Canvas) {
        self.heading(canvas);
        self.axes(canvas);
        let live = self.longest.map(|row| self.live_series(row));
        if let Some(Series { path, .. }) = &live {
            canvas.path(path, "fill=\"#8a97a6\" fill-opacity=\"0.3\" stroke=\"#8a97a6\"");
        }
        let policies = self.report.rows.iter().enumerate();
        let mut series: Vec<_> =
            policies.map(|(place, row)| self.policy_series(place, row)).collect();
        series.extend(self.recorded_series());
        // The broad line of the best goes below the others, so that it hides none of them.
        let (broad, narrow): (Vec<_>, Vec<_>) = series.iter().partition(|line| line.label.bold);
        for line in broad.into_iter().chain(narrow) {
            line.draw(canvas);
        }
        let labels: Vec<_> = series.into_iter().chain(live).map(|line| line.label).collect();
        PLOT.labels(canvas, &labels);
    }

    fn heading(&self, canvas: &mut Canvas) {
        let events = self.longest.map_or(0, |row| row.outcome.timeline.total_events);
        let noun = if events == 1 { "event" } else { "events" };
        let remark = format!(
            "what each policy reserved over {} {noun}, and what was live; waste is peak reserved ÷ peak live",
            count(events as u64)
        );
        let name = shorten(&self.report.trace, 80);
        canvas.text(LEFT, 28.0, "font-size=\"17\" font-weight=\"600\"", &name);
        canvas.text(LEFT, 47.0, SOFT, &remark);
        canvas.text(PLOT.right, 47.0, &format!("{SOFT} {END}"), "peak · waste");
    }

    fn axes(&self, canvas: &mut Canvas) {
        let timed = self.longest.is_some_and(|row| row.outcome.timeline.is_timed);
        let (across, title) = if timed {
            let (unit, name) = unit(&TIME_UNITS, self.end);
            (ticks(self.end, unit, 8), format!("time in {name}"))
        } else {
            let whole = multiples(self.end, 8).filter(|number| number.fract() == 0.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let tick = |number: f64| (number, count(number as u64));
            (whole.map(tick).collect(), "events".to_owned())
        };
        let (size, name) = unit(&BYTE_UNITS, self.most);
        let up = ticks(self.most, size, 6).into_iter().map(|(value, text)| (self.y(value), text));
        let across = across.into_iter().map(|(value, text)| (self.x(value), text));
        let (across, up): (Vec<_>, Vec<_>) = (across.collect(), up.collect());
        PLOT.axes(canvas, &across, &up, [&title, name]);
    }

    /// Returns a line in steps through one figure of each point, and its end.
    fn steps(&self, row: &Row, figure: fn(&Point) -> Bytes) -> (String, (f64, f64)) {
        let timeline = &row.outcome.timeline;
        let mut path = format!("M{LEFT:.1} {BOTTOM:.1}");
        let (mut x, mut y) = (LEFT, BOTTOM);
        for point in &timeline.points {
            x = self.x(timeline.instant(point));
            let next = self.y(figure(point).get() as f64);
            if (next - y).abs() >= 0.05 {
                path.extend([format!("H{x:.1}V{next:.1}")]);
                y = next;
            }
        }
        if row.outcome.failed.is_none() {
            x = RIGHT;
        }
        (path + &format!("H{x:.1}"), (x, y))
    }

    fn policy_series(&self, place: usize, row: &Row) -> Series {
        let (path, end) = self.steps(row, |point| point.reserved);
        let best = self.report.recommended();
        let best = best.is_some_and(|best| best.policy.name == row.policy.name);
        let waste = row.outcome.waste().map(|waste| format!(" · {}", significant(waste)));
        let failed = row.outcome.failed.as_ref().map(|_| end);
        let figures = match failed {
            Some(_) => "failed".to_owned(),
            None => format!("{}{}", row.outcome.peak_reserved, waste.unwrap_or_default()),
        };
        let dash = DASHES[place / COLOURS.len() % DASHES.len()];
        let label = Label {
            bold: best && self.report.rows.len() > 1,
            ..label(row.policy.name, figures, end.1, colour(place), dash)
        };
        Series { label, path, failed }
    }

    fn live_series(&self, row: &Row) -> Series {
        let (path, (_, y)) = self.steps(row, |point| point.live);
        let figures = row.outcome.peak_live.to_string();
        let label = label("live, at its peak", figures, y, "#8a97a6", "none");
        Series { label, path: format!("{path}V{BOTTOM:.1}Z"), failed: None }
    }

    fn recorded_series(&self) -> Option<Series> {
        let recorded = self.report.recorded_reserved()?;
        let y = self.y(recorded.get() as f64);
        let name = self.report.recorded_name();
        let label = label(&name, recorded.to_string(), y, "#59636e", "1 4");
        Some(Series { label, path: format!("M{LEFT:.1} {y:.1}H{RIGHT:.1}"), failed: None })
    }
}

fn label(name: &str, figures: String, y: f64, colour: &str, dash: &str) -> Label {
    let leader = format!("stroke=\"{colour}\" stroke-dasharray=\"{dash}\"");
    Label { name: name.to_owned(), figures, from: (RIGHT, y), leader, bold: false }
}

impl Series {
    fn draw(&self, canvas: &mut Canvas) {
        let Label { name, figures, leader, bold, .. } = &self.label;
        let (title, width) = (escape(&format!("{name}: {figures}")), if *bold { 3.4 } else { 1.6 });
        canvas.push(&format!(
            "<path d=\"{}\" fill=\"none\" {leader} stroke-width=\"{width}\" stroke-linejoin=\"round\">\
             <title>{title}</title></path>",
            self.path
        ));
        if let Some((x, y)) = self.failed {
            let cross = format!("M{:.1} {:.1}l10 10m0 -10l-10 10", x - 5.0, y - 5.0);
            canvas.path(&cross, &format!("fill=\"none\" {leader} stroke-width=\"2.5\""));
        }
    }
}
