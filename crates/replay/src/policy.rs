//! The policies that a trace can be replayed under.

use thiserror::Error;

use super::flex::Flex;
use super::measure::nanoseconds_per_operation;
use super::planned::Planned;
use super::pytorch::PyTorch;
use super::{Row, Target, refused, run};
use crate::trace::Trace;

/// Every policy, in the order in which they are shown.
pub const POLICIES: &[ReplayPolicy] = &[
    ReplayPolicy::new(PYTORCH, Kind::PyTorch, "PyTorch's allocator as it is by default", |_| {
        Box::new(PyTorch::native(None))
    }),
    ReplayPolicy::new(EXPANDABLE, Kind::PyTorch, "PyTorch with expandable_segments:True", |_| {
        Box::new(PyTorch::expandable(None))
    }),
    ReplayPolicy::new("first-fit", Kind::Online, "the lowest free range that fits", |trace| {
        Box::new(Flex::new("first-fit", false, trace.allocations))
    }),
    ReplayPolicy::new("best-fit", Kind::Online, "the smallest free range that fits", |trace| {
        Box::new(Flex::new("best-fit", false, trace.allocations))
    }),
    ReplayPolicy::new(
        "quick-fit",
        Kind::Online,
        "the block of this size freed last, else best fit",
        |trace| Box::new(Flex::new("quick-fit", false, trace.allocations)),
    ),
    ReplayPolicy::new(
        "recycle",
        Kind::Online,
        "best fit; idle memory is remapped before more is taken",
        |trace| Box::new(Flex::new("best-fit", true, trace.allocations)),
    ),
    ReplayPolicy::new(
        "lifetime",
        Kind::Online,
        "recycle, with blocks that die together placed together",
        |trace| Box::new(Flex::new("lifetime", true, trace.allocations)),
    ),
    ReplayPolicy::new(
        "planned",
        Kind::Planned,
        "offsets computed ahead, for a trace that will repeat",
        |trace| Box::new(Planned::new(trace)),
    ),
];

/// What PyTorch does today unless it is told otherwise: what others are compared with.
pub(super) const PYTORCH: &str = "pytorch";
/// What PyTorch does with one setting changed.
pub(super) const EXPANDABLE: &str = "pytorch-expandable";

/// A way to allocate, by its name.
#[derive(Clone, Copy, Debug)]
pub struct ReplayPolicy {
    /// What people call it.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What it takes to use it.
    pub kind: Kind,
    /// An allocator of this policy, with nothing allocated yet.
    pub make: fn(&Trace) -> Box<dyn Target + '_>,
}

/// What it takes to use a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PyTorch's own allocator.
    PyTorch,
    /// Another allocator, which knows no more than PyTorch's: requests as they come.
    Online,
    /// A plan made from the whole trace. It is of use where the same trace will come again.
    Planned,
}

impl ReplayPolicy {
    const fn new(
        name: &'static str,
        kind: Kind,
        summary: &'static str,
        make: fn(&Trace) -> Box<dyn Target + '_>,
    ) -> Self {
        Self { name, summary, kind, make }
    }

    /// Replays a trace, once to count bytes and then again to take the time.
    ///
    /// `clock` tells nanoseconds since some moment; time of the processor, so that others who use it do not
    /// show. `progress` is told as in [`run`], in all twice
    /// the events of the trace unless the policy fails.
    pub fn replay(
        &self,
        trace: &Trace,
        clock: &mut dyn FnMut() -> u64,
        progress: &mut dyn FnMut(usize),
    ) -> Row {
        let outcome = run(trace, &mut *(self.make)(trace), progress);
        let ns_per_op = match outcome.failed {
            Some(_) => None,
            None => nanoseconds_per_operation(trace, &self.make, clock, progress),
        };
        Row { policy: *self, outcome, ns_per_op, fits: refused::fits(self, trace) }
    }
}

/// The policy of this name.
pub fn policy(name: &str) -> Result<&'static ReplayPolicy, UnknownPolicy> {
    POLICIES.iter().find(|policy| policy.name == name).ok_or_else(|| UnknownPolicy::new(name))
}

/// There is no policy of this name: take one of [`POLICIES`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no policy `{name}`{} The policies are {}", did_you_mean(*nearest), names())]
pub struct UnknownPolicy {
    /// The name that was given.
    pub name: String,
    /// The name that was probably meant.
    pub nearest: Option<&'static str>,
}

impl UnknownPolicy {
    fn new(name: &str) -> Self {
        let distances =
            POLICIES.iter().map(|policy| (strsim::levenshtein(name, policy.name), policy.name));
        let nearest = distances.min().filter(|(distance, found)| *distance <= found.len() / 2);
        Self { name: name.to_owned(), nearest: nearest.map(|(_, found)| found) }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(|| ".".to_owned(), |nearest| format!(": did you mean `{nearest}`?"))
}

fn names() -> String {
    let names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name_of_its_own() {
        for (place, found) in POLICIES.iter().enumerate() {
            let first = POLICIES.iter().position(|policy| policy.name == found.name);
            assert_eq!(first, Some(place));
            assert_eq!(policy(found.name).unwrap().summary, found.summary);
        }
    }

    #[test]
    fn a_name_that_is_unknown_is_answered_with_the_nearest() {
        let nearest = |name| policy(name).unwrap_err().nearest;
        assert_eq!(nearest("best-fot"), Some("best-fit"));
        assert_eq!(nearest("bestfit"), Some("best-fit"));
        assert_eq!(nearest("pytorch-expandible"), Some("pytorch-expandable"));
        assert_eq!(nearest("PyTorch"), Some("pytorch"));
        assert_eq!(nearest("zzz"), None);
        assert_eq!(nearest(""), None);
        let message = policy("zzz").unwrap_err().to_string();
        assert!(message.starts_with("there is no policy `zzz`. The policies are pytorch, "));
    }
}
