//! Time of each source line on the critical path, as a table with bars.

use cubeyard_sim::Span;

use super::markup::class;
use super::{LineSteps, RunReport, SliceKind};
use cubeyard_draw::{captioned, cell, number, remark};
use cubeyard_units::text::{TimeUnit, count, percent_column, span};

/// Maximum number of lines in the table.
const LINES: usize = 20;
/// Text of steps that no line issued.
pub(super) const NO_LINE: &str = "no source line";

/// Draws a row for each source line, longest first; empty if no step has a line.
pub(super) fn lines(report: &RunReport) -> String {
    let lines = report.lines();
    if lines.iter().all(|line| line.place.is_empty()) {
        return String::new();
    }
    let unit = TimeUnit::of(report.kernel);
    let head = format!(
        "<th>source line</th><th>units</th><th class=\"n\">{}</th><th class=\"n\">of kernel</th>\
         <th class=\"n\">steps</th>",
        unit.name
    );
    let longest = lines.first().map_or(Span::ZERO, LineSteps::span);
    let rows: String =
        lines.iter().take(LINES).map(|line| row(report, line, longest, unit)).collect();
    captioned("source-lines", "Time by source line", &head, &rows) + &remarks(&lines)
}

fn row(report: &RunReport, line: &LineSteps<'_>, longest: Span, unit: TimeUnit) -> String {
    let place = if line.place.is_empty() { NO_LINE } else { line.place };
    let share = report.of_kernel(line.span()).unwrap_or(f64::NAN);
    format!(
        "<tr>{}{}{}{}{}</tr>\n",
        cell(place).replacen("<td>", "<td class=\"code\">", 1),
        bar(line, longest),
        number(&unit.column(line.span())),
        number(&percent_column(share)),
        number(&count(line.steps.len() as u64)),
    )
}

/// Draws the units of a line as parts of a bar; the bar of the first line is as wide as its cell.
fn bar(line: &LineSteps<'_>, longest: Span) -> String {
    let mut x = 0.0;
    let (mut parts, mut names) = (String::new(), Vec::new());
    for (kind, took) in line.units() {
        let width = 100.0 * took.ps() as f64 / longest.ps().max(1) as f64;
        parts += &part(kind, x, width);
        names.push(format!("{}: {}", kind.name(), span(took)));
        x += width;
    }
    let names = names.join(", ");
    format!(
        "<td class=\"bar\" title=\"{names}\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100\" height=\"10\"/>{parts}</svg></td>"
    )
}

fn part(kind: SliceKind, x: f64, width: f64) -> String {
    let class = class(kind);
    format!("<rect class=\"{class}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"10\"/>")
}

fn remarks(lines: &[LineSteps<'_>]) -> String {
    let more = match lines.len().saturating_sub(LINES) {
        0 => String::new(),
        more => {
            let took: Span = lines[LINES..].iter().map(LineSteps::span).sum();
            format!(" {} more lines take {} together.", count(more as u64), span(took))
        }
    };
    remark(&format!(
        "Time on the critical path, in the colours of the units. The rows add up to the kernel time.{more}"
    ))
}
