//! Meetings of ranks: calls that match are performed together.

use std::cell::RefCell;

use super::call::{Call, Posted};
use crate::distributed::error::listed;
use crate::distributed::{DistError, Distributed, Pending, ProcessGroup};
use crate::matching::{Match, Matcher, MessageEnd, Waiting};

/// Calls of workers, and the groups that they have made.
#[derive(Debug, Default)]
pub(in crate::distributed) struct CallMatcher {
    calls: RefCell<Matcher<ProcessGroup, Posted>>,
    /// The first call that can never match.
    refused: RefCell<Option<DistError>>,
    /// Groups that workers have made, in order.
    made: RefCell<Vec<ProcessGroup>>,
    /// Number of groups that each rank has made.
    asked: RefCell<Vec<usize>>,
}

impl Match for Posted {
    fn is_same(&self, other: &Self) -> bool {
        self.call.name() == other.call.name()
    }

    fn end(&self) -> Option<MessageEnd> {
        let (is_sender, peer) = match self.call {
            Call::Send(to, _) => (true, to),
            Call::Receive(from, _) => (false, from),
            Call::Collective(..) | Call::Barrier => return None,
        };
        Some(MessageEnd { is_sender, peer: Some(peer), tag: 0 })
    }
}

impl CallMatcher {
    pub(super) fn reset(&self, ranks: usize) {
        self.calls.take();
        self.refused.take();
        self.made.take();
        self.asked.replace(vec![0; ranks]);
    }

    pub(super) fn post(&self, group: &ProcessGroup, rank: usize, posted: Posted) {
        self.calls.borrow_mut().post(group.clone(), group.size(), rank, posted);
    }

    /// Records a call that can never match: it ends all workers.
    pub(super) fn refuse(&self, error: DistError) {
        self.refused.borrow_mut().get_or_insert(error);
    }

    /// Returns the error of a call that can never match, if there is one.
    pub(super) fn check(&self) -> Result<(), DistError> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Describes the earliest unmatched call of a rank of the world.
    pub(super) fn waits(&self, rank: usize, world: &ProcessGroup) -> Option<String> {
        let calls = self.calls.borrow();
        let is_own = |(group, waiting): &(&ProcessGroup, &Waiting<Posted>)| {
            group.rank_of(rank) == Some(waiting.place)
        };
        let (group, Waiting { call, .. }) = calls.waiting().into_iter().find(is_own)?;
        let of = if group == world { String::new() } else { format!(" of ranks {group}") };
        Some(format!("{}{of} at {}", call.call.name(), call.at))
    }
}

/// Calls that have begun, and their pending results.
type Begun = (Vec<Waiting<Posted>>, Result<Pending, DistError>);

impl Distributed {
    /// Begins all matching calls, then waits for them; returns whether there were any. No worker is running then.
    pub(super) fn meet(&self) -> Result<bool, DistError> {
        let mut begun: Vec<Begun> = Vec::new();
        loop {
            let Some((group, calls)) = self.state.matcher.calls.borrow_mut().next() else { break };
            let pending = self.carry_out(&group, &calls);
            begun.push((calls, pending));
        }
        let any = !begun.is_empty();
        let mut first = Ok(());
        for (calls, pending) in begun {
            let outcome = pending.and_then(Pending::wait);
            for waiting in &calls {
                let answer = outcome.as_ref().map(|report| Some(report.clone()));
                waiting.call.answer.replace(Some(answer.map_err(ToString::to_string)));
            }
            first = first.and(outcome.map(drop));
        }
        first.map(|()| any)
    }

    /// Begins the calls of all members, or of a sender and its receiver.
    fn carry_out(
        &self,
        group: &ProcessGroup,
        calls: &[Waiting<Posted>],
    ) -> Result<Pending, DistError> {
        match (&calls[0].call.call, calls.last().map(|last| &last.call.call)) {
            (Call::Barrier, _) => self.begin_barrier(group),
            (Call::Collective(operation, ..), _) => {
                let tensors = calls.iter().filter_map(|waiting| match &waiting.call.call {
                    Call::Collective(_, input, output) => Some((input, output)),
                    _ => None,
                });
                self.begin_in(group, *operation, &tensors.collect::<Vec<_>>())
            }
            (Call::Send(to, source), Some(Call::Receive(_, target))) => {
                self.begin_send_in(group, (calls[0].place, source), (*to, target))
            }
            other => unreachable!("a pair is a sender and its receiver: {other:?}"),
        }
    }

    /// Returns the group that a rank makes: a new group, or the group that other ranks made at the same point of their
    /// sequences.
    pub(super) fn same_group(
        &self,
        rank: usize,
        ranks: &[usize],
    ) -> Result<ProcessGroup, DistError> {
        let place = self.state.matcher.asked.borrow()[rank];
        let known = self.state.matcher.made.borrow().get(place).cloned();
        let group = match known {
            Some(known) if known.members() == ranks => known,
            Some(known) => {
                let (found, expected) = (listed(ranks), known.to_string());
                return Err(DistError::Groups { rank, found, expected });
            }
            None => {
                let group = self.new_group(ranks)?;
                self.state.matcher.made.borrow_mut().push(group.clone());
                group
            }
        };
        self.state.matcher.asked.borrow_mut()[rank] += 1;
        Ok(group)
    }
}
