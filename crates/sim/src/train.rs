//! Flits of a leg move as a train: worked out ahead of time, and again where trains meet.
//!
//! The flits of a leg keep their order, and a link serves those who ask in the order of asking. So when a leg
//! begins, the times at which its flits ask for each of its links can be worked out in a loop, without a
//! queue, and the engine waits for one event, its end. Trains share links: one that comes after all others that
//! are known on a link changes nothing for them. One that comes between them is *woven in* (see
//! [`weave`]): what has not yet happened on this link is worked out again, and so on the links
//! behind it as far as times change. Nothing that has happened is touched, so the result is the same as
//! if each flit walked by itself, to the picosecond and in the order of ties, which property tests hold.
//!
//! Where that cannot be, or has become too dear, flits walk (see [`scatter`]). On no link are
//! there both trains and flits that walk.

mod book;
mod cross;
mod end;
mod enter;
mod light;
mod order;
mod scatter;
mod slide;
mod weave;

use crate::component::Component;
use crate::engine::Engine;
use crate::id::LinkId;
use crate::link::LinkState;
use crate::network::Network;
use crate::observer::Observer;
use crate::transfer::{LegEnd, SlotId, Transfer};
use light::Light;
use order::Place;
use weave::Lane;

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

/// A train on a link. A line of a cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
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

    /// Whether its first flit starts when it did if the link is free before it at another time.
    fn starts_alike(&self, free: u64) -> bool {
        free.max(self.first.at) == self.before.max(self.first.at)
    }
}

/// The trains on a link. A line of a cache, as every hop of every transfer comes here.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct LinkUse {
    /// How many trains are light.
    pub(crate) light: u32,
    /// How many trains, of the first, are wholly in the accounts.
    pub(crate) booked: u32,
    /// The event at which the last light one set out, or [`Place::NONE`] if it may tie with others that have asked.
    pub(crate) begun: Place,
    /// When the link is free after all trains, and where the last flit asks.
    pub(crate) last: Place,
    pub(crate) free: u64,
    /// By their first flits; flits of those that are not apart come between each other.
    pub(crate) trains: Vec<Passage>,
}

const _: () = assert!(size_of::<LinkUse>() == 64 && size_of::<Passage>() == 64);

impl LinkUse {
    /// The trains that are not wholly in the accounts.
    pub(crate) fn unbooked(&self) -> &[Passage] {
        &self.trains[self.booked as usize..]
    }

    /// Whether no flit of others comes between those of a train.
    fn is_alone(&self, place: usize) -> bool {
        self.trains[place].is_apart && self.trains.get(place + 1).is_none_or(|next| next.is_apart)
    }

    /// Where among others a train comes, if no flit of theirs comes between its own. One that asks together with the
    /// last of all comes after it if it `ties_as_last`.
    fn gap_for(&self, passage: &Passage, ties_as_last: bool) -> Option<usize> {
        let Some(first) = self.trains.first() else { return Some(0) };
        if first.is_brief {
            return None;
        }
        if passage.first > self.last || passage.first == self.last && ties_as_last {
            return Some(self.trains.len());
        }
        let booked = self.booked as usize;
        let gap = booked + self.unbooked().iter().position(|other| other.first > passage.first)?;
        let mut before = self.trains[booked..gap].iter();
        let is_apart = before.all(|other| other.last < passage.first)
            && self.trains[gap].is_apart
            && passage.last < self.trains[gap].first;
        is_apart.then_some(gap)
    }

    /// When the link is free for a train that comes at a gap.
    fn free_before(&self, gap: usize, link: &LinkState) -> u64 {
        match self.trains.get(gap) {
            _ if gap == self.booked as usize => link.free,
            Some(next) => next.before,
            None => self.free,
        }
    }

    /// Puts a train into a gap, behind which the link is free at a time, unless it holds up the next.
    fn fill(&mut self, gap: usize, passage: Passage, free: u64) -> bool {
        match self.trains.get_mut(gap) {
            Some(next) if !next.starts_alike(free) => return false,
            Some(next) => next.before = free,
            None => (self.free, self.last) = (free, passage.last),
        }
        self.trains.insert(gap, passage);
        true
    }

    /// Whether a flit that asks may tie with one that begins at an event; not those that begin there, too.
    fn may_tie(&self, begun: Place) -> bool {
        self.light > 0 && self.begun != begun || !self.trains.is_empty()
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
    /// How many transfers whose flits walk, by link.
    pub(crate) walkers: Vec<u32>,
    pub(crate) ends: Vec<EndUse>,
}

impl Uses {
    pub(crate) fn new(network: &Network) -> Self {
        let links = vec![LinkUse::default(); network.links().len()];
        let walkers = vec![0; links.len()];
        Self { links, walkers, ends: vec![EndUse::default(); network.nodes().len()] }
    }
}

/// What all trains share.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    /// How many there were.
    pub(crate) made: u64,
    /// The end of the one that was done last, and how its last flit came there: what ties with the present. The
    /// way is written down when it is wanted; until then the transfer is kept.
    pub(crate) ended: Place,
    pub(crate) trail: Vec<Place>,
    ended_slot: Option<SlotId>,
    /// Those that are light, in no order.
    pub(crate) light: Vec<SlotId>,
    /// Links to be worked out again, each from a time on.
    pub(crate) dirty: Vec<(u64, LinkId)>,
    /// A train that has been worked out too often.
    pub(crate) tired: Option<SlotId>,
    /// Memory for the lanes of links that are worked out, and booked.
    pub(crate) woven: Vec<Lane>,
    pub(crate) booked: Vec<Lane>,
    pub(crate) moved: Vec<Lane>,
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
    pub(crate) fn end_link(&self) -> LinkId {
        self.hops[usize::from(self.leg.to) - 1].link
    }

    /// What the node behind a hop's link charges the leg.
    pub(crate) fn charged(&self, hop: u16, link: &LinkState) -> u64 {
        let stores = hop + 1 == self.leg.to && self.leg.end == LegEnd::Store;
        if stores { 0 } else { link.overhead }
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// The place of the node at the end of a leg, if its component takes flit by flit.
    fn flit_end(&self, slot: SlotId) -> Option<usize> {
        let transfer = self.transfers.at(slot);
        let takes_flits = transfer.leg.end == LegEnd::Flits;
        takes_flits.then(|| self.links[transfer.last_link().index()].to.index())
    }
}
