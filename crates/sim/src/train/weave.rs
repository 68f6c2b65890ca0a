//! Trains that meet on a link are woven together.
//!
//! A link knows the trains on it, by their first flits. Those that are *apart* from the ones before them form
//! groups: a train alone, or several whose flits come between each other. When a train comes in, or flits come
//! at other times than before, the link is worked out again from the group that this falls into, group by
//! group, up to one before which the link is free when it was before. If that changes when a train's
//! flits leave, the next link of this train is worked out again as well. Links are taken in the order of the times
//! from which on something has changed; a change has its effects later than its cause, so this comes to an end.

use super::Trains;
use std::cmp::Ordering;

use super::Passage;
use super::cross::clamp;
use super::order::Ask;
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, SlotId, TransferId};

/// A train is tired when each of its flits has been worked out so often on each link: walking is not dearer then.
const TIRED: u64 = 6;

/// With more trains than this on a link that come between each other, walking is not dearer either.
pub(crate) const CROWD: usize = 12;

/// The flits of a train that have not crossed a link, in the order in which they will.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) id: TransferId,
    pub(crate) slot: SlotId,
    pub(crate) hop: u16,
    /// The rank of its flits when they ask, and the event that they ask after.
    rank: u32,
    begun: Place,
    row: usize,
    flits: usize,
    /// The flit that asks next, and its place; that is [`Place::NONE`] after the last.
    pub(crate) next: usize,
    pub(crate) place: Place,
    flit: u64,
    last: u64,
    propagation: u64,
    overhead: u64,
    /// The first flit whose time of asking may have changed.
    pub(crate) stale: usize,
    /// The first flit that leaves in another way than before, and the earlier time of the two.
    pub(crate) moved: Option<(usize, u64)>,
}

impl Lane {
    pub(crate) fn ask(&self) -> Ask {
        Ask { slot: self.slot, row: self.row, flit: self.next }
    }

    #[inline]
    pub(crate) fn span(&self) -> u64 {
        if self.next + 1 == self.flits { self.last } else { self.flit }
    }

    /// Turns to the next flit of those that ask at some times.
    #[inline]
    pub(crate) fn step(&mut self, asks: &[u64]) {
        self.next += 1;
        self.place = match asks.get(self.next) {
            Some(&at) => Place { at, rank: self.rank }.max(self.begun),
            None => Place::NONE,
        };
    }

