//! Reports of plans as text.

use std::fmt::Write as _;

use cubeyard_model::plan::{
    BoundaryReport, Candidate, Outcome, PlanReport, PlanSearch, StageReport,
};
use cubeyard_model::{Phase, Workload};
use cubeyard_sim::Span;
use cubeyard_units::text::{percent, percent_column, significant, span};

use super::Planned;
use crate::grid::{BOLD, Grid, bytes, paint, wrapped};

pub(in crate::model) fn render(planned: &Planned, colours: bool) -> String {
    let (report, [work, model]) = (&planned.report, summary(planned));
    let name = paint(&planned.measure.spec.name, BOLD, colours);
    let mut text = format!("{name}: {work}\n  {model}\n\n{}\n", wrapped(&verdict(planned), [2, 2]));
    if let Some(search) = &planned.search {
        text += &(plans(search).text(colours) + "\n");
    }
    text += &(stages(report).text(colours) + "\n");
    if !report.boundaries.is_empty() {
        text += &(boundaries(report).text(colours) + "\n");
    }
    text += &(path(report).text(colours) + "\n");
    for (name, figure) in totals(report) {
        let _ = writeln!(text, "  {name:<20}{figure}");
    }
    let notes = notes(planned);
    if !notes.is_empty() {
        text += "\n  notes\n";
    }
    notes.iter().for_each(|note| text += &wrapped(note, [4, 6]));
    text
}

/// Returns the verdict of the plan, after the reason for its choice.
pub(super) fn verdict(planned: &Planned) -> String {
    let own = planned.report.verdict();
    planned.search.as_ref().map_or_else(|| own.clone(), |search| format!("{} {own}", search.why()))
}

/// Returns the work, and the model with its SIPs.
pub(super) fn summary(planned: &Planned) -> [String; 2] {
    let (report, spec) = (&planned.report, &planned.measure.spec);
    let Workload { phase, context, dtype, .. } = planned.measure.work;
    let phase = if phase == Phase::Decode { "decode" } else { "prefill" };
    let billions = significant(spec.parameters() as f64 / 1e9);
    let (batch, micro) = (report.batch, report.microbatches);
    let micro = if micro > 1 { format!(", {micro} micro-batches") } else { String::new() };
    [
        format!("{phase}, batch {batch}{micro}, context {context}, {dtype}"),
        format!(
            "{billions} billion weights, {} layers; {} of {} SIPs",
            spec.layers, report.plan, report.sips
        ),
    ]
}

/// Returns a row for each plan of a search.
pub(super) fn plans(search: &PlanSearch) -> Grid {
    let heading = ["plan", "memory of a PE", "bound µs", "latency µs", "tokens/s", "outcome"];
    let dash = || "–".to_owned();
    let row = |candidate: &Candidate| {
        let Candidate { plan, held, bound, outcome } = candidate;
        let report = candidate.report();
        let held = report.map(PlanReport::most_bytes).or(*held);
        let outcome = match outcome {
            Outcome::Measured(report) if report.plan == search.best.plan => "fastest".to_owned(),
            Outcome::Measured(_) => "measured".to_owned(),
            Outcome::Dropped(why) => why.strip_prefix("plan: ").unwrap_or(why).to_owned(),
        };
        vec![
            plan.to_string(),
            held.map_or_else(dash, bytes),
            bound.map_or_else(dash, micro),
            report.map_or_else(dash, |report| micro(report.latency())),
            report.map_or_else(dash, |report| significant(report.rate())),
            outcome,
        ]
    };
    Grid::new(&heading, search.candidates.iter().map(row).collect(), 1)
}

/// Returns a row for each stage.
pub(super) fn stages(report: &PlanReport) -> Grid {
    let heading = [
        "stage",
        "layers",
        "SIPs",
        "time µs",
        "of bound",
        "all-reduces",
        "memory of a PE",
        "of capacity",
    ];
    let row = |stage: &StageReport| {
        let last = |first: u64, count: u64| first + count.max(1) - 1;
        let range = |first: u64, count: u64| match count {
            1 => first.to_string(),
            count => format!("{first}–{}", last(first, count)),
        };
        let memory = &stage.memory;
        let ends = stage.report.cut.ends;
        let head = if ends.has_head { ", head" } else { "" };
        let first = if ends.has_embedding { "embedding, " } else { "" };
        vec![
            stage.stage.to_string(),
            format!("{first}{}{head}", range(stage.first_layer, stage.layers)),
            range(stage.first_sip, report.plan.tp),
            micro(stage.report.total),
            percent_column(stage.report.share()),
            bytes(stage.all_reduce_bytes()),
            bytes(memory.total.most),
            percent_column(memory.total.most as f64 / memory.capacity.max(1) as f64),
        ]
    };
    Grid::new(&heading, report.stages.iter().map(row).collect(), 2)
}

/// Returns a row for each transfer between stages.
pub(super) fn boundaries(report: &PlanReport) -> Grid {
    let heading = ["boundary", "over", "tokens", "sent", "time µs"];
    let row = |it: &BoundaryReport| {
        vec![
            format!("{} to {}", it.stage, it.stage + 1),
            if it.is_network { "network" } else { "links" }.to_owned(),
            bytes(it.bytes),
            bytes(it.sent),
            micro(it.time),
        ]
    };
    Grid::new(&heading, report.boundaries.iter().map(row).collect(), 2)
}

/// Returns a row for each kind of part, summed over the stages.
pub(super) fn path(report: &PlanReport) -> Grid {
    let path = report.path();
    let all: Span = path.iter().map(|(_, time)| *time).sum();
    let row = |&(name, time): &(&str, Span)| {
        let share = time.ps() as f64 / all.ps().max(1) as f64;
        vec![name.to_owned(), micro(time), percent_column(share)]
    };
    let mut rows: Vec<_> = path.iter().filter(|(_, time)| time.ps() > 0).map(row).collect();
    rows.push(row(&("all", all)));
    Grid::new(&["part, all stages", "µs", "share"], rows, 1)
}

/// Returns the times of the plan, each with its name.
pub(super) fn totals(report: &PlanReport) -> Vec<(&'static str, String)> {
    let latency = span(report.latency());
    let rate = ("tokens a second", significant(report.rate()));
    let used = ("stages compute", format!("{} of the time", percent(report.utilisation())));
    match report.phase() {
        Phase::Decode => vec![
            ("time of a token", latency),
            ("token to token", span(report.period())),
            rate,
            used,
        ],
        Phase::Prefill => vec![("time to first token", latency), rate, used],
    }
}

/// Returns the statements on uneven shares, and on features that are not simulated.
pub(super) fn notes(planned: &Planned) -> Vec<String> {
    let placement = planned.report.stages[0].report.cut.placement_notes();
    let left_out = planned.measure.notes.iter().cloned();
    planned.report.notes().into_iter().chain(placement).chain(left_out).collect()
}

fn micro(span: Span) -> String {
    format!("{:.3}", span.ns() / 1e3)
}
