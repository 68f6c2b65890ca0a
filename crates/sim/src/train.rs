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

use smallvec::SmallVec;

use crate::Time;
use crate::component::{Asks, Component};
use crate::engine::{Engine, Event};
use crate::fabric::{LinkState, Paces};
use crate::light::Light;
use crate::network::Network;
use crate::observer::Observer;
use crate::order::{Place, Spot};
use crate::queue::EventQueue;
use crate::transfer::{Hop, LegEnd, SlotId, Transfer};
use crate::weave::CROWD;

/// What a transfer keeps of its leg as a train.
#[derive(Debug, Default)]
pub(crate) struct Train {
    pub(crate) is_on: bool,
    /// Whether only the first and the last row of times are known, because nobody has met it yet.
    pub(crate) is_brief: bool,
    /// Legs are numbered as they set out.
    pub(crate) number: u64,
    /// The event at which it set out. A flit that asks in this instant asks after it, even if its rank is lower.
    pub(crate) begun: Place,
    /// The way of the flit whose end this event was, if others on the first link may tie with that. All who do
    /// are there when it sets out, because they have crossed the link by which that flit came.
    pub(crate) behind: Vec<Place>,
    /// When each flit asks for each link of the leg, row by row; in the last row, when it is at the end.
    pub(crate) times: Vec<u64>,
    /// The first hop at whose link it has not been entered.
    pub(crate) entered: u16,
    /// When its end is expected, and the number of the event that says so.
    pub(crate) end: u64,
    event: u32,
    /// How many flits the component at its end has been given.
    pub(crate) handed: u32,
    /// How often its flits have been worked out, over all links.
    pub(crate) work: u64,
    pub(crate) light: Light,
}

/// A train on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    pub(crate) slot: SlotId,
    pub(crate) flits: u32,
    /// How many flits have crossed and are in the accounts of the link.
    pub(crate) crossed: u32,
    /// The first flit whose time of asking has changed since the link was worked out.
    pub(crate) changed: u32,
    /// The rank of its flits when they ask.
    pub(crate) rank: u32,
    pub(crate) hop: u16,
    /// Whether it comes after all flits of the trains before it.
    pub(crate) is_apart: bool,
    /// Whether only two rows of the train's times are known.
    pub(crate) is_brief: bool,
    /// When the link is free before it, if it is apart.
    pub(crate) before: u64,
    /// How long its last flit takes.
    pub(crate) span: u64,
    /// Where its first and its last flit ask.
    pub(crate) first: Place,
    pub(crate) last: Place,
}

impl Passage {
    pub(crate) const UNCHANGED: u32 = u32::MAX;
}

/// Who uses a link. Two lines of a cache, as every hop of every transfer comes here.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct LinkUse {
    /// How many transfers whose flits walk.
    pub(crate) walkers: u32,
    /// How many trains are light, and the event at which the last of them set out.
    pub(crate) light: u32,
    pub(crate) begun: Place,
    /// Whether that one may tie with others that have asked.
    pub(crate) is_behind: bool,
    /// How many trains, of the first, are wholly in the accounts.
    pub(crate) booked: u32,
    /// When the link is free after all trains, and where the last flit asks.
    pub(crate) free: u64,
    pub(crate) last: Place,
    /// By their first flits; flits of those that are not apart come between each other. Most often there is one.
    pub(crate) trains: SmallVec<[Passage; 1]>,
}

const _: () = assert!(size_of::<LinkUse>() == 128 && size_of::<Passage>() == 64);

impl LinkUse {
    /// The trains that are not wholly in the accounts.
    pub(crate) fn unbooked(&self) -> &[Passage] {
        &self.trains[self.booked as usize..]
    }