    /// The times at which its flits ask.
    pub(crate) fn asks<'a>(&self, times: &'a [u64]) -> &'a [u64] {
        &times[self.row * self.flits..][..self.flits]
    }

    /// Lets flits cross a link that is free from `free` on, as long as they ask before `limit`: when it is
    /// free then.
    #[inline]
    pub(crate) fn cross(&mut self, times: &mut [u64], mut free: u64, limit: Place) -> u64 {
        let rows = &mut times[self.row * self.flits..(self.row + 2) * self.flits];
        let (asks, leaves) = rows.split_at_mut(self.flits);
        loop {
            let start = free.max(self.place.at);
            free = start + self.span();
            let arrived = (free + self.propagation).max(start + 1);
            let header = if self.next == 0 { arrived + self.overhead } else { leaves[0] };
            let left = arrived.max(header);
            let before = std::mem::replace(&mut leaves[self.next], left);
            // Flits that leave together do so in the order in which they came, which may have changed.
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

    /// Takes what lies beyond the end of simulated time for one instant. That it is another than before moves
    /// nothing, so a change still has its effects later than its cause.
    #[cold]
    fn stop_at_horizon(&mut self, leaves: &mut [u64], free: u64) -> u64 {
        clamp(&mut leaves[..self.next]);
        self.moved = self.moved.filter(|&(_, from)| from < Time::FAR);
        free.min(Time::FAR)
    }
}

impl<M> Trains<M> {
    /// Notes that a link is to be worked out again from a time on. It books what has happened first, because a
    /// train that comes now comes after that.
    pub(crate) fn note_dirty(&mut self, env: &mut impl Environment<M>, from: u64, link: LinkId) {
        if let Some((time, _)) = self.dirty.iter_mut().find(|(_, other)| *other == link) {
            *time = from.min(*time);
        } else {
            self.dirty.push((from, link));
            self.book(env, link);
        }
    }

    /// Works out all links that are to be.
    pub(crate) fn weave(&mut self, env: &mut impl Environment<M>) {
        while let Some(place) = (0..self.dirty.len()).min_by_key(|&i| self.dirty[i]) {
            let (from, link) = self.dirty.swap_remove(place);
            self.work_out(env, link, from);
        }
        if let Some(slot) = self.tired.take() {
            self.scatter(env, slot);
        }
    }

    /// A train on a link, from those flits on that are not in the accounts.
    #[inline]
    pub(crate) fn lane(&self, id: LinkId, passage: &Passage) -> Lane {
        let link = &self.traffic.links[id.index()];
        let &Passage { slot, hop, rank, crossed, changed, span, flits, .. } = passage;
        let transfer = self.traffic.transfers.at(slot);
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

    /// The lane whose flit asks first, and the place up to which it is the only one. None if all are over.
    pub(crate) fn first_lane(&self, lanes: &[Lane]) -> Option<(usize, Place)> {
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

    /// Works out when flits that ask for a link from a time on cross it, and tells the links behind it.
    fn work_out(&mut self, env: &mut impl Environment<M>, id: LinkId, from: u64) {
        let used = &mut self.uses[id.index()];
        let booked = used.booked as usize;
        let mut trains = std::mem::take(&mut used.trains);
        let starts = |passage: &Passage| passage.is_apart && passage.first.at < from;
        let at = booked + trains[booked..].iter().rposition(starts).unwrap_or(0);
        self.line_up(&mut trains[at..]);
        let mut free =
            if at == booked { self.traffic.links[id.index()].free } else { trains[at].before };
        let mut rest = &mut trains[at..];
        let mut changed =
            rest.iter().filter(|passage| passage.changed != Passage::UNCHANGED).count();
        let mut moved = std::mem::take(&mut self.moved);
        loop {
            let (end, last) = close_group(rest, free);
            let group = rest.split_off_mut(..end).expect("no group is longer than all");
            changed -= group.iter().filter(|passage| passage.changed != Passage::UNCHANGED).count();
            free = self.cross_group(id, group, free, &mut moved);
            group.iter_mut().for_each(|passage| passage.changed = Passage::UNCHANGED);
            let Some(next) = rest.first_mut() else {
                let used = &mut self.uses[id.index()];
                (used.free, used.last) = (free, last);
                break;
            };
            if changed == 0 && next.is_apart && next.starts_alike(free) {
                next.before = free;
                break;
            }
        }
        self.uses[id.index()].trains = trains;
        moved.drain(..).for_each(|lane| self.pass_on(env, &lane));
        self.moved = moved;
    }

    /// Puts trains into the order of their first flits.
    fn line_up(&self, trains: &mut [Passage]) {
        for passage in trains.iter_mut().filter(|passage| passage.changed != Passage::UNCHANGED) {
            *passage = self.placed(passage);
        }
        trains.sort_by_key(|passage| passage.first);
    }

    /// A train on a link as its flits come now.
    pub(crate) fn placed(&self, passage: &Passage) -> Passage {
        let transfer = self.traffic.transfers.at(passage.slot);
        let row = transfer.row(passage.hop);
        let place = |flit| Place { at: transfer.time(row, flit), rank: passage.rank };
        let begun = transfer.train.begun;
        let (first, last) = (place(0).max(begun), place(passage.flits as usize - 1).max(begun));
        Passage { first, last, ..*passage }
    }

    /// Lets the trains of a group cross a link that is free from `free` on: when it is free then.
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
            free = lane.cross(&mut self.traffic.transfers.get(lane.slot).train.times, free, limit);
        }
        moved.extend(lanes.iter().filter(|lane| lane.moved.is_some()));
        self.woven = lanes;
        free
    }

    /// Counts what it costs to work out lanes.
    pub(crate) fn charge(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            let transfer = self.traffic.transfers.get(lane.slot);
            transfer.train.work += (lane.flits - lane.next) as u64;
            let most = TIRED * u64::from(transfer.flits) * transfer.last_row() as u64;
            if transfer.train.work > most {
                self.tired = Some(lane.slot);
            }
        }
    }
}

/// Makes a group of the first trains: how many they are, and where their last flit asks.
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
