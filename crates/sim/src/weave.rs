//! Trains that meet on a link are woven together.
//!
//! A link keeps its accounts up to some event, and knows the trains on it. What the others do after that is
//! worked out by merging their flits in the order of asking. If that changes when a train's flits leave, the
//! next link of this train is worked out again as well. Links are taken in the order of the times from which on
//! something has changed; a change has its effects later than its cause, so this comes to an end.

use std::cmp::Ordering;

use crate::Span;
use crate::component::{Component, TransferId};
use crate::engine::Engine;
use crate::network::LinkId;
use crate::observer::{Observer, Wait};
use crate::train::{Pace, Passage, Place, Spot};
use crate::transfer::SlotId;

/// A train is tired when each of its flits has been worked out so often on each link: walking is
/// not much dearer then.
const TIRED: u64 = 32;

/// The flits of a train that have not crossed a link, in the order in which they will.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    id: TransferId,
    slot: SlotId,
    hop: u16,
    row: usize,
    flits: usize,
    /// The flit that asks next, and its place; that is [`Lane::OVER`] after the last.
    next: usize,
    place: Place,
    /// The rank of its flits when they ask, and the event that they ask after.
    rank: u32,
    begun: Place,
    pace: Pace,
    /// The first flit whose time of asking may have changed.
    stale: usize,
    /// The first flit that leaves in another way than before, and the earlier time of the two.
    moved: Option<(usize, u64)>,
}

impl Lane {
    const OVER: Place = Place { at: u64::MAX, rank: u32::MAX };

    fn spot(&self) -> Spot {
        Spot { slot: self.slot, row: self.row, flit: self.next }
    }

    fn span(&self) -> u64 {
        if self.next + 1 == self.flits { self.pace.last } else { self.pace.flit }
    }

    /// Turns to the next flit.
    #[inline]
    fn step(&mut self, times: &[u64]) {
        self.next += 1;
        if self.next == self.flits {
            self.place = Self::OVER;
        } else {
            let at = times[self.row * self.flits + self.next];
            self.place = Place { at, rank: self.rank }.max(self.begun);
        }
    }

