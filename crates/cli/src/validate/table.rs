//! Results of checks as text: a table for each family, then the remarks, then the totals.

use cubeyard_validate::{Relation, Row, Verdict};

use super::count;
use crate::grid::{BOLD, DIM, GREEN, RED, paint};

const COLUMNS: [&str; 6] = ["", "expected", "ours", "deviation", "kind", "source"];

pub(crate) fn render(rows: &[Row], colours: bool) -> String {
    let mut remarks = Remarks::default();
    let cells: Vec<_> = rows.iter().map(|row| cells(row, &mut remarks)).collect();
    let widths = widths(&cells);
    let mut lines = Vec::new();
    let mut family = "";
    for (row, cells) in rows.iter().zip(&cells) {
        if row.family != family {
            let gap = (!family.is_empty()).then(|| (String::new(), ""));
            lines.extend(gap);
            lines.push((row.family.to_owned(), BOLD));
            lines.push((align("  ", &COLUMNS.map(str::to_owned), &widths), DIM));
            family = row.family;
        }
        let (mark, colour) = mark(row.verdict);
        lines.push((align(mark, cells, &widths), colour));
    }
    let table: Vec<_> =
        lines.iter().map(|(text, colour)| paint(text, colour, colours) + "\n").collect();
    format!("{}\n{}{}\n", table.concat(), remarks.lines().concat(), sum(rows))
}

/// A table whose rows are printed as they come, with a width for the names that is known before.
pub(super) struct Stream {
    widths: [usize; 6],
    family: &'static str,
    remarks: Remarks,
    colours: bool,
}

impl Stream {
    /// Makes a table of rows with these names.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>, colours: bool) -> Self {
        let name = names.map(|name| name.chars().count()).max().unwrap_or_default();
        let widths = [name, 14, 14, 9, 15, 0];
        Self { widths, family: "", remarks: Remarks::default(), colours }
    }

    /// Returns the lines of a row, with the heading of its family if it is the first of it.
    pub(super) fn lines(&mut self, row: &Row) -> String {
        let mut lines = Vec::new();
        if row.family != self.family {
            lines.extend((!self.family.is_empty()).then(String::new));
            lines.push(paint(row.family, BOLD, self.colours));
            let heading = align("  ", &COLUMNS.map(str::to_owned), &self.widths);
            lines.push(paint(&heading, DIM, self.colours));
            self.family = row.family;
        }
        let (mark, colour) = mark(row.verdict);
        let cells = cells(row, &mut self.remarks);
        lines.push(paint(&align(mark, &cells, &self.widths), colour, self.colours));
        lines.join("\n") + "\n"
    }

    /// Returns what follows the rows.
    pub(super) fn end(&self, rows: &[Row]) -> String {
        format!("\n{}{}\n", self.remarks.lines().concat(), sum(rows))
    }
}

fn mark(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Passed => ("✓ ", GREEN),
        Verdict::Failed => ("✗ ", RED),
        Verdict::Shown => ("– ", ""),
        Verdict::LeftOut => ("  ", DIM),
    }
}

/// Reasons of rows, each once, by number.
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
        numbered.map(|(reason, number)| format!("[{number}] {reason}\n")).collect()
    }
}

fn cells(row: &Row, remarks: &mut Remarks) -> [String; 6] {
    let sign = match row.expected.relation {
        Relation::Equal => "",
        Relation::AtMost => "≤ ",
        Relation::AtLeast => "≥ ",
    };
    let with_unit = |value: f64| format!("{} {}", figure(value), row.expected.unit);
    let deviation = match (row.ours, row.deviation()) {
        (None, _) | (_, None) => "–".to_owned(),
        (_, Some(off)) if off.abs() > 0.0 => format!("{:+.2} %", off * 100.0),
        _ => "0".to_owned(),
    };
    let remark = row.reason.map(|reason| format!(" [{}]", remarks.number(reason)));
    [
        row.name.clone(),
        format!("{sign}{}", with_unit(row.expected.value).trim_end()),
        row.ours.map_or("left out".to_owned(), |ours| with_unit(ours).trim_end().to_owned()),
        deviation,
        if row.own { format!("{}, own", row.kind) } else { row.kind.to_string() },
        row.source.to_owned() + &remark.unwrap_or_default(),
    ]
}

/// Formats a figure with up to three decimals.
fn figure(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Aligns words to the left, figures to the right.
fn align(mark: &str, cells: &[String; 6], widths: &[usize; 6]) -> String {
    let [name, expected, ours, deviation, kind, source] = cells;
    let [name_width, expected_width, ours_width, deviation_width, kind_width, _] = *widths;
    let line = format!(
        "{mark}{name:<name_width$}  {expected:>expected_width$}  {ours:>ours_width$}  \
         {deviation:>deviation_width$}  {kind:<kind_width$}  {source}"
    );
    line.trim_end().to_owned()
}

fn widths(rows: &[[String; 6]]) -> [usize; 6] {
    let mut widths = COLUMNS.map(|heading| heading.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

fn sum(rows: &[Row]) -> String {
    let (passed, failed) = (count(rows, Verdict::Passed), count(rows, Verdict::Failed));
    let (shown, left_out) = (count(rows, Verdict::Shown), count(rows, Verdict::LeftOut));
    let own = rows.iter().filter(|row| row.own && row.verdict == Verdict::Passed).count();
    let own = if own > 0 { format!(" ({own} of them our own arithmetic)") } else { String::new() };
    let sum =
        format!("{passed} ✓ within tolerance{own}, {failed} ✗ out of it, {shown} – indicative");
    if left_out > 0 { format!("{sum}, {left_out} left out") } else { sum }
}
