//! Interleaving of trains that meet on a link.
//!
//! A link lists its trains by their first flits. Trains that are *apart* from the preceding ones divide the list into
//! groups: a single train, or several trains whose flits interleave. When a train is added, or request times change,
//! the link is recomputed from the affected group on, group by group, until a group before which the link is free at
//! the same time as before. If the flits of a train then leave at different times, the next link of this train is
//! recomputed as well. Links are processed in the order of their earliest change. Effects come later than their causes,
//! so this terminates.

use std::cmp::Ordering;

use super::cross::clamp;
use super::order::Ask;
use super::{Passage, Trains};
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, SlotId, TransferId};

/// Recompute budget of a train per flit and hop; above it, one event per flit and hop is cheaper.
const TIRED: u64 = 6;

/// Maximum number of interleaved trains on a link; above it, one event per flit is cheaper.
pub(super) const CROWD: usize = 12;

/// The flits of a train that have not crossed a link, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) id: TransferId,
    pub(super) slot: SlotId,
    hop: u16,
    /// Rank of the flits' requests, and the event after which they are made.
    rank: u32,
    begun: Place,
    row: usize,
    flits: usize,
    /// The next flit, and the position of its request, which is [`Place::NONE`] after the last flit.
    pub(super) next: usize,
    pub(super) place: Place,
    flit: u64,
    last: u64,
    propagation: u64,
    overhead: u64,
    /// First flit whose request time may have changed.
    stale: usize,
    /// First flit that leaves at a different time or in a different order, and the earlier of its two times.
    moved: Option<(usize, u64)>,
}

impl Lane {
    pub(super) fn ask(&self) -> Ask {
        Ask { slot: self.slot, row: self.row, flit: self.next }
    }

    #[inline]
    pub(super) fn span(&self) -> u64 {
        if self.next + 1 == self.flits { self.last } else { self.flit }
    }

    /// Advances to the next of the flits that request the link at `asks`.
    #[inline]
    pub(super) fn step(&mut self, asks: &[u64]) {
        self.next += 1;
        self.place = match asks.get(self.next) {
            Some(&at) => Place { at, rank: self.rank }.max(self.begun),
            None => Place::NONE,
        };
    }

    pub(super) fn asks<'a>(&self, times: &'a [u64]) -> &'a [u64] {
        &times[self.row * self.flits..][..self.flits]
    }

    /// Moves flits with requests before `limit` over a link that is free from `free`; returns when the link is free
    /// afterwards.
    #[inline]
    fn cross(&mut self, times: &mut [u64], mut free: u64, limit: Place) -> u64 {
        let rows = &mut times[self.row * self.flits..(self.row + 2) * self.flits];
        let (asks, leaves) = rows.split_at_mut(self.flits);
        loop {
            let start = free.max(self.place.at);
            free = start + self.span();
            let arrived = (free + self.propagation).max(start + 1);
            let header = if self.next == 0 { arrived + self.overhead } else { leaves[0] };
            let left = arrived.max(header);
            let before = std::mem::replace(&mut leaves[self.next], left);
            // Flits that leave together do so in the order of arrival, which may have changed.
            let is_stale = self.next >= self.stale && arrived <= header;
            if self.moved.is_none() && (left != before || is_stale) {
                self.moved = Some((self.next, left.min(before)));
            }
            self.step(asks);
            if self.place.at >= limit.at && self.place >= limit {
                if left > Time::FAR {
                    return self.stop_at_horizon(leaves, free);
                }
                return free;
            }
        }
    }

    /// Clamps times to the end of simulated time. Changes beyond it are dropped, so effects still come later than their
    /// causes.
    #[cold]
    fn stop_at_horizon(&mut self, leaves: &mut [u64], free: u64) -> u64 {
        clamp(&mut leaves[..self.next]);
        self.moved = self.moved.filter(|&(_, from)| from < Time::FAR);
        free.min(Time::FAR)
    }
}

