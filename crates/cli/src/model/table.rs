//! Reports on models as text.

use std::fmt::Write as _;

use cubeyard_model::report::{ModelReport, PartReport, Use};
use cubeyard_model::{Phase, Workload};
use cubeyard_sim::Span;
use cubeyard_units::text::{count, percent, percent_column, significant, span};

use crate::grid::{BOLD, bytes, paint, table};

const HEADING: [&str; 7] = ["part", "count", "each µs", "total ms", "share", "read GB", "of bound"];

pub(crate) fn render(report: &ModelReport, colours: bool) -> String {
    let mut text = head(report, colours) + "\n";
    let mut rows: Vec<_> = report.parts.iter().map(|part| cells(report, part)).collect();
    rows.push(launches(report));
    rows.push(sum(report));
    text += &table(&HEADING, &rows, 1, colours);
    text.push('\n');
    text += &totals(report);
    text + "\n" + &memory(report, colours) + &notes(report)
}

/// Returns the statements on placement, and on features that are not simulated.
fn notes(report: &ModelReport) -> String {
    let placement = report.cut.placement_notes();
    let mut text = String::new();
    for (title, notes) in [("placement", &placement), ("not simulated", &report.notes)] {
        if !notes.is_empty() {
            let _ = writeln!(text, "\n  {title}");
            notes.iter().for_each(|note| _ = writeln!(text, "    {note}"));
        }
    }
    text
}

fn head(report: &ModelReport, colours: bool) -> String {
    let cut = &report.cut;
    let Workload { phase, batch, context, dtype, weights, .. } = cut.work;
    let weights = if cut.is_quantised() { format!(", weights {weights}") } else { String::new() };
    let name = paint(&cut.spec.name, BOLD, colours);
    let phase = match phase {
        Phase::Decode => "decode",
        Phase::Prefill => "prefill",
    };
    let billions = significant(cut.spec.parameters() as f64 / 1e9);
    let machine = format!("{} SIPs × {} cubes × {} PEs", cut.sips, cut.cubes, cut.pes);
    format!(
        "{name}: {phase}, batch {batch}, context {context}, {dtype}{weights}\n  {billions} billion weights, {} layers; {machine}\n",
        cut.spec.layers
    )
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

/// Returns the row of the time between the end of a part and the beginning of the next.
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

fn totals(report: &ModelReport) -> String {
    let mut text = String::new();
    let what = match report.cut.work.phase {
        Phase::Decode => "time per token",
        Phase::Prefill => "time to first token",
    };
    let _ = writeln!(text, "  {what:<20}{}", span(report.total));
    let _ = writeln!(text, "  {:<20}{}", "tokens a second", significant(report.rate()));
    let bound = span(report.bandwidth_bound);
    let share = percent(report.bandwidth_share());
    let _ =
        writeln!(text, "  {:<20}{bound}, weights and caches read once: {share}", "bandwidth bound");
    let (bound, share) = (span(report.bound()), percent(report.share()));
    let _ = writeln!(text, "  {:<20}{bound}, of each part its own: {share}", "bound of the parts");
    let (run, all) = report.positions;
    if run < all {
        let _ = writeln!(
            text,
            "  {:<20}run at {run} of {all} positions, even between them",
            "attention"
        );
    }
    text
}

fn memory(report: &ModelReport, colours: bool) -> String {
    let memory = &report.memory;
    let row = |name: &str, used: Use| {
        let share = percent_column(used.most as f64 / memory.capacity.max(1) as f64);
        vec![name.to_owned(), bytes(used.most), bytes(used.mean), gigabytes(used.all), share]
    };
    let rows = [
        row("weights", memory.weights),
        row("caches", memory.cache),
        row("activations", memory.activations),
        row("all", memory.total),
    ];
    let heading = ["memory of a PE", "most", "mean", "all GB", "of capacity"];
    table(&heading, &rows, 1, colours)
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
