//! The order of flits of trains, for which there are no events.
//!
//! Flits ask in the order of time, then of rank, which is given by the link by which they came to their node.
//! Those that came by one link and ask at one time do so in the order in which that link served them: the
//! order of their places there, and so on backwards.

use std::cmp::Ordering;

use super::Trains;
use crate::event::Place;
use crate::id::SlotId;
use crate::transfer::{LegEnd, Train};

/// Rank that marks the number of a train within a trail.
const NUMBER: u32 = u32::MAX;

/// A flit of a train that asks for the link of a row of its times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) slot: SlotId,
    pub(crate) row: usize,
    pub(crate) flit: usize,
}

impl<M> Trains<M> {
    /// Where a flit asks.
    pub(crate) fn place(&self, Ask { slot, row, flit }: Ask) -> Place {
        let transfer = self.traffic.transfers.at(slot);
        let rank = self.traffic.rank_at(slot, transfer.hop(row));
        Place { at: transfer.time(row, flit), rank }.max(transfer.train.begun)
    }

    /// What decides between flits of the same place: their places on the way there, backwards, then the train's
    /// number, then the way of the flit that it began behind.
    fn trail(&self, Ask { slot, row, flit }: Ask) -> impl Iterator<Item = Place> {
        let Train { number, behind, .. } = &self.traffic.transfers.at(slot).train;
        let places = (0..row).rev().map(move |row| self.place(Ask { slot, row, flit }));
        let number = Place { at: *number, rank: NUMBER };
        places.chain([number]).chain(behind.iter().copied())
    }

    /// The order of flits that have the same place.
    pub(crate) fn order(&self, a: Ask, b: Ask) -> Ordering {
        compare(self.trail(a), self.trail(b))
    }

    /// Keeps how the last flit of a train came to its end, because that decides what lies before the present.
    pub(crate) fn note_end(&mut self, slot: SlotId) {
        self.ended = self.place(self.end_of(slot));
        self.ended_slot = Some(slot);
        if self.traffic.transfers.get(slot).leg.end == LegEnd::Store {
            self.write_down_trail();
        }
    }

    /// Writes down how the last flit of the train that was done last came to its end.
    pub(crate) fn write_down_trail(&mut self) {
        let Some(slot) = self.ended_slot.take() else { return };
        let mut trail = std::mem::take(&mut self.trail);
        trail.clear();
        trail.extend(self.trail(self.end_of(slot)));
        self.trail = trail;
    }

    /// Whether a flit has asked, up to the present event.
    #[inline]
    pub(crate) fn is_past(&self, here: Place, place: Place, ask: Ask) -> bool {
        place < here || place == here && self.is_before_end(place, ask)
    }

    #[cold]
    fn is_before_end(&self, place: Place, ask: Ask) -> bool {
        if self.ended != place {
            return false;
        }
        match self.ended_slot {
            Some(slot) => self.order(ask, self.end_of(slot)).is_lt(),
            None => compare(self.trail(ask), self.trail.iter().copied()).is_lt(),
        }
    }
}

/// Compares trails. Those that begin together are told apart by their numbers. One that begins where the
/// other one passes through began behind a flit that came the same way, and its trail goes on with that.
fn compare(mut a: impl Iterator<Item = Place>, mut b: impl Iterator<Item = Place>) -> Ordering {
    loop {
        let (place_a, place_b) = match (a.next(), b.next()) {
            (Some(a), Some(b)) if a.rank == NUMBER && b.rank == NUMBER => {
                return { a.at }.cmp(&{ b.at });
            }
            (Some(Place { rank: NUMBER, .. }), place_b) => (a.next(), place_b),
            (place_a, Some(Place { rank: NUMBER, .. })) => (place_a, b.next()),
            places => places,
        };
        match place_a.cmp(&place_b) {
            Ordering::Equal if place_a.is_some() => {}
            order => return order,
        }
    }
}
