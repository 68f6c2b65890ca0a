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

use crate::event::Place;
use crate::id::{LinkId, SlotId};
use crate::link::LinkState;
use crate::traffic::Traffic;
use crate::transfer::{LegEnd, Transfer};
use weave::Lane;

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

/// Moves the flits of a leg together, and keeps the trains on each link.
#[derive(Debug)]
pub(crate) struct Trains<M> {
    pub(crate) traffic: Traffic<M>,
    /// Trains on each link, by link.
    uses: Vec<LinkUse>,
    /// Number of transfers on each link whose flits walk, by link.
    walkers: Vec<u32>,
    /// Trains to each node that takes single flits, by node.
    ends: Vec<EndUse>,
    /// Number of trains that have set out.
    made: u64,
    /// The end of the train that arrived last, and the way of its last flit, which decides ties with the present.
    /// The way is written down when it is wanted; until then the slot of the transfer is not used again.
    ended: Place,
    trail: Vec<Place>,
    ended_slot: Option<SlotId>,
    /// The light trains, in no order.
    light: Vec<SlotId>,
    /// Links to be computed again, each from a time on.
    dirty: Vec<(u64, LinkId)>,
    /// A train that has been computed too often.
    tired: Option<SlotId>,
    /// Memory for the lanes of links that are computed, and booked.
    woven: Vec<Lane>,
    booked: Vec<Lane>,
    moved: Vec<Lane>,
}

impl<M> Trains<M> {
    pub(crate) fn new(traffic: Traffic<M>) -> Self {
        let (links, nodes) = (traffic.links.len(), traffic.network.nodes().len());
        Self {
            traffic,
            uses: vec![LinkUse::default(); links],
            walkers: vec![0; links],
            ends: vec![EndUse::default(); nodes],
            made: 0,
            ended: Place::default(),
            trail: Vec::new(),
            ended_slot: None,
            light: Vec::new(),
            dirty: Vec::new(),
            tired: None,
            woven: Vec::new(),
            booked: Vec::new(),
            moved: Vec::new(),
        }
    }
}

impl<M> Transfer<M> {
    /// The hop of a row of times.
    pub(crate) fn hop(&self, row: usize) -> u16 {
        self.leg.from + u16::try_from(row).expect("a route has fewer than 2¹⁶ hops")
    }

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

    /// What the node behind a hop's link charges the leg.
    pub(crate) fn charged(&self, hop: u16, link: &LinkState) -> u64 {
        let stores = hop + 1 == self.leg.to && self.leg.end == LegEnd::Store;
        if stores { 0 } else { link.overhead }
    }
}
