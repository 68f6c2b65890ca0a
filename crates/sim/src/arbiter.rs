//! Which flit goes first when several stand before one link.

use crate::Time;
use crate::id::LinkId;

/// How a link chooses among the flits at the heads of the queues of its node.
///
/// An arbiter is a key: the head with the least is chosen. So a new one is a variant and a line in `key`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arbiter {
    /// Who has stood at the node longest; of equals, as links always decide (rule 4).
    #[default]
    Fifo,
    /// The next input after the one served last: those that begin at the node, then its links by number.
    RoundRobin,
    /// Whose transfer began first; of equals, as links always decide (rule 4).
    OldestFirst,
}

/// A queue of a node: the flits that begin there, or those that came by a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input(u32);

impl Input {
    pub(crate) const SOURCE: Self = Self(0);
    /// After every input, so that a round begins with the first.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn behind(link: LinkId) -> Self {
        Self(u32::try_from(link.index() + 1).expect("link numbers have 32 bits"))
    }

    pub(crate) fn link(self) -> Option<LinkId> {
        Some(LinkId::new(self.0.checked_sub(1)? as usize))
    }
}

/// A flit that asks for a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) input: Input,
    pub(crate) asked: Time,
    /// The beginning of its transfer.
    pub(crate) begun: Time,
}

impl Arbiter {
    /// The place of the head that is served after `last`.
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
