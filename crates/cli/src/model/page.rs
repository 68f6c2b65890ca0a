//! Model reports as an HTML page.

use cubeyard_bench::report::Answer;
use cubeyard_draw::{header, page, section, tile, tiles};
use cubeyard_model::report::ModelReport;
use cubeyard_units::text::percent_column;

use super::{chart, table};
use crate::grid::bytes;
use crate::page::list;

/// Draws the times of the step and its parts, and the memory of a PE; an answer comes first.
pub(super) fn page_of(report: &ModelReport, answer: Option<&Answer>) -> String {
    let name = &report.cut.spec.name;
    let [work, model] = table::summary(report);
    let own = report.verdict();
    let verdict = answer.map_or_else(|| own.clone(), |it| format!("{own}\n{}", it.verdict));
    let main = [
        header(name, &format!("{work}: {model}"), &verdict),
        figures(report),
        section("Parts and their bounds", &chart::figure(report)),
        answer.map(|answer| answer.section.clone()).unwrap_or_default(),
        section("Parts", &table::parts(report).html("Times of one step")),
        section("Memory", &table::memory(report).html("Bytes of a PE")),
        notes(report),
    ];
    page(name, "", &main.concat(), "")
}

/// Draws the statements on placement, and on features that are not simulated.
fn notes(report: &ModelReport) -> String {
    let notes = table::statements(report);
    let notes =
        notes.iter().map(|(title, notes)| section(title, &list(notes.iter().map(String::as_str))));
    notes.collect()
}

fn figures(report: &ModelReport) -> String {
    let of_total = |(name, figure): (&str, String)| {
        let (figure, remark) = figure.split_once(", ").unwrap_or((&figure, ""));
        tile(name, figure, remark)
    };
    let (used, capacity) = (report.memory.total.most, report.memory.capacity);
    let share = percent_column(used as f64 / capacity.max(1) as f64);
    let memory =
        tile("memory of the fullest PE", &bytes(used), &format!("{share} of {}", bytes(capacity)));
    tiles(&(table::totals(report).into_iter().map(of_total).collect::<String>() + &memory))
}
