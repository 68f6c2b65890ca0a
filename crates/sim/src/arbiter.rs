//! Choice among the flits that wait for one link.

use crate::Time;
use crate::id::LinkId;

/// Rule by which a link chooses among the flits at the heads of the queues of its node.
///
/// The head with the least key is chosen, so a new rule is a variant and a line in `key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arbiter {
    /// The flit that has waited at the node longest; ties as links always decide them (rule 4).
    #[default]
    Fifo,
    /// The next input after the one served last: flits that begin at the node, then its links by number.
    RoundRobin,
    /// The flit whose transfer began first; ties as links always decide them (rule 4).
    OldestFirst,
}

/// A queue of a node: flits that begin there, or flits that came by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input(u32);

impl Input {
    pub(crate) const SOURCE: Self = Self(0);
    /// Later than every input, so that a round begins with the first.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn behind(link: LinkId) -> Self {
        Self(u32::try_from(link.index() + 1).expect("link numbers have 32 bits"))
    }

    pub(crate) fn link(self) -> Option<LinkId> {
        Some(LinkId::new(self.0.checked_sub(1)? as usize))
    }
}

/// The flit at the head of a queue, which asks for a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) input: Input,
    pub(crate) asked: Time,
    pub(crate) begun: Time,
}

impl Arbiter {
    /// Returns the index of the head that is served after input `last`.
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
