//! Policies under which a trace can be replayed.

use thiserror::Error;

use super::Target;
use super::flex::Flex;
use super::planned::Planned;
use super::pytorch::PyTorch;
use crate::trace::Trace;
use cubeyard_memory::flex::Growth::{Growable, Recycle};
use cubeyard_memory::policy::{BEST_FIT, FIRST_FIT, LIFETIME, QUICK_FIT};
use cubeyard_units::Bytes;

/// All policies in the order of presentation.
pub const POLICIES: &[ReplayPolicy] = &[
    ReplayPolicy {
        name: PYTORCH,
        kind: Kind::PyTorch,
        summary: "PyTorch's allocator as it is by default",
        make: Make::Limited(|trace, limit| {
            Box::new(PyTorch::native(None).of(trace).limited(limit))
        }),
    },
    ReplayPolicy {
        name: EXPANDABLE,
        kind: Kind::PyTorch,
        summary: "PyTorch with expandable_segments:True",
        make: Make::Limited(|trace, limit| {
            Box::new(PyTorch::expandable(None).of(trace).limited(limit))
        }),
    },
    ReplayPolicy {
        name: "first-fit",
        kind: Kind::Online,
        summary: "the lowest free range that fits",
        make: Make::Limited(|trace, limit| {
            Box::new(Flex::growing(&FIRST_FIT, Growable, trace, limit))
        }),
    },
    ReplayPolicy {
        name: "best-fit",
        kind: Kind::Online,
        summary: "the smallest free range that fits",
        make: Make::Limited(|trace, limit| {
            Box::new(Flex::growing(&BEST_FIT, Growable, trace, limit))
        }),
    },
    ReplayPolicy {
        name: "quick-fit",
        kind: Kind::Online,
        summary: "the block of this size freed last, else best fit",
        make: Make::Limited(|trace, limit| {
            Box::new(Flex::growing(&QUICK_FIT, Growable, trace, limit))
        }),
    },
    ReplayPolicy {
        name: "recycle",
        kind: Kind::Online,
        summary: "best fit; idle memory is remapped before more is taken",
        make: Make::Limited(|trace, limit| {
            Box::new(Flex::growing(&BEST_FIT, Recycle, trace, limit))
        }),
    },
    ReplayPolicy {
        name: "lifetime",
        kind: Kind::Online,
        summary: "recycle, with blocks that die together placed together",
        make: Make::Limited(|trace, limit| {
            Box::new(Flex::growing(&LIFETIME, Recycle, trace, limit))
        }),
    },
    ReplayPolicy {
        name: "planned",
        kind: Kind::Planned,
        summary: "offsets computed ahead, for a trace that will repeat",
        make: Make::Unlimited(|trace| Box::new(planned(trace))),
    },
];

/// Plans a trace. The plan holds no more than any other policy.
pub(super) fn planned(trace: &Trace) -> Planned {
    let others = POLICIES.iter().filter(|policy| policy.kind != Kind::Planned);
    Planned::new(trace, others.filter_map(|policy| policy.target(trace)))
}

/// PyTorch with its default settings, the basis of comparison.
pub(super) const PYTORCH: &str = "pytorch";
/// PyTorch with `expandable_segments:True`.
pub(super) const EXPANDABLE: &str = "pytorch-expandable";

/// Named allocation policy.
#[derive(Clone, Copy, Debug)]
pub struct ReplayPolicy {
    /// Name on the command line and in reports.
    pub name: &'static str,
    /// Behaviour in a few words.
    pub summary: &'static str,
    /// Kind of the policy.
    pub kind: Kind,
    /// Constructor of the policy's targets.
    pub make: Make,
}

impl ReplayPolicy {
    /// Returns the position of the policy in [`POLICIES`], and its name. Policies of a front end follow all others.
    pub(super) fn place(&self) -> (usize, &'static str) {
        let place = POLICIES.iter().position(|known| known.name == self.name);
        (place.unwrap_or(POLICIES.len()), self.name)
    }

    /// Creates a target for a trace, without a limit; `None` for a policy of a front end.
    pub fn target<'t>(&self, trace: &'t Trace) -> Option<Box<dyn Target + 't>> {
        match self.make {
            Make::Limited(make) => Some(make(trace, None)),
            Make::Unlimited(make) => Some(make(trace)),
            Make::Front => None,
        }
    }
}

/// Constructor of the targets of a policy.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// Creates a target for a trace, with an optional limit on the bytes it holds.
    Limited(fn(&Trace, Option<Bytes>) -> Box<dyn Target + '_>),
    /// Creates a target for a trace; the policy does not support limits.
    Unlimited(fn(&Trace) -> Box<dyn Target + '_>),
    /// A front end creates the targets, and passes them to [`ReplayPolicy::replay_over`].
    Front,
}

/// Kind of a policy: the knowledge that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PyTorch's own allocator, online.
    PyTorch,
    /// Another allocator that sees requests as they arrive.
    Online,
    /// A plan made from the whole trace, useful if the same trace will repeat.
    Planned,
}

/// Returns the policy with this name.
pub fn policy(name: &str) -> Result<&'static ReplayPolicy, UnknownPolicy> {
    POLICIES.iter().find(|policy| policy.name == name).ok_or_else(|| UnknownPolicy::new(name))
}

/// Error for a name that no policy has. Choose one of [`POLICIES`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no policy `{name}`{} The policies are {}", did_you_mean(*nearest), names())]
pub struct UnknownPolicy {
    /// Name that was given.
    pub name: String,
    /// Most similar policy name, if one is similar.
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
