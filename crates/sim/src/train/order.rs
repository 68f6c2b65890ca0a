//! Order of the flits of trains, which have no events.
//!
//! Flits are ordered by request time, then by rank. The rank is given by the link over which they arrived at their
//! node. Flits that arrived over one link and request at one time are ordered as that link served them: by their
//! positions there, and so on backwards.

use std::cmp::Ordering;

use super::Trains;
use crate::event::Place;
use crate::id::SlotId;
use crate::transfer::{LegEnd, Train};

/// Rank that marks a train's number within a trail.
const NUMBER: u32 = u32::MAX;

/// A flit of a train that requests the link of a row of times, or arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) slot: SlotId,
    pub(super) row: usize,
    pub(super) flit: usize,
}

impl<M> Trains<M> {
    pub(super) fn place(&self, Ask { slot, row, flit }: Ask) -> Place {
        let transfer = &self.traffic[slot];
        let rank = self.traffic.rank_at(slot, transfer.hop(row));
        Place { at: transfer.time(row, flit), rank }.max(transfer.train.begun)
    }

    /// Returns the keys that order flits of the same position: their positions on the way there, backwards, then the
    /// train's number, then the trail of the flit after which the train began.
    fn trail(&self, Ask { slot, row, flit }: Ask) -> impl Iterator<Item = Place> {
        let Train { number, behind, .. } = &self.traffic[slot].train;
        let places = (0..row).rev().map(move |row| self.place(Ask { slot, row, flit }));
        let number = Place { at: *number, rank: NUMBER };
        places.chain([number]).chain(behind.iter().copied())
    }

    /// Compares flits with the same position.
    pub(super) fn order(&self, a: Ask, b: Ask) -> Ordering {
        compare(self.trail(a), self.trail(b))
    }

    /// Compares flits by position, then by trail.
    pub(super) fn full_order(&self, a: Ask, b: Ask) -> Ordering {
        self.place(a).cmp(&self.place(b)).then_with(|| self.order(a, b))
    }

    /// Records the arrival of a train, which determines what is past.
    pub(super) fn note_end(&mut self, slot: SlotId) {
        self.ended = self.place(self.end_of(slot));
        self.ended_slot = Some(slot);
        if self.traffic[slot].leg.end == LegEnd::Store {
            self.write_down_trail();
        }
    }

    /// Stores the trail of the train that arrived last.
    pub(super) fn write_down_trail(&mut self) {
        let Some(slot) = self.ended_slot.take() else { return };
        let mut trail = std::mem::take(&mut self.trail);
        trail.clear();
        trail.extend(self.trail(self.end_of(slot)));
        self.trail = trail;
    }

    /// Returns whether a flit has made its request, up to the current event `here`.
    #[inline]
    pub(super) fn is_past(&self, here: Place, place: Place, ask: Ask) -> bool {
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

    /// Returns the number of links that a flit has requested, up to the current event `here`.
    pub(super) fn rows_asked(&self, here: Place, slot: SlotId, flit: usize) -> usize {
        let asked = |&row: &usize| {
            let ask = Ask { slot, row, flit };
            self.is_past(here, self.place(ask), ask)
        };
        (0..self.traffic[slot].last_row()).take_while(asked).count()
    }
}

/// Compares trails. Trains that begin together are distinguished by their numbers. A train that begins where another
/// one passes through began after a flit that came the same way, and its trail continues with the trail of that flit.
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
