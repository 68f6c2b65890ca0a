//! The page with the charts, their figures and the advice.

use super::svg;
use crate::{COLUMNS, Report, advice};
use cubeyard_draw::xml::escape;
use cubeyard_draw::{cell, number, page, table};

const STYLE: &str = ".best{font-weight:700}.failed td{color:var(--bad)}\n";

/// Draws a self-contained page: the advice on all reports, then a chart and a table for each.
pub fn html(reports: &[Report]) -> String {
    let sections: String = reports.iter().map(section).collect();
    let advice = escape(&advice(reports));
    let main = format!("<h1>Replay</h1>\n<p class=\"verdict\">{advice}</p>\n{sections}");
    page("Replay", STYLE, &main, "")
}

fn section(report: &Report) -> String {
    let best = report.recommended().map(|row| row.policy.name);
    let mut rows = String::new();
    for line in &report.rows {
        let class = match &line.outcome.failed {
            Some(_) => "failed",
            None if best == Some(line.policy.name) => "best",
            None => "",
        };
        rows += &row(class, &line.cells());
        if let Some(failure) = &line.outcome.failed {
            let message = escape(&failure.to_string());
            rows.extend([format!("<tr class=\"failed\"><td colspan=\"6\">{message}</td></tr>\n")]);
        }
    }
    rows.extend(report.recorded_cells().map(|cells| row("", &cells)));
    let [policy, figures @ ..] = COLUMNS;
    let head = figures.map(|name| format!("<th class=\"n\">{name}</th>")).concat();
    let table = table("policies", &format!("<th>{policy}</th>{head}"), &rows);
    let picture = svg(std::slice::from_ref(report));
    format!("<section>\n<div class=\"wide\">{picture}</div>\n{table}</section>\n")
}

fn row(class: &str, [policy, figures @ ..]: &[String; 6]) -> String {
    let figures: String = figures.iter().map(|figure| number(figure)).collect();
    format!("<tr class=\"{class}\">{}{figures}</tr>\n", cell(policy))
}
