//! Departure of trains, and their entry on links.

use super::brief::LONGEST_BRIEF;
use super::cross::clamp;
use super::weave::CROWD;
use super::{EndUse, Passage, Trains};
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::SlotId;
use crate::link::LinkState;
use crate::traffic::Traffic;
use crate::transfer::{Asks, Hop};

/// Number of trains on a link, or to a destination, from which another leg moves flit by flit, as do these trains. All
/// of them are visited when one leaves, so the work would grow quadratically.
const MOST: usize = 512;

/// Maximum time of a flit on a link with trains. The times of a train are compared with the end of simulated time link
/// by link, and must not wrap around before that.
const SLOWEST: u64 = Time::FAR / 4 / LONGEST_BRIEF;

impl LinkState {
    /// Returns whether trains may use the link. On slower links (4 ms per flit), flits move one by one.
    fn keeps_pace(&self) -> bool {
        self.flit <= SLOWEST && self.propagation.max(self.overhead) <= Time::FAR / 8
    }
}

/// Other transfers on the links of a leg, by kind.
#[derive(Default)]
pub(super) struct Others {
    walk: bool,
    pub(super) light: bool,
    trains: bool,
}

impl<M> Trains<M> {
    /// Returns whether all links are fast enough for trains.
    pub(crate) fn keep_pace(&self) -> bool {
        self.traffic.links.iter().all(LinkState::keeps_pace)
    }

    /// Starts a leg as a train. Fails if its requests are out of order, it is too long, or single flits use its links.
    pub(crate) fn set_out(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        asks: &Asks,
    ) -> bool {
        let others = self.look_around(slot);
        if others.walk {
            return false;
        }
        let flits = self.traffic[slot].flits;
        if flits == 1 && !others.trains && self.travel_light(env, slot, asks) {
            return true;
        }
        let is_in_order = match asks {
            Asks::At(_) => true,
            Asks::Each(times) => times.is_sorted(),
        };
        let end = self.traffic.flit_end(slot);
        let is_alone = !others.light
            && !others.trains
            && end.is_none_or(|end| self.ends[end.index()].trains.is_empty());
        let is_brief = is_alone && Self::can_be_brief(flits);
        if !is_in_order || !is_brief && self.has_too_many_rows(slot) {
            return false;
        }
        self.lay_out(env.reached(), slot, asks, is_brief);
        self.enter_end(slot);
        if others.light {
            self.unpack(env);
        }
        self.enter(env, slot);
        self.weave(env);
        true
    }

    /// Creates a train with the times at which its flits request the first link.
    fn lay_out(&mut self, here: Place, slot: SlotId, asks: &Asks, is_brief: bool) {
        let transfer = &mut self.traffic[slot];
        let flits = transfer.flits as usize;
        let rows = if is_brief { 2 } else { transfer.last_row() + 1 };
        let train = &mut transfer.train;
        if train.times.len() < flits * rows {
            train.times.resize(flits * rows, 0);
        }
        match asks {
            Asks::At(time) => train.times[..flits].fill(time.ps()),
            Asks::Each(each) => {
                train.times.iter_mut().zip(each).for_each(|(at, time)| *at = time.ps());
            }
        }
        if train.times[flits - 1] > Time::FAR {
            clamp(&mut train.times[..flits]);
        }
        self.begin_train(here, slot, is_brief);
    }

    /// Returns the other transfers on the links of a leg, or on their way to its destination.
    pub(super) fn look_around(&self, slot: SlotId) -> Others {
        let mut others = Others::default();
        for hop in self.traffic[slot].leg_hops() {
            let used = &self.uses[hop.link.index()];
            others.walk |= self.walkers[hop.link.index()] > 0;
            others.light |= used.light > 0;
            // Reads the first entry, so that the memory of all links is fetched in parallel.
            if let Some(passage) = used.trains.first() {
                others.trains |= passage.slot != slot;
                others.walk |= passage.is_brief && self.stays_brief(passage.slot);
            }
            others.walk |= used.trains.len() >= MOST;
        }
        if let Some(end) = self.traffic.flit_end(slot) {
            let EndUse { walkers, trains } = &self.ends[end.index()];
            others.walk |= *walkers > 0 || trains.len() >= MOST;
            others.walk |= trains.first().is_some_and(|&other| self.stays_brief(other));
        }
        others
    }

