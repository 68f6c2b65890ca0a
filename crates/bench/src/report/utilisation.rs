//! Utilisation of units as bars: the mean over all PEs, in front of the utilisation of the busiest PE.

use super::markup::{bar, unit_class};
use super::{RunReport, UnitUse};
use cubeyard_draw::{captioned, cell, number, remark};
use cubeyard_units::text::percent_column;

/// Draws a table of units with bars; empty if there are none.
pub(super) fn utilisation(report: &RunReport) -> String {
    if report.units.is_empty() {
        return String::new();
    }
    let head = "<th>unit</th><th>busy</th><th class=\"n\">mean</th><th class=\"n\">most</th>\
                <th>busiest</th>";
    let rows: String = report.units.iter().map(row).collect();
    captioned("units", "How busy the units were", head, &rows)
        + &remark("Shares of the kernel time. Full: the mean over PEs. Pale: the busiest of them.")
}

fn row(unit: &UnitUse) -> String {
    format!(
        "<tr>{}{}{}{}{}</tr>\n",
        cell(&unit.unit),
        bar(unit_class(&unit.unit), unit.max, unit.mean),
        number(&percent_column(unit.mean)),
        number(&percent_column(unit.max)),
        cell(&unit.busiest)
    )
}
