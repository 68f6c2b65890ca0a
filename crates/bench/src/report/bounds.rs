//! Bounds of the resources, as bars relative to the kernel time.

use super::markup::{bar, unit_class};
use super::{Bound, RunReport};
use cubeyard_draw::{captioned, cell, number, remark};
use cubeyard_units::text::{TimeUnit, percent_column};

/// Draws a table of bounds with bars, longest first; empty if there are none.
pub(super) fn bounds(report: &RunReport) -> String {
    if report.bounds.is_empty() {
        return String::new();
    }
    let unit = TimeUnit::of(report.kernel);
    let head = format!(
        "<th>resource</th><th>least time</th><th class=\"n\">{}</th><th class=\"n\">of kernel</th>",
        unit.name
    );
    let mut bounds: Vec<_> = report.bounds.iter().collect();
    bounds.sort_by_key(|bound| std::cmp::Reverse(bound.span));
    let rows: String = bounds.into_iter().map(|bound| row(report, bound, unit)).collect();
    captioned("bounds", "What each resource needs", &head, &rows)
        + &remark(
            "How long each resource would need if it never waited for another. The kernel can be no \
             faster than the longest.",
        )
}

fn row(report: &RunReport, bound: &Bound, unit: TimeUnit) -> String {
    let share = report.of_kernel(bound.span).unwrap_or(f64::NAN);
    format!(
        "<tr>{}{}{}{}</tr>\n",
        cell(&bound.resource),
        bar(unit_class(&bound.resource), share, share),
        number(&unit.column(bound.span)),
        number(&percent_column(share))
    )
}
