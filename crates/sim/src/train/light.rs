//! Light trains: trains of one flit that delay no other transfer, such as commands and acknowledgements.
//!
//! A light train is in no list of its links. It is booked in the state of its links ahead of time, and a link stores
//! only the number of light trains and the position of the last one. When a transfer arrives that may change them, all
//! of them are *unpacked*: their bookings are undone, and each becomes an ordinary train, as if it had always been one.
//! A link never has both kinds.

use std::ops::Range;

use super::{Passage, Trains};
use crate::environment::Environment;
use crate::event::Place;
use crate::id::SlotId;
use crate::observer::Wait;
use crate::traffic::Traffic;
use crate::transfer::{Asks, Hop, LegEnd, Train, Transfer};
use crate::{Span, Time};

impl<M> Trains<M> {
    /// Starts a leg of one flit as a light train. Fails if it does not come after all light trains on its links.
    pub(super) fn travel_light(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        asks: &Asks,
    ) -> bool {
        let at = match asks {
            Asks::At(time) => *time,
            Asks::Each(times) => times[0],
        };
        let transfer = &mut self.traffic[slot];
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
        let place = u32::try_from(self.light.len()).expect("fewer than 2³² transfers at once");
        self.light.push(slot);
        let light = &mut self.traffic[slot].train.light;
        (light.is_on, light.place) = (true, place);
        self.expect_end(env, slot);
        true
    }

    /// Books a light train on its links. Fails at the first link where it comes before another train, with the number
    /// of links booked so far.
    #[inline]
    fn give_links(&mut self, slot: SlotId) -> Result<(), usize> {
        let Traffic { network, links, transfers, flit_ranks, .. } = &mut self.traffic;
        let transfer = &mut transfers[slot];
        let mut paces = transfer.paces(network);
        let (id, leg, begun) = (transfer.id, transfer.leg, transfer.train.begun);
        let hops = &mut transfer.hops[usize::from(leg.from)..usize::from(leg.to)];
        let Train { times, light, behind, .. } = &mut transfer.train;
        let known = if behind.is_empty() { begun } else { Place::NONE };
        light.waits.clear();
        if light.users.len() < hops.len() {
            light.users.resize(hops.len(), id);
        }
        let mut rank = *flit_ranks + links[hops[0].link.index()].start_rank;
        let (mut at, mut overhead) = (times[0], 0);
        let rows = hops.iter_mut().zip(&mut light.users).zip(&mut times[..]);
        for (row, ((hop, user), time)) in rows.enumerate() {
            at = (at + overhead).min(Time::FAR);
            *time = at;
            let used = &mut self.uses[hop.link.index()];
            let place = Place { at, rank }.max(begun);
            // Among trains that arrive over one link, or begin at one event, this one is the last.
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
            // The value may be undone, and is wrong only until then.
            link.busy = link.busy.wrapping_add(span);
            (used.last, used.begun) = (place, known);
            used.light += 1;
            at = link.arrival(start, start + span);
            overhead = link.overhead;
            rank = *flit_ranks + link.rank(hop.link);
        }
        let charged = if leg.end == LegEnd::Store { 0 } else { overhead };
        times[hops.len()] = (at + charged).min(Time::FAR);
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, slot: SlotId, given: usize) {
        self.take_links(slot, 0..given);
        let transfer = &mut self.traffic[slot];
        transfer.train.is_on = false;
        transfer.hops.iter_mut().for_each(|hop| hop.header = Hop::OPEN);
    }

    /// Undoes the bookings of some rows; the train is the last user of these links.
    fn take_links(&mut self, slot: SlotId, rows: Range<usize>) {
        let Traffic { network, links, transfers, .. } = &mut self.traffic;
        let transfer = &transfers[slot];
        let hops = &transfer.leg_hops()[rows.clone()];
        for (hop, user) in hops.iter().zip(&transfer.train.light.users[rows]).rev() {
            let link = &mut links[hop.link.index()];
            let span = link.span(transfer.bytes, network);
            link.busy = link.busy.wrapping_sub(span);
            (link.free, link.last) = (hop.header, *user);
            self.uses[hop.link.index()].light -= 1;
        }
    }

    /// Removes a light train that has arrived from its links.
    pub(super) fn leave_light(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let transfer = &mut self.traffic[slot];
        transfer.train.light.is_on = false;
        for hop in transfer.leg_hops() {
            self.uses[hop.link.index()].light -= 1;
        }
        let (place, rows) = (transfer.train.light.place, transfer.last_row());
        self.report_waits(env, slot, rows);
        self.light.swap_remove(place as usize);
        if let Some(&moved) = self.light.get(place as usize) {
            self.traffic[moved].train.light.place = place;
        }
    }

    /// Turns all light trains into ordinary ones: all at once, so that each is unpacked only once, however they meet.
    pub(super) fn unpack(&mut self, env: &mut impl Environment<M>) {
        let mut slots = std::mem::take(&mut self.light);
        slots.sort_unstable_by_key(|&slot| self.traffic[slot].train.number);
        for &slot in slots.iter().rev() {
            let asked = self.rows_asked(env.reached(), slot, 0);
            self.traffic[slot].train.light.asked = asked;
            self.take_links(slot, asked..self.traffic[slot].last_row());
        }
        slots.drain(..).for_each(|slot| self.enter_unpacked(env, slot));
        self.light = slots;
    }

    /// Enters an unpacked train on its links.
    fn enter_unpacked(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let leg = self.traffic[slot].leg;
        let asked = self.traffic[slot].train.light.asked;
        for (row, hop) in (leg.from..leg.to).enumerate() {
            let rank = self.traffic.rank_at(slot, hop);
            let transfer = &self.traffic[slot];
            let link = transfer.hops[usize::from(hop)].link;
            let span = self.traffic[link].span(transfer.bytes, &self.traffic.network);
            let passage = transfer.passage(hop, rank, span);
            let transfer = &mut self.traffic[slot];
            let header = &mut transfer.hops[usize::from(hop)].header;
            let before = std::mem::replace(header, Hop::OPEN);
            let used = &mut self.uses[link.index()];
            let free = before.max(transfer.train.times[row]) + passage.span;
            used.free = free.min(Time::FAR);
            used.last = passage.last;
            let crossed = u32::from(row < asked);
            used.light -= crossed;
            used.trains.push(Passage { crossed, before, ..passage });
        }
        self.report_waits(env, slot, asked);
        let train = &mut self.traffic[slot].train;
        (train.light.is_on, train.entered) = (false, leg.to);
    }

    /// Reports the waits of a light train for its first `rows` links.
    fn report_waits(&mut self, env: &mut impl Environment<M>, slot: SlotId, rows: usize) {
        let Transfer { id, leg, hops, train, .. } = &mut self.traffic[slot];
        let hops = &hops[usize::from(leg.from)..][..rows];
        for wait in train.light.waits.drain(..) {
            if hops.iter().any(|hop| hop.link == wait.link) {
                env.waited(*id, wait);
            }
        }
    }
}
