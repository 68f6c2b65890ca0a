//! Reports of runs and lists of benches.

use cubeyard_sim::Span;
use cubeyard_tl::program::Finding;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::report::{Bound, Check, RunReport, SliceKind, Step};
use crate::{Bench, Parameter};

/// Report of `cubeyard run`.
#[derive(Clone, Copy, Debug)]
pub struct RunFigures<'a> {
    /// Times, bounds and critical path.
    pub report: &'a RunReport,
    /// Defects of kernels that ran to completion.
    pub findings: &'a [Finding],
    /// Whether the critical path and the timeline are included; null otherwise.
    pub explains: bool,
}

impl Serialize for RunFigures<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { report, findings, explains } = *self;
        let parameters = report.parameters.iter();
        let launches = report.launches.iter();
        let launch =
            |(name, took): &(String, Span)| json!({ "kernel": name, "took_ns": took.ns() });
        let part = |(kind, span): &(SliceKind, Span)| json!({ "kind": kind, "span_ns": span.ns() });
        let value = json!({
            "bench": report.bench,
            "summary": report.summary,
            "parameters": parameters.map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>(),
            "machine": report.machine,
            "pes": report.pes,
            "kernel_ns": report.kernel.ns(),
            "host_ns": report.host.ns(),
            "launches": launches.map(launch).collect::<Vec<_>>(),
            "read_bytes": report.traffic.read,
            "written_bytes": report.traffic.written,
            "flop": report.flop,
            "bandwidth_gbs": report.achieved_bandwidth() / 1e9,
            "peak_bandwidth_gbs": report.peak_bandwidth / 1e9,
            "rate_gflops": report.achieved_rate() / 1e9,
            "peak_rate_gflops": report.peak_rate / 1e9,
            "share_of_bound": report.share(),
            "limited_by": report.limited_by,
            "lines": report.lines().iter().map(|line| line.json(report)).collect::<Vec<_>>(),
            "bounds": report.bounds.iter().map(|it| bound(report, it)).collect::<Vec<_>>(),
            "units": report.units,
            "breakdown": report.breakdown.iter().map(part).collect::<Vec<_>>(),
            "critical": explains.then_some(&report.critical),
            "lanes": explains.then_some(&report.lanes),
            "check": checked(report),
            "findings": findings.iter().map(finding).collect::<Vec<_>>(),
            "notes": report.notes,
        });
        value.serialize(to)
    }
}

fn bound(report: &RunReport, bound: &Bound) -> Value {
    let share = report.of_kernel(bound.span);
    json!({ "resource": bound.resource, "least_ns": bound.span.ns(), "share": share })
}

/// Returns the comparison with a reference if there is one, else the outcome of the bench's own assertions.
pub(crate) fn checked(report: &RunReport) -> Value {
    match (&report.check, &report.assertions) {
        (Some(check), None | Some(Ok(()))) => json!(check),
        (_, Some(outcome)) => {
            json!({ "passed": outcome.is_ok(), "failure": outcome.as_ref().err() })
        }
        (None, None) => Value::Null,
    }
}

fn finding(finding: &Finding) -> Value {
    let Finding { kernel, pe, place, what } = finding;
    json!({ "kernel": kernel, "pe": pe.to_string(), "place": place, "what": what })
}

impl Serialize for SliceKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let step = json!({
            "start_ns": self.start.ns(),
            "duration_ns": self.span().ns(),
            "kind": self.kind,
            "what": self.what,
            "place": self.place,
            "why": self.why,
            "access": self.access,
        });
        step.serialize(to)
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let check = json!({
            "passed": self.passed(),
            "elements": self.elements,
            // Null if a result is not a number, so that the error is infinite: JSON cannot represent infinity.
            "worst": self.worst,
            "tolerance": self.tolerance,
        });
        check.serialize(to)
    }
}

/// Entry of `cubeyard list`: a bench with its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct BenchEntry {
    name: String,
    summary: String,
    needs_data: bool,
    parameters: Vec<Parameter>,
}

impl BenchEntry {
    /// Describes a bench.
    pub fn new(bench: &dyn Bench) -> Self {
        let (name, summary) = (bench.name().to_owned(), bench.summary().to_owned());
        Self { name, summary, needs_data: bench.needs_data(), parameters: bench.parameters() }
    }
}
