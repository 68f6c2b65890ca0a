//! Conversion of trains into single flits.
//!
//! Flits move one by one where a leg cannot be a train: if their requests are out of order, if there are too many
//! flits, if other single flits use the links, or if recomputing the train has become as expensive. A link never has
//! both kinds. So all trains that share links with single flits, and the trains that share links with these trains, are
//! scattered together: their links are booked up to the current event, and each flit continues by itself from its
//! position.

use super::Trains;
use super::order::Ask;
use crate::Time;
use crate::environment::Environment;
use crate::event::{FabricEvent, Place};
use crate::id::SlotId;
use crate::transfer::{Hop, LegEnd};

impl<M> Trains<M> {
    /// Reserves the links of a leg for single flits; trains on these links are scattered.
    pub(crate) fn take_leg(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        if self.look_around(slot).light {
            self.unpack(env);
        }
        while let Some(train) = self.train_in_the_way(slot) {
            self.scatter(env, train);
        }
        self.count_walkers(slot, 1);
    }

    /// Releases the links of a leg that moved flit by flit.
    pub(crate) fn release_leg(&mut self, slot: SlotId) -> SlotId {
        self.count_walkers(slot, -1);
        slot
    }

    fn count_walkers(&mut self, slot: SlotId, change: i32) {
        for hop in self.traffic[slot].leg_hops() {
            let walkers = &mut self.walkers[hop.link.index()];
            *walkers = walkers.wrapping_add_signed(change);
        }
        if let Some(end) = self.traffic.flit_end(slot) {
            let walkers = &mut self.ends[end.index()].walkers;
            *walkers = walkers.wrapping_add_signed(change);
        }
    }

    /// Returns a train on one of the links of a leg, or to its destination.
    fn train_in_the_way(&self, slot: SlotId) -> Option<SlotId> {
        let trains = |hop: &Hop| self.uses[hop.link.index()].trains.first();
        let on_a_link = self.traffic[slot].leg_hops().iter().find_map(trains);
        let to_the_end = || self.ends[self.traffic.flit_end(slot)?.index()].trains.first().copied();
        on_a_link.map(|passage| passage.slot).or_else(to_the_end)
    }

    /// Scatters a train with its [company](Self::company).
    #[cold]
    pub(super) fn scatter(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        self.unpack(env);
        if self.stays_brief(slot) {
            return self.scatter_brief(env, slot);
        }
        let slots = self.company(slot);
        slots.iter().for_each(|&slot| self.write_out(slot));
        for &slot in &slots {
            self.hand_over_past(env, slot);
            for hop in self.traffic[slot].leg_hops().to_vec() {
                self.book(env, hop.link);
            }
        }
        let mut walking: Vec<Ask> = Vec::new();
        slots.iter().for_each(|&slot| self.stop(env.reached(), slot, &mut walking));
        walking.sort_by(|&a, &b| self.full_order(a, b));
        for ask in walking {
            self.go_on(env, ask, self.traffic[ask.slot].time(ask.row, ask.flit));
        }
        slots.into_iter().for_each(|slot| self.dissolve(slot));
    }

    /// Returns a train and, transitively, all trains that share links or destinations with it.
    fn company(&mut self, slot: SlotId) -> Vec<SlotId> {
        let mut slots = vec![slot];
        self.traffic[slot].train.is_on = false;
        let mut done = 0;
        while let Some(&slot) = slots.get(done) {
            done += 1;
            let mut found = Vec::new();
            for hop in self.traffic[slot].leg_hops() {
                let passages = &self.uses[hop.link.index()].trains;
                found.extend(passages.iter().map(|passage| passage.slot));
            }
            if let Some(end) = self.traffic.flit_end(slot) {
                found.extend(&self.ends[end.index()].trains);
            }
            found.retain(|&other| std::mem::take(&mut self.traffic[other].train.is_on));
            slots.extend(found);
        }
        slots
    }

    /// Delivers the flits of a train that have arrived at its destination up to the current event.
    pub(super) fn hand_over_past(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Some(end) = self.traffic.flit_end(slot) else { return };
        while let Some(next) = self.next_delivered(end) {
            let ask = self.delivery(next);
            if !self.is_past(env.reached(), self.place(ask), ask) {
                return;
            }
            self.hand_over_one(env, next);
        }
    }

    /// Collects the positions of flits that continue, and sets the state of the leg to single flits.
    fn stop(&mut self, here: Place, slot: SlotId, walking: &mut Vec<Ask>) {
        let (flits, last_row) = (self.traffic[slot].flits as usize, self.traffic[slot].last_row());
        let mut arrived = 0;
        for flit in 0..flits {
            let row = self.rows_asked(here, slot, flit);
            self.traffic.flit_hops += row as u64;
            let transfer = &mut self.traffic[slot];
            if flit == 0 {
                let from = usize::from(transfer.leg.from);
                for crossed in 0..row {
                    transfer.hops[from + crossed].header = transfer.time(crossed + 1, 0);
                }
            }
            let is_there = row == last_row;
            arrived += u32::from(is_there);
            let is_whole = transfer.leg.end != LegEnd::Flits;
            let waits_for_others = is_there && is_whole && flit + 1 < flits;
            let was_delivered = is_there && flit < transfer.train.handed as usize;
            if !waits_for_others && !was_delivered {
                walking.push(Ask { slot, row, flit });
            }
        }
        let transfer = &mut self.traffic[slot];
        let takes_flits = transfer.leg.end == LegEnd::Flits;
        transfer.arrived = if takes_flits { transfer.train.handed } else { arrived };
    }

    /// Makes a flit with the given request time continue by itself.
    pub(super) fn go_on(&self, env: &mut impl Environment<M>, ask: Ask, at: u64) {
        let Ask { slot, row, flit } = ask;
        let transfer = &self.traffic[slot];
        let hop = transfer.hop(row);
        let flit = u32::try_from(flit).expect("fewer than 2³² flits");
        let event = match transfer.leg.end {
            _ if hop < transfer.leg.to => FabricEvent::Ask { slot, flit, hop },
            LegEnd::Flits => FabricEvent::Flit { slot, flit },
            LegEnd::Store | LegEnd::Whole => FabricEvent::LegDone { slot },
        };
        env.schedule(Time::from_ps(at), self.traffic.rank_at(slot, hop), event);
    }

    /// Removes a scattered train from its links.
    pub(super) fn dissolve(&mut self, slot: SlotId) {
        for hop in self.traffic[slot].leg_hops() {
            self.uses[hop.link.index()].clear();
        }
        if let Some(end) = self.traffic.flit_end(slot) {
            self.ends[end.index()].trains.clear();
        }
        self.count_walkers(slot, 1);
    }
}
