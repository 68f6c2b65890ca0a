//! Measurements as an HTML page.

use cubeyard_device::probe::{CaseReport, Invariant, PatternReport, ProbeReport};
use cubeyard_draw::xml::escape;
use cubeyard_draw::{header, page, section};

use super::{chart, table};
use crate::grid::Grid;

/// Draws cases: their figures, their bandwidth over sizes, their routes and the properties of the machine.
pub(crate) fn cases(probed: &ProbeReport) -> String {
    let reports = &probed.cases;
    let route =
        |report: &CaseReport| folded(&table::route_title(report), &table::route(&report.route));
    let routes: String = reports.iter().map(route).collect();
    let main = [
        header("Probe", "Latency and bandwidth of the fabric", &verdict(probed)),
        section("Bandwidth over size", &bandwidths(reports)),
        section("Latency", &table::references(reports).html(&table::references_title())),
        section("Critical paths", &explanations(table::steps_of_cases(probed))),
        section("Routes", &routes),
        section("Properties", &properties(probed)),
    ];
    page("Probe", "", &main.concat(), "")
}

/// Returns the chart, followed by its table.
fn bandwidths(reports: &[CaseReport]) -> String {
    chart::figure(reports) + &table::sweep(reports).html(table::SWEEP)
}

/// Draws a pattern: its transfers, the busiest links and the critical paths.
pub(crate) fn pattern(name: &str, report: &PatternReport) -> String {
    let summary = format!("{} transfers in {}.", report.transfers.len(), report.makespan);
    let main = [
        header(&format!("Probe of {name}"), "", &summary),
        section("Transfers", &table::transfers(report).html("Times in ns")),
        section("Links", &table::links(report).html("In use for the longest, in ns")),
        section("Critical paths", &explanations(table::steps_of_transfers(report))),
    ];
    page(name, "", &main.concat(), "")
}

/// Returns a collapsed table that opens below its title.
fn folded(title: &str, grid: &Grid) -> String {
    format!("<details><summary>{}</summary>\n{}</details>\n", escape(title), grid.html(title))
}

fn verdict(probed: &ProbeReport) -> String {
    let (cases, all) = (probed.cases.len(), probed.invariants.len());
    let holding = probed.invariants.iter().filter(|invariant| invariant.holds).count();
    format!("{cases} cases measured; {holding} of {all} properties hold.")
}

fn explanations<'a>(explained: impl Iterator<Item = table::Explained<'a>>) -> String {
    explained.map(|(name, path)| folded(&format!("{name}, in ns"), &table::steps(path))).collect()
}

fn properties(probed: &ProbeReport) -> String {
    if probed.invariants.is_empty() {
        return String::new();
    }
    let item = |invariant: &Invariant| {
        let (class, mark) =
            if invariant.holds { ("good", "✓") } else { ("bad", "✗ does not hold:") };
        let (claim, evidence) = (escape(&invariant.claim), escape(&invariant.evidence));
        format!("<li class=\"{class}\">{mark} {claim}: {evidence}</li>\n")
    };
    let items: String = probed.invariants.iter().map(item).collect();
    format!("<ul class=\"marks\">\n{items}</ul>\n")
}
