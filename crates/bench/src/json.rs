//! Results of runs, and lists of benches, as JSON.

use crate::report::{AccessTime, Bound, Check, Lane, RunReport, Slice, SliceKind, Step, UnitUse};
use cubeyard_sim::Span;
use cubeyard_tl::program::Finding;
use serde_json::{Map, Value, json};

use crate::{Bench, Parameter};

/// Returns a run as one object; the critical path and the timeline only if `explains`.
pub fn run(report: &RunReport, findings: &[Finding], explains: bool) -> Value {
    let mut value = figures(report);
    let parts = [
        ("bounds", report.bounds.iter().map(|bound| shown_bound(report, bound)).collect()),
        ("units", report.units.iter().map(unit).collect()),
        ("breakdown", breakdown(report)),
        ("critical", explained(explains, || report.critical.iter().map(step).collect())),
        ("lanes", explained(explains, || report.lanes.iter().map(lane).collect())),
        ("check", checked(report)),
        ("findings", findings.iter().map(finding).collect()),
        ("notes", json!(report.notes)),
    ];
    for (name, part) in parts {
        value[name] = part;
    }
    value
}

/// Returns a bench with its parameters as one object.
pub fn bench(bench: &dyn Bench) -> Value {
    let parameter = |parameter: &Parameter| {
        json!({
            "name": parameter.name,
            "what": parameter.help,
            "default": parameter.default.to_string(),
            "expected": parameter.kind.to_string(),
        })
    };
    json!({
        "name": bench.name(),
        "summary": bench.summary(),
        "needs_data": bench.needs_data(),
        "parameters": bench.parameters().iter().map(parameter).collect::<Vec<_>>(),
    })
}

fn figures(report: &RunReport) -> Value {
    let parameter = |(name, value): &(String, String)| (name.clone(), json!(value));
    let parameters: Map<String, Value> = report.parameters.iter().map(parameter).collect();
    let launches = report.launches.iter();
    let launches = launches.map(|(name, took)| json!({ "kernel": name, "took_ns": took.ns() }));
    json!({
        "bench": report.bench,
        "summary": report.summary,
        "parameters": parameters,
        "machine": report.machine,
        "pes": report.pes,
        "kernel_ns": report.kernel.ns(),
        "host_ns": report.host.ns(),
        "launches": launches.collect::<Vec<_>>(),
        "read_bytes": report.traffic.read,
        "written_bytes": report.traffic.written,
        "flop": report.flop,
        "bandwidth_gbs": report.achieved_bandwidth() / 1e9,
        "peak_bandwidth_gbs": report.peak_bandwidth / 1e9,
        "rate_gflops": report.achieved_rate() / 1e9,
        "peak_rate_gflops": report.peak_rate / 1e9,
        "share_of_bound": report.share(),
        "limited_by": report.limited_by,
    })
}

fn explained(wanted: bool, value: impl FnOnce() -> Value) -> Value {
    if wanted { value() } else { Value::Null }
}

fn shown_bound(report: &RunReport, bound: &Bound) -> Value {
    let share = report.of_kernel(bound.span);
    json!({ "resource": bound.resource, "least_ns": bound.span.ns(), "share": share })
}

fn unit(unit: &UnitUse) -> Value {
    json!({ "unit": unit.unit, "mean": unit.mean, "max": unit.max, "busiest": unit.busiest })
}

fn breakdown(report: &RunReport) -> Value {
    let part =
        |(kind, span): &(SliceKind, Span)| json!({ "kind": kind.name(), "span_ns": span.ns() });
    report.breakdown.iter().map(part).collect()
}

fn step(step: &Step) -> Value {
    json!({
        "start_ns": step.start.ns(),
        "duration_ns": step.span().ns(),
        "kind": step.kind.name(),
        "what": step.what,
        "place": step.place,
        "why": step.why,
        "access": step.access.as_ref().map(access),
    })
}

fn access(access: &AccessTime) -> Value {
    json!({
        "overhead_ns": access.overhead.ns(),
        "serialisation_ns": access.serialisation.ns(),
        "service_ns": access.service.ns(),
        "rows_ns": access.rows.ns(),
        "waiting_ns": access.waiting.ns(),
    })
}

fn lane(lane: &Lane) -> Value {
    let slice = |slice: &Slice| {
        json!({
            "start_ns": slice.start.ns(),
            "end_ns": slice.end.ns(),
            "kind": slice.kind.name(),
            "name": slice.name,
        })
    };
    json!({ "name": lane.name, "slices": lane.slices.iter().map(slice).collect::<Vec<_>>() })
}

/// Returns the comparison with a reference, else the outcome of the bench's own assertions.
pub(crate) fn checked(report: &RunReport) -> Value {
    match (&report.check, &report.assertions) {
        (Some(it), None | Some(Ok(()))) => check(it),
        (_, Some(outcome)) => {
            json!({ "passed": outcome.is_ok(), "failure": outcome.as_ref().err() })
        }
        (None, None) => Value::Null,
    }
}

fn check(check: &Check) -> Value {
    json!({
        "passed": check.passed(),
        "elements": check.elements,
        // Infinite where a result is no number, which JSON has no word for.
        "worst": check.worst.is_finite().then_some(check.worst),
        "tolerance": check.tolerance,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "kernel": finding.kernel,
        "pe": finding.pe.to_string(),
        "place": finding.place,
        "what": finding.what,
    })
}
