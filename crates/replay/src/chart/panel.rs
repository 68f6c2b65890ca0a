//! `Panel`: the chart of one report.

use std::fmt;

use super::axis::Axis;
use super::labels::spread;
use super::{PANEL_HEIGHT, WIDTH};
use crate::report::{grouped, significant};
use crate::{Point, Report, Row, Timeline};
use cubeyard_draw::xml::{escape, shorten};
use cubeyard_units::Bytes;

const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 320.0;
const TOP: f64 = 68.0;
const BOTTOM: f64 = PANEL_HEIGHT - 52.0;
/// The distance of labels below each other.
const LABEL_GAP: f64 = 18.0;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito), without the yellow
/// that is too light for a line. Lines also differ in their dashes once the colours are used up.
const COLOURS: [&str; 6] = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES: [&str; 3] = ["none", "7 3", "2 3"];

/// The chart of one report, written by its `Display`.
pub(super) struct Panel<'a> {
    report: &'a Report,
    /// The row whose replay went furthest: it knows the most of the live bytes.
    longest: Option<&'a Row>,
    across: Axis,
    up: Axis,
}

/// A line of the chart with its label.
struct Series {
    name: String,
    figures: String,
    colour: &'static str,
    dash: &'static str,
    bold: bool,
    path: String,
    /// Where it ends, and whether that is where a policy failed.
    end: (f64, f64),
    failed: bool,
}

impl<'a> Panel<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let longest = report.rows.iter().max_by_key(|row| row.outcome.events);
        let reserved = report.rows.iter().map(|row| row.outcome.peak_reserved);
        let live = report.rows.iter().map(|row| row.outcome.peak_live);
        let most = reserved.chain(live).chain(report.recorded_reserved()).max().unwrap_or_default();
        let across = longest.map_or_else(
            || Axis { end: 1.0, ticks: Vec::new(), title: String::new() },
            |row| Axis::events(&row.outcome.timeline),
        );
        Self { report, longest, across, up: Axis::bytes(most) }
    }

    fn x(&self, timeline: &Timeline, point: &Point) -> f64 {
        let value = if timeline.is_timed() { point.time_us as f64 } else { point.event as f64 };
        self.across(value)
    }

    fn across(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (value / self.across.end)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (value / self.up.end)
    }

    /// A line in steps through one figure of each point, and where it ends.
    fn steps(&self, row: &Row, figure: fn(&Point) -> Bytes) -> (String, (f64, f64)) {
        let timeline = &row.outcome.timeline;
        let mut path = vec![format!("M{LEFT:.1} {BOTTOM:.1}")];
        let (mut x, mut y) = (LEFT, BOTTOM);
        for point in timeline.points() {
            x = self.x(timeline, point);
            let next = self.y(figure(point).get() as f64);
            if (next - y).abs() >= 0.05 {
                path.push(format!("H{x:.1}V{next:.1}"));
                y = next;
            }
        }
        if row.outcome.failed.is_none() {
            x = RIGHT;
        }
        path.push(format!("H{x:.1}"));
        (path.concat(), (x, y))
    }

    fn policy_series(&self, place: usize, row: &Row) -> Series {
        let (path, end) = self.steps(row, |point| point.reserved);
        let failed = row.outcome.failed.is_some();
        let waste = row
            .outcome
            .waste()
            .map_or_else(String::new, |waste| format!(" · {}", significant(waste)));
        let best =
            self.report.recommended().is_some_and(|best| best.policy.name == row.policy.name);
        let figures = match &row.outcome.failed {
            Some(_) => "failed".to_owned(),
            None => format!("{}{waste}", row.outcome.peak_reserved),
        };
        Series {
            name: row.policy.name.to_owned(),
            figures,
            colour: COLOURS[place % COLOURS.len()],
            dash: DASHES[place / COLOURS.len() % DASHES.len()],
            bold: best && self.report.rows.len() > 1,
            path,
            end,
            failed,
        }
    }

    fn live_series(&self) -> Option<Series> {
        let row = self.longest?;
        let (path, end) = self.steps(row, |point| point.live);
        let path = format!("{path}V{BOTTOM:.1}Z");
        let figures = row.outcome.peak_live.to_string();
        Some(Series { name: "live, at its peak".to_owned(), figures, path, end, ..PLAIN })
    }

    fn recorded_series(&self) -> Option<Series> {
        let recorded = self.report.recorded_reserved()?;
        let y = self.y(recorded.get() as f64);
        let (path, end) = (format!("M{LEFT:.1} {y:.1}H{RIGHT:.1}"), (RIGHT, y));
        let (name, figures) = (self.report.recorded_name(), recorded.to_string());
        Some(Series { name, figures, path, end, colour: "#1f2933", dash: "1 4", ..PLAIN })
    }
}

const PLAIN: Series = Series {
    name: String::new(),
    figures: String::new(),
    colour: "#8a97a6",
    dash: "none",
    bold: false,
    path: String::new(),
    end: (RIGHT, BOTTOM),
    failed: false,
};

