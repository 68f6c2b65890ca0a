//! Replay reports as text.

use cubeyard_replay::{Answer, COLUMNS, HolderOptions, LEAST_COLUMNS, Report, Row, advice, answer};

use super::{holders, summary};
use crate::grid::{self, BOLD, DIM, GREEN, RED, paint, wrapped};

/// Formats the answer, a table for each report, and the advice on all of them.
pub(super) fn render(reports: &[Report], options: HolderOptions, colours: bool) -> String {
    let widths = widths(reports);
    let tables = reports.iter().map(|report| {
        let least = streams(report) + &least(report, colours);
        table(report, &widths, colours) + &least + &holders::render(report, options, colours)
    });
    let (tables, summary) =
        (tables.collect::<Vec<_>>().concat(), summary::render(reports, colours));
    let answer = answer(reports);
    let advice = advice(reports);
    let advice = advice.lines().filter(|line| **line != answer.text);
    let advice: String = advice.map(|line| wrapped(line, [0, 2])).collect();
    format!("{}\n{tables}{summary}{advice}", first(&answer, colours))
}

/// Formats the answer, with the recommended setting on a line of its own.
fn first(answer: &Answer, colours: bool) -> String {
    let text = wrapped(&answer.text, [0, 2]);
    match &answer.setting {
        None => text,
        Some(setting) => format!("{text}  {}\n", paint(setting, BOLD, colours)),
    }
}

/// Formats the remark on several streams.
fn streams(report: &Report) -> String {
    report.stream_remark().map_or_else(String::new, |remark| wrapped(&remark, [2, 4]) + "\n")
}

/// Formats the minimum memory of each policy for which it was found.
fn least(report: &Report, colours: bool) -> String {
    let rows: Vec<Vec<_>> =
        report.rows.iter().filter_map(Row::least_cells).map(|cells| cells.to_vec()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let remark = report.least_remark().map(|remark| format!("  {remark}\n"));
    grid::table(&LEAST_COLUMNS, &rows, 1, colours) + &remark.unwrap_or_default() + "\n"
}

/// Line of a table, with its colour.
struct Line {
    text: String,
    colour: &'static str,
}

fn table(report: &Report, widths: &[usize], colours: bool) -> String {
    let best = report.recommended().map(|row| row.policy.name);
    let mut lines = vec![
        Line { text: report.trace.clone(), colour: BOLD },
        Line { text: align("  ", &COLUMNS.map(str::to_owned), widths), colour: DIM },
    ];
    for row in &report.rows {
        let is_best = best == Some(row.policy.name) && report.rows.len() > 1;
        lines.extend(row_lines(row, is_best, widths));
    }
    let recorded = report.recorded_cells().map(|cells| align("  ", &cells, widths));
    lines.extend(recorded.map(|text| Line { text, colour: "" }));
    let shown = lines.iter().map(|Line { text, colour }| paint(text, colour, colours) + "\n");
    shown.collect::<Vec<_>>().concat() + "\n"
}

fn row_lines(row: &Row, is_best: bool, widths: &[usize]) -> Vec<Line> {
    let failed = row.outcome.failed.as_ref();
    let (mark, colour) = match failed {
        Some(_) => ("✗ ", RED),
        None if is_best => ("★ ", GREEN),
        None => ("  ", ""),
    };
    let mut lines = vec![Line { text: align(mark, &row.cells(), widths), colour }];
    lines.extend(failed.map(|failure| {
        let text: String = failure.to_string().lines().map(|line| wrapped(line, [4, 8])).collect();
        Line { text: text.trim_end().to_owned(), colour }
    }));
    lines
}

/// Aligns the first column to the left and the others to the right.
fn align(mark: &str, cells: &[String], widths: &[usize]) -> String {
    let padded =
        cells.iter().zip(widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{mark}{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
    padded.collect::<Vec<_>>().concat().trim_end().to_owned()
}

/// Returns the width of each column over all tables, so that the tables line up.
fn widths(reports: &[Report]) -> Vec<usize> {
    let cells = |report: &Report| {
        let rows: Vec<_> = report.rows.iter().map(Row::cells).collect();
        rows.into_iter().chain(report.recorded_cells())
    };
    let mut widths = COLUMNS.map(|heading| heading.chars().count());
    for row in reports.iter().flat_map(cells) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths.to_vec()
}
