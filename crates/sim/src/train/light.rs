//! Trains of one flit that hold up nobody: commands and acknowledgements.
//!
//! Such a train needs no place in the lists of its links. Its links are given to it ahead of time, in their
//! accounts, and all that a link keeps of it is how many there are and where the last one asks. When something
//! comes that may change what they do, all of them are *unpacked*: the links are taken back, and each becomes a
//! train like others, as if it had always been one. On no link are there both.

use super::Trains;
use std::ops::Range;

use super::order::Ask;
use super::{LinkUse, Passage};
use crate::environment::Environment;
use crate::event::Place;
use crate::id::SlotId;
use crate::link::{LinkState, Paces};
use crate::observer::Wait;
use crate::transfer::{Asks, Hop, LegEnd, Train, Transfer};
use crate::{Span, Time};

/// What a light train needs to be given its links.
struct Way<'a> {
    /// The rank of its flit when it asks for the first link.
    rank: u32,
    flit_ranks: u32,
    uses: &'a mut [LinkUse],
    links: &'a mut [LinkState],
}

impl Way<'_> {
    /// Gives links to a flit, or says how many it was given until it would have come before another one.
    #[inline]
    fn give<M>(self, transfer: &mut Transfer<M>, mut paces: Paces<'_>) -> Result<(), usize> {
        let Self { mut rank, flit_ranks, uses, links } = self;
        let (id, leg, begun) = (transfer.id, transfer.leg, transfer.train.begun);
        let hops = &mut transfer.hops[usize::from(leg.from)..usize::from(leg.to)];
        let Train { times, light, behind, .. } = &mut transfer.train;
        let known = if behind.is_empty() { begun } else { Place::NONE };
        light.waits.clear();
        if light.users.len() < hops.len() {
            light.users.resize(hops.len(), id);
        }
        let (mut at, mut overhead) = (times[0], 0);
        let rows = hops.iter_mut().zip(&mut light.users).zip(&mut times[..]);
        for (row, ((hop, user), time)) in rows.enumerate() {
            at = (at + overhead).min(Time::FAR);
            *time = at;
            let used = &mut uses[hop.link.index()];
            let place = Place { at, rank }.max(begun);
            // Of those that come by one link, or begin at one event, this one is the last.
            let is_first =
                place < used.last || place == used.last && place == begun && used.begun != begun;
            if used.light > 0 && is_first {
                return Err(row);
            }
            let link = &mut links[hop.link.index()];
            if link.free > at && link.last != id {
                let span = Span::from_ps(link.free - at);
                light.waits.push(Wait { link: hop.link, behind: link.last, span });
            }
            let span = paces.span(link);
            (hop.header, *user) = (link.free, link.last);
            let start = link.free.max(at);
            (link.free, link.last) = ((start + span).min(Time::FAR), id);
            // It may be taken back, and is wrong only until then.
            link.busy = link.busy.wrapping_add(span);
            (used.last, used.begun) = (place, known);
            used.light += 1;
            at = link.arrival(start, start + span);
            overhead = link.overhead;
            rank = flit_ranks + link.rank(hop.link);
        }
        let charged = if leg.end == LegEnd::Store { 0 } else { overhead };
        times[hops.len()] = (at + charged).min(Time::FAR);
        Ok(())
    }
}

impl<M> Trains<M> {
    /// Lets a leg of one flit set out, if it meets only light trains, and comes after them.
    pub(crate) fn travel_light(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        asks: &Asks,
    ) -> bool {
        let at = match asks {
            Asks::At(time) => *time,
            Asks::Each(times) => times[0],
        };
        let transfer = self.traffic.transfers.get(slot);
        let rows = transfer.last_row() + 1;
        if transfer.train.times.len() < rows {
            transfer.train.times.resize(rows, 0);
        }
        transfer.train.times[0] = at.ps().min(Time::FAR);
        self.begin_train(env.reached(), slot, false);
        if let Err(given) = self.give_links(slot) {
            self.refuse(slot, given);
            return false;
        }
        self.enter_end(slot);
        self.put_down(env, slot);
        true
    }

    /// Gives a light train its links, or says how many it was given until it met others.
    fn give_links(&mut self, slot: SlotId) -> Result<(), usize> {
        let (network, transfer) = (&self.traffic.network, self.traffic.transfers.get(slot));
        let first = transfer.leg_hops()[0].link.index();
        let rank = self.traffic.flit_ranks + self.traffic.links[first].start_rank;
        let (uses, links) = (&mut self.uses[..], &mut self.traffic.links[..]);
        let way = Way { rank, flit_ranks: self.traffic.flit_ranks, uses, links };
        let paces = transfer.paces(network);
        way.give(transfer, paces)
    }

