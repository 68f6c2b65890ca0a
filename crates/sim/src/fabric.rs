//! How flits cross links: the hot path.
//!
//! A link is a reservation: the time from which it is free. A flit that asks is given the link at once,
//! for a time that may lie ahead, and the next event of this flit is when it asks for the next link: one
//! event for each flit and hop, and no queues. The node between has said by then when the flit may
//! leave: its overhead after the first flit of the transfer came.

use crate::component::Component;
use crate::engine::{Engine, Event};
use crate::id::TransferId;
use crate::observer::{Crossing, Observer, Wait};
use crate::queue::EventQueue;
use crate::transfer::{Asks, Hop, Leg, LegEnd, Send, SlotId};
use crate::{Span, Time};

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Begins a transfer.
    ///
    /// # Panics
    /// If it has more than 2³² flits or hops beyond 2¹⁶, or asks before the present.
    pub(crate) fn send(&mut self, id: TransferId, send: Send<C::Message>) {
        let Send { route, bytes, asks, message } = send;
        self.observer.began(id, self.now, &route, bytes, &message);
        let flits = u32::try_from(self.network.flits(bytes)).expect("fewer than 2³² flits");
        let slot = self.transfers.insert(id, &route, bytes, flits, self.now, message);
        self.start_leg(slot, 0, asks);
    }

    /// The whole transfer is at a node that stores and forwards: on it goes.
    pub(crate) fn next_leg(&mut self, slot: SlotId) {
        let from = self.transfers.get(slot).leg.to;
        let last = self.transfers.get(slot).hops[usize::from(from) - 1].link;
        // At least 1 ps, so that it is among those that begin in its instant.
        let overhead = self.links[last.index()].overhead.max(1);
        self.start_leg(slot, from, Asks::At(self.now + Span::from_ps(overhead)));
    }

    /// Starts a leg from hop `from`: as a train, if it can be one.
    fn start_leg(&mut self, slot: SlotId, from: u16, asks: Asks) {
        let leg = self.leg_from(slot, from);
        let transfer = self.transfers.get(slot);
        transfer.leg = leg;
        transfer.arrived = 0;
        if self.merges() && self.set_out(slot, &asks) {
            return;
        }
        self.take_leg(slot);
        self.walk_leg(slot, asks);
    }

    fn leg_from(&mut self, slot: SlotId, from: u16) -> Leg {
        let hops = &self.transfers.get(slot).hops;
        let mut to = usize::from(from);
        loop {
            let link = &self.links[hops[to].link.index()];
            to += 1;
            let end = if to == hops.len() {
                let flits = self.wants_flits[link.to.index()];
                if flits { LegEnd::Flits } else { LegEnd::Whole }
            } else if link.stores {
                LegEnd::Store
            } else {
                continue;
            };
            let to = u16::try_from(to).expect("a route has fewer than 2¹⁶ hops");
            return Leg { from, to, end };
        }
    }

    /// The rank of flits that begin where the leg begins.
    pub(crate) fn start_rank(&mut self, slot: SlotId) -> u32 {
        let first = self.transfers.get(slot).leg_hops()[0].link;
        self.flit_ranks + self.links[first.index()].start_rank
    }

    /// Lets each flit ask by itself.
    fn walk_leg(&mut self, slot: SlotId, asks: Asks) {
        let rank = self.start_rank(slot);
        let queues = self.buffers.is_some();
        let transfer = self.transfers.get(slot);
        match asks {
            Asks::At(time) => {
                assert!(time >= self.now, "a transfer asks before the present");
                self.queue.push(time, rank, Event::Begin { transfer: slot });
            }
            Asks::Each(times) => {
                let hop = transfer.leg.from;
                for (flit, time) in (0..transfer.flits).zip(times) {
                    assert!(time >= self.now, "a flit asks before the present");
                    self.queue.push(time, rank, on_foot(queues, slot, flit, hop));
                }
            }
        }
    }

    /// All flits ask for the first link at once, or stand in the queue before it.
    pub(crate) fn begin(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let (flits, hop) = (transfer.flits, transfer.leg.from);
        if self.buffers.is_some() {
            (0..flits).for_each(|flit| self.stand(slot, flit, hop));
        } else {
            (0..flits).for_each(|flit| self.ask(slot, flit, hop));
        }
    }

    /// A flit asks for a link and is given it.
    #[inline]
    pub(crate) fn ask(&mut self, slot: SlotId, flit: u32, hop: u16) {
        self.cross::<false>(slot, flit, hop, self.now);
    }

    /// A flit that asked at `asked` crosses a link as soon as that is free, which with `QUEUES` it is.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the hot path has one caller and must stay one function"
    )]
    pub(crate) fn cross<const QUEUES: bool>(
        &mut self,
        slot: SlotId,
        flit: u32,
        hop: u16,
        asked: Time,
    ) {
        let transfer = self.transfers.get(slot);
        let at = &mut transfer.hops[usize::from(hop)];
        let link = &mut self.links[at.link.index()];
        let span = if flit + 1 == transfer.flits {
            let bytes = transfer.bytes - u64::from(flit) * self.network.flit_bytes();
            link.span(bytes, &self.network)
        } else {
            link.flit
        };
        // No later than that, so that the few spans which are added below do not wrap.
        let start = self.now.ps().max(link.free).min(Time::FAR);
        if start > asked.ps() && link.last != transfer.id && (!QUEUES || link.is_used()) {
            let span = Span::from_ps(start - asked.ps());
            self.observer.waited(transfer.id, Wait { link: at.link, behind: link.last, span });
        }
        let end = start + span;
        link.free = end;
        link.busy = link.busy.saturating_add(span);
        link.last = transfer.id;
        self.flit_hops += 1;
        let arrived = link.arrival(start, end);
        if O::FLITS {
            self.observer.crossed(Crossing {
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
            let known = Time::from_ps(arrived + link.news());
            self.queue.push(known, self.flit_ranks, Event::Credit { link: at.link });
        }
        if hop + 1 == transfer.leg.to && transfer.leg.end == LegEnd::Store {
            transfer.arrived += 1;
            if transfer.arrived == transfer.flits {
                let event = Event::LegDone { transfer: slot };
                self.queue.push(Time::from_ps(arrived), rank, event);
            }
            return;
        }
        if at.header == Hop::OPEN {
            at.header = arrived + link.overhead;
        }
        let leaves = Time::from_ps(arrived.max(at.header));
        if hop + 1 < transfer.leg.to {
            self.queue.push(leaves, rank, on_foot(QUEUES, slot, flit, hop + 1));
        } else if transfer.leg.end == LegEnd::Flits {
            self.queue.push(leaves, rank, Event::Flit { transfer: slot, flit });
        } else {
            transfer.arrived += 1;
            if transfer.arrived == transfer.flits {
                self.queue.push(leaves, rank, Event::LegDone { transfer: slot });
            }
        }
    }
}

/// A flit goes for a link by itself.
#[inline]
fn on_foot(queues: bool, transfer: SlotId, flit: u32, hop: u16) -> Event {
    if queues { Event::Stand { transfer, flit, hop } } else { Event::Ask { transfer, flit, hop } }
}
