//! Results of checks as text: a table for each family, followed by the remarks and the totals.

use cubeyard_validate::{Relation, Row, Verdict};

use super::count;
use crate::grid::{BOLD, DIM, GREEN, RED, WIDTH, paint, wrapped};

/// Width of an expected or simulated figure, in columns.
const FIGURE: usize = 14;
/// Width of a deviation, in columns.
const DEVIATION: usize = 9;
/// Maximum width of a name whose figures fit on the same line, in columns.
const NAME: usize = WIDTH - 1 - 2 * (FIGURE + 1) - DEVIATION;

pub(crate) fn render(rows: &[Row], colours: bool) -> String {
    let mut stream = Stream::new(colours);
    let lines: String = rows.iter().map(|row| stream.lines(row)).collect();
    lines + &stream.end(rows)
}

/// Table whose rows are printed as soon as they are known.
pub(super) struct Stream {
    family: &'static str,
    /// Kind and source of the previous row.
    origin: String,
    remarks: Remarks,
    colours: bool,
}

impl Stream {
    pub(super) fn new(colours: bool) -> Self {
        Self { family: "", origin: String::new(), remarks: Remarks::default(), colours }
    }

    /// Returns the lines of a row. They follow the heading of its family and the origin of its figure where these
    /// differ from the previous row.
    pub(super) fn lines(&mut self, row: &Row) -> String {
        let mut text = String::new();
        if row.family != self.family {
            text += if self.family.is_empty() { "" } else { "\n" };
            text += &(paint(row.family, BOLD, self.colours) + "\n");
            let heading = aligned("", ["expected", "ours", "deviation"].map(str::to_owned));
            text += &(paint(&heading, DIM, self.colours) + "\n");
            (self.family, self.origin) = (row.family, String::new());
        }
        let origin = origin(row);
        if origin != self.origin {
            text += &paint(&wrapped(&origin, [2, 4]), DIM, self.colours);
            self.origin = origin;
        }
        let (mark, colour) = mark(row.verdict);
        let remark = row.reason.map(|reason| format!(" [{}]", self.remarks.number(reason)));
        let name = format!("{mark}{}{}", row.name, remark.unwrap_or_default());
        text + &paint(&aligned(&name, cells(row)), colour, self.colours) + "\n"
    }

    /// Returns the text below the rows.
    pub(super) fn end(&self, rows: &[Row]) -> String {
        format!("\n{}{}", self.remarks.lines().concat(), wrapped(&sum(rows), [0, 2]))
    }
}

/// Returns the kind of a check and the source of its figure.
fn origin(row: &Row) -> String {
    let own = if row.own { ", own arithmetic" } else { "" };
    format!("{}{own}: {}", row.kind, row.source)
}

/// Aligns figures to the right of a name, or on the next line if the name is too long.
fn aligned(name: &str, [expected, ours, deviation]: [String; 3]) -> String {
    let figures = format!("{expected:>FIGURE$} {ours:>FIGURE$} {deviation:>DEVIATION$}");
    if name.chars().count() > NAME {
        return format!("{name}\n{:NAME$} {figures}", "");
    }
    format!("{name:<NAME$} {figures}")
}

fn mark(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Passed => ("✓ ", GREEN),
        Verdict::Failed => ("✗ ", RED),
        Verdict::Shown => ("– ", ""),
        Verdict::LeftOut => ("  ", DIM),
    }
}

/// Distinct remarks of the rows, by number.
#[derive(Default)]
struct Remarks(Vec<&'static str>);

impl Remarks {
    fn number(&mut self, reason: &'static str) -> usize {
        let known = self.0.iter().position(|known| *known == reason);
        known.unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        }) + 1
    }

    fn lines(&self) -> Vec<String> {
        let numbered = self.0.iter().zip(1..);
        numbered.map(|(reason, number)| wrapped(&format!("[{number}] {reason}"), [0, 4])).collect()
    }
}

/// Returns the expected figure, the simulated figure, and the deviation.
fn cells(row: &Row) -> [String; 3] {
    let sign = match row.expected.relation {
        Relation::Equal => "",
        Relation::AtMost => "≤ ",
        Relation::AtLeast => "≥ ",
    };
    let with_unit = |value: f64| format!("{} {}", figure(value), row.expected.unit);
    let deviation = match (row.ours, row.deviation) {
        (None, _) | (_, None) => "–".to_owned(),
        (_, Some(off)) if off.abs() > 0.0 => format!("{:+.2} %", off * 100.0),
        _ => "0".to_owned(),
    };
    [
        format!("{sign}{}", with_unit(row.expected.value).trim_end()),
        row.ours.map_or("left out".to_owned(), |ours| with_unit(ours).trim_end().to_owned()),
        deviation,
    ]
}

/// Formats a figure with up to three decimals.
fn figure(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn sum(rows: &[Row]) -> String {
    let (passed, failed) = (count(rows, Verdict::Passed), count(rows, Verdict::Failed));
    let (shown, left_out) = (count(rows, Verdict::Shown), count(rows, Verdict::LeftOut));
    let own = rows.iter().filter(|row| row.own && row.verdict == Verdict::Passed).count();
    let own = if own > 0 { format!(" ({own} our own arithmetic)") } else { String::new() };
    let sum =
        format!("{passed} ✓ within tolerance{own}, {failed} ✗ out of it, {shown} – indicative");
    if left_out > 0 { format!("{sum}, {left_out} left out") } else { sum }
}
