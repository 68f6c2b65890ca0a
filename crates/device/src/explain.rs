//! Why a request took as long as it did: its critical path, from the end to the beginning.
//!
//! Whatever happened last happened then because something else had just happened: a flit was on a link
//! because it had come, or because the flit before it was through; a burst moved because it had been asked
//! for, or because its channel had become free. Following these causes backwards gives steps that join
//! without a gap, so they add up to the latency to the picosecond. Where the cause is another request's
//! traffic, the step is a wait, and says whose.

mod index;

use std::fmt;

use cubeyard_sim::{Crossing, Forwarding, LinkId, NodeId, Span, Time};

use crate::log::{FlitLog, TransferKind, Watch};
use crate::machine::Machine;
use crate::message::{Access, Direction, RequestId};
use crate::model::Burst;
use index::Index;

/// A part of the time that a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
    /// What the time went into.
    pub cause: Cause,
}

/// What time goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A node looks at the transfer.
    Overhead(NodeId),
    /// Bytes go onto a link.
    Serialisation(LinkId),
    /// They are on the wire.
    Wire(LinkId),
    /// A memory moves bursts of this request.
    Service(NodeId),
    /// A link moves somebody else's flits; with finite buffers, also: no place behind it is free, or the
    /// flit stands in a queue.
    LinkWait(LinkId, Option<RequestId>),
    /// A channel of a memory moves somebody else's bursts.
    ChannelWait(NodeId, RequestId),
}

impl Cause {
    /// What it is and where, in words, and the request that was in the way.
    pub fn describe<W: Watch>(
        &self,
        machine: &Machine<W>,
    ) -> (&'static str, String, Option<RequestId>) {
        let node = |node: NodeId| machine.topology().node(node).name.clone();
        match *self {
            Self::Overhead(at) => ("overhead", node(at), None),
            Self::Serialisation(link) => ("serialisation", machine.link_name(link), None),
            Self::Wire(link) => ("wire", machine.link_name(link), None),
            Self::Service(at) => ("service", node(at), None),
            Self::LinkWait(link, behind) => ("wait", machine.link_name(link), behind),
            Self::ChannelWait(at, behind) => ("wait", node(at), Some(behind)),
        }
    }
}

/// The critical path of a request to memory: steps from the request to its completion, without a gap.
///
/// None for launches, for requests that are not done, and where a component of your own answers. Reads the whole
/// log; for many requests there is [`Explainer`].
pub fn explain(machine: &Machine<FlitLog>, request: RequestId) -> Option<Vec<Step>> {
    Explainer::new(machine).explain(request)
}

/// Explains the requests of a machine one after the other. The log is read once.
pub struct Explainer<'m> {
    machine: &'m Machine<FlitLog>,
    index: Index,
}

impl fmt::Debug for Explainer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer").finish_non_exhaustive()
    }
}

impl<'m> Explainer<'m> {
    /// Reads the log of a machine.
    pub fn new(machine: &'m Machine<FlitLog>) -> Self {
        Self { machine, index: Index::new(machine) }
    }

    /// Returns the critical path of a request, as [`explain`] does.
    pub fn explain(&mut self, request: RequestId) -> Option<Vec<Step>> {
        let (machine, index) = (self.machine, &mut self.index);
        let access = machine.access(request)?;
        let completion = machine.completion(request)?;
        let memory = machine.network().link(*access.there.last()?).to;
        let bursts = machine.memory_of(access)?.bursts();
        let there = index.transfer(request, TransferKind::Access)?;
        let back = index.transfer(request, TransferKind::Answer);
        let mut path = Path { machine, index, steps: Vec::new() };
        let asked = match &access.back {
            Some(_) => path.transfer(back?, None, completion.done),
            None => Origin { at: completion.done, flit: 0 },
        };
        let delivered = path.memory(access, memory, bursts, asked)?;
        let flit = (access.direction == Direction::Write).then_some(delivered.flit);
        let asked = path.transfer(there, flit, delivered.at);
        let start = machine.network().link(*access.there.first()?).from;
        path.step(completion.made, asked.at, Cause::Overhead(start));
        path.steps.reverse();
        Some(join(path.steps))
    }
}

/// A flit, and when it asked or was delivered.
#[derive(Clone, Copy)]
struct Origin {
    at: Time,
    flit: u64,
}

struct Path<'m, 'i> {
    machine: &'m Machine<FlitLog>,
    index: &'i mut Index,
    /// From the last to the first.
    steps: Vec<Step>,
}

impl Path<'_, '_> {
    fn step(&mut self, start: Time, end: Time, cause: Cause) {
        if start < end {
            self.steps.push(Step { start, end, cause });
        }
    }

