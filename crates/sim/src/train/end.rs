//! Arrival of trains.

use super::Trains;
use super::order::Ask;
use crate::Time;
use crate::environment::Environment;
use crate::event::FabricEvent;
use crate::id::SlotId;

impl<M> Trains<M> {
    /// Schedules the arrival of a train, if its time has changed.
    pub(super) fn expect_end(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let transfer = &mut self.traffic[slot];
        let end = transfer.time(transfer.last_row(), transfer.flits as usize - 1);
        if end != transfer.train.end {
            transfer.train.end = end;
            transfer.train.event = transfer.train.event.wrapping_add(1);
            self.push_end(env, slot);
        }
    }

    fn push_end(&self, env: &mut impl Environment<M>, slot: SlotId) {
        let transfer = &self.traffic[slot];
        let event = FabricEvent::TrainDone { slot, number: transfer.train.event };
        let rank = self.traffic.rank_at(slot, transfer.leg.to);
        env.schedule(Time::from_ps(transfer.train.end), rank, event);
    }

    /// Removes a train that has arrived from its links, unless the event is outdated. If several trains arrive together
    /// over one link, returns the one that was served first.
    pub(crate) fn arrive(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        number: u32,
    ) -> Option<SlotId> {
        let train = &self.traffic[slot].train;
        if !train.is_on || train.event != number {
            return None;
        }
        let first = if train.light.is_on { slot } else { self.first_to_end(slot) };
        if first != slot {
            self.push_end(env, slot);
        }
        self.end_train(env, first);
        Some(first)
    }

    fn first_to_end(&self, slot: SlotId) -> SlotId {
        let transfer = &self.traffic[slot];
        let (link, end) = (transfer.end_link().index(), transfer.train.end);
        if let [_] = self.uses[link].trains[..] {
            return slot;
        }
        let mut first = None;
        for passage in &self.uses[link].trains {
            let transfer = &self.traffic[passage.slot];
            let ends = passage.hop + 1 == transfer.leg.to && transfer.train.end == end;
            let is_first = |first| {
                let [a, b] = [passage.slot, first].map(|slot| self.end_of(slot));
                !passage.is_apart && self.order(a, b).is_lt()
            };
            if ends && first.is_none_or(is_first) {
                first = Some(passage.slot);
            }
        }
        first.expect("this train is among them")
    }

    /// Returns the arrival of the last flit of a train.
    pub(super) fn end_of(&self, slot: SlotId) -> Ask {
        let transfer = &self.traffic[slot];
        Ask { slot, row: transfer.last_row(), flit: transfer.flits as usize - 1 }
    }

    fn end_train(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        self.note_end(slot);
        let transfer = &self.traffic[slot];
        let hops = u64::from(transfer.flits) * transfer.last_row() as u64;
        if transfer.train.light.is_on {
            self.leave_light(env, slot);
        } else {
            self.leave_links(env, slot);
        }
        self.traffic.flit_hops += hops;
        self.hand_over_to(env, slot);
        self.traffic[slot].train.is_on = false;
    }
}
