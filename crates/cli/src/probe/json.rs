//! Measurements as JSON.

use cubeyard_device::message::RequestId;
use cubeyard_device::probe::{Hop, Invariant, LinkUse, Measured, TransferReport};
use cubeyard_sim::Time;
use serde_json::{Value, json};

use super::results::{Explained, NamedStep, ProbedCase, ProbedCases, ProbedPattern};

fn measured(measured: &Measured) -> Value {
    json!({
        "bytes": measured.bytes,
        "formula_ns": measured.unloaded.total().ns(),
        "latency_ns": measured.latency.ns(),
        "breakdown": {
            "overhead_ns": measured.unloaded.overhead.ns(),
            "wire_ns": measured.unloaded.wire.ns(),
            "serialisation_ns": measured.unloaded.serialisation.ns(),
            "service_ns": measured.unloaded.service.ns(),
            "wait_ns": measured.wait().ns(),
        },
        "bandwidth_gbs": measured.gb_per_second(),
        "bottleneck_gbs": measured.bottleneck.gb_per_second(),
        "utilisation": measured.utilisation(),
    })
}

fn route(hops: &[Hop]) -> Value {
    let hop = |hop: &Hop| {
        json!({
            "node": hop.node,
            "bandwidth_gbs": hop.bandwidth.gb_per_second(),
            "serialisation_ns": hop.serialisation.ns(),
            "wire_ns": hop.wire.ns(),
            "overhead_ns": hop.overhead.ns(),
            "cumulative_ns": hop.cumulative.ns(),
            "bottleneck": hop.is_bottleneck,
        })
    };
    hops.iter().map(hop).collect()
}

fn steps(explained: &Explained) -> Value {
    let step = |step: &NamedStep| {
        json!({
            "start_ns": (step.step.start - Time::ZERO).ns(),
            "duration_ns": (step.step.end - step.step.start).ns(),
            "what": step.kind,
            "where": step.place,
            "behind": step.behind,
        })
    };
    explained.steps.iter().map(step).collect()
}

/// Adds the steps of the critical path, if they were asked for.
fn with_steps(mut value: Value, explained: Option<&Explained>) -> Value {
    if let Some(explained) = explained {
        value["explain"] = steps(explained);
    }
    value
}

/// Merges the fields of a measurement into an object.
fn merged(mut value: Value, measured: Value) -> Value {
    if let (Value::Object(into), Value::Object(from)) = (&mut value, measured) {
        into.extend(from);
    }
    value
}

/// Returns one object for cases.
fn cases(cases: &ProbedCases) -> Value {
    let invariant = |invariant: &Invariant| {
        json!({
            "claim": invariant.claim,
            "evidence": invariant.evidence,
            "holds": invariant.holds,
        })
    };
    json!({
        "cases": cases.cases.iter().map(case).collect::<Vec<_>>(),
        "invariants": cases.invariants.iter().map(invariant).collect::<Vec<_>>(),
    })
}

fn case(ProbedCase { report, explained }: &ProbedCase) -> Value {
    let value = json!({
        "name": report.case.name,
        "category": report.case.category.name(),
        "from": report.case.start(),
        "to": format!("{}.hbm", report.case.to),
        "route": route(&report.route),
        "sweep": report.sweep.iter().map(measured).collect::<Vec<_>>(),
    });
    with_steps(merged(value, measured(&report.reference)), explained.as_ref())
}

/// Returns one object for a pattern.
fn pattern(ProbedPattern { report, explained }: &ProbedPattern) -> Value {
    let link = |link: &LinkUse| json!({ "link": link.link, "busy_ns": link.busy.ns() });
    let transfers = report.transfers.iter().enumerate();
    let transfers = transfers.map(|(number, report)| transfer(report, explained.get(number)));
    json!({
        "makespan_ns": report.makespan.ns(),
        "transfers": transfers.collect::<Vec<_>>(),
        "links": report.links.iter().map(link).collect::<Vec<_>>(),
        "order_hash": format!("{:016x}", report.order_hash),
    })
}

fn transfer(transfer: &TransferReport, explained: Option<&Explained>) -> Value {
    let planned = &transfer.planned;
    let held_up = transfer.held_up.as_ref().map(|held| {
        json!({
            "link": held.link,
            "behind": held.behind.map(RequestId::index),
            "ns": held.span.ns(),
        })
    });
    let value = json!({
        "op": planned.direction.to_string(),
        "from": planned.from,
        "to": planned.to,
        "offset": planned.offset,
        "at_ns": (planned.at - Time::ZERO).ns(),
        "route": route(&transfer.route),
        "held_up": held_up,
    });
    with_steps(merged(value, measured(&transfer.measured)), explained)
}

impl ProbedCases {
    /// Returns the object that `--format json` prints.
    pub fn json(&self) -> Value {
        cases(self)
    }
}

impl ProbedPattern {
    /// Returns the object that `--format json` prints.
    pub fn json(&self) -> Value {
        pattern(self)
    }
}
