//! Results of runs as text.

use cubeyard_bench::Run;
use cubeyard_bench::report::{Bound, Check, RunReport, UnitUse};
use cubeyard_tl::program::Finding;
use cubeyard_units::text::{bytes, count, percent, quantity, significant, span};

use super::explain;
use crate::grid::{BOLD, GREEN, RED, paint, table, wrapped};

/// Formats the figures, the bounds, the units, and the findings.
pub(super) fn render(run: &Run, explains: bool, colours: bool) -> String {
    let report = &run.report;
    let path = if explains { explain::render(report, colours) } else { String::new() };
    let parts = [figures(report, colours), bounds(report, colours), units(report, colours), path];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let parts = std::iter::once(head(report, colours)).chain(parts).chain(remarks(run, colours));
    parts.collect::<Vec<_>>().join("\n")
}

fn head(report: &RunReport, colours: bool) -> String {
    let parameter = |(name, value): &(String, String)| format!("{name}={value}");
    let asked: Vec<_> = report.parameters.iter().map(parameter).collect();
    let title = paint(&report.bench, BOLD, colours);
    let title = wrapped(&format!("{title}: {}", report.summary), [0, 2]);
    let asked = if asked.is_empty() { String::new() } else { wrapped(&asked.join(" "), [2, 2]) };
    format!("{title}{asked}  on {}\n", report.machine)
}

fn figures(report: &RunReport, colours: bool) -> String {
    let RunReport { kernel, host, traffic, .. } = report;
    let pes = match report.pes {
        1 => "1 PE".to_owned(),
        many => format!("{} PEs", count(many as u64)),
    };
    let mut rows = vec![
        ("kernel", format!("{} on {pes}; {} seen by the host", span(*kernel), span(*host))),
        ("moved", {
            let (read, written) = (bytes(traffic.read), bytes(traffic.written));
            let rate = of_peak(report.achieved_bandwidth(), report.peak_bandwidth, "B/s");
            format!("{read} read, {written} written: {rate}")
        }),
    ];
    if report.flop > 0 {
        let rate = of_peak(report.achieved_rate(), report.peak_rate, "FLOP/s");
        rows.push(("computed", format!("{}: {rate}", quantity(report.flop as f64, "FLOP"))));
    }
    rows.push(("limited by", report.limited_by.clone()));
    rows.extend(checks(report, colours).map(|text| ("check", text)));
    rows.iter().map(|(name, value)| wrapped(&format!("{name:<10}  {value}"), [2, 14])).collect()
}

fn of_peak(rate: f64, peak: f64, unit: &str) -> String {
    let rate_shown = quantity(rate, unit);
    if peak > 0.0 {
        format!("{rate_shown}, {} of {}", percent(rate / peak), quantity(peak, unit))
    } else {
        rate_shown
    }
}

/// Returns the comparison with a reference and the outcome of the bench's own assertions, or states that there is none.
fn checks(report: &RunReport, colours: bool) -> impl Iterator<Item = String> {
    let compared = report.check.as_ref().map(|it| check(it, colours));
    let asserted = report.assertions.as_ref().map(|it| match it {
        Ok(()) => format!("{}: the bench's own assertions", paint("passed", GREEN, colours)),
        Err(text) => format!("{}: {text}", paint("failed", RED, colours)),
    });
    let none = compared.is_none() && asserted.is_none();
    let none = none.then(|| "none: the numbers were not computed".to_owned());
    [compared, asserted, none].into_iter().flatten()
}

fn check(check: &Check, colours: bool) -> String {
    let (verdict, colour) = if check.passed() { ("passed", GREEN) } else { ("failed", RED) };
    let (worst, tolerance) = (significant(check.worst), significant(check.tolerance));
    format!(
        "{}: {} elements, error {worst} of {tolerance} allowed",
        paint(verdict, colour, colours),
        count(check.elements)
    )
}

fn bounds(report: &RunReport, colours: bool) -> String {
    if report.bounds.is_empty() {
        return String::new();
    }
    let row = |bound: &Bound| {
        let share = report.of_kernel(bound.span).map_or_else(String::new, percent);
        vec![bound.resource.clone(), span(bound.span), share]
    };
    let rows: Vec<_> = report.bounds.iter().map(row).collect();
    table(&["bound", "at least", "of the kernel"], &rows, 1, colours)
}

fn units(report: &RunReport, colours: bool) -> String {
    let row = |unit: &UnitUse| {
        vec![unit.unit.clone(), unit.busiest.clone(), percent(unit.max), percent(unit.mean)]
    };
    let rows: Vec<_> = report.units.iter().map(row).collect();
    table(&["unit", "busiest", "busy there", "on average"], &rows, 2, colours)
}

fn remarks(run: &Run, colours: bool) -> Option<String> {
    let notes = run.report.notes.iter().map(|note| wrapped(&format!("note: {note}"), [2, 4]));
    let found = |finding: &Finding| {
        wrapped(&format!("{}: {finding}", paint("found", RED, colours)), [2, 4])
    };
    let lines: String = notes.chain(run.findings.iter().map(found)).collect();
    (!lines.is_empty()).then_some(lines)
}
