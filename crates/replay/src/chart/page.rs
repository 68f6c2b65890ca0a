//! The page with the charts, their figures and the advice.

use super::lines::chart;
use super::memory;
use crate::{COLUMNS, Report, advice, answer};
use cubeyard_draw::xml::escape;
use cubeyard_draw::{captioned, cell, copyable, flame, header, number, page, section};

/// Additional style, beside the style of flame graphs.
const STYLE: &str = ".best{font-weight:700}.failed td{color:var(--bad)}\n";

/// Draws a self-contained page: the answer, with a button that copies the recommended setting, the advice on all
/// reports, then a chart and a table for each.
pub fn html(reports: &[Report]) -> String {
    let answer = answer(reports);
    let setting = answer.setting.as_deref().map(copyable).unwrap_or_default();
    let rest = advice(reports);
    let rest = rest.lines().filter(|line| **line != answer.text);
    let rest = rest.map(|line| format!("<p>{}</p>\n", escape(line))).collect::<Vec<_>>().concat();
    let sections: String = reports.iter().map(of_report).collect();
    let main = header("Replay", "", &answer.text) + &setting + &rest + &sections;
    page("Replay", &format!("{STYLE}{}", flame::STYLE), &main, flame::SCRIPT)
}

fn of_report(report: &Report) -> String {
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
    let head = memory::head(&COLUMNS);
    let table = captioned("policies", "Figures of each policy", &head, &rows);
    let remark = report.stream_remark().map(|remark| format!("<p>{}</p>\n", escape(&remark)));
    let remark = remark.unwrap_or_default();
    let figures = chart(report).figure() + &table + &remark + &memory::sections(report);
    section(&report.trace, &figures)
}

fn row(class: &str, [policy, figures @ ..]: &[String; 6]) -> String {
    let figures: String = figures.iter().map(|figure| number(figure)).collect();
    format!("<tr class=\"{class}\">{}{figures}</tr>\n", cell(policy))
}