    #[cold]
    fn refuse(&mut self, slot: SlotId, given: usize) {
        self.take_links(slot, 0..given);
        let transfer = self.traffic.transfers.get(slot);
        transfer.train.is_on = false;
        transfer.hops.iter_mut().for_each(|hop| hop.header = Hop::OPEN);
    }

    /// Puts a light train on the list of all.
    fn put_down(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let place = u32::try_from(self.light.len()).expect("fewer than 2³² transfers at once");
        self.light.push(slot);
        let light = &mut self.traffic.transfers.get(slot).train.light;
        (light.is_on, light.place) = (true, place);
        self.expect_end(env, slot);
    }

    /// Takes the links of some rows back that were given to a train last.
    fn take_links(&mut self, slot: SlotId, rows: Range<usize>) {
        let transfer = self.traffic.transfers.get(slot);
        let hops = &transfer.leg_hops()[rows.clone()];
        for (hop, user) in hops.iter().zip(&transfer.train.light.users[rows]).rev() {
            let link = &mut self.traffic.links[hop.link.index()];
            let span = link.span(transfer.bytes, &self.traffic.network);
            link.busy = link.busy.wrapping_sub(span);
            (link.free, link.last) = (hop.header, *user);
            self.uses[hop.link.index()].light -= 1;
        }
    }

    /// A light train leaves its links.
    pub(crate) fn leave_light(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let transfer = self.traffic.transfers.get(slot);
        for hop in transfer.leg_hops() {
            self.uses[hop.link.index()].light -= 1;
        }
        transfer.train.light.is_on = false;
        let (place, rows) = (transfer.train.light.place, transfer.last_row());
        self.tell_waits(env, slot, rows);
        self.light.swap_remove(place as usize);
        if let Some(&moved) = self.light.get(place as usize) {
            self.traffic.transfers.get(moved).train.light.place = place;
        }
    }

    /// Makes all light trains like others: all at once, so that each is unpacked only once however they meet.
    pub(crate) fn unpack(&mut self, env: &mut impl Environment<M>) {
        let mut slots = std::mem::take(&mut self.light);
        slots.sort_unstable_by_key(|&slot| self.traffic.transfers.get(slot).train.number);
        for &slot in slots.iter().rev() {
            let asked = self.rows_asked(env.reached(), slot);
            self.traffic.transfers.get(slot).train.light.asked = asked;
            self.take_links(slot, asked..self.traffic.transfers.at(slot).last_row());
        }
        slots.drain(..).for_each(|slot| self.enter_unpacked(env, slot));
        self.light = slots;
    }

    /// For how many of its links a light train has asked.
    fn rows_asked(&self, here: Place, slot: SlotId) -> usize {
        let asked = |&row: &usize| {
            let ask = Ask { slot, row, flit: 0 };
            self.is_past(here, self.place(ask), ask)
        };
        (0..self.traffic.transfers.at(slot).last_row()).take_while(asked).count()
    }

    /// Enters a train at its links where it was light.
    fn enter_unpacked(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let leg = self.traffic.transfers.get(slot).leg;
        let asked = self.traffic.transfers.get(slot).train.light.asked;
        for (row, hop) in (leg.from..leg.to).enumerate() {
            let rank = self.traffic.rank_at(slot, hop);
            let transfer = self.traffic.transfers.get(slot);
            let id = transfer.hops[usize::from(hop)].link;
            let span = self.traffic.links[id.index()].span(transfer.bytes, &self.traffic.network);
            let passage = transfer.passage(hop, rank, span);
            let at = &mut transfer.hops[usize::from(hop)];
            let before = std::mem::replace(&mut at.header, Hop::OPEN);
            let used = &mut self.uses[at.link.index()];
            let free = before.max(transfer.train.times[row]) + passage.span;
            used.free = free.min(Time::FAR);
            used.last = passage.last;
            let crossed = u32::from(row < asked);
            used.light -= crossed;
            used.trains.push(Passage { crossed, before, ..passage });
        }
        self.tell_waits(env, slot, asked);
        let train = &mut self.traffic.transfers.get(slot).train;
        (train.light.is_on, train.entered) = (false, leg.to);
    }

    /// Tells of the times that a light train has waited for its first links.
    fn tell_waits(&mut self, env: &mut impl Environment<M>, slot: SlotId, rows: usize) {
        let Transfer { id, leg, hops, train, .. } = self.traffic.transfers.get(slot);
        let hops = &hops[usize::from(leg.from)..][..rows];
        for wait in train.light.waits.drain(..) {
            if hops.iter().any(|hop| hop.link == wait.link) {
                env.waited(*id, wait);
            }
        }
    }
}
