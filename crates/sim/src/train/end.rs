//! How a train comes to its end.

use super::order::Ask;
use crate::Time;
use crate::component::Component;
use crate::engine::{Engine, Event};
use crate::observer::Observer;
use crate::queue::EventQueue;
use crate::transfer::SlotId;

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Waits for the end of a train, if it is another than was expected.
    pub(crate) fn expect_end(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let end = transfer.time(transfer.last_row(), transfer.flits as usize - 1);
        if end != transfer.train.end {
            transfer.train.end = end;
            transfer.train.event = transfer.train.event.wrapping_add(1);
            self.push_end(slot);
        }
    }

    fn push_end(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let link = transfer.end_link();
        let rank = self.flit_ranks + self.links[link.index()].rank(link);
        let event = Event::TrainDone { transfer: slot, number: transfer.train.event };
        self.queue.push(Time::from_ps(transfer.train.end), rank, event);
    }

    /// A train is at its end, if this is still expected.
    pub(crate) fn train_done(&mut self, slot: SlotId, number: u32) {
        let train = &self.transfers.get(slot).train;
        if !train.is_on || train.event != number {
            return;
        }
        if train.light.is_on {
            return self.end_train(slot);
        }
        let first = self.first_to_end(slot);
        if first != slot {
            self.push_end(slot);
        }
        self.end_train(first);
    }

    /// Of the trains that come to an end with this one, at one time and by one link, the one that was served first.
    fn first_to_end(&mut self, slot: SlotId) -> SlotId {
        let transfer = self.transfers.get(slot);
        let (link, end) = (transfer.end_link().index(), transfer.train.end);
        if let [_] = self.uses.links[link].trains[..] {
            return slot;
        }
        let mut first = None;
        for passage in &self.uses.links[link].trains {
            let transfer = self.transfers.at(passage.slot);
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

    pub(crate) fn end_of(&self, slot: SlotId) -> Ask {
        let transfer = self.transfers.at(slot);
        Ask { slot, row: transfer.last_row(), flit: transfer.flits as usize - 1 }
    }

    /// All flits of a train are at its end.
    fn end_train(&mut self, slot: SlotId) {
        self.note_end(slot);
        let transfer = self.transfers.get(slot);
        let (leg, flits) = (transfer.leg, u64::from(transfer.flits));
        if transfer.train.light.is_on {
            self.leave_light(slot);
        } else {
            self.leave_links(slot);
        }
        self.flit_hops += flits * u64::from(leg.to - leg.from);
        self.hand_over_to(slot);
        self.transfers.get(slot).train.is_on = false;
        self.leg_over(slot);
    }
}
