//! Critical paths of runs as text.

use cubeyard_bench::report::{LineSteps, RunReport, Step};
use cubeyard_sim::Span;
use cubeyard_units::text::{count, percent, span};

use crate::grid::{BOLD, fitted, paint, table};

/// Maximum number of steps that are listed; the middle of a longer path is omitted.
const MOST: usize = 240;
/// Number of steps that are listed after the omitted ones.
const TAIL: usize = 40;

/// Formats the time on the path by line of the kernel, followed by the steps.
pub(super) fn render(report: &RunReport, colours: bool) -> String {
    let mut rows = steps(&report.critical);
    align(&mut rows);
    let total: Span = report.critical.iter().map(Step::span).sum();
    format!(
        "{}\n{}\n{}\n{}  {} steps, {} in all\n",
        paint("the critical path, line by line", BOLD, colours),
        lines(report, colours),
        paint("step by step, in ns", BOLD, colours),
        fitted(&HEADING, &rows, colours),
        count(report.critical.len() as u64),
        span(total)
    )
}

const HEADING: [&str; 4] = ["from", "takes", "unit", "what, why then, and of which"];

/// Formats the time on the path of each line of the kernel and unit, longest first.
fn lines(report: &RunReport, colours: bool) -> String {
    let row = |line: &LineSteps<'_>| {
        let share = report.of_kernel(line.span()).map_or_else(String::new, percent);
        let waiting = line.waiting();
        let waiting = if waiting == Span::ZERO { String::new() } else { span(waiting) };
        let (kind, steps) = (line.longest().kind.name().to_owned(), count(line.steps.len() as u64));
        vec![line.place.to_owned(), kind, steps, span(line.span()), share, waiting]
    };
    let rows: Vec<_> = report.merged_steps().iter().map(row).collect();
    table(&["line", "unit", "steps", "takes", "share", "behind others"], &rows, 2, colours)
}

fn steps(steps: &[Step]) -> Vec<Vec<String>> {
    if steps.len() <= MOST {
        return steps.iter().flat_map(rows).collect();
    }
    let (head, rest) = steps.split_at(MOST - TAIL);
    let (middle, tail) = rest.split_at(rest.len() - TAIL);
    let left_out = format!("… {} steps …", count(middle.len() as u64));
    let took: Span = middle.iter().map(Step::span).sum();
    let gap = vec![ns(middle[0].start), ns(took), String::new(), left_out];
    head.iter().flat_map(rows).chain([gap]).chain(tail.iter().flat_map(rows)).collect()
}

/// Aligns the decimal points of the first two columns.
fn align(rows: &mut [Vec<String>]) {
    for column in 0..2 {
        let width = rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        rows.iter_mut().for_each(|row| row[column] = format!("{:>width$}", row[column]));
    }
}

/// Returns the rows of a step: its work, the reason for its start time, and the parts of an access.
fn rows(step: &Step) -> Vec<Vec<String>> {
    let Step { what, place, why, access, .. } = step;
    let what = if place.is_empty() { what.clone() } else { format!("{what} at {place}") };
    let mut rows = vec![vec![ns(step.start), ns(step.span()), step.kind.name().to_owned(), what]];
    let more = [Some(why.clone()), access.map(|access| access.to_string())];
    let more = more.into_iter().flatten().filter(|text| !text.is_empty());
    rows.extend(more.map(|text| vec![String::new(), String::new(), String::new(), text]));
    rows
}

fn ns(span: Span) -> String {
    format!("{:.3}", span.ns())
}
