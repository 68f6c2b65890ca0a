//! Brief trains: long trains that are alone on their links, and keep two rows of times for all of them.
//!
//! When another transfer meets a brief train, the train is written out: all of its rows are computed. If these are too
//! many, its flits walk from then on. Their places are found link by link, in the two rows, so that the memory of a
//! lone train and of its flits grows with their number, and not with the length of the way as well.

use super::Trains;
use super::order::Ask;
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, SlotId};
use crate::traffic::Traffic;
use crate::transfer::{Hop, LegEnd};

/// Most times (128 MiB of them) that a train keeps in memory, unless it is brief.
pub(super) const LONGEST: u64 = 1 << 24;

/// Most flits of a brief train. Walking flits need more memory than its two times for each.
pub(super) const LONGEST_BRIEF: u64 = 1 << 27;

/// Number of flits from which on a train that meets no other keeps only two rows of times.
const LONG: u64 = 64;

/// A flit that goes on by itself: the place at which it asks, its number, and its row.
type Walker = (Place, u32, usize);

impl<M> Trains<M> {
    /// Sets the number of times that a train keeps in memory, unless it is brief.
    pub(crate) fn limit(&mut self, times: u64) {
        self.longest = times;
    }

    /// Returns whether a leg of this number of flits is long enough for a brief train.
    pub(super) fn can_be_brief(flits: u32) -> bool {
        (LONG..=LONGEST_BRIEF).contains(&flits.into())
    }

    /// Whether a train that keeps all of its rows is too long.
    pub(super) fn has_too_many_rows(&self, slot: SlotId) -> bool {
        let transfer = &self.traffic[slot];
        u64::from(transfer.flits) * (transfer.last_row() as u64 + 1) > self.longest
    }

    /// Whether a train is brief, and too long to be written out.
    pub(super) fn stays_brief(&self, slot: SlotId) -> bool {
        self.traffic[slot].train.is_brief && self.has_too_many_rows(slot)
    }

    /// Scatters all trains that are too long to be written out, so that links can be booked up to the present event.
    pub(super) fn scatter_brief_trains(&mut self, env: &mut impl Environment<M>) {
        for link in 0..self.uses.len() {
            let first = self.uses[link].trains.first();
            if let Some(slot) = first.filter(|it| it.is_brief).map(|it| it.slot)
                && self.stays_brief(slot)
            {
                self.scatter_brief(env, slot);
            }
        }
    }

    /// Scatters a brief train, which has no company: its links are booked up to the present event, and each flit goes on
    /// by itself from its place.
    #[cold]
    pub(super) fn scatter_brief(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        self.traffic[slot].train.is_on = false;
        self.hand_over_past(env, slot);
        let mut walking = self.retrace(env, slot);
        self.traffic[slot].train.is_brief = false;
        walking.sort_unstable_by_key(|&(place, flit, _)| (place, flit));
        for (Place { at, .. }, flit, row) in walking {
            let ask = Ask { slot, row, flit: flit as usize };
            self.go_on(env, ask, at);
        }
        self.dissolve(slot);
    }

    /// Computes a brief train again link by link. Books each link up to the present event, sets the state of the leg to
    /// that of walking flits, and returns those that go on.
    fn retrace(&mut self, env: &mut impl Environment<M>, slot: SlotId) -> Vec<Walker> {
        let (here, leg, flits) =
            (env.reached(), self.traffic[slot].leg, self.traffic[slot].flits as usize);
        let mut walking = Vec::new();
        // Times grow with the number of a flit, so those that have asked for a link are the first ones.
        let mut asked = flits;
        for hop in leg.from..leg.to {
            let before = asked;
            asked = self.asked(here, slot, hop, before);
            walking.extend(self.going_on(slot, hop, asked..before));
            self.book_brief(env, slot, hop, asked);
            let header = self.cross_again(slot, hop);
            let is_known = asked > 0;
            self.traffic[slot].hops[usize::from(hop)].header =
                if is_known { header } else { Hop::OPEN };
            self.traffic.flit_hops += asked as u64;
        }
        let transfer = &mut self.traffic[slot];
        let handed = transfer.train.handed as usize;
        let takes_flits = transfer.leg.end == LegEnd::Flits;
        let arrived = if takes_flits { handed } else { asked };
        transfer.arrived = u32::try_from(arrived).expect("fewer than 2³² flits");
        // Flits that are there wait for the last one, unless each is taken by itself.
        let first = if takes_flits { handed } else { flits - 1 };
        walking.extend(self.going_on(slot, leg.to, first.min(asked)..asked));
        walking
    }

