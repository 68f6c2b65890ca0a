//! Transfers in flight and the links that they cross.
//!
//! A link is a reservation: the time from which it is free. A flit that requests a link is granted it at once, for a
//! time that may lie in the future. The flit's next event is its request for the next link: one event per flit and hop,
//! and no queue. A node delays all flits of a transfer until its overhead has passed since the first flit arrived. A
//! serial node is also a reservation, in the order of arrival: flits have one more event when they reach it.

use std::ops::{Index, IndexMut};

use crate::environment::Environment;
use crate::event::FabricEvent;
use crate::id::{LinkId, NodeId, SlotId};
use crate::link::LinkState;
use crate::network::Network;
use crate::observer::{Crossing, Wait};
use crate::transfer::{Asks, Delivery, Flit, Hop, LegEnd, Transfer, Transfers};
use crate::{Span, Time};

/// Links with their state, and the transfers on them.
#[derive(Debug)]
pub(crate) struct Traffic<M> {
    pub(crate) network: Network,
    pub(crate) links: Vec<LinkState>,
    pub(crate) transfers: Transfers<M>,
    /// Time from which each serial node is free, in picoseconds.
    free_nodes: Vec<u64>,
    /// Rank of the first flit in an instant; components come earlier.
    pub(crate) flit_ranks: u32,
    /// Total number of link crossings by flits.
    pub(crate) flit_hops: u64,
}

impl<M> Traffic<M> {
    pub(crate) fn new(network: Network, flit_ranks: u32) -> Self {
        let links = LinkState::all(&network);
        let free_nodes = vec![0; network.nodes().len()];
        let transfers = Transfers::new();
        Self { network, links, transfers, free_nodes, flit_ranks, flit_hops: 0 }
    }

    /// Returns the rank of flits when they request the link of a hop: by the link over which they arrived, or as flits
    /// that start at the node.
    #[inline]
    pub(crate) fn rank_at(&self, slot: SlotId, hop: u16) -> u32 {
        let transfer = &self.transfers[slot];
        let rank = if hop == transfer.leg.from {
            self.links[transfer.hops[usize::from(hop)].link.index()].start_rank
        } else {
            let before = transfer.hops[usize::from(hop) - 1].link;
            self.links[before.index()].rank(before)
        };
        self.flit_ranks + rank
    }

    /// Schedules an event for each flit of a leg, or a single one for all flits with the same request time.
    pub(crate) fn walk(
        &self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        asks: &Asks,
        queues: bool,
    ) {
        let transfer = &self.transfers[slot];
        let (flits, hop) = (transfer.flits, transfer.leg.from);
        let rank = self.rank_at(slot, hop);
        match asks {
            Asks::At(time) => {
                assert!(*time >= env.now(), "a transfer asks before the present");
                env.schedule(*time, rank, FabricEvent::Begin { slot });
            }
            Asks::Each(times) => {
                for (flit, &time) in (0..flits).zip(times) {
                    assert!(time >= env.now(), "a flit asks before the present");
                    env.schedule(time, rank, on_foot(queues, slot, flit, hop));
                }
            }
        }
    }