    /// From the delivery of a flit (the last, if it is not said which) back to where it, or the one that
    /// led to it, asked for the first link.
    fn transfer(&mut self, transfer: usize, flit: Option<u64>, delivered: Time) -> Origin {
        let hops = self.machine.log().transfers()[transfer].route.len();
        let last = |hop| self.index.last(transfer, hop);
        let mut at = delivered;
        let mut now = match flit {
            Some(flit) => self.index.find(transfer, hops - 1, flit),
            None => last(hops - 1),
        };
        for hop in (0..hops).rev() {
            now = self.node(transfer, hop, now, at, hop + 1 == hops);
            at = self.link(&mut now);
            if hop > 0 {
                let flit = self.crossing(now).flit;
                now = self.index.find(transfer, hop - 1, flit);
            }
        }
        Origin { at, flit: self.crossing(now).flit }
    }

    fn crossing(&self, place: usize) -> Crossing {
        self.machine.engine().observer().crossings()[place]
    }

    /// A flit left the node behind a hop, or was delivered there, at `at`: which flit's arrival led to that?
    fn node(&mut self, transfer: usize, hop: usize, now: usize, at: Time, end: bool) -> usize {
        let node = self.machine.network().link(self.crossing(now).link).to;
        let stores =
            self.machine.network().nodes()[node.index()].forwarding == Forwarding::StoreAndForward;
        let cause = if stores && !end {
            self.index.last(transfer, hop)
        } else if self.crossing(now).arrived == at {
            now
        } else {
            self.index.first(transfer, hop)
        };
        self.step(self.crossing(cause).arrived, at, Cause::Overhead(node));
        cause
    }

    /// A flit came over a link: back to when it, or the one of its transfer that it followed, asked.
    fn link(&mut self, now: &mut usize) -> Time {
        let link = self.crossing(*now).link;
        let Crossing { end, arrived, .. } = self.crossing(*now);
        self.step(end, arrived, Cause::Wire(link));
        loop {
            let Crossing { transfer, asked, start, end, .. } = self.crossing(*now);
            self.step(start, end, Cause::Serialisation(link));
            if start == asked {
                return asked;
            }
            let before = self.index.before(*now);
            let Some(before) = before.filter(|&before| self.crossing(before).end > asked) else {
                // Not the link was in use, but no place behind it was free, or the flit stood in a queue.
                self.step(asked, start, Cause::LinkWait(link, None));
                return asked;
            };
            let Crossing { transfer: ahead, end: free, .. } = self.crossing(before);
            if ahead != transfer {
                let behind = self.machine.log().transfer(ahead).request;
                self.step(asked, start, Cause::LinkWait(link, behind));
                return asked;
            }
            self.step(free, start, Cause::LinkWait(link, None));
            *now = before;
        }
    }

    /// Bursts ended at `asked.at`: back to when they were asked for.
    fn memory(
        &mut self,
        access: &Access,
        node: NodeId,
        bursts: &[Burst],
        asked: Origin,
    ) -> Option<Origin> {
        let is_right = |burst: &Burst| {
            let in_time = access.direction == Direction::Write || burst.flit <= asked.flit;
            burst.end == asked.at && in_time
        };
        let mut place = self.index.last_burst((node, bursts), access.request, is_right)?;
        loop {
            let burst = bursts[place];
            self.step(burst.start, burst.end, Cause::Service(node));
            let earlier = self.index.burst_before(node, place);
            match earlier.filter(|&earlier| bursts[earlier].end > burst.asked) {
                Some(earlier) if bursts[earlier].request == access.request => {
                    // Between two bursts the channel may turn around.
                    self.step(bursts[earlier].end, burst.start, Cause::Service(node));
                    place = earlier;
                }
                Some(earlier) => {
                    let cause = Cause::ChannelWait(node, bursts[earlier].request);
                    self.step(bursts[earlier].end, burst.start, Cause::Service(node));
                    self.step(burst.asked, bursts[earlier].end, cause);
                    return Some(Origin { at: burst.asked, flit: burst.flit });
                }
                None => {
                    self.step(burst.asked, burst.start, Cause::Service(node));
                    return Some(Origin { at: burst.asked, flit: burst.flit });
                }
            }
        }
    }
}

/// Joins steps of one cause that follow each other.
fn join(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match joined.last_mut() {
            Some(last) if last.cause == step.cause && last.end == step.start => last.end = step.end,
            _ => joined.push(step),
        }
    }
    joined
}

/// The time of the steps that `what` says, together.
pub fn sum(steps: &[Step], what: impl Fn(Cause) -> bool) -> Span {
    steps.iter().filter(|step| what(step.cause)).map(|step| step.end - step.start).sum()
}