    /// Times at which the flits of a brief train ask for the link of a hop that was not crossed again, or arrive.
    fn kept_row(&self, slot: SlotId, hop: u16) -> &[u64] {
        let transfer = &self.traffic[slot];
        let (flits, row) = (transfer.flits as usize, usize::from(hop > transfer.leg.from));
        &transfer.train.times[row * flits..(row + 1) * flits]
    }

    /// Number of the first `among` flits that have asked for the link of a hop, up to the present event. Only at its
    /// first link can a brief train tie with the event: no other train has come by one of the links behind it.
    fn asked(&self, here: Place, slot: SlotId, hop: u16, among: usize) -> usize {
        let begun = self.traffic[slot].train.begun;
        let (rank, row) = (self.traffic.rank_at(slot, hop), self.traffic[slot].row(hop));
        let has_asked = |(flit, &at): (usize, &u64)| {
            let place = Place { at, rank }.max(begun);
            place < here || row == 0 && self.is_past(here, place, Ask { slot, row, flit })
        };
        let asks = &self.kept_row(slot, hop)[..among];
        let mut flits = 0..among;
        while !flits.is_empty() {
            let middle = flits.start + flits.len() / 2;
            if has_asked((middle, &asks[middle])) {
                flits.start = middle + 1;
            } else {
                flits.end = middle;
            }
        }
        flits.start
    }

    /// Flits that go on from the start of the link of a hop, or arrive.
    fn going_on(
        &self,
        slot: SlotId,
        hop: u16,
        flits: std::ops::Range<usize>,
    ) -> impl Iterator<Item = Walker> {
        let rank = self.traffic.rank_at(slot, hop);
        let (row, begun) = (self.traffic[slot].row(hop), self.traffic[slot].train.begun);
        let number = |flit| u32::try_from(flit).expect("fewer than 2³² flits");
        let times = &self.kept_row(slot, hop)[flits.clone()];
        let walker =
            move |(flit, &at): (usize, &u64)| (Place { at, rank }.max(begun), number(flit), row);
        flits.zip(times).map(walker)
    }

    /// Books the first flits of a brief train on the link of a hop.
    fn book_brief(&mut self, env: &mut impl Environment<M>, slot: SlotId, hop: u16, asked: usize) {
        let id = self.traffic[slot].hops[usize::from(hop)].link;
        let passage = self.uses[id.index()].trains[0];
        if asked == 0 || passage.crossed == passage.flits {
            return;
        }
        self.note_wait(env, id, self.traffic[slot].id, passage.first.at);
        let is_whole = asked == passage.flits as usize;
        let spans = [self.traffic[id].flit, passage.span];
        let mut free = self.traffic[id].free;
        for (flit, &at) in self.kept_row(slot, hop)[..asked].iter().enumerate() {
            free = free.max(at) + spans[usize::from(flit + 1 == passage.flits as usize)];
        }
        let transfer = self.traffic[slot].id;
        let link = &mut self.traffic.links[id.index()];
        (link.free, link.last) = (free.min(Time::FAR), transfer);
        let used = (asked as u64 - 1) * spans[0] + spans[usize::from(is_whole)];
        link.busy = link.busy.saturating_add(used);
    }

    /// Crosses the link of a hop again; returns when the first flit leaves the node behind it.
    fn cross_again(&mut self, slot: SlotId, hop: u16) -> u64 {
        let Traffic { links, transfers, .. } = &mut self.traffic;
        let transfer = &mut transfers[slot];
        let id: LinkId = transfer.hops[usize::from(hop)].link;
        let passage = &self.uses[id.index()].trains[0];
        transfer.cross(hop, &links[id.index()], passage.before, passage.span);
        transfer.train.times[transfer.flits as usize]
    }
}
