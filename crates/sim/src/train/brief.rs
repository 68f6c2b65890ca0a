//! Brief trains: long trains that are alone on their links, and keep only two rows of times.
//!
//! When another transfer meets a brief train, the train is expanded: all of its rows are computed. If there are too
//! many rows, its flits move one by one from then on. Their positions are found link by link, in the two rows. So the
//! memory of a lone train and of its flits grows with the number of flits, and not with the length of the route.

use super::Trains;
use super::order::Ask;
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, SlotId};
use crate::traffic::Traffic;
use crate::transfer::{Hop, LegEnd};

/// Maximum number of times that a train keeps in memory (128 MiB), unless it is brief.
pub(super) const LONGEST: u64 = 1 << 24;

/// Maximum number of flits of a brief train. Single flits need more memory than two times each.
pub(super) const LONGEST_BRIEF: u64 = 1 << 27;

/// Number of flits from which a train that meets no other keeps only two rows of times.
const LONG: u64 = 64;

/// A flit that moves by itself: the position of its next request, its number, and its row.
type Walker = (Place, u32, usize);

impl<M> Trains<M> {
    /// Sets the number of times that a train keeps in memory, unless it is brief.
    pub(crate) fn limit(&mut self, times: u64) {
        self.longest = times;
    }

    /// Returns whether a leg with this number of flits is long enough for a brief train.
    pub(super) fn can_be_brief(flits: u32) -> bool {
        (LONG..=LONGEST_BRIEF).contains(&flits.into())
    }

    /// Returns whether a train that keeps all of its rows is too long.
    pub(super) fn has_too_many_rows(&self, slot: SlotId) -> bool {
        let transfer = &self.traffic[slot];
        u64::from(transfer.flits) * (transfer.last_row() as u64 + 1) > self.longest
    }

    /// Returns whether a train is brief and too long to be expanded.
    pub(super) fn stays_brief(&self, slot: SlotId) -> bool {
        self.traffic[slot].train.is_brief && self.has_too_many_rows(slot)
    }

    /// Scatters all trains that are too long to be expanded, so that links can be booked up to the current event.
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

    /// Scatters a brief train, which shares no link: its links are booked up to the current event, and each flit
    /// continues by itself from its position.
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

    /// Recomputes a brief train link by link. Books each link up to the current event, sets the state of the leg to
    /// single flits, and returns the flits that continue.
    fn retrace(&mut self, env: &mut impl Environment<M>, slot: SlotId) -> Vec<Walker> {
        let (here, leg, flits) =
            (env.reached(), self.traffic[slot].leg, self.traffic[slot].flits as usize);
        let mut walking = Vec::new();
        // Times increase with the flit number, so the flits that have requested a link are the first ones.
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
        // Flits that have arrived wait for the last one, unless the component receives single flits.
        let first = if takes_flits { handed } else { flits - 1 };
        walking.extend(self.going_on(slot, leg.to, first.min(asked)..asked));
        walking
    }

    /// Returns the times at which the flits of a brief train request the link of a hop that was not recomputed, or
    /// arrive.
    fn kept_row(&self, slot: SlotId, hop: u16) -> &[u64] {
        let transfer = &self.traffic[slot];
        let (flits, row) = (transfer.flits as usize, usize::from(hop > transfer.leg.from));
        &transfer.train.times[row * flits..(row + 1) * flits]
    }

    /// Returns how many of the first `among` flits have requested the link of a hop, up to the current event. A brief
    /// train can tie with the event only at its first link: no other train has arrived over one of its later links.
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

    /// Returns the flits that continue from the start of the link of a hop, or arrive.
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

    /// Recomputes the crossing of the link of a hop; returns when the first flit leaves the downstream node.
    fn cross_again(&mut self, slot: SlotId, hop: u16) -> u64 {
        let Traffic { links, transfers, .. } = &mut self.traffic;
        let transfer = &mut transfers[slot];
        let id: LinkId = transfer.hops[usize::from(hop)].link;
        let passage = &self.uses[id.index()].trains[0];
        transfer.cross(hop, &links[id.index()], passage.before, passage.span);
        transfer.train.times[transfer.flits as usize]
    }
}