    /// Lets flits cross a link that is free from `free` on, as long as they ask before `limit`: when it is
    /// free then, and the place of the last one.
    #[inline]
    fn cross(&mut self, times: &mut [u64], mut free: u64, limit: Place) -> (u64, Place) {
        let leaves = (self.row + 1) * self.flits;
        loop {
            let start = free.max(self.place.at);
            free = start + self.span();
            let arrived = self.pace.arrival(start, free);
            let header = if self.next == 0 { arrived + self.pace.overhead } else { times[leaves] };
            let left = arrived.max(header);
            let before = std::mem::replace(&mut times[leaves + self.next], left);
            // Flits that leave together do so in the order in which they came, which may have changed.
            let is_stale = self.next >= self.stale && arrived <= header;
            if self.moved.is_none() && (left != before || is_stale) {
                self.moved = Some((self.next, left.min(before)));
            }
            let crossed = self.place;
            self.step(times);
            if self.place >= limit {
                return (free, crossed);
            }
        }
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Notes that a link is to be worked out again from a time on. It settles its accounts first, because a
    /// train that comes now comes after everything that has happened, whatever its rank.
    pub(crate) fn note_dirty(&mut self, from: u64, link: LinkId) {
        if let Some((time, _)) = self.trains.dirty.iter_mut().find(|(_, other)| *other == link) {
            *time = from.min(*time);
        } else {
            self.trains.dirty.push((from, link));
            self.book(link);
        }
    }

    /// Works out all links that are to be.
    pub(crate) fn weave(&mut self) {
        while let Some(place) = (0..self.trains.dirty.len()).min_by_key(|&i| self.trains.dirty[i]) {
            let (_, link) = self.trains.dirty.swap_remove(place);
            self.work_out(link);
        }
        if let Some(slot) = self.trains.tired.take() {
            self.scatter(slot);
        }
    }

    /// Puts the trains of a link beside each other, from those flits on that are not in its accounts.
    fn lanes(&self, id: LinkId, lanes: &mut Vec<Lane>) {
        lanes.clear();
        let link = &self.links[id.index()];
        for &Passage { slot, hop, rank, crossed, changed } in &self.uses.links[id.index()].trains {
            let transfer = self.transfers.at(slot);
            let (row, flits, next) =
                (transfer.row(hop), transfer.flits as usize, crossed as usize);
            let begun = transfer.train.begun;
            let place = if next == flits {
                Lane::OVER
            } else {
                Place { at: transfer.time(row, next), rank }.max(begun)
            };
            lanes.push(Lane {
                id: transfer.id,
                slot,
                hop,
                row,
                flits,
                next,
                place,
                rank,
                begun,
                pace: transfer.pace(hop, link, &self.network),
                stale: changed as usize,
                moved: None,
            });
        }
    }

    /// The lane whose flit asks first, if any asks, and the place up to which it is the only one.
    fn first_lane(&self, lanes: &[Lane]) -> Option<(usize, Place)> {
        let (mut first, mut limit) = (0, Lane::OVER);
        for (index, lane) in lanes.iter().enumerate().skip(1) {
            let order = lane.place.cmp(&lanes[first].place);
            let is_first = match order {
                Ordering::Equal if lane.place != Lane::OVER => {
                    self.order(lane.spot(), lanes[first].spot()).is_lt()
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
        (lanes.first()?.place != Lane::OVER || lanes[first].place != Lane::OVER)
            .then_some((first, limit))
    }

    /// Works out when the flits that have not crossed a link do so, and tells the links behind it.
    fn work_out(&mut self, id: LinkId) {
        let mut lanes = std::mem::take(&mut self.trains.woven);
        self.lanes(id, &mut lanes);
        let mut free = self.links[id.index()].free;
        let mut last = Place::default();
        self.charge(&lanes);
        while let Some((first, limit)) = self.first_lane(&lanes) {
            let lane = &mut lanes[first];
            let times = &mut self.transfers.get(lane.slot).train.times;
            (free, last) = lane.cross(times, free, limit);
        }
        let used = &mut self.uses.links[id.index()];
        (used.free, used.last) = (free, last);
        used.trains.iter_mut().for_each(|passage| passage.changed = Passage::UNCHANGED);
        for lane in &lanes {
            self.pass_on(lane);
        }
        self.trains.woven = lanes;
    }

    /// Counts what it costs to work out lanes.
    fn charge(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            let transfer = self.transfers.get(lane.slot);
            transfer.train.work += (lane.flits - lane.next) as u64;
            let most = TIRED * u64::from(transfer.flits) * transfer.last_row() as u64;
            if transfer.train.work > most {
                self.trains.tired = Some(lane.slot);
            }
        }
    }

    /// Tells the link behind that flits leave in another way than before.
    fn pass_on(&mut self, lane: &Lane) {
        let transfer = self.transfers.get(lane.slot);
        let next = lane.hop + 1;
        if transfer.train.entered == next {
            return self.enter(lane.slot);
        }
        let Some((flit, from)) = lane.moved else { return };
        if next == transfer.leg.to {
            return self.expect_end(lane.slot);
        }
        let link = transfer.hops[usize::from(next)].link;
        self.note_dirty(from, link);
        let passages = &mut self.uses.links[link.index()].trains;
        let passage = passages.iter_mut().find(|passage| passage.slot == lane.slot);
        let changed = &mut passage.expect("it has been entered there").changed;
        *changed = (*changed).min(u32::try_from(flit).expect("fewer than 2³² flits"));
    }

    /// Brings the accounts of a link up to the present event.
    pub(crate) fn book(&mut self, id: LinkId) {
        if self.uses.links[id.index()].trains.is_empty() {
            return;
        }
        let mut lanes = std::mem::take(&mut self.trains.booked);
        self.lanes(id, &mut lanes);
        while let Some((first, _)) = self.first_lane(&lanes) {
            let lane = &mut lanes[first];
            if !self.is_past(lane.place, lane.spot()) {
                break;
            }
            self.book_flit(id, lane);
            lane.step(&self.transfers.get(lane.slot).train.times);
        }
        for (passage, lane) in self.uses.links[id.index()].trains.iter_mut().zip(&lanes) {
            passage.crossed = u32::try_from(lane.next).expect("fewer than 2³² flits");
        }
        self.trains.booked = lanes;
    }

    /// Puts the next flit of a lane into the accounts of a link.
    fn book_flit(&mut self, id: LinkId, lane: &Lane) {
        let link = &mut self.links[id.index()];
        let start = link.free.max(lane.place.at);
        if start > lane.place.at && link.last != lane.id {
            let span = Span::from_ps(start - lane.place.at);
            self.observer.waited(lane.id, Wait { link: id, behind: link.last, span });
        }
        let span = lane.span();
        link.free = start + span;
        link.busy += span;
        link.last = lane.id;
    }

    /// A train whose flits have all crossed a link leaves it.
    pub(crate) fn leave(&mut self, slot: SlotId, hop: u16) {
        let link = self.transfers.get(slot).hops[usize::from(hop)].link;
        self.book(link);
        self.uses.links[link.index()].trains.retain(|passage| passage.slot != slot);
    }

    /// Gives a component that takes flit by flit those that were delivered before a train's end, of this and
    /// of other trains.
    pub(crate) fn hand_over_to(&mut self, slot: SlotId) {
        let end = self.links[self.transfers.get(slot).last_link().index()].to.index();
        while self.transfers.get(slot).train.handed < self.transfers.get(slot).flits {
            let next = self.next_delivered(end).expect("this train is among them");
            self.hand_over_one(next);
        }
        self.uses.ends[end].trains.retain(|&other| other != slot);
    }

    /// The train to an end whose flit is delivered next.
    pub(crate) fn next_delivered(&self, end: usize) -> Option<SlotId> {
        let waiting = |slot: &SlotId| {
            let transfer = self.transfers.at(*slot);
            let is_known = transfer.train.entered == transfer.leg.to;
            is_known && transfer.train.handed < transfer.flits
        };
        let slots = self.uses.ends[end].trains.iter().copied().filter(waiting);
        slots.min_by(|&a, &b| {
            let [a, b] = [a, b].map(|slot| self.delivery(slot));
            self.place(a).cmp(&self.place(b)).then_with(|| self.order(a, b))
        })
    }

    /// The flit of a train that is delivered next.
    pub(crate) fn delivery(&self, slot: SlotId) -> Spot {
        let transfer = self.transfers.at(slot);
        Spot { slot, row: transfer.last_row(), flit: transfer.train.handed as usize }
    }

    pub(crate) fn hand_over_one(&mut self, slot: SlotId) {
        let Spot { row, flit, .. } = self.delivery(slot);
        let transfer = self.transfers.get(slot);
        let (at, first) = (transfer.time(row, flit), transfer.train.handed);
        transfer.train.handed += 1;
        self.hand_over(slot, first, &[at]);
    }
}
