//! Flits of a leg move as a train: worked out ahead of time, and again where trains meet.
//!
//! The flits of a leg keep their order, and a link serves those who ask in the order of asking. So when a leg
//! begins, the times at which its flits ask for each of its links can be worked out in a loop, without a
//! queue, and the engine waits for one event, its end. Trains share links: one that comes after all others that
//! are known on a link changes nothing for them. One that comes between them is *woven in* (see
//! [`weave`](crate::weave)): what has not yet happened on this link is worked out again, and so on the links
//! behind it as far as times change. Nothing that has happened is touched, so the result is the same as
//! if each flit walked by itself, to the picosecond and in the order of ties, which property tests hold.
//!
//! Where that cannot be, or has become too dear, flits walk (see [`scatter`](crate::scatter)). On no link are
//! there both trains and flits that walk.

use std::cmp::Ordering;

use crate::Time;
use crate::component::{Asks, Component};
use crate::engine::{Engine, Event};
use crate::fabric::LinkState;
use crate::network::{LinkId, Network};
use crate::observer::Observer;
use crate::queue::EventQueue;
use crate::transfer::{LegEnd, SlotId, Transfer};
use crate::weave::Lane;

/// A place in the order of events, up to ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) rank: u32,
}

/// A flit of a train that asks for the link of a row of its times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) slot: SlotId,
    pub(crate) row: usize,
    pub(crate) flit: usize,
}

/// What a transfer keeps of its leg as a train.
#[derive(Debug, Default)]
pub(crate) struct Train {
    pub(crate) is_on: bool,
    /// Legs are numbered as they set out.
    pub(crate) number: u64,
    /// The event at which it set out. A flit that asks in this instant asks after it, even if its rank is lower.
    pub(crate) begun: Place,
    /// The way of the flit whose end this event was, if flits tie with it.
    behind: Vec<Place>,
    /// When each flit asks for each link of the leg, row by row; in the last row, when it is at the end.
    pub(crate) times: Vec<u64>,
    /// The hop before which it has not been entered at any link.
    pub(crate) entered: u16,
    /// When its end is expected, and the number of the event that says so.
    end: u64,
    event: u32,
    /// How many flits the component at its end has been given.
    pub(crate) handed: u32,
    /// How often its flits have been worked out, over all links.
    pub(crate) work: u64,
}

/// A train on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    pub(crate) slot: SlotId,
    pub(crate) hop: u16,
    /// The rank of its flits when they ask.
    pub(crate) rank: u32,
    /// How many flits have crossed and are in the accounts of the link.
    pub(crate) crossed: u32,
    /// The first flit whose time of asking has changed since the link was worked out.
    pub(crate) changed: u32,
}

impl Passage {
    pub(crate) const UNCHANGED: u32 = u32::MAX;
}

/// Who uses a link.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkUse {
    /// How many transfers whose flits walk.
    pub(crate) walkers: u32,
    /// When the link is free after all trains, and the last that asks.
    pub(crate) free: u64,
    pub(crate) last: Place,
    pub(crate) trains: Vec<Passage>,
}

/// Who ends at a node that takes flit by flit.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndUse {
    pub(crate) walkers: u32,
    pub(crate) trains: Vec<SlotId>,
}

/// Which links, and which ends that take flits, are in use.
#[derive(Debug)]
pub(crate) struct Uses {
    pub(crate) links: Vec<LinkUse>,
    pub(crate) ends: Vec<EndUse>,
}

impl Uses {
    pub(crate) fn new(network: &Network) -> Self {
        let links = vec![LinkUse::default(); network.links().len()];
        Self { links, ends: vec![EndUse::default(); network.nodes().len()] }
    }
}

/// What all trains share.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    /// How many there were.
    made: u64,
    /// The end of the one that was done last, and how its last flit came there: what ties with the present.
    ended: Place,
    trail: Vec<Place>,
    /// Links to be worked out again, each from a time on.
    pub(crate) dirty: Vec<(u64, LinkId)>,
    /// A train that has been worked out too often.
    pub(crate) tired: Option<SlotId>,
    /// Memory for the lanes of links that are worked out, and booked.
    pub(crate) woven: Vec<Lane>,
    pub(crate) booked: Vec<Lane>,
}