impl<M> Trains<M> {
    /// Records that a link must be recomputed from a time on. Books its past first, because a train that arrives now
    /// comes after that.
    pub(super) fn note_dirty(&mut self, env: &mut impl Environment<M>, from: u64, link: LinkId) {
        if let Some((time, _)) = self.dirty.iter_mut().find(|(_, other)| *other == link) {
            *time = from.min(*time);
        } else {
            self.dirty.push((from, link));
            self.book(env, link);
        }
    }

    /// Recomputes all recorded links.
    pub(super) fn weave(&mut self, env: &mut impl Environment<M>) {
        while let Some(place) = (0..self.dirty.len()).min_by_key(|&i| self.dirty[i]) {
            let (from, link) = self.dirty.swap_remove(place);
            self.work_out(env, link, from);
        }
        if let Some(slot) = self.tired.take() {
            self.scatter(env, slot);
        }
    }

    /// Returns the flits of a train on a link that are not booked.
    #[inline]
    pub(super) fn lane(&self, id: LinkId, passage: &Passage) -> Lane {
        let link = &self.traffic[id];
        let &Passage { slot, hop, rank, crossed, changed, span, flits, .. } = passage;
        let transfer = &self.traffic[slot];
        let (row, flits, next) = (transfer.row(hop), flits as usize, crossed as usize);
        let begun = transfer.train.begun;
        let place = if next == flits {
            Place::NONE
        } else {
            Place { at: transfer.time(row, next), rank }.max(begun)
        };
        Lane {
            id: transfer.id,
            slot,
            hop,
            rank,
            begun,
            row,
            flits,
            next,
            place,
            flit: link.flit,
            last: span,
            propagation: link.propagation,
            overhead: transfer.charged(hop, link),
            stale: changed as usize,
            moved: None,
        }
    }

    /// Returns the lane with the earliest request, and the position up to which it is the only one; `None` if all lanes
    /// are done.
    pub(super) fn first_lane(&self, lanes: &[Lane]) -> Option<(usize, Place)> {
        let (mut first, mut limit) = (0, Place::NONE);
        for (index, lane) in lanes.iter().enumerate().skip(1) {
            let is_first = match lane.place.cmp(&lanes[first].place) {
                Ordering::Equal if lane.place != Place::NONE => {
                    self.order(lane.ask(), lanes[first].ask()).is_lt()
                }
                order => order.is_lt(),
            };
            if is_first {
                limit = lanes[first].place;
                first = index;
            } else {
                limit = limit.min(lane.place);
            }
        }
        (lanes[first].place != Place::NONE).then_some((first, limit))
    }

    /// Recomputes a link from a time on, and updates the following links.
    fn work_out(&mut self, env: &mut impl Environment<M>, id: LinkId, from: u64) {
        let used = &mut self.uses[id.index()];
        let booked = used.booked as usize;
        let mut trains = std::mem::take(&mut used.trains);
        let starts = |passage: &Passage| passage.is_apart && passage.first.at < from;
        let at = booked + trains[booked..].iter().rposition(starts).unwrap_or(0);
        // Up to here, other trains may come before these, in the old order or in the new one.
        let reach = changed(&trains[at..]);
        self.line_up(&mut trains[at..]);
        let reach = reach.max(changed(&trains[at..]));
        let mut free = if at == booked { self.traffic[id].free } else { trains[at].before };
        let mut rest = &mut trains[at..];
        let mut moved = std::mem::take(&mut self.moved);
        let mut done = 0;
        loop {
            let (end, last) = close_group(rest, free);
            let group = rest.split_off_mut(..end).expect("no group is longer than all");
            done += end;
            free = self.cross_group(id, group, free, &mut moved);
            group.iter_mut().for_each(|passage| passage.changed = Passage::UNCHANGED);
            let Some(next) = rest.first_mut() else {
                let used = &mut self.uses[id.index()];
                (used.free, used.last) = (free, last);
                break;
            };
            if done >= reach && next.is_apart && next.starts_alike(free) {
                next.before = free;
                break;
            }
        }
        self.uses[id.index()].trains = trains;
        moved.drain(..).for_each(|lane| self.pass_on(env, &lane));
        self.moved = moved;
    }

