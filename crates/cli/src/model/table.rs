//! Model reports as text.

use std::fmt::Write as _;

use cubeyard_model::report::{ModelReport, PartReport, Use};
use cubeyard_model::{Phase, Workload};
use cubeyard_sim::Span;
use cubeyard_units::text::{count, percent, percent_column, significant, span};

use crate::grid::{BOLD, Grid, bytes, paint, wrapped};

const HEADING: [&str; 7] = ["part", "count", "each µs", "total ms", "share", "read GB", "of bound"];

pub(crate) fn render(report: &ModelReport, colours: bool) -> String {
    let mut text = head(report, colours) + "\n" + &wrapped(&report.verdict(), [2, 2]) + "\n";
    text += &parts(report).text(colours);
    text.push('\n');
    for (name, figure) in totals(report) {
        let _ = writeln!(text, "  {name:<20}{figure}");
    }
    text + "\n" + &memory(report).text(colours) + &notes(report)
}

/// Returns a row for each part, for the launches, and for the total.
pub(super) fn parts(report: &ModelReport) -> Grid {
    let mut rows: Vec<_> = report.parts.iter().map(|part| cells(report, part)).collect();
    rows.push(launches(report));
    rows.push(sum(report));
    Grid::new(&HEADING, rows, 1)
}

/// Returns the statements on placement, and on features that are not simulated.
fn notes(report: &ModelReport) -> String {
    let mut text = String::new();
    for (title, notes) in statements(report) {
        let _ = writeln!(text, "\n  {}", title.to_lowercase());
        notes.iter().for_each(|note| text += &wrapped(note, [4, 6]));
    }
    text
}

/// Returns the non-empty lists of statements, each with its title.
pub(super) fn statements(report: &ModelReport) -> Vec<(&'static str, Vec<String>)> {
    let (placement, left_out) = (report.cut.placement_notes(), report.notes.clone());
    let all = [("Placement", placement), ("Not simulated", left_out)];
    all.into_iter().filter(|(_, notes)| !notes.is_empty()).collect()
}

fn head(report: &ModelReport, colours: bool) -> String {
    let name = paint(&report.cut.spec.name, BOLD, colours);
    let [work, model] = summary(report);
    format!("{name}: {work}\n  {model}\n")
}

/// Returns the work, and the model with its machine.
pub(super) fn summary(report: &ModelReport) -> [String; 2] {
    let cut = &report.cut;
    let Workload { phase, batch, context, dtype, weights, kv, .. } = cut.work;
    let weights = if cut.is_quantised() { format!(", weights {weights}") } else { String::new() };
    let kv = kv.filter(|kv| *kv != dtype).map_or_else(String::new, |kv| format!(", caches {kv}"));
    let phase = match phase {
        Phase::Decode => "decode",
        Phase::Prefill => "prefill",
    };
    let billions = significant(cut.spec.parameters() as f64 / 1e9);
    let machine = format!("{} SIPs × {} cubes × {} PEs", cut.sips, cut.cubes, cut.pes);
    [
        format!("{phase}, batch {batch}, context {context}, {dtype}{weights}{kv}"),
        format!("{billions} billion weights, {} layers; {machine}", cut.spec.layers),
    ]
}

fn cells(report: &ModelReport, part: &PartReport) -> Vec<String> {
    let share = part.total.ps() as f64 / report.total.ps().max(1) as f64;
    vec![
        part.part.name().to_owned(),
        count(part.count),
        micro(part.each()),
        milli(part.total),
        percent_column(share),
        gigabytes(part.demand.bytes),
        part.share().map_or_else(|| "–".to_owned(), percent_column),
    ]
}

/// Returns the row of the launch time, from the end of each part to the beginning of the next.
fn launches(report: &ModelReport) -> Vec<String> {
    let each = Span::from_ps(report.launching.ps() / report.launches.max(1));
    let share = report.launching.ps() as f64 / report.total.ps().max(1) as f64;
    let dash = || "–".to_owned();
    let cells = [count(report.launches), micro(each), milli(report.launching)];
    let cells = cells.into_iter().chain([percent_column(share), dash(), dash()]);
    std::iter::once("launches".to_owned()).chain(cells).collect()
}

fn sum(report: &ModelReport) -> Vec<String> {
    let read = report.parts.iter().map(|part| part.demand.bytes).sum();
    let known = [String::new(), String::new(), milli(report.total), percent_column(1.0)];
    let known = known.into_iter().chain([gigabytes(read), percent_column(report.share())]);
    std::iter::once("all".to_owned()).chain(known).collect()
}

/// Returns the times of the whole step, each with its name.
pub(super) fn totals(report: &ModelReport) -> Vec<(&'static str, String)> {
    let what = match report.cut.work.phase {
        Phase::Decode => "time per token",
        Phase::Prefill => "time to first token",
    };
    let (bound, share) = (span(report.bandwidth_bound), percent(report.bandwidth_share()));
    let once = format!("{bound}, weights and caches read once: {share}");
    let own =
        format!("{}, of each part its own: {}", span(report.bound()), percent(report.share()));
    let (run, all) = report.positions;
    let attention = format!("run at {run} of {all} positions, even between them");
    let mut totals = vec![
        (what, span(report.total)),
        ("tokens a second", significant(report.rate())),
        ("bandwidth bound", once),
        ("bound of the parts", own),
    ];
    totals.push(("all-reduce by", report.all_reduces.join(", ")));
    totals.extend((run < all).then_some(("attention", attention)));
    totals
}

/// Returns a row for each use of memory.
pub(super) fn memory(report: &ModelReport) -> Grid {
    let memory = &report.memory;
    let row = |name: &str, used: Use| {
        let share = percent_column(used.most as f64 / memory.capacity.max(1) as f64);
        vec![name.to_owned(), bytes(used.most), bytes(used.mean), gigabytes(used.all), share]
    };
    let rows = vec![
        row("weights", memory.weights),
        row("caches", memory.cache),
        row("activations", memory.activations),
        row("all", memory.total),
    ];
    let heading = ["memory of a PE", "most", "mean", "all GB", "of capacity"];
    Grid::new(&heading, rows, 1)
}

fn micro(span: Span) -> String {
    format!("{:.3}", span.ns() / 1e3)
}

fn milli(span: Span) -> String {
    format!("{:.3}", span.ns() / 1e6)
}

fn gigabytes(bytes: u64) -> String {
    if bytes == 0 { "–".to_owned() } else { format!("{:.3}", bytes as f64 / 1e9) }
}