    /// Whether a flit that asks may tie with one that begins at an event; not those that begin there, too.
    fn may_tie(&self, begun: Place) -> bool {
        let is_behind = self.is_behind || self.begun != begun;
        self.light > 0 && is_behind || !self.trains.is_empty()
    }
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

/// Beyond so many times (128 MiB of them) a leg walks.
const LONGEST: u64 = 1 << 24;

/// From so many flits on a train that meets nobody keeps only two rows of times.
const LONG: u32 = 64;

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
        if self.train.is_brief && row > 0 {
            return self.brief_time(row, flit);
        }
        self.train.times[row * self.flits as usize + flit]
    }

    #[cold]
    fn brief_time(&self, row: usize, flit: usize) -> u64 {
        if row == self.last_row() {
            return self.train.times[self.flits as usize + flit];
        }
        debug_assert_eq!(flit + 1, self.flits as usize, "only the last flit's way is known");
        self.leg_hops()[row].header
    }

    /// The link before the end of the leg.
    pub(crate) fn end_link(&self) -> crate::network::LinkId {
        self.hops[usize::from(self.leg.to) - 1].link
    }

    /// What the node behind a hop's link charges the leg.
    pub(crate) fn charged(&self, hop: u16, link: &LinkState) -> u64 {
        let stores = hop + 1 == self.leg.to && self.leg.end == LegEnd::Store;
        if stores { 0 } else { link.overhead }
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
        let walked = |hop: &Hop| self.uses.links[hop.link.index()].walkers > 0;
        let hops = transfer.leg_hops();
        in_order && times <= LONGEST && !ends_among_walkers && !hops.iter().any(walked)
    }

    /// Lets a leg set out as a train.
    pub(crate) fn set_out(&mut self, slot: SlotId, asks: &Asks) {
        let is_brief = self.transfers.get(slot).flits >= LONG && self.meets_nobody(slot);
        let transfer = self.transfers.get(slot);
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
        self.begin_train(slot, is_brief);
        if self.transfers.get(slot).leg.end == LegEnd::Flits {
            self.enter_end(slot);
        }
        self.unpack_around(slot);
        self.enter(slot);
        self.weave();
    }

    /// Numbers a train whose first times are known, and notes when it begins.
    ///
    /// # Panics
    /// If it asks before the present.
    pub(crate) fn begin_train(&mut self, slot: SlotId, is_brief: bool) {
        let begun = Place { at: self.now.ps(), rank: self.reached };
        let transfer = self.transfers.get(slot);
        let first = transfer.train.times[0];
        assert!(first >= begun.at, "a transfer asks before the present");
        let ties = first == begun.at && self.trains.ended == begun && {
            let link = transfer.leg_hops()[0].link;
            self.uses.links[link.index()].may_tie(begun)
        };
        if ties {
            self.write_down_trail();
        }
        self.trains.made += 1;
        let transfer = self.transfers.get(slot);
        let train = &mut transfer.train;
        (train.is_on, train.is_brief) = (true, is_brief);
        (train.number, train.begun) = (self.trains.made, begun);
        train.behind.clear();
        if ties {
            train.behind.extend_from_slice(&self.trains.trail);
        }
        train.entered = transfer.leg.from;
        (train.end, train.handed, train.work) = (u64::MAX, 0, 0);
    }

    /// Whether no other train is on the links of a leg, or to its end.
    fn meets_nobody(&mut self, slot: SlotId) -> bool {
        let transfer = self.transfers.get(slot);
        let end = self.links[transfer.last_link().index()].to;
        let is_free = |hop: &Hop| {
            let used = &self.uses.links[hop.link.index()];
            used.light == 0 && used.trains.is_empty()
        };
        let ends_alone =
            transfer.leg.end != LegEnd::Flits || self.uses.ends[end.index()].trains.is_empty();
        ends_alone && transfer.leg_hops().iter().all(is_free)
    }

    pub(crate) fn enter_end(&mut self, slot: SlotId) {
        let end = self.links[self.transfers.get(slot).last_link().index()].to.index();
        if let Some(&other) = self.uses.ends[end].trains.first() {
            self.write_out(other);
        }
        self.uses.ends[end].trains.push(slot);
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
        while let Err(hop) = self.append(slot) {
            let link = self.transfers.get(slot).hops[usize::from(hop)].link;
            match self.uses.links[link.index()].trains[0] {
                Passage { slot: other, is_brief: true, .. } => self.write_out(other),
                _ => return self.squeeze_in(slot, hop),
            }
        }
        self.expect_end(slot);
    }

    /// Lets a train cross links one after the other, as long as it comes after all others: to the end of its leg,
    /// or up to a hop where it does not.
    fn append(&mut self, slot: SlotId) -> Result<(), u16> {
        let entered = self.transfers.get(slot).train.entered;
        let mut rank = self.rank_at(slot, entered);
        let (links, uses) = (&self.links[..], &mut self.uses.links[..]);
        let transfer = self.transfers.get(slot);
        let (leg, begun) = (transfer.leg, transfer.train.begun);
        let mut paces = Paces::of_last_flit(transfer, &self.network);
        for hop in entered..leg.to {
            let id = transfer.hops[usize::from(hop)].link;
            let (link, used) = (&links[id.index()], &mut uses[id.index()]);
            let mut passage = transfer.passage(hop, rank, paces.span(link, id));
            passage.before = link.free;
            if let Some(first) = used.trains.first() {
                // Of those that came by one link at one time, the last on that link is the last here.
                let ties_as_last = (hop == leg.from || hop > entered) && passage.first != begun;
                let comes_last =
                    passage.first > used.last || passage.first == used.last && ties_as_last;
                if first.is_brief || !comes_last {
                    transfer.train.entered = hop;
                    return Err(hop);
                }
                passage.before = used.free;
            }
            used.free = transfer.cross(hop, link, passage.before, passage.span);
            used.last = passage.last;
            used.trains.push(passage);
            rank = self.flit_ranks + link.rank;
        }
        transfer.train.entered = leg.to;
        Ok(())
    }

    /// Enters a train at a link where it comes between others.
    fn squeeze_in(&mut self, slot: SlotId, hop: u16) {
        let rank = self.rank_at(slot, hop);
        let transfer = self.transfers.get(slot);
        transfer.train.entered = hop + 1;
        let link = transfer.hops[usize::from(hop)].link;
        let span =
            Paces::of_last_flit(transfer, &self.network).span(&self.links[link.index()], link);
        let passage = transfer.passage(hop, rank, span);
        let passage = Passage { changed: 0, is_apart: false, ..passage };
        self.note_dirty(passage.first.at, link);
        let used = &mut self.uses.links[link.index()];
        used.trains.push(passage);
        if used.unbooked().len() > CROWD {
            self.trains.tired = Some(slot);
        }
    }

    /// Works out the rows of a train that has kept only two.
    #[inline]
    pub(crate) fn write_out(&mut self, slot: SlotId) {
        if self.transfers.get(slot).train.is_brief {
            self.write_out_rows(slot);
        }
    }

    #[cold]
    fn write_out_rows(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let (leg, flits) = (transfer.leg, transfer.flits as usize);
        transfer.train.is_brief = false;
        transfer.train.times.resize(flits * (transfer.last_row() + 1), 0);
        for hop in leg.from..leg.to {
            let id = transfer.hops[usize::from(hop)].link;
            let link = &self.links[id.index()];
            let passage = &mut self.uses.links[id.index()].trains[0];
            passage.is_brief = false;
            transfer.cross(hop, link, passage.before, passage.span);
            transfer.hops[usize::from(hop)].header = Hop::OPEN;
        }
    }

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
        let rank = self.flit_ranks + self.links[transfer.end_link().index()].rank;
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

    pub(crate) fn end_of(&self, slot: SlotId) -> Spot {
        let transfer = self.transfers.at(slot);
        Spot { slot, row: transfer.last_row(), flit: transfer.flits as usize - 1 }
    }

    /// All flits of a train are at its end.
    fn end_train(&mut self, slot: SlotId) {
        self.note_end(slot);
        let transfer = self.transfers.get(slot);
        let (leg, flits) = (transfer.leg, u64::from(transfer.flits));
        if transfer.train.light.is_on {
            self.leave_light(slot);
        } else {
            (leg.from..leg.to).for_each(|hop| self.leave(slot, hop));
        }
        self.flit_hops += flits * u64::from(leg.to - leg.from);
        if leg.end == LegEnd::Flits {
            self.hand_over_to(slot);
        }
        self.transfers.get(slot).train.is_on = false;
        self.leg_over(slot);
    }
}

