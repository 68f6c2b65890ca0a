//! HTML page: parameters, key figures, the limiting factor, and the pictures.

use cubeyard_sim::Span;

use super::bounds::bounds;
use super::breakdown::breakdown;
use super::line_table::lines;
use super::roofline::roofline;
use super::timeline::{timeline, whole_timeline};
use super::utilisation::utilisation;
use super::{Check, RunReport, Timeline};
use cubeyard_draw::xml::{escape, joined};
use cubeyard_draw::{captioned, cell, number, section, tile};
use cubeyard_units::text::{TimeUnit, bytes, count, percent, quantity, significant, span};

const STYLE: &str = include_str!("page.css");

/// Answer to a question about a run, which its page shows first: a verdict in place of the report's own, and a section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Verdict as text.
    pub verdict: String,
    /// Section as markup.
    pub section: String,
}

/// Draws a self-contained page, readable in light and dark mode, in print and without scripts. Its timeline
/// shows a few PEs as a picture.
pub fn page(report: &RunReport) -> String {
    page_with(report, None, None)
}

/// Draws a page as [`page`] does, with every operation of every PE in the timeline, and with an answer if there is one.
pub fn page_with(
    report: &RunReport,
    operations: Option<&Timeline>,
    answer: Option<&Answer>,
) -> String {
    let timeline = match operations {
        Some(operations) => whole_timeline(report, operations),
        None => timeline(report),
    };
    let verdict = answer.map_or_else(|| report.verdict(), |answer| answer.verdict.clone());
    let section = answer.map(|answer| answer.section.as_str()).unwrap_or_default();
    let main =
        [head(report, &verdict), tiles(report), section.to_owned(), sections(report, &timeline)];
    cubeyard_draw::page(&report.bench, STYLE, &main.concat(), "")
}

fn sections(report: &RunReport, timeline: &str) -> String {
    let beside = section("How busy the units were", &utilisation(report))
        + &section("What each resource needs", &bounds(report));
    [
        section("Timeline", timeline),
        section("Time by source line", &lines(report)),
        section("Critical path", &breakdown(report)),
        wrapped("<div class=\"beside\">\n", &beside, "</div>\n"),
        section("Roofline", &roofline(report)),
        section("Launches", &launches(report)),
        section("Notes", &notes(report)),
    ]
    .concat()
}

fn head(report: &RunReport, verdict: &str) -> String {
    let parameter = |(name, value): &(String, String)| {
        format!("<li><span>{}</span> {}</li>\n", escape(name), escape(value))
    };
    let parameters: String = report.parameters.iter().map(parameter).collect();
    let list = wrapped("<ul class=\"parameters\">\n", &parameters, "</ul>\n");
    format!(
        "<header>\n<h1>{}</h1>\n{}{list}{}</header>\n",
        escape(&report.bench),
        wrapped("<p class=\"summary\">", &escape(&report.summary), "</p>\n"),
        wrapped("<p class=\"verdict\">", &joined(verdict), "</p>\n")
    )
}

/// Wraps a text between two others; empty if the text is empty.
fn wrapped(before: &str, text: &str, after: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{before}{text}{after}") }
}

fn tiles(report: &RunReport) -> String {
    let RunReport { kernel, host, traffic, .. } = report;
    let moved = format!("{} read, {} written", bytes(traffic.read), bytes(traffic.written));
    let tiles = [
        Some(tile("kernel", &span(*kernel), &format!("{} seen by the host", span(*host)))),
        report.bound().map(|bound| {
            let least = format!("{} alone needs {}", bound.resource, span(bound.span));
            tile("of possible speed", &percent(report.share()), &least)
        }),
        (report.flop > 0).then(|| {
            let (rate, peak) = (report.achieved_rate(), report.peak_rate);
            tile("rate", &quantity(rate, "FLOP/s"), &of_peak(rate, peak, "FLOP/s"))
        }),
        (traffic.total() > 0).then(|| {
            let (rate, peak) = (report.achieved_bandwidth(), report.peak_bandwidth);
            tile("bandwidth", &quantity(rate, "B/s"), &of_peak(rate, peak, "B/s"))
        }),
        (traffic.total() > 0).then(|| tile("moved", &bytes(traffic.total()), &moved)),
        Some(tile("PEs", &count(report.pes as u64), &report.machine)),
        report.check.as_ref().map(check),
        report.assertions.as_ref().map(assertions),
    ];
    cubeyard_draw::tiles(&tiles.into_iter().flatten().collect::<String>())
}

fn of_peak(rate: f64, peak: f64, unit: &str) -> String {
    if peak > 0.0 && peak.is_finite() {
        format!("{} of {}", percent(rate / peak), quantity(peak, unit))
    } else {
        String::new()
    }
}

fn check(check: &Check) -> String {
    let verdict = if check.passed() { "passed" } else { "failed" };
    let (worst, tolerance) = (significant(check.worst), significant(check.tolerance));
    let elements = count(check.elements);
    let remark = format!("{elements} elements, error {worst} of {tolerance} allowed");
    verdict_tile("check", verdict, &remark)
}

fn assertions(assertions: &Result<(), String>) -> String {
    match assertions {
        Ok(()) => verdict_tile("assertions", "passed", "the bench's own"),
        Err(text) => verdict_tile("assertions", "failed", text),
    }
}

fn verdict_tile(name: &str, verdict: &str, remark: &str) -> String {
    tile(name, verdict, remark).replacen("<div>", &format!("<div class=\"{verdict}\">"), 1)
}

fn launches(report: &RunReport) -> String {
    let Some(longest) = report.launches.iter().map(|(_, took)| *took).max() else {
        return String::new();
    };
    let unit = TimeUnit::of(longest);
    let row = |(name, took): &(String, Span)| {
        format!("<tr>{}{}</tr>\n", cell(name), number(&unit.column(*took)))
    };
    let head = format!("<th>launch</th><th class=\"n\">took, {}</th>", unit.name);
    captioned("launches", "Launches", &head, &report.launches.iter().map(row).collect::<String>())
}

fn notes(report: &RunReport) -> String {
    let note = |note: &String| format!("<li>{}</li>\n", escape(note));
    wrapped("<ul>\n", &report.notes.iter().map(note).collect::<String>(), "</ul>\n")
}