/// Beyond so many times (128 MiB of them) a leg walks.
const LONGEST: u64 = 1 << 24;

/// How flits of a train cross a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) flit: u64,
    /// How long the last flit of the transfer takes.
    pub(crate) last: u64,
    pub(crate) propagation: u64,
    /// What the node behind charges.
    pub(crate) overhead: u64,
}

impl<M> Transfer<M> {
    /// The row of times at which its flits ask for a hop's link.
    pub(crate) fn row(&self, hop: u16) -> usize {
        usize::from(hop - self.leg.from)
    }

    /// The row of times at which its flits are at the end.
    pub(crate) fn last_row(&self) -> usize {
        self.row(self.leg.to)
    }

    pub(crate) fn time(&self, row: usize, flit: usize) -> u64 {
        self.train.times[row * self.flits as usize + flit]
    }

    /// How its flits cross the link of a hop.
    pub(crate) fn pace(&self, hop: u16, link: &LinkState, network: &Network) -> Pace {
        let id = self.hops[usize::from(hop)].link;
        let last = self.flit_bytes(self.flits - 1, network.flit_bytes());
        let stores = hop + 1 == self.leg.to && self.leg.end == LegEnd::Store;
        Pace {
            flit: link.flit,
            last: link.span(last, id, network),
            propagation: link.propagation,
            overhead: if stores { 0 } else { link.overhead },
        }
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Whether legs may move as trains.
    pub(crate) fn merges(&self) -> bool {
        self.config.merge && self.buffers.is_none() && !O::FLITS
    }

    /// Whether a leg can be a train: in order, not too long, and where nobody walks.
    pub(crate) fn can_set_out(&mut self, slot: SlotId, asks: &Asks) -> bool {
        let in_order = match asks {
            Asks::At(_) => true,
            Asks::Each(times) => times.is_sorted(),
        };
        let transfer = self.transfers.get(slot);
        let times = u64::from(transfer.flits) * (transfer.last_row() as u64 + 1);
        let end = self.links[transfer.last_link().index()].to;
        let ends_among_walkers =
            transfer.leg.end == LegEnd::Flits && self.uses.ends[end.index()].walkers > 0;
        let walked = |hop: &crate::transfer::Hop| self.uses.links[hop.link.index()].walkers > 0;
        let hops = transfer.leg_hops();
        in_order && times <= LONGEST && !ends_among_walkers && !hops.iter().any(walked)
    }

    /// Lets a leg set out as a train.
    pub(crate) fn set_out(&mut self, slot: SlotId, asks: &Asks) {
        self.trains.made += 1;
        let transfer = self.transfers.get(slot);
        let flits = transfer.flits as usize;
        let rows = transfer.last_row() + 1;
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
        assert!(train.times[0] >= self.now.ps(), "a transfer asks before the present");
        train.is_on = true;
        train.number = self.trains.made;
        train.begun = Place { at: self.now.ps(), rank: self.reached };
        train.behind.clear();
        if train.times[0] == train.begun.at && self.trains.ended == train.begun {
            train.behind.extend_from_slice(&self.trains.trail);
        }
        train.entered = transfer.leg.from;
        (train.end, train.handed, train.work) = (u64::MAX, 0, 0);
        if transfer.leg.end == LegEnd::Flits {
            let end = self.links[transfer.last_link().index()].to;
            self.uses.ends[end.index()].trains.push(slot);
        }
        self.enter(slot);
        self.weave();
    }

    /// The rank of flits when they ask for the link of a hop.
    pub(crate) fn rank_at(&mut self, slot: SlotId, hop: u16) -> u32 {
        let transfer = self.transfers.get(slot);
        if hop == transfer.leg.from {
            return self.start_rank(slot);
        }
        let before = transfer.hops[usize::from(hop) - 1].link;
        self.flit_ranks + self.links[before.index()].rank
    }

    /// Lets a train cross the links it has not been entered at, up to one where it comes between others.
    pub(crate) fn enter(&mut self, slot: SlotId) {
        let leg = self.transfers.get(slot).leg;
        for hop in self.transfers.get(slot).train.entered..leg.to {
            let rank = self.rank_at(slot, hop);
            self.transfers.get(slot).train.entered = hop + 1;
            if !self.append(slot, hop, rank) {
                return self.squeeze_in(slot, hop, rank);
            }
        }
        self.expect_end(slot);
    }

    /// Lets a train cross a link after all others, if it comes after them.
    #[inline]
    fn append(&mut self, slot: SlotId, hop: u16, rank: u32) -> bool {
        let transfer = self.transfers.get(slot);
        let id = transfer.hops[usize::from(hop)].link;
        let used = &mut self.uses.links[id.index()];
        let (row, flits) = (transfer.row(hop), transfer.flits as usize);
        let begun = transfer.train.begun;
        let first = Place { at: transfer.time(row, 0), rank }.max(begun);
        let ties_as_last = row == 0 && first != begun;
        let is_alone = used.trains.is_empty();
        if !is_alone && (first < used.last || first == used.last && !ties_as_last) {
            return false;
        }
        let link = &self.links[id.index()];
        let pace = transfer.pace(hop, link, &self.network);
        let free = if is_alone { link.free } else { used.free };
        let times = &mut transfer.train.times[row * flits..(row + 2) * flits];
        used.last = Place { at: times[flits - 1], rank }.max(begun);
        used.free = pace.cross(times, free);
        let changed = Passage::UNCHANGED;
        used.trains.push(Passage { slot, hop, rank, crossed: 0, changed });
        true
    }

    /// Enters a train at a link where it comes between others.
    fn squeeze_in(&mut self, slot: SlotId, hop: u16, rank: u32) {
        let transfer = self.transfers.get(slot);
        let link = transfer.hops[usize::from(hop)].link;
        let first = transfer.time(transfer.row(hop), 0);
        self.note_dirty(first, link);
        let passage = Passage { slot, hop, rank, crossed: 0, changed: 0 };
        self.uses.links[link.index()].trains.push(passage);
    }

    /// Waits for the end of a train, if it is another than was expected.
    pub(crate) fn expect_end(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let (row, flits) = (transfer.last_row(), transfer.flits as usize);
        let end = transfer.time(row, flits - 1);
        if end != transfer.train.end {
            transfer.train.end = end;
            transfer.train.event = transfer.train.event.wrapping_add(1);
            self.push_end(slot);
        }
    }

    fn push_end(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let link = transfer.leg_hops()[transfer.last_row() - 1].link;
        let rank = self.flit_ranks + self.links[link.index()].rank;
        let event = Event::TrainDone { transfer: slot, number: transfer.train.event };
        self.queue.push(Time::from_ps(transfer.train.end), rank, event);
    }

    /// A train is at its end, if this is still expected.
    pub(crate) fn train_done(&mut self, slot: SlotId, number: u32) {
        let train = &self.transfers.get(slot).train;
        if !train.is_on || train.event != number {
            return;
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
        let link = transfer.leg_hops()[transfer.last_row() - 1].link;
        let end = transfer.train.end;
        let mut first = slot;
        for place in 0..self.uses.links[link.index()].trains.len() {
            let Passage { slot: other, hop, .. } = self.uses.links[link.index()].trains[place];
            let transfer = self.transfers.get(other);
            let ends = hop + 1 == transfer.leg.to && transfer.train.end == end;
            if ends && other != first {
                let [a, b] = [other, first].map(|slot| self.end_of(slot));
                first = if self.order(a, b) == Ordering::Less { other } else { first };
            }
        }
        first
    }

    fn end_of(&mut self, slot: SlotId) -> Spot {
        let transfer = self.transfers.get(slot);
        Spot { slot, row: transfer.last_row(), flit: transfer.flits as usize - 1 }
    }

    /// All flits of a train are at its end.
    fn end_train(&mut self, slot: SlotId) {
        self.note_end(slot);
        let transfer = self.transfers.get(slot);
        let (leg, flits) = (transfer.leg, u64::from(transfer.flits));
        for hop in leg.from..leg.to {
            self.leave(slot, hop);
        }
        self.flit_hops += flits * u64::from(leg.to - leg.from);
        if leg.end == LegEnd::Flits {
            self.hand_over_to(slot);
        }
        self.transfers.get(slot).train.is_on = false;
        self.leg_over(slot);
    }

    /// Keeps how the last flit of a train came to its end, because that decides what lies before the present.
    fn note_end(&mut self, slot: SlotId) {
        let end = self.end_of(slot);
        self.trains.ended = self.place(end);
        let mut trail = std::mem::take(&mut self.trains.trail);
        trail.clear();
        trail.extend(self.trail(end));
        self.trains.trail = trail;
    }

    pub(crate) fn place(&self, spot: Spot) -> Place {
        let transfer = self.transfers.at(spot.slot);
        let rank = match spot.row {
            0 => self.network.rank_of_start(self.network.link(transfer.leg_hops()[0].link).from),
            row => self.links[transfer.leg_hops()[row - 1].link.index()].rank,
        };
        let place = Place { at: transfer.time(spot.row, spot.flit), rank: self.flit_ranks + rank };
        place.max(transfer.train.begun)
    }

    /// What decides between flits of the same place: their places on the way there, backwards, then the way of
    /// those they began behind, then their numbers.
    fn trail(&self, Spot { slot, row, flit }: Spot) -> impl Iterator<Item = Place> {
        let Train { begun, behind, number, .. } = &self.transfers.at(slot).train;
        let ties = self.place(Spot { slot, row: 0, flit }) == *begun;
        let behind = behind.iter().copied().filter(move |_| ties);
        let places = (0..row).rev().map(move |row| self.place(Spot { slot, row, flit }));
        places.chain(behind).chain([Place { at: *number, rank: 0 }])
    }

    /// The order of flits that have the same place: that in which the link by which they came served them.
    pub(crate) fn order(&self, a: Spot, b: Spot) -> Ordering {
        self.trail(a).cmp(self.trail(b))
    }

    /// Whether a flit has asked, up to the present event.
    #[inline]
    pub(crate) fn is_past(&self, place: Place, spot: Spot) -> bool {
        let here = Place { at: self.now.ps(), rank: self.reached };
        place < here || place == here && self.is_before_end(place, spot)
    }

    #[cold]
    fn is_before_end(&self, place: Place, spot: Spot) -> bool {
        self.trains.ended == place && self.trail(spot).lt(self.trains.trail.iter().copied())
    }
}

impl Pace {
    /// When a flit leaves the node behind the link, if it starts at a time; the first at the overhead's end.
    #[inline]
    pub(crate) fn arrival(&self, start: u64, end: u64) -> u64 {
        (end + self.propagation).max(start + 1)
    }

    /// Works out a row of times from the one before, for a train between whose flits nobody crosses the
    /// link: when that is free then.
    fn cross(&self, times: &mut [u64], mut free: u64) -> u64 {
        let flits = times.len() / 2;
        let (asks, leaves) = times.split_at_mut(flits);
        let first = if flits == 1 { self.last } else { self.flit };
        let start = free.max(asks[0]);
        free = start + first;
        let header = self.arrival(start, free) + self.overhead;
        leaves[0] = header;
        if flits == 1 {
            return free;
        }
        for (ask, leaves) in asks[1..flits - 1].iter().zip(&mut leaves[1..flits - 1]) {
            free = free.max(*ask) + self.flit;
            *leaves = (free + self.propagation).max(header);
        }
        let start = free.max(asks[flits - 1]);
        free = start + self.last;
        leaves[flits - 1] = self.arrival(start, free).max(header);
        free
    }
}
