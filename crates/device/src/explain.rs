//! Critical path of a request, traced backwards from its completion.
//!
//! Each event of a run follows directly from an earlier one: a flit enters a link because it has arrived, or because
//! the previous flit has left; a burst starts because it was requested, or because its channel has become free.
//! Following these causes backwards gives steps without gaps, which add up to the latency to the picosecond. If the
//! cause is traffic of another request, the step is a wait that names that request.

mod index;

use std::fmt;

use cubeyard_sim::{Crossing, Forwarding, LinkId, NodeId, Span, Time};

use crate::log::{FlitLog, TransferKind, Watch};
use crate::machine::Machine;
use crate::message::{Access, Direction, RequestId};
use crate::model::Burst;
use index::Index;

/// Interval of the critical path, with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathStep {
    /// Beginning of the interval.
    pub start: Time,
    /// End of the interval.
    pub end: Time,
    /// Cause of the delay.
    pub cause: Cause,
}

/// Cause of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Overhead of a node.
    Overhead(NodeId),
    /// Serialisation of a flit onto a link.
    Serialisation(LinkId),
    /// Propagation on a link.
    Wire(LinkId),
    /// Bursts of this request in a memory.
    Service(NodeId),
    /// Wait for a link that carries flits of another request. With finite buffers, also a wait for a free place behind
    /// the link or in a queue before it; this wait names no request.
    LinkWait(LinkId, Option<RequestId>),
    /// Wait for a serial node that processes the overhead of other transfers.
    NodeWait(NodeId),
    /// Wait for a channel of a memory that moves bursts of another request.
    ChannelWait(NodeId, RequestId),
}

impl Cause {
    /// Returns the name of the cause, its place, and the request that blocked the path.
    pub fn describe<W: Watch>(
        &self,
        machine: &Machine<W>,
    ) -> (&'static str, String, Option<RequestId>) {
        let node = |node: NodeId| machine.topology().node(node).name.clone();
        match *self {
            Self::Overhead(at) => ("overhead", node(at), None),
            Self::Serialisation(link) => {
                ("serialisation", machine.topology().link_name(link), None)
            }
            Self::Wire(link) => ("wire", machine.topology().link_name(link), None),
            Self::Service(at) => ("service", node(at), None),
            Self::LinkWait(link, behind) => ("wait", machine.topology().link_name(link), behind),
            Self::NodeWait(at) => ("wait", node(at), None),
            Self::ChannelWait(at, behind) => ("wait", node(at), Some(behind)),
        }
    }
}

/// Returns the critical path of a memory request: steps without gaps from its submission to its completion.
///
/// Returns `None` for launches, for pending requests, and if a custom component answers. Reads the whole log; use
/// [`Explainer`] for many requests.
pub fn explain(machine: &Machine<FlitLog>, request: RequestId) -> Option<Vec<PathStep>> {
    Explainer::new(machine).explain(request)
}

/// Explains many requests of a machine while reading its log only once.
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
    /// Reads and indexes the log of a machine.
    pub fn new(machine: &'m Machine<FlitLog>) -> Self {
        Self { machine, index: Index::new(machine) }
    }

    /// Returns the critical path of a request, as [`explain`] does.
    pub fn explain(&mut self, request: RequestId) -> Option<Vec<PathStep>> {
        let (machine, index) = (self.machine, &mut self.index);
        let access = machine.view().access(request)?;
        let completion = machine.completion(request)?;
        let memory = machine.view().network().link(*access.there.last()?).to;
        let bursts = machine.view().memory_of(access)?.bursts();
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
        let start = machine.view().network().link(*access.there.first()?).from;
        path.overhead(start, completion.made, asked.at);
        path.steps.reverse();
        Some(join(path.steps))
    }
}

/// A flit, and the time at which it requested a link or was delivered.
#[derive(Clone, Copy)]
struct Origin {
    at: Time,
    flit: u64,
}

struct Path<'m, 'i> {
    machine: &'m Machine<FlitLog>,
    index: &'i mut Index,
    /// Steps of the path, in reverse order.
    steps: Vec<PathStep>,
}

impl Path<'_, '_> {
    fn step(&mut self, start: Time, end: Time, cause: Cause) {
        if start < end {
            self.steps.push(PathStep { start, end, cause });
        }
    }

    /// Follows a transfer back from the delivery of a flit (the last flit if `None`) to the request for the first link.
    /// Returns the flit that made that request.
    fn transfer(&mut self, transfer: usize, flit: Option<u64>, delivered: Time) -> Origin {
        let hops = self.machine.view().log().transfers()[transfer].route.len();
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
        self.machine.view().engine().observer().crossings()[place]
    }

    /// Finds the flit whose arrival allowed another flit to leave the node behind a hop, or to be delivered there, at
    /// `at`.
    fn node(&mut self, transfer: usize, hop: usize, now: usize, at: Time, end: bool) -> usize {
        let node = self.machine.view().network().link(self.crossing(now).link).to;
        let stores = self.machine.view().network().nodes()[node.index()].forwarding
            == Forwarding::StoreAndForward;
        let cause = if stores && !end {
            self.index.last(transfer, hop)
        } else if self.crossing(now).arrived == at {
            now
        } else {
            self.index.first(transfer, hop)
        };
        self.overhead(node, self.crossing(cause).arrived, at);
        cause
    }

    /// Adds the overhead of a node that ended at `end`, and the wait for it if the node is serial.
    fn overhead(&mut self, node: NodeId, start: Time, end: Time) {
        let spec = self.machine.view().network().nodes()[node.index()];
        let waits = spec.is_serial && end - start > spec.overhead;
        let from = if waits { Time::from_ps(end.ps() - spec.overhead.ps()) } else { start };
        self.step(from, end, Cause::Overhead(node));
        self.step(start, from, Cause::NodeWait(node));
    }

    /// Goes back over a link to the time at which it was requested by the flit, or by an earlier flit of the same
    /// transfer that it followed without a gap.
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
                // The link was not in use: no place behind it was free, or the flit was in a queue.
                self.step(asked, start, Cause::LinkWait(link, None));
                return asked;
            };
            let Crossing { transfer: ahead, end: free, .. } = self.crossing(before);
            if ahead != transfer {
                let behind = self.machine.view().log().transfer(ahead).request;
                self.step(asked, start, Cause::LinkWait(link, behind));
                return asked;
            }
            self.step(free, start, Cause::LinkWait(link, None));
            *now = before;
        }
    }

    /// Goes back from bursts that ended at `asked.at` to the time at which they were requested.
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

/// Joins adjacent steps of the same cause.
fn join(steps: Vec<PathStep>) -> Vec<PathStep> {
    let mut joined: Vec<PathStep> = Vec::new();
    for step in steps {
        match joined.last_mut() {
            Some(last) if last.cause == step.cause && last.end == step.start => last.end = step.end,
            _ => joined.push(step),
        }
    }
    joined
}

/// Returns the total time of the steps whose cause satisfies `what`.
pub fn sum(steps: &[PathStep], what: impl Fn(Cause) -> bool) -> Span {
    steps.iter().filter(|step| what(step.cause)).map(|step| step.end - step.start).sum()
}
