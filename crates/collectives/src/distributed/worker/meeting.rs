//! Matching of the ranks' calls, group by group.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use super::call::{Call, Posted};
use crate::distributed::error::listed;
use crate::distributed::{DistError, Distributed, Pending, ProcessGroup};

/// Unmatched calls of a group's members.
#[derive(Debug)]
struct Queues {
    group: ProcessGroup,
    calls: Vec<VecDeque<Posted>>,
}

/// Matches the calls of all ranks.
#[derive(Debug, Default)]
pub(in crate::distributed) struct CallMatcher {
    /// Queues by the id of their group.
    queues: RefCell<BTreeMap<u32, Queues>>,
    posted: Cell<usize>,
    /// The first call that can never match.
    refused: RefCell<Option<DistError>>,
    /// Groups that workers have made, in order, and how many of them each rank has asked for.
    made: RefCell<Vec<ProcessGroup>>,
    asked: RefCell<Vec<usize>>,
}

/// Matching calls of a group's members.
pub(super) struct Meeting {
    pub(super) group: ProcessGroup,
    pub(super) calls: Vec<(usize, Posted)>,
}

impl CallMatcher {
    pub(super) fn reset(&self, ranks: usize) {
        self.queues.take();
        self.refused.take();
        self.made.take();
        self.asked.replace(vec![0; ranks]);
    }

    pub(super) fn post(&self, group: &ProcessGroup, rank: usize, posted: Posted) {
        let order = self.posted.replace(self.posted.get() + 1);
        let mut queues = self.queues.borrow_mut();
        let queues = queues.entry(group.id()).or_insert_with(|| {
            let calls = vec![VecDeque::new(); group.size()];
            Queues { group: group.clone(), calls }
        });
        queues.calls[rank].push_back(Posted { order, ..posted });
    }

    /// Records a call that can never match: it ends all workers.
    pub(super) fn refuse(&self, error: DistError) {
        self.refused.borrow_mut().get_or_insert(error);
    }

    /// Returns the error of a call that can never match, if there is one.
    pub(super) fn check(&self) -> Result<(), DistError> {
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Takes the next matching calls, if all ranks concerned have made them.
    pub(super) fn next_meeting(&self) -> Option<Meeting> {
        self.queues.borrow_mut().values_mut().find_map(Queues::meet)
    }

    /// Describes the earliest unmatched call of a rank of the world.
    pub(super) fn waits(&self, rank: usize, world: &ProcessGroup) -> Option<String> {
        let queues = self.queues.borrow();
        let of_group = |queues: &Queues| -> Option<(usize, String)> {
            let posted = queues.calls[queues.group.rank_of(rank)?].front()?;
            let (name, at) = (posted.call.name(), &posted.at);
            let group = &queues.group;
            let of = if group == world { String::new() } else { format!(" of ranks {group}") };
            Some((posted.order, format!("{name}{of} at {at}")))
        };
        queues.values().filter_map(of_group).min_by_key(|(order, _)| *order).map(|(_, what)| what)
    }
}

impl Queues {
    fn meet(&mut self) -> Option<Meeting> {
        let ranks = self.pair().or_else(|| self.all())?;
        let take = |rank: usize| Some((rank, self.calls[rank].pop_front()?));
        let calls = ranks.into_iter().map(take).collect::<Option<_>>()?;
        Some(Meeting { group: self.group.clone(), calls })
    }

    /// Returns a sender and its receiver, if their calls match.
    fn pair(&self) -> Option<Vec<usize>> {
        self.calls.iter().enumerate().find_map(|(rank, queue)| {
            let Call::Send(to, _) = queue.front()?.call else { return None };
            let other = self.calls.get(to)?.front()?;
            matches!(other.call, Call::Receive(from, _) if from == rank).then_some(vec![rank, to])
        })
    }

    /// Returns all ranks, if they have made the same call.
    fn all(&self) -> Option<Vec<usize>> {
        let first = &self.calls.first()?.front()?.call;
        let is_shared = matches!(first, Call::Collective(..) | Call::Barrier);
        let name = first.name();
        let is_same =
            |queue: &VecDeque<Posted>| queue.front().is_some_and(|own| own.call.name() == name);
        (is_shared && self.calls.iter().all(is_same)).then(|| (0..self.calls.len()).collect())
    }
}

/// Calls that have begun, and their pending results.
type Begun = (Vec<(usize, Posted)>, Result<Pending, DistError>);

impl Distributed {
    /// Begins all matching calls, then waits for them; returns whether there were any. No worker is running then.
    pub(super) fn meet(&self) -> Result<bool, DistError> {
        let mut begun: Vec<Begun> = Vec::new();
        while let Some(meeting) = self.state.matcher.next_meeting() {
            let pending = self.carry_out(&meeting);
            begun.push((meeting.calls, pending));
        }
        let any = !begun.is_empty();
        let mut first = Ok(());
        for (calls, pending) in begun {
            let outcome = pending.and_then(Pending::wait);
            for (_, posted) in &calls {
                let answer = outcome.as_ref().map(|report| Some(report.clone()));
                posted.answer.replace(Some(answer.map_err(ToString::to_string)));
            }
            first = first.and(outcome.map(drop));
        }
        first.map(|()| any)
    }

    fn carry_out(&self, Meeting { group, calls }: &Meeting) -> Result<Pending, DistError> {
        match &calls[0].1.call {
            Call::Barrier => self.begin_barrier(group),
            Call::Collective(operation, ..) => {
                let tensors: Vec<_> = calls
                    .iter()
                    .filter_map(|(_, posted)| match &posted.call {
                        Call::Collective(_, input, output) => Some((input, output)),
                        _ => None,
                    })
                    .collect();
                self.begin_in(group, *operation, &tensors)
            }
            Call::Send(to, source) => match &calls[1].1.call {
                Call::Receive(_, target) => {
                    self.begin_send_in(group, (calls[0].0, source), (*to, target))
                }
                other => unreachable!("a pair is a send and a receive: {other:?}"),
            },
            Call::Receive(..) => unreachable!("the sender comes first"),
        }
    }

    /// Returns the group that a rank makes: the one that others have made at the same point of their sequence,
    /// or a new one.
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