    /// Updates the next link of a train whose flits leave at different times or in a different order than before.
    fn pass_on(&mut self, env: &mut impl Environment<M>, lane: &Lane) {
        let transfer = &self.traffic[lane.slot];
        let hop = lane.hop + 1;
        if transfer.train.entered == hop {
            return self.enter(env, lane.slot);
        }
        if hop == transfer.leg.to {
            return self.expect_end(env, lane.slot);
        }
        let (flit, from) = lane.moved.expect("only these lanes are collected");
        let link = transfer.hops[usize::from(hop)].link;
        self.note_dirty(env, from, link);
        let passages = &mut self.uses[link.index()].trains;
        let passage = passages.iter_mut().find(|passage| passage.slot == lane.slot);
        let changed = &mut passage.expect("it has been entered there").changed;
        *changed = (*changed).min(u32::try_from(flit).expect("fewer than 2³² flits"));
    }

    /// Sorts trains by their first flits.
    fn line_up(&self, trains: &mut [Passage]) {
        for passage in trains.iter_mut().filter(|passage| passage.changed != Passage::UNCHANGED) {
            *passage = self.placed(passage);
        }
        trains.sort_by_key(|passage| passage.first);
    }

    /// Returns the entry of a train on a link, with the current request times.
    fn placed(&self, passage: &Passage) -> Passage {
        let transfer = &self.traffic[passage.slot];
        let row = transfer.row(passage.hop);
        let place = |flit| Place { at: transfer.time(row, flit), rank: passage.rank };
        let begun = transfer.train.begun;
        let (first, last) = (place(0).max(begun), place(passage.flits as usize - 1).max(begun));
        Passage { first, last, ..*passage }
    }

    /// Moves the trains of a group over a link that is free from `free`; returns when the link is free afterwards.
    fn cross_group(
        &mut self,
        id: LinkId,
        group: &[Passage],
        mut free: u64,
        moved: &mut Vec<Lane>,
    ) -> u64 {
        let mut lanes = std::mem::take(&mut self.woven);
        lanes.clear();
        lanes.extend(group.iter().map(|passage| self.lane(id, passage)));
        self.charge(&lanes);
        while let Some((first, limit)) = self.first_lane(&lanes) {
            let lane = &mut lanes[first];
            free = lane.cross(&mut self.traffic[lane.slot].train.times, free, limit);
        }
        moved.extend(lanes.iter().filter(|lane| lane.moved.is_some()));
        self.woven = lanes;
        free
    }

    /// Accounts for the cost of computing lanes.
    fn charge(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            let transfer = &mut self.traffic[lane.slot];
            transfer.train.work += (lane.flits - lane.next) as u64;
            let most = TIRED * u64::from(transfer.flits) * transfer.last_row() as u64;
            if transfer.train.work > most {
                self.tired = Some(lane.slot);
            }
        }
    }
}

/// Returns the number of trains up to and including the last one that has changed.
fn changed(trains: &[Passage]) -> usize {
    let has_changed = |passage: &Passage| passage.changed != Passage::UNCHANGED;
    trains.iter().rposition(has_changed).map_or(0, |last| last + 1)
}

/// Forms a group of the first trains; returns their number, and the position of their last flit's request.
fn close_group(trains: &mut [Passage], free: u64) -> (usize, Place) {
    (trains[0].is_apart, trains[0].before) = (true, free);
    let mut last = trains[0].last;
    let mut end = 1;
    while let Some(passage) = trains.get_mut(end).filter(|passage| passage.first <= last) {
        passage.is_apart = false;
        last = last.max(passage.last);
        end += 1;
    }
    (end, last)
}
