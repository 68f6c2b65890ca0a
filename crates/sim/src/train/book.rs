//! The accounts of links on which there are trains.
//!
//! Who waited for whom, how long a link was in use, and when it is free: booked when somebody wants to know, up to
//! the present event, in the order in which flits crossed.

use super::Passage;
use super::Trains;
use super::order::Ask;
use super::weave::Lane;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, NodeId, SlotId, TransferId};
use crate::observer::Wait;
use crate::transfer::{Hop, Leg};
use crate::{Span, Time};

impl<M> Trains<M> {
    /// Brings the accounts of a link up to the present event.
    pub(crate) fn book(&mut self, env: &mut impl Environment<M>, id: LinkId) {
        self.book_some(env, id, self.uses[id.index()].trains.len());
    }

    /// Brings the accounts of a link up to the present event, or to the end of the group in which the last of some
    /// trains is.
    fn book_some(&mut self, env: &mut impl Environment<M>, id: LinkId, trains: usize) {
        let mut at = self.uses[id.index()].booked as usize;
        while at < trains {
            let rest = &self.uses[id.index()].trains[at + 1..];
            let others = rest.iter().position(|passage| passage.is_apart).unwrap_or(rest.len());
            let end = at + 1 + others;
            let is_whole = if others == 0 {
                self.book_train(env, id, at)
            } else {
                self.book_group(env, id, at, end)
            };
            if !is_whole {
                break;
            }
            at = end;
        }
        let booked = u32::try_from(at).expect("fewer than 2³² transfers at once");
        self.uses[id.index()].booked = booked;
    }

    /// Books a train that is apart from others: whether that is the whole of it.
    #[inline]
    fn book_train(&mut self, env: &mut impl Environment<M>, id: LinkId, at: usize) -> bool {
        let passage = self.uses[id.index()].trains[at];
        let Passage { slot, flits, hop, .. } = passage;
        let last =
            Ask { slot, row: self.traffic.transfers.at(slot).row(hop), flit: flits as usize - 1 };
        if !self.is_past(env.reached(), passage.last, last) {
            return self.book_group(env, id, at, at + 1);
        }
        self.book_rest(env, id, at, passage);
        true
    }

    /// Books all flits of a train that is apart from others, and whose last flit has asked.
    #[inline]
    fn book_rest(
        &mut self,
        env: &mut impl Environment<M>,
        id: LinkId,
        at: usize,
        passage: Passage,
    ) {
        let Passage { slot, flits, crossed, hop, .. } = passage;
        if crossed == flits {
            return;
        }
        let transfer = self.traffic.transfers.at(slot);
        let asked = match crossed {
            0 => passage.first.at,
            _ => transfer.time(transfer.row(hop), crossed as usize),
        };
        let transfer = transfer.id;
        self.note_wait(env, id, transfer, asked);
        let used = &mut self.uses[id.index()];
        used.trains[at].crossed = flits;
        let link = &mut self.traffic.links[id.index()];
        link.free = used.trains.get(at + 1).map_or(used.free, |next| next.before);
        let used = u64::from(flits - 1 - crossed) * link.flit + passage.span;
        link.busy = link.busy.saturating_add(used);
        link.last = transfer;
    }

    /// Tells who looks on if a flit that asked at a time waits for another train.
    #[inline]
    fn note_wait(
        &mut self,
        env: &mut impl Environment<M>,
        id: LinkId,
        transfer: TransferId,
        asked: u64,
    ) {
        let link = &self.traffic.links[id.index()];
        if link.free > asked && link.last != transfer {
            let span = Span::from_ps(link.free - asked);
            env.waited(transfer, Wait { link: id, behind: link.last, span });
        }
    }

    /// Books trains whose flits come between each other: whether that is the whole of them.
    fn book_group(
        &mut self,
        env: &mut impl Environment<M>,
        id: LinkId,
        at: usize,
        end: usize,
    ) -> bool {
        let first = self.uses[id.index()].trains[at];
        if first.crossed == 0 && first.first.at > env.now().ps() {
            return false;
        }
        self.write_out(first.slot);
        let mut lanes = std::mem::take(&mut self.booked);
        lanes.clear();
        let trains = &self.uses[id.index()].trains[at..end];
        lanes.extend(trains.iter().map(|passage| self.lane(id, passage)));
        let is_whole = loop {
            let Some((first, limit)) = self.first_lane(&lanes) else { break true };
            let lane = &mut lanes[first];
            if !self.is_past(env.reached(), lane.place, lane.ask()) {
                break false;
            }
            self.note_wait(env, id, lane.id, lane.place.at);
            self.book_run(env.reached(), id, lane, limit);
        };
        for (passage, lane) in self.uses[id.index()].trains[at..end].iter_mut().zip(&lanes) {
            passage.crossed = u32::try_from(lane.next).expect("fewer than 2³² flits");
        }
        self.booked = lanes;
        is_whole
    }

