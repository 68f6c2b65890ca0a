//! Matching of the calls of ranks: who called what, group by group.
//!
//! Collectives of a group match in the order in which each member makes them. Messages match by sender, receiver and
//! tag, in the order in which they are made; collectives do not hold them up.

use std::collections::{BTreeMap, VecDeque};

/// A call that other ranks must match.
pub(crate) trait Match {
    /// Returns whether the call of another member is the same collective.
    fn is_same(&self, other: &Self) -> bool;

    /// Returns the end of a message; `None` for a collective.
    fn end(&self) -> Option<MessageEnd>;
}

/// One end of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageEnd {
    pub(crate) is_sender: bool,
    /// Place of the other end in the group; `None` for a receiver that takes any sender.
    pub(crate) peer: Option<usize>,
    pub(crate) tag: i64,
}

/// A call that waits for other ranks.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<C> {
    /// Place of the caller in the group.
    pub(crate) place: usize,
    /// Number of calls made before, in all groups.
    pub(crate) order: usize,
    pub(crate) call: C,
}

/// Calls of one group.
#[derive(Debug)]
struct Queues<C> {
    /// Collectives of each member, in its order.
    collectives: Vec<VecDeque<Waiting<C>>>,
    /// Ends of messages, in the order of calls.
    messages: VecDeque<Waiting<C>>,
}

/// Unmatched calls of all ranks, by their group.
#[derive(Debug)]
pub(crate) struct Matcher<K, C> {
    groups: BTreeMap<K, Queues<C>>,
    posted: usize,
}

impl<K: Clone + Ord, C: Match> Matcher<K, C> {
    /// Takes a call of the member at `place` of a group with `size` members.
    pub(crate) fn post(&mut self, group: K, size: usize, place: usize, call: C) {
        let waiting = Waiting { place, order: self.posted, call };
        self.posted += 1;
        let queues = self.groups.entry(group).or_default();
        let members = queues.collectives.len().max(size);
        queues.collectives.resize_with(members, VecDeque::new);
        match waiting.call.end() {
            Some(_) => queues.messages.push_back(waiting),
            None => queues.collectives[place].push_back(waiting),
        }
    }

    /// Takes the next calls that match: a sender and its receiver, or all members by their place.
    pub(crate) fn next(&mut self) -> Option<(K, Vec<Waiting<C>>)> {
        self.groups.iter_mut().find_map(|(group, queues)| Some((group.clone(), queues.meet()?)))
    }

    /// Puts back calls that [`next`](Self::next) has returned.
    pub(crate) fn put_back(&mut self, group: K, calls: Vec<Waiting<C>>) {
        let queues = self.groups.entry(group).or_default();
        for waiting in calls {
            match waiting.call.end() {
                Some(_) => queues.messages.push_front(waiting),
                None => queues.collectives[waiting.place].push_front(waiting),
            }
        }
    }

    /// Returns two next collectives of a group that differ: the latest call, and the earliest call unlike it, earliest
    /// first.
    pub(crate) fn mismatch(&self, group: &K) -> Option<(&C, &C)> {
        let queues = self.groups.get(group)?;
        let heads = || queues.collectives.iter().filter_map(VecDeque::front);
        let latest = heads().max_by_key(|waiting| waiting.order)?;
        let others = heads().filter(|waiting| !waiting.call.is_same(&latest.call));
        let other = others.min_by_key(|waiting| waiting.order)?;
        Some((&other.call, &latest.call))
    }

    /// Returns all unmatched calls in the order in which they were made.
    pub(crate) fn waiting(&self) -> Vec<(&K, &Waiting<C>)> {
        let all = self.groups.iter().flat_map(|(group, queues)| {
            let collectives = queues.collectives.iter().flatten();
            collectives.chain(&queues.messages).map(move |waiting| (group, waiting))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, waiting)| waiting.order);
        all
    }

    /// Forgets all calls and returns them in the order in which they were made.
    pub(crate) fn take(&mut self) -> Vec<C> {
        let groups = std::mem::take(&mut self.groups).into_values();
        let all = groups
            .flat_map(|queues| queues.collectives.into_iter().flatten().chain(queues.messages));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|waiting| waiting.order);
        all.into_iter().map(|waiting| waiting.call).collect()
    }
}

impl<C: Match> Queues<C> {
    fn meet(&mut self) -> Option<Vec<Waiting<C>>> {
        if let Some([sender, receiver]) = self.pair() {
            // The later index is removed first, so that the other one stays valid.
            let later = self.messages.remove(sender.max(receiver))?;
            let earlier = self.messages.remove(sender.min(receiver))?;
            return Some(if sender > receiver {
                vec![later, earlier]
            } else {
                vec![earlier, later]
            });
        }
        let heads = self.collectives.iter().map(VecDeque::front).collect::<Option<Vec<_>>>()?;
        let (first, others) = heads.split_first()?;
        let is_same = others.iter().all(|other| other.call.is_same(&first.call));
        is_same.then(|| self.collectives.iter_mut().filter_map(VecDeque::pop_front).collect())
    }

    /// Returns the indices of a sender and its receiver.
    fn pair(&self) -> Option<[usize; 2]> {
        let end_of = |waiting: &Waiting<C>| Some((waiting.place, waiting.call.end()?));
        let ends: Vec<_> = self.messages.iter().filter_map(end_of).collect();
        ends.iter().enumerate().filter(|(_, (_, end))| end.is_sender).find_map(|(sender, own)| {
            let receiver = ends.iter().position(|other| is_message(*own, *other))?;
            Some([sender, receiver])
        })
    }
}

/// Returns whether a sender and another end, each with the place of its caller, are one message.
fn is_message((from, sender): (usize, MessageEnd), (to, receiver): (usize, MessageEnd)) -> bool {
    let is_addressed = sender.peer == Some(to) && receiver.peer.is_none_or(|peer| peer == from);
    !receiver.is_sender && is_addressed && sender.tag == receiver.tag
}

impl<C> Default for Queues<C> {
    fn default() -> Self {
        Self { collectives: Vec::new(), messages: VecDeque::new() }
    }
}

impl<K, C> Default for Matcher<K, C> {
    fn default() -> Self {
        Self { groups: BTreeMap::new(), posted: 0 }
    }
}
