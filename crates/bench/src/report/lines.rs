//! Steps of the critical path by source line.

use std::collections::BTreeMap;

use cubeyard_sim::Span;
use serde_json::{Map, Value, json};

use super::{RunReport, SliceKind, Step};

/// Steps of the critical path that one source line of a kernel issued.
#[derive(Clone, Debug, PartialEq)]
pub struct LineSteps<'a> {
    /// Source line, e.g. `softmax.rs:41`; empty for steps outside of kernels, such as the way of a launch.
    pub place: &'a str,
    /// Steps in order of time, at least one.
    pub steps: Vec<&'a Step>,
}

impl RunReport {
    /// Returns the steps of the critical path by source line, the line with the longest time first.
    pub fn lines(&self) -> Vec<LineSteps<'_>> {
        self.grouped(|_| None)
    }

    /// Returns the steps of the critical path by source line and kind of work, the longest time first.
    pub fn merged_steps(&self) -> Vec<LineSteps<'_>> {
        self.grouped(|step| Some(step.kind))
    }

    fn grouped(&self, kind: impl Fn(&Step) -> Option<SliceKind>) -> Vec<LineSteps<'_>> {
        let mut groups: BTreeMap<_, Vec<&Step>> = BTreeMap::new();
        for step in &self.critical {
            groups.entry((step.place.as_str(), kind(step))).or_default().push(step);
        }
        let group = |((place, _), steps)| LineSteps { place, steps };
        let mut groups: Vec<_> = groups.into_iter().map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.span()));
        groups
    }
}

impl LineSteps<'_> {
    /// Returns the total duration of the steps.
    pub fn span(&self) -> Span {
        self.steps.iter().map(|step| step.span()).sum()
    }

    /// Returns the time that accesses waited behind other traffic.
    pub fn waiting(&self) -> Span {
        self.steps.iter().filter_map(|step| step.access).map(|access| access.waiting).sum()
    }

    /// Returns the longest step; the first of several equal ones.
    pub fn longest(&self) -> &Step {
        let steps = self.steps.iter().rev();
        steps.max_by_key(|step| step.span()).expect("a group has a step")
    }

    /// Returns the time of each kind of work, in the order of legends.
    pub fn units(&self) -> Vec<(SliceKind, Span)> {
        let of = |kind| {
            let same = self.steps.iter().filter(|step| step.kind == kind);
            (kind, same.map(|step| step.span()).sum())
        };
        let units = SliceKind::ALL.into_iter().map(of);
        units.filter(|(_, span)| *span > Span::ZERO).collect()
    }

    /// Returns the line as JSON, with its share of the kernel time.
    pub(crate) fn json(&self, report: &RunReport) -> Value {
        let unit = |(kind, span): (SliceKind, Span)| (kind.name().to_owned(), json!(span.ns()));
        json!({
            "place": self.place,
            "steps": self.steps.len(),
            "span_ns": self.span().ns(),
            "share": report.of_kernel(self.span()),
            "waiting_ns": self.waiting().ns(),
            "units_ns": self.units().into_iter().map(unit).collect::<Map<_, _>>(),
        })
    }
}
