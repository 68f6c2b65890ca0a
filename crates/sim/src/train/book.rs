//! Bookkeeping of trains in the state of their links.
//!
//! Waits, busy times and the time from which a link is free are booked lazily, up to the current event, in the order in
//! which flits crossed.

use super::order::Ask;
use super::weave::Lane;
use super::{Passage, Trains};
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, NodeId, SlotId, TransferId};
use crate::observer::Wait;
use crate::traffic::Traffic;
use crate::transfer::Hop;
use crate::{Span, Time};

impl<M> Trains<M> {
    /// Books a link up to the current event.
    pub(super) fn book(&mut self, env: &mut impl Environment<M>, id: LinkId) {
        self.book_some(env, id, self.uses[id.index()].trains.len());
    }

    /// Books a link up to the current event, or to the end of the group that holds the last of `trains`.
    fn book_some(&mut self, env: &mut impl Environment<M>, id: LinkId, trains: usize) {
        let mut at = self.uses[id.index()].booked as usize;
        while at < trains {
            let rest = &self.uses[id.index()].trains[at + 1..];
            let others = rest.iter().position(|passage| passage.is_apart).unwrap_or(rest.len());
            let end = at + 1 + others;
            let is_alone = others == 0 && self.book_train(env, id, at);
            if !is_alone && !self.book_group(env, id, at, end) {
                break;
            }
            at = end;
        }
        let booked = u32::try_from(at).expect("fewer than 2³² transfers at once");
        self.uses[id.index()].booked = booked;
    }

    /// Books a train that does not interleave with others, if its last flit has requested the link.
    #[inline]
    fn book_train(&mut self, env: &mut impl Environment<M>, id: LinkId, at: usize) -> bool {
        let passage = self.uses[id.index()].trains[at];
        let Passage { slot, flits, hop, .. } = passage;
        let last = Ask { slot, row: self.traffic[slot].row(hop), flit: flits as usize - 1 };
        let is_whole = self.is_past(env.reached(), passage.last, last);
        if is_whole {
            self.book_rest(env, id, at);
        }
        is_whole
    }

    /// Books all flits of a train that does not interleave with others and whose last flit has requested the link.
    #[inline]
    fn book_rest(&mut self, env: &mut impl Environment<M>, id: LinkId, at: usize) {
        let passage = self.uses[id.index()].trains[at];
        let Passage { slot, flits, crossed, hop, .. } = passage;
        if crossed == flits {
            return;
        }
        let transfer = &self.traffic[slot];
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

    /// Reports a wait if a flit that requested the link at `asked` waits for another transfer.
    #[inline]
    pub(super) fn note_wait(
        &self,
        env: &mut impl Environment<M>,
        id: LinkId,
        transfer: TransferId,
        asked: u64,
    ) {
        let link = &self.traffic[id];
        if link.free > asked && link.last != transfer {
            let span = Span::from_ps(link.free - asked);
            env.waited(transfer, Wait { link: id, behind: link.last, span });
        }
    }

    /// Books trains whose flits interleave. Returns whether all their flits have requested the link.
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
            self.book_run(id, lane, limit.min(env.reached()));
        };
        for (passage, lane) in self.uses[id.index()].trains[at..end].iter_mut().zip(&lanes) {
            passage.crossed = u32::try_from(lane.next).expect("fewer than 2³² flits");
        }
        self.booked = lanes;
        is_whole
    }

    /// Books the next flit of a lane, and the following flits that request the link before a limit.
    fn book_run(&mut self, id: LinkId, lane: &mut Lane, limit: Place) {
        let Traffic { links, transfers, .. } = &mut self.traffic;
        let asks = lane.asks(&transfers[lane.slot].train.times);
        let link = &mut links[id.index()];
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

    /// Books all links up to the current event.
    pub(crate) fn book_all(&mut self, env: &mut impl Environment<M>) {
        self.unpack(env);
        self.scatter_brief_trains(env);
        (0..self.traffic.links.len()).for_each(|link| self.book(env, LinkId::new(link)));
    }

    /// Removes a train that has arrived from its links.
    pub(super) fn leave_links(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let leg = self.traffic[slot].leg;
        // All links are read first, so that their memory is fetched in parallel.
        let is_shared = |hop: &&Hop| {
            let trains = &self.uses[hop.link.index()].trains;
            trains[0].slot != slot || trains.len() > 1
        };
        let shared = self.traffic[slot].leg_hops().iter().filter(is_shared).count();
        for hop in leg.from..leg.to {
            let link = self.traffic[slot].hops[usize::from(hop)].link;
            if shared > 0 {
                self.leave(env, slot, link);
            } else {
                self.book_rest(env, link, 0);
                self.uses[link.index()].clear();
            }
        }
    }

    /// Removes a train from a link that all its flits have crossed.
    fn leave(&mut self, env: &mut impl Environment<M>, slot: SlotId, link: LinkId) {
        let used = &self.uses[link.index()];
        let place = used.trains.iter().position(|passage| passage.slot == slot);
        let place = place.expect("it was entered there");
        if place == used.booked as usize && used.is_alone(place) {
            self.book_rest(env, link, place);
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
            (next.is_apart, next.before) = (true, self.traffic.links[link.index()].free);
        }
    }

    /// Delivers single flits that arrived before the end of a train, of this train and of others.
    pub(super) fn hand_over_to(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Some(end) = self.traffic.flit_end(slot) else { return };
        if let [_] = self.ends[end.index()].trains[..] {
            self.hand_over_rest(env, slot);
        }
        while self.traffic[slot].train.handed < self.traffic[slot].flits {
            let next = self.next_delivered(end).expect("this train is among them");
            self.hand_over_one(env, next);
        }
        self.ends[end.index()].trains.retain(|&other| other != slot);
    }

    fn hand_over_rest(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let transfer = &self.traffic[slot];
        let (all, flits, first) = (transfer.flits, transfer.flits as usize, transfer.train.handed);
        let row = if transfer.train.is_brief { 1 } else { transfer.last_row() };
        let times = &transfer.train.times[row * flits + first as usize..(row + 1) * flits];
        self.traffic.deliver_flits(env, slot, first, times);
        self.traffic[slot].train.handed = all;
    }

    /// Returns the train to a node whose flit is delivered next.
    pub(super) fn next_delivered(&self, end: NodeId) -> Option<SlotId> {
        let has_flits = |&slot: &SlotId| self.traffic[slot].train.handed < self.traffic[slot].flits;
        let slots = self.ends[end.index()].trains.iter().copied().filter(has_flits);
        slots.min_by(|&a, &b| self.full_order(self.delivery(a), self.delivery(b)))
    }

    /// Returns the arrival of a train's next flit to be delivered.
    pub(super) fn delivery(&self, slot: SlotId) -> Ask {
        let transfer = &self.traffic[slot];
        Ask { slot, row: transfer.last_row(), flit: transfer.train.handed as usize }
    }

    pub(super) fn hand_over_one(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Ask { row, flit, .. } = self.delivery(slot);
        let transfer = &mut self.traffic[slot];
        let (at, first) = (transfer.time(row, flit), transfer.train.handed);
        transfer.train.handed += 1;
        self.traffic.deliver_flits(env, slot, first, &[at]);
    }
}