    /// Numbers a train whose first times are known, and records the event `begun` at which it starts.
    ///
    /// # Panics
    /// If it requests a link before the current time.
    pub(super) fn begin_train(&mut self, begun: Place, slot: SlotId, is_brief: bool) {
        let transfer = &self.traffic[slot];
        let first = transfer.train.times[0];
        assert!(first >= begun.at, "a transfer asks before the present");
        let ties = first == begun.at && self.ended == begun && {
            let link = transfer.leg_hops()[0].link;
            self.uses[link.index()].may_tie(begun)
        };
        if ties {
            self.write_down_trail();
        }
        self.made += 1;
        let from = self.traffic[slot].leg.from;
        let train = &mut self.traffic[slot].train;
        (train.is_on, train.is_brief) = (true, is_brief);
        (train.number, train.begun) = (self.made, begun);
        train.behind.clear();
        if ties {
            train.behind.extend_from_slice(&self.trail);
        }
        train.entered = from;
        (train.end, train.handed, train.work) = (u64::MAX, 0, 0);
    }

    /// Enters a train at its destination, if that receives single flits.
    pub(super) fn enter_end(&mut self, slot: SlotId) {
        let Some(end) = self.traffic.flit_end(slot) else { return };
        if let Some(&other) = self.ends[end.index()].trains.first() {
            self.write_out(other);
        }
        self.ends[end.index()].trains.push(slot);
    }

    /// Enters a train on its further links, up to one where it interleaves with others.
    pub(super) fn enter(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        while let Err(hop) = self.append(slot) {
            let link = self.traffic[slot].hops[usize::from(hop)].link;
            match self.uses[link.index()].trains[0] {
                Passage { slot: other, is_brief: true, .. } => self.write_out(other),
                _ => return self.squeeze_in(env, slot, hop),
            }
        }
        self.expect_end(env, slot);
    }

    /// Enters a train on one link after another. Fails at the first hop where it interleaves with others.
    fn append(&mut self, slot: SlotId) -> Result<(), u16> {
        let entered = self.traffic[slot].train.entered;
        let mut rank = self.traffic.rank_at(slot, entered);
        let Traffic { network, links, transfers, flit_ranks, .. } = &mut self.traffic;
        let transfer = &mut transfers[slot];
        let (leg, begun) = (transfer.leg, transfer.train.begun);
        let mut paces = transfer.paces(network);
        // Among trains that began together, or arrived over one link at one time, the last there is also the last here.
        let mut is_last = entered == leg.from;
        for hop in entered..leg.to {
            let id = transfer.hops[usize::from(hop)].link;
            let (link, used) = (&links[id.index()], &mut self.uses[id.index()]);
            let passage = transfer.passage(hop, rank, paces.span(link));
            let ties_as_last = is_last && passage.first != begun;
            let fits_in = used.gap_for(&passage, ties_as_last).is_some_and(|gap| {
                is_last = gap == used.trains.len();
                let before = used.free_before(gap, link);
                let free = transfer.cross(hop, link, before, passage.span);
                used.fill(gap, Passage { before, ..passage }, free)
            });
            if !fits_in {
                transfer.train.entered = hop;
                return Err(hop);
            }
            rank = *flit_ranks + link.rank(id);
        }
        transfer.train.entered = leg.to;
        Ok(())
    }

    /// Enters a train on a link where it interleaves with others; the link must be recomputed.
    fn squeeze_in(&mut self, env: &mut impl Environment<M>, slot: SlotId, hop: u16) {
        let rank = self.traffic.rank_at(slot, hop);
        self.traffic[slot].train.entered = hop + 1;
        let transfer = &self.traffic[slot];
        let link = transfer.hops[usize::from(hop)].link;
        let span = transfer.paces(&self.traffic.network).span(&self.traffic[link]);
        let passage = transfer.passage(hop, rank, span);
        let passage = Passage { changed: 0, is_apart: false, ..passage };
        self.note_dirty(env, passage.first.at, link);
        let used = &mut self.uses[link.index()];
        let place = used.later(passage.first).unwrap_or(used.trains.len());
        used.trains.insert(place, passage);
        if used.unbooked().len() > CROWD {
            self.tired = Some(slot);
        }
    }

    /// Expands a brief train: computes all of its rows of times.
    #[inline]
    pub(super) fn write_out(&mut self, slot: SlotId) {
        if self.traffic[slot].train.is_brief {
            self.write_out_rows(slot);
        }
    }

    #[cold]
    fn write_out_rows(&mut self, slot: SlotId) {
        let Traffic { links, transfers, .. } = &mut self.traffic;
        let transfer = &mut transfers[slot];
        let (leg, flits) = (transfer.leg, transfer.flits as usize);
        transfer.train.is_brief = false;
        transfer.train.times.resize(flits * (transfer.last_row() + 1), 0);
        for hop in leg.from..leg.to {
            let id = transfer.hops[usize::from(hop)].link;
            let link = &links[id.index()];
            let passage = &mut self.uses[id.index()].trains[0];
            passage.is_brief = false;
            transfer.cross(hop, link, passage.before, passage.span);
            transfer.hops[usize::from(hop)].header = Hop::OPEN;
        }
    }
}
