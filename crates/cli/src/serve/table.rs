//! Results of services as text.

use std::fmt::Write as _;

use cubeyard_serve::report::{Latency, ServiceReport, name_of};
use cubeyard_serve::run::ServiceRun;
use cubeyard_serve::scheduler::HeldBack;
use cubeyard_units::text::{count, percent, percent_column, significant};

use crate::grid::{BOLD, Grid, bytes, paint, wrapped};

pub(crate) fn render(found: &ServiceRun, colours: bool) -> String {
    let name = paint(&found.config.model.spec.name, BOLD, colours);
    let [load, machine] = summary(found);
    let mut text = format!("{name}: {load}\n  {machine}\n");
    let _ = writeln!(text, "\n{}", wrapped(&found.verdict(), [2, 2]));
    if !found.points.is_empty() {
        text += &rates(found).text(colours);
        text.push('\n');
    }
    text += &latencies(&found.report).text(colours);
    text.push('\n');
    for (name, figure) in figures(found) {
        text += &wrapped(&format!("{name:<20}{figure}"), [2, 22]);
    }
    for note in &found.config.notes {
        text += &wrapped(&format!("not simulated: {note}"), [2, 4]);
    }
    text
}

/// Returns the load, and its rate with the machine.
pub(super) fn summary(found: &ServiceRun) -> [String; 2] {
    let topology = &found.config.model.topology;
    let [sips, cubes, pes] =
        [topology.sips().count(), topology.cubes().count(), topology.pes().count()];
    let machine = format!("{sips} SIPs × {cubes} cubes × {pes} PEs");
    let machine = match found.load.rate() {
        Some(rate) => format!("{} requests a second; {machine}", significant(rate)),
        None => machine,
    };
    [found.config.source.describe(), machine]
}

/// Returns a row for each kind of latency.
pub(super) fn latencies(report: &ServiceReport) -> Grid {
    let heading = ["latency ms", "mean", "median", "p90", "p99", "max"];
    let row = |name: &str, it: Latency| {
        let values = [it.mean, it.median, it.p90, it.p99, it.max];
        std::iter::once(name.to_owned()).chain(values.map(|value| format!("{value:.3}"))).collect()
    };
    let rows = vec![
        row("queue", report.queued),
        row("TTFT", report.ttft),
        row("TPOT", report.tpot),
        row("ITL", report.itl),
        row("E2EL", report.e2el),
    ];
    Grid::new(&heading, rows, 1)
}

/// Returns a row for each rate that was run.
pub(super) fn rates(found: &ServiceRun) -> Grid {
    let heading =
        ["rate /s", "answered /s", "good", "p99 TTFT", "mean TPOT", "p99 TPOT", "busy", "KV peak"];
    let row = |point: &cubeyard_serve::search::RatePoint| {
        let report = &point.report;
        vec![
            significant(point.rate),
            significant(report.request_throughput()),
            report.good_share().map_or_else(|| "–".to_owned(), percent_column),
            format!("{:.2}", report.ttft.p99),
            format!("{:.3}", report.tpot.mean),
            format!("{:.3}", report.tpot.p99),
            percent_column(report.busy),
            percent_column(filled(report)),
        ]
    };
    Grid::new(&heading, found.points.iter().map(row).collect(), 0)
}

/// Returns the largest share of the blocks in use.
pub(super) fn filled(report: &ServiceReport) -> f64 {
    report.blocks.peak as f64 / report.blocks.count.max(1) as f64
}

/// Returns the figures of the whole service, each with its name.
pub(super) fn figures(found: &ServiceRun) -> Vec<(&'static str, String)> {
    let report = &found.report;
    let blocks = report.blocks;
    let mut all = vec![
        ("answered", answered(report)),
        ("throughput", throughput(report)),
        (
            "batches",
            format!(
                "{} steps of {} tokens in the mean, {} of the time",
                count(report.steps),
                significant(report.mean_batch),
                percent(report.busy)
            ),
        ),
        (
            "KV cache",
            format!(
                "{} blocks of {} tokens and {}; at most {} in use ({})",
                count(blocks.count),
                found.config.scheduler.block_size,
                bytes(blocks.bytes_each),
                count(blocks.peak),
                percent(filled(report))
            ),
        ),
        ("waiting", waiting(report)),
    ];
    if report.found_tokens > 0 {
        let share = percent(report.found_share());
        all.push((
            "cached prefixes",
            format!("{} tokens, {share} of the prompts", count(report.found_tokens)),
        ));
    }
    if report.preemptions > 0 {
        all.push(("preemptions", count(report.preemptions)));
    }
    all.push(("times of steps", step_times(found)));
    all
}

fn answered(report: &ServiceReport) -> String {
    let rejected = match report.rejected {
        0 => String::new(),
        number => format!("; {} can never be served", count(number)),
    };
    format!("{} requests in {} s{rejected}", count(report.completed), significant(report.duration))
}

fn throughput(report: &ServiceReport) -> String {
    let good = report.request_goodput().map_or_else(String::new, |good| {
        format!(", {} of them within the limits", significant(good))
    });
    format!(
        "{} requests/s{good}; {} output tokens/s",
        significant(report.request_throughput()),
        significant(report.output_throughput())
    )
}

/// Returns the shares of the reasons for waiting, largest first.
fn waiting(report: &ServiceReport) -> String {
    let mut reasons: Vec<_> = HeldBack::ALL.into_iter().zip(report.waited).collect();
    reasons.retain(|(_, share)| *share >= 0.0005);
    reasons.sort_by(|one, other| other.1.total_cmp(&one.1));
    if reasons.is_empty() {
        return "no request waits".to_owned();
    }
    let text =
        |(reason, share): &(HeldBack, f64)| format!("{} {}", name_of(*reason), percent(*share));
    reasons.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn step_times(found: &ServiceRun) -> String {
    let simulations = count(found.simulated);
    match found.largest_error() {
        None if found.config.is_exact => format!("each simulated: {simulations} simulations"),
        None => format!("interpolated between {simulations} simulations; none was checked"),
        Some(error) => format!(
            "interpolated between simulations ({simulations} in all); of {} batches simulated exactly, off by at most {}",
            found.checks.len(),
            percent(error.abs())
        ),
    }
}