    /// Moves a flit that requested a link at `asked` over the link as soon as the link is free. With `QUEUES` it is
    /// always free.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the hot path has one caller and must stay one function"
    )]
    pub(crate) fn cross<const QUEUES: bool, E: Environment<M>>(
        &mut self,
        env: &mut E,
        slot: SlotId,
        flit: u32,
        hop: u16,
        asked: Time,
    ) {
        let transfer = &mut self.transfers[slot];
        let at = &mut transfer.hops[usize::from(hop)];
        let link = &mut self.links[at.link.index()];
        let span = if flit + 1 == transfer.flits {
            let bytes = transfer.bytes - u64::from(flit) * self.network.flit_bytes();
            link.span(bytes, &self.network)
        } else {
            link.flit
        };
        // Clamped, so that the few spans added below do not wrap around.
        let start = env.now().ps().max(link.free).min(Time::FAR);
        if start > asked.ps() && link.last != transfer.id && (!QUEUES || link.is_used()) {
            let span = Span::from_ps(start - asked.ps());
            env.waited(transfer.id, Wait { link: at.link, behind: link.last, span });
        }
        let end = start + span;
        link.free = end;
        link.busy = link.busy.saturating_add(span);
        link.last = transfer.id;
        self.flit_hops += 1;
        let arrived = link.arrival(start, end);
        if E::REPORTS_FLITS {
            env.crossed(Crossing {
                transfer: transfer.id,
                flit: u64::from(flit),
                link: at.link,
                hop: usize::from(hop),
                asked,
                start: Time::from_ps(start),
                end: Time::from_ps(end),
                arrived: Time::from_ps(arrived),
            });
        }
        let rank = self.flit_ranks + link.rank(at.link);
        if QUEUES && hop + 1 == transfer.leg.to {
            let known = Time::from_ps(arrived + link.credit_latency());
            env.schedule(known, self.flit_ranks, FabricEvent::Credit { link: at.link });
        }
        if hop + 1 == transfer.leg.to && transfer.leg.end == LegEnd::Store {
            transfer.arrived += 1;
            if transfer.arrived == transfer.flits {
                env.schedule(Time::from_ps(arrived), rank, FabricEvent::LegDone { slot });
            }
            return;
        }
        if link.is_serial {
            let reached = FabricEvent::Reach { slot, flit, hop };
            return env.schedule(Time::from_ps(arrived), rank, reached);
        }
        if at.header == Hop::OPEN {
            at.header = arrived + link.overhead;
        }
        let leaves = Time::from_ps(arrived.max(at.header));
        go_on::<QUEUES, M>(env, transfer, slot, flit, hop, leaves, rank);
    }

    /// Makes a flit reach a serial node. For the first flit of a transfer, the node processes the transfer's overhead,
    /// after the overheads of earlier transfers.
    pub(crate) fn reach<const QUEUES: bool>(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        flit: u32,
        hop: u16,
    ) {
        let (now, transfer) = (env.now().ps(), &mut self.transfers[slot]);
        let at = &mut transfer.hops[usize::from(hop)];
        let link = &self.links[at.link.index()];
        if at.header == Hop::OPEN {
            at.header = occupy(&mut self.free_nodes, link, now);
        }
        let (leaves, rank) = (now.max(at.header), self.flit_ranks + link.rank(at.link));
        go_on::<QUEUES, M>(env, transfer, slot, flit, hop, Time::from_ps(leaves), rank);
    }

    /// Charges the overhead of a link's downstream node for a stored transfer, at least 1 ps, and returns its end.
    pub(crate) fn charge_stored(&mut self, link: LinkId, now: Time) -> Time {
        let link = &self.links[link.index()];
        if link.is_serial {
            return Time::from_ps(occupy(&mut self.free_nodes, link, now.ps()));
        }
        // At least 1 ps, so that the transfer is among those that begin in its instant.
        now + Span::from_ps(link.overhead.max(1))
    }

    /// Delivers a flit to a component that receives single flits. Returns whether it was the last one.
    pub(crate) fn arrive(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        flit: u32,
    ) -> bool {
        let now = env.now().ps();
        self.deliver_flits(env, slot, flit, &[now]);
        let transfer = &mut self.transfers[slot];
        transfer.arrived += 1;
        transfer.arrived == transfer.flits
    }

    /// Delivers flits, starting at index `first`, that arrived at `times` to the component at the end of their route.
    pub(crate) fn deliver_flits(
        &self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        first: u32,
        times: &[u64],
    ) {
        let transfer = &self.transfers[slot];
        let message = transfer.message.as_ref().expect("it is under way");
        let flits = (first..transfer.flits).zip(times).map(|(index, &at)| Flit {
            index: u64::from(index),
            bytes: transfer.flit_bytes(index, self.network.flit_bytes()),
            at: Time::from_ps(at),
        });
        env.deliver_flits(self.destination(slot), flits, message);
    }

    /// Removes a transfer that has arrived at its destination.
    pub(crate) fn deliver(&mut self, slot: SlotId) -> (NodeId, Delivery<M>) {
        let node = self.destination(slot);
        let transfer = &mut self.transfers[slot];
        let delivery = Delivery {
            transfer: transfer.id,
            bytes: transfer.bytes,
            begun: transfer.begun,
            message: transfer.message.take().expect("it is under way"),
        };
        self.transfers.remove(slot);
        (node, delivery)
    }

    /// Returns the node at the end of a leg, if its component receives single flits.
    pub(crate) fn flit_end(&self, slot: SlotId) -> Option<NodeId> {
        let takes_flits = self.transfers[slot].leg.end == LegEnd::Flits;
        takes_flits.then(|| self.destination(slot))
    }

    fn destination(&self, slot: SlotId) -> NodeId {
        self.links[self.transfers[slot].last_link().index()].to
    }
}

impl<M> Index<SlotId> for Traffic<M> {
    type Output = Transfer<M>;
    #[inline]
    fn index(&self, slot: SlotId) -> &Transfer<M> {
        &self.transfers[slot]
    }
}

impl<M> IndexMut<SlotId> for Traffic<M> {
    #[inline]
    fn index_mut(&mut self, slot: SlotId) -> &mut Transfer<M> {
        &mut self.transfers[slot]
    }
}

impl<M> Index<LinkId> for Traffic<M> {
    type Output = LinkState;
    #[inline]
    fn index(&self, link: LinkId) -> &LinkState {
        &self.links[link.index()]
    }
}

/// Makes the serial node after a link process an overhead. Returns the time at which it is done.
fn occupy(free: &mut [u64], link: &LinkState, now: u64) -> u64 {
    let free = &mut free[link.to.index()];
    *free = (now.max(*free) + link.overhead).min(Time::FAR);
    *free
}

/// Makes a flit that has arrived after a hop leave: to the next link, or to its destination.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a part of the hot path, which must stay one function")]
fn go_on<const QUEUES: bool, M>(
    env: &mut impl Environment<M>,
    transfer: &mut Transfer<M>,
    slot: SlotId,
    flit: u32,
    hop: u16,
    leaves: Time,
    rank: u32,
) {
    if hop + 1 < transfer.leg.to {
        env.schedule(leaves, rank, on_foot(QUEUES, slot, flit, hop + 1));
    } else if transfer.leg.end == LegEnd::Flits {
        env.schedule(leaves, rank, FabricEvent::Flit { slot, flit });
    } else {
        transfer.arrived += 1;
        if transfer.arrived == transfer.flits {
            env.schedule(leaves, rank, FabricEvent::LegDone { slot });
        }
    }
}

/// Returns the event at which a flit requests a link, or joins the queue before it.
#[inline]
fn on_foot(queues: bool, slot: SlotId, flit: u32, hop: u16) -> FabricEvent {
    if queues {
        FabricEvent::Stand { slot, flit, hop }
    } else {
        FabricEvent::Ask { slot, flit, hop }
    }
}
