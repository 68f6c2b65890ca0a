//! The limiting factor of a run, as text that follows "limited by".

use std::collections::BTreeMap;

use cubeyard_sim::Span;
use cubeyard_units::text::whole_percent;

use super::path::Leg;
use crate::report::{RunReport, SliceKind, Step};

/// Fraction of the kernel time from which on a bound counts as the limit.
const REACHED: f64 = 0.9;

/// Command name for the host's time between launches.
pub(super) const HOST: &str = "the host";

/// Names a resource that is almost always in use, else the longest part of the critical path, else the busiest
/// unit.
pub(super) fn limit(report: &RunReport, legs: &[Leg]) -> String {
    let reached = report.bound().filter(|_| report.share() >= REACHED);
    match (reached, longest(legs), report.busiest_unit()) {
        (Some(bound), ..) => {
            format!("{} (in use {} of the time)", bound.resource, whole_percent(report.share()))
        }
        (None, Some(part), _) => part,
        (None, None, Some(unit)) => {
            format!("{} (busy {} of the time)", unit.unit, whole_percent(unit.mean))
        }
        (None, None, None) => String::new(),
    }
}

/// Names what took most of the path: all steps of one kind for one command at one line.
fn longest(legs: &[Leg]) -> Option<String> {
    let mut parts: BTreeMap<_, (Span, Span)> = BTreeMap::new();
    for Leg { step, command, .. } in legs {
        // Dispatch counts as one part, whatever is dispatched.
        let key = match step.kind {
            SliceKind::Cpu => (step.kind, "", ""),
            kind => (kind, command.as_str(), step.place.as_str()),
        };
        let (all, waiting) = parts.entry(key).or_default();
        *all += step.span();
        *waiting += step.access.map_or(Span::ZERO, |access| access.waiting);
    }
    let whole: Span = parts.values().map(|(all, _)| *all).sum();
    let (key, (all, waiting)) = parts.into_iter().rev().max_by_key(|(_, (all, _))| *all)?;
    let share = |part: Span, of: Span| whole_percent(part.ps() as f64 / of.ps() as f64);
    let behind = match waiting {
        Span::ZERO => String::new(),
        _ => format!(", {} of that behind other traffic", share(waiting, all)),
    };
    Some(format!("{} ({} of the critical path{behind})", part_name(key), share(all, whole)))
}

fn part_name((kind, command, place): (SliceKind, &str, &str)) -> String {
    let who = match kind {
        SliceKind::Cpu => return "the calls that PE_CPU dispatches".to_owned(),
        SliceKind::DmaRead => "DMA reads of",
        SliceKind::DmaWrite => "DMA writes of",
        SliceKind::Fetch => "operands that come from the TCM for",
        SliceKind::Gemm => "the matrix unit in",
        SliceKind::Math => "the vector unit in",
        SliceKind::Store => "results that go to the TCM of",
        SliceKind::Message => "messages of",
        SliceKind::Wait if command == HOST => return "the host between launches".to_owned(),
        SliceKind::Wait if command.is_empty() => {
            return "launches that reach PEs one after the other".to_owned();
        }
        SliceKind::Wait => "waiting in",
    };
    format!("{who} `{command}` at {place}")
}

/// Returns the time of each kind of work in some steps, in the order of legends.
pub(super) fn breakdown(steps: &[Step]) -> Vec<(SliceKind, Span)> {
    let of = |kind| {
        let same = steps.iter().filter(|step| step.kind == kind);
        (kind, same.map(Step::span).sum::<Span>())
    };
    let mut parts: Vec<_> = SliceKind::ALL.into_iter().map(of).collect();
    parts.retain(|(_, span)| *span > Span::ZERO);
    parts
}