impl fmt::Display for Panel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_heading(f)?;
        self.write_axes(f)?;
        let live = self.live_series();
        if let Some(Series { path, colour, .. }) = &live {
            writeln!(
                f,
                "<path d=\"{path}\" fill=\"#dde3ea\" stroke=\"{colour}\" stroke-width=\"0.6\"/>"
            )?;
        }
        let policies = self.report.rows.iter().enumerate();
        let mut series: Vec<_> =
            policies.map(|(place, row)| self.policy_series(place, row)).collect();
        series.extend(self.recorded_series());
        // The broad line of the best goes below the others, so that it hides none of them.
        let (broad, narrow): (Vec<_>, Vec<_>) = series.iter().partition(|line| line.bold);
        for line in broad.into_iter().chain(narrow) {
            line.write_line(f)?;
        }
        series.extend(live);
        write_labels(f, &series)
    }
}

impl Panel<'_> {
    fn write_heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = shorten(&self.report.trace, 80);
        let events = self.longest.map_or(0, |row| row.outcome.timeline.total_events());
        let noun = if events == 1 { "event" } else { "events" };
        let events = grouped(events);
        writeln!(
            f,
            "<text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"600\" fill=\"#1f2933\">{name}</text>\n\
             <text x=\"{LEFT}\" y=\"47\" fill=\"#52606d\">what each policy reserved over {events} {noun}, \
             and what was live; waste is peak reserved ÷ peak live</text>\n\
             <text x=\"{x}\" y=\"47\" text-anchor=\"end\" fill=\"#52606d\">peak · waste</text>",
            x = WIDTH - 16.0
        )
    }

    fn write_axes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (value, text) in &self.up.ticks {
            let y = self.y(*value);
            writeln!(
                f,
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#e4e7eb\"/>\
                 <text x=\"{x}\" y=\"{baseline:.1}\" text-anchor=\"end\" fill=\"#52606d\">{text}</text>",
                x = LEFT - 8.0,
                baseline = y + 4.0
            )?;
        }
        for (value, text) in &self.across.ticks {
            let (x, end) = (self.across(*value), BOTTOM + 5.0);
            writeln!(
                f,
                "<path d=\"M{x:.1} {BOTTOM}V{end}\" stroke=\"#7b8794\"/>\
                 <text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#52606d\">{text}</text>",
                y = BOTTOM + 18.0
            )?;
        }
        let (middle_x, middle_y) = (f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM));
        writeln!(
            f,
            "<path d=\"M{LEFT} {BOTTOM}H{RIGHT}\" stroke=\"#7b8794\"/>\n\
             <text x=\"{middle_x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#52606d\">{}</text>\n\
             <text transform=\"translate(20 {middle_y}) rotate(-90)\" text-anchor=\"middle\" \
             fill=\"#52606d\">{}</text>",
            self.across.title,
            self.up.title,
            y = BOTTOM + 38.0
        )
    }
}

impl Series {
    fn write_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, figures) = (escape(&self.name), escape(&self.figures));
        let Self { path, colour, dash, end: (x, y), .. } = self;
        let width = if self.bold { 3.4 } else { 1.6 };
        writeln!(
            f,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dash}\" stroke-linejoin=\"round\"><title>{name}: {figures}</title></path>"
        )?;
        if self.failed {
            let cross = format!("M{:.1} {:.1}l10 10m0 -10l-10 10", x - 5.0, y - 5.0);
            writeln!(
                f,
                "<path d=\"{cross}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>"
            )?;
        }
        Ok(())
    }
}

fn write_labels(f: &mut fmt::Formatter<'_>, series: &[Series]) -> fmt::Result {
    let heights: Vec<f64> = series.iter().map(|line| line.end.1).collect();
    for (line, y) in series.iter().zip(spread(&heights, LABEL_GAP, TOP, BOTTOM)) {
        let Series { colour, dash, end: (_, from), .. } = line;
        let (name, figures) = (escape(&line.name), escape(&line.figures));
        let weight = if line.bold { "700" } else { "400" };
        writeln!(
            f,
            "<path d=\"M{a} {from:.1}L{b} {y:.1}H{c}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"1.8\" stroke-dasharray=\"{dash}\"/>\
             <text x=\"{d}\" y=\"{baseline:.1}\" font-weight=\"{weight}\" fill=\"#1f2933\">{name}</text>\
             <text x=\"{e}\" y=\"{baseline:.1}\" font-weight=\"{weight}\" text-anchor=\"end\" \
             fill=\"#1f2933\">{figures}</text>",
            a = RIGHT + 2.0,
            b = RIGHT + 18.0,
            c = RIGHT + 30.0,
            d = RIGHT + 36.0,
            e = WIDTH - 16.0,
            baseline = y + 4.0
        )?;
    }
    Ok(())
}