impl<M> Transfer<M> {
    /// What is known of its train on the link of a hop it comes to, where its last flit takes `span`.
    #[inline]
    pub(crate) fn passage(&self, hop: u16, rank: u32, span: u64) -> Passage {
        let Train { is_brief, begun, times, .. } = &self.train;
        let flits = self.flits as usize;
        let row = if *is_brief { usize::from(hop > self.leg.from) } else { self.row(hop) };
        let row = &times[row * flits..(row + 1) * flits];
        let place = |at| Place { at, rank }.max(*begun);
        Passage {
            slot: self.slot,
            flits: self.flits,
            crossed: 0,
            changed: Passage::UNCHANGED,
            rank,
            hop,
            is_apart: true,
            is_brief: *is_brief,
            before: 0,
            span,
            first: place(row[0]),
            last: place(row[flits - 1]),
        }
    }

    /// Lets all flits cross the link of a hop, between whom nobody does: when it is free then.
    #[inline]
    fn cross(&mut self, hop: u16, link: &LinkState, before: u64, span: u64) -> u64 {
        let (flits, overhead) = (self.flits as usize, self.charged(hop, link));
        let row = self.row(hop) * flits;
        let times = &mut self.train.times[..];
        if !self.train.is_brief {
            let (asks, leaves) = times[row..row + 2 * flits].split_at_mut(flits);
            return link.cross(asks.iter().copied().zip(leaves), before, span, overhead);
        }
        let (first, last) = times.split_at_mut(flits);
        let last = &mut last[..flits];
        if hop == self.leg.from {
            last.copy_from_slice(first);
        }
        self.hops[usize::from(hop)].header = last[flits - 1];
        link.cross(last.iter_mut().map(|time| (*time, time)), before, span, overhead)
    }
}

impl LinkState {
    /// Works out when the flits of a train leave the node behind the link, of whom each asks at a time and nobody
    /// crosses it between them: when it is free then.
    #[inline]
    fn cross<'a>(
        &self,
        mut flits: impl DoubleEndedIterator<Item = (u64, &'a mut u64)>,
        mut free: u64,
        last: u64,
        overhead: u64,
    ) -> u64 {
        let (ask_of_last, leaves_last) = flits.next_back().expect("a transfer has a flit");
        let mut header = None;
        if let Some((ask, leaves)) = flits.next() {
            let start = free.max(ask);
            free = start + self.flit;
            let first = self.arrival(start, free) + overhead;
            *leaves = first;
            for (ask, leaves) in flits {
                free = free.max(ask) + self.flit;
                *leaves = (free + self.propagation).max(first);
            }
            header = Some(first);
        }
        let start = free.max(ask_of_last);
        free = start + last;
        let arrived = self.arrival(start, free);
        *leaves_last = header.map_or(arrived + overhead, |header| header.max(arrived));
        free
    }
}
