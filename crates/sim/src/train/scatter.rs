//! Trains become flits that walk.
//!
//! Flits walk where a leg cannot be a train: if they ask out of order, if there are too many of them, if others
//! walk on their links, or if working the train out again and again has become as dear. Since there are never both
//! on a link, all trains that share links with those that walk, and those that share links with them, are
//! scattered together: the accounts of their links are brought up to the present event, and each flit goes on by
//! itself from where it is.

use super::Trains;
use super::order::Ask;
use crate::Time;
use crate::environment::Environment;
use crate::event::{FabricEvent, Place};
use crate::id::SlotId;
use crate::transfer::{Hop, LegEnd};

impl<M> Trains<M> {
    /// Notes that the flits of a leg walk, for which the trains in its way are scattered.
    pub(crate) fn take_leg(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        if self.look_around(slot).light {
            self.unpack(env);
        }
        while let Some(train) = self.train_in_the_way(slot) {
            self.scatter(env, train);
        }
        self.count_walkers(slot, 1);
    }

    /// Notes that a leg whose flits walked is done.
    pub(crate) fn release_leg(&mut self, slot: SlotId) -> SlotId {
        self.count_walkers(slot, -1);
        slot
    }

    fn count_walkers(&mut self, slot: SlotId, change: i32) {
        let transfer = self.traffic.transfers.get(slot);
        for hop in transfer.leg_hops() {
            let walkers = &mut self.walkers[hop.link.index()];
            *walkers = walkers.wrapping_add_signed(change);
        }
        if let Some(end) = self.traffic.flit_end(slot) {
            let walkers = &mut self.ends[end.index()].walkers;
            *walkers = walkers.wrapping_add_signed(change);
        }
    }

    /// A train on one of a leg's links, or to its end.
    fn train_in_the_way(&self, slot: SlotId) -> Option<SlotId> {
        let transfer = self.traffic.transfers.at(slot);
        let trains = |hop: &Hop| self.uses[hop.link.index()].trains.first();
        let on_a_link = transfer.leg_hops().iter().find_map(trains).map(|passage| passage.slot);
        let to_the_end = || self.ends[self.traffic.flit_end(slot)?.index()].trains.first().copied();
        on_a_link.or_else(to_the_end)
    }

    /// Scatters a train, and all that have links in common with it or with one of them.
    #[cold]
    pub(crate) fn scatter(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        self.unpack(env);
        let slots = self.company(slot);
        slots.iter().for_each(|&slot| self.write_out(slot));
        for &slot in &slots {
            self.hand_over_past(env, slot);
            for hop in self.traffic.transfers.get(slot).leg_hops().to_vec() {
                self.book(env, hop.link);
            }
        }
        let mut walking: Vec<Ask> = Vec::new();
        slots.iter().for_each(|&slot| self.stop(env.reached(), slot, &mut walking));
        walking.sort_by(|&a, &b| self.place(a).cmp(&self.place(b)).then_with(|| self.order(a, b)));
        walking.into_iter().for_each(|ask| self.go_on(env, ask));
        for slot in slots {
            self.dissolve(slot);
        }
    }

    /// A train, and all that have links or ends in common with it or with one of them.
    fn company(&mut self, slot: SlotId) -> Vec<SlotId> {
        let mut slots = vec![slot];
        self.traffic.transfers.get(slot).train.is_on = false;
        let mut done = 0;
        while let Some(&slot) = slots.get(done) {
            done += 1;
            let transfer = self.traffic.transfers.get(slot);
            let mut found = Vec::new();
            for hop in transfer.leg_hops() {
                let passages = &self.uses[hop.link.index()].trains;
                found.extend(passages.iter().map(|passage| passage.slot));
            }
            if let Some(end) = self.traffic.flit_end(slot) {
                found.extend(&self.ends[end.index()].trains);
            }
            found.retain(|&other| {
                std::mem::take(&mut self.traffic.transfers.get(other).train.is_on)
            });
            slots.extend(found);
        }
        slots
    }

    /// Gives the component at the end of a train what was delivered to it up to the present event.
    fn hand_over_past(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let Some(end) = self.traffic.flit_end(slot) else { return };
        while let Some(next) = self.next_delivered(end) {
            let ask = self.delivery(next);
            if !self.is_past(env.reached(), self.place(ask), ask) {
                return;
            }
            self.hand_over_one(env, next);
        }
    }

    /// Says where the flits of a train are, and what nodes have said to it.
    fn stop(&mut self, here: Place, slot: SlotId, walking: &mut Vec<Ask>) {
        let last_row = self.traffic.transfers.get(slot).last_row();
        let flits = self.traffic.transfers.get(slot).flits as usize;
        let mut arrived = 0;
        for flit in 0..flits {
            let asked = |row: &usize| {
                let ask = Ask { slot, row: *row, flit };
                self.is_past(here, self.place(ask), ask)
            };
            let row = (0..last_row).take_while(asked).count();
            self.traffic.flit_hops += row as u64;
            let transfer = self.traffic.transfers.get(slot);
            if flit == 0 {
                let from = usize::from(transfer.leg.from);
                for crossed in 0..row {
                    transfer.hops[from + crossed].header = transfer.time(crossed + 1, 0);
                }
            }
            arrived += u32::from(row == last_row);
            let is_there = row == last_row;
            let (ask, whole) = (Ask { slot, row, flit }, transfer.leg.end != LegEnd::Flits);
            let waits_for_others = is_there && whole && flit + 1 < flits;
            let was_delivered = is_there && flit < transfer.train.handed as usize;
            if !waits_for_others && !was_delivered {
                walking.push(ask);
            }
        }
        let transfer = self.traffic.transfers.get(slot);
        let takes_flits = transfer.leg.end == LegEnd::Flits;
        transfer.arrived = if takes_flits { transfer.train.handed } else { arrived };
    }

    /// Lets a flit go on by itself.
    fn go_on(&mut self, env: &mut impl Environment<M>, ask: Ask) {
        let Ask { slot, row, flit } = ask;
        let transfer = self.traffic.transfers.at(slot);
        let (at, hop) = (transfer.time(row, flit), transfer.hop(row));
        let flit = u32::try_from(flit).expect("fewer than 2³² flits");
        let event = match transfer.leg.end {
            _ if hop < transfer.leg.to => FabricEvent::Ask { slot, flit, hop },
            LegEnd::Flits => FabricEvent::Flit { slot, flit },
            LegEnd::Store | LegEnd::Whole => FabricEvent::LegDone { slot },
        };
        env.schedule(Time::from_ps(at), self.traffic.rank_at(slot, hop), event);
    }

    /// Takes a scattered train off its links.
    fn dissolve(&mut self, slot: SlotId) {
        let transfer = self.traffic.transfers.get(slot);
        for hop in transfer.leg_hops() {
            let used = &mut self.uses[hop.link.index()];
            used.trains.clear();
            used.booked = 0;
        }
        if let Some(end) = self.traffic.flit_end(slot) {
            self.ends[end.index()].trains.clear();
        }
        self.count_walkers(slot, 1);
    }
}