    /// Books the flit of a lane that asks next, and those behind it that ask before a limit and before the present.
    fn book_run(&mut self, here: Place, id: LinkId, lane: &mut Lane, limit: Place) {
        let limit = limit.min(here);
        let asks = lane.asks(&self.traffic.transfers.at(lane.slot).train.times);
        let link = &mut self.traffic.links[id.index()];
        link.last = lane.id;
        loop {
            let span = lane.span();
            link.free = link.free.max(lane.place.at) + span;
            link.busy = link.busy.saturating_add(span);
            lane.step(asks);
            if lane.place >= limit {
                link.free = link.free.min(Time::FAR);
                return;
            }
        }
    }

    /// Brings the accounts of all links up to the present.
    pub(crate) fn book_all(&mut self, env: &mut impl Environment<M>) {
        self.unpack(env);
        (0..self.traffic.links.len()).for_each(|link| self.book(env, LinkId::new(link)));
    }

    /// A train whose flits are all at its end leaves its links.
    pub(crate) fn leave_links(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Leg { from, to, .. } = self.traffic.transfers.at(slot).leg;
        let hops = from..to;
        // All links are looked at first, so that their memory is fetched side by side.
        let is_alone = |hop: &&Hop| {
            let trains = &self.uses[hop.link.index()].trains;
            trains[0].slot == slot && trains.len() == 1
        };
        let alone = self.traffic.transfers.at(slot).leg_hops().iter().filter(is_alone).count();
        if alone < hops.len() {
            return hops.for_each(|hop| self.leave(env, slot, hop));
        }
        for hop in hops {
            let link = self.traffic.transfers.at(slot).hops[usize::from(hop)].link;
            let passage = self.uses[link.index()].trains[0];
            self.book_rest(env, link, 0, passage);
            let used = &mut self.uses[link.index()];
            used.trains.clear();
            used.booked = 0;
        }
    }

    /// A train whose flits have all crossed a link leaves it.
    fn leave(&mut self, env: &mut impl Environment<M>, slot: SlotId, hop: u16) {
        let link = self.traffic.transfers.get(slot).hops[usize::from(hop)].link;
        let used = &self.uses[link.index()];
        let place = used.trains.iter().position(|passage| passage.slot == slot);
        let place = place.expect("it was entered there");
        if place == used.booked as usize && used.is_alone(place) {
            self.book_rest(env, link, place, used.trains[place]);
        } else {
            self.book_some(env, link, place + 1);
        }
        let used = &mut self.uses[link.index()];
        used.trains.remove(place);
        if place < used.booked as usize {
            used.booked -= 1;
        } else if let Some(next) = used.trains.get_mut(place)
            && place == used.booked as usize
        {
            next.is_apart = true;
        }
    }

    /// Gives a component that takes flit by flit those that were delivered before a train's end, of this and
    /// of other trains.
    pub(crate) fn hand_over_to(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Some(end) = self.traffic.flit_end(slot) else { return };
        if let [_] = self.ends[end.index()].trains[..] {
            self.hand_over_rest(env, slot);
        }
        while self.traffic.transfers.get(slot).train.handed < self.traffic.transfers.get(slot).flits
        {
            let next = self.next_delivered(end).expect("this train is among them");
            self.hand_over_one(env, next);
        }
        self.ends[end.index()].trains.retain(|&other| other != slot);
    }

    /// Gives the component at the end of a train all its flits that it has not had.
    fn hand_over_rest(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let transfer = self.traffic.transfers.get(slot);
        let times = std::mem::take(&mut transfer.train.times);
        let flits = transfer.flits as usize;
        let row = if transfer.train.is_brief { 1 } else { transfer.last_row() };
        let first = std::mem::replace(&mut transfer.train.handed, transfer.flits);
        self.traffic.deliver_flits(
            env,
            slot,
            first,
            &times[row * flits + first as usize..(row + 1) * flits],
        );
        self.traffic.transfers.get(slot).train.times = times;
    }

    /// The train to an end whose flit is delivered next.
    pub(crate) fn next_delivered(&self, end: NodeId) -> Option<SlotId> {
        let waits = |slot: &SlotId| {
            let transfer = self.traffic.transfers.at(*slot);
            transfer.train.handed < transfer.flits
        };
        let slots = self.ends[end.index()].trains.iter().copied().filter(waits);
        slots.min_by(|&a, &b| {
            let [a, b] = [a, b].map(|slot| self.delivery(slot));
            self.place(a).cmp(&self.place(b)).then_with(|| self.order(a, b))
        })
    }

    /// The flit of a train that is delivered next.
    pub(crate) fn delivery(&self, slot: SlotId) -> Ask {
        let transfer = self.traffic.transfers.at(slot);
        Ask { slot, row: transfer.last_row(), flit: transfer.train.handed as usize }
    }

    pub(crate) fn hand_over_one(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Ask { row, flit, .. } = self.delivery(slot);
        let transfer = self.traffic.transfers.get(slot);
        let (at, first) = (transfer.time(row, flit), transfer.train.handed);
        transfer.train.handed += 1;
        self.traffic.deliver_flits(env, slot, first, &[at]);
    }
}
