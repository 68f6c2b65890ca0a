//! Arbitration among the flits that wait for one link.

use crate::Time;
use crate::id::LinkId;

/// Rule by which a link chooses among the flits at the heads of its node's queues.
///
/// The head with the smallest key is chosen, so a new rule is a variant and a line in `key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arbiter {
    /// The flit that has waited longest at the node; ties are broken by the fixed order of links (rule 4).
    #[default]
    Fifo,
    /// The next input after the one served last. Flits that start at the node come first, then its links by number.
    RoundRobin,
    /// The flit whose transfer began first; ties are broken by the fixed order of links (rule 4).
    OldestFirst,
}

/// An input queue of a node: flits that start there, or flits that arrived over one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input(u32);

impl Input {
    pub(crate) const SOURCE: Self = Self(0);
    /// Value after every input, so that the first round starts with the first input.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn behind(link: LinkId) -> Self {
        Self(u32::try_from(link.index() + 1).expect("link numbers have 32 bits"))
    }

    pub(crate) fn link(self) -> Option<LinkId> {
        Some(LinkId::new(self.0.checked_sub(1)? as usize))
    }
}

/// The flit at the head of a queue, which requests a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) input: Input,
    pub(crate) asked: Time,
    pub(crate) begun: Time,
}

impl Arbiter {
    /// Returns the index of the head to serve next, after input `last`.
    pub(crate) fn choose(self, heads: &[Head], last: Input) -> Option<usize> {
        let heads = heads.iter().enumerate();
        heads.min_by_key(|(_, head)| self.key(head, last)).map(|(place, _)| place)
    }

    fn key(self, head: &Head, last: Input) -> (u64, Input) {
        let first = match self {
            Self::Fifo => head.asked.ps(),
            Self::RoundRobin => u64::from(head.input <= last),
            Self::OldestFirst => head.begun.ps(),
        };
        (first, head.input)
    }
}
