//! Trains: the flits of a leg, moved together.
//!
//! The flits of a leg keep their order, and a link serves flits in the order of asking. So when a leg begins, the
//! times at which its flits ask for each link can be computed in a loop, and the only event is the train's arrival.
//! A train that comes after all others known on a link changes nothing for them. One that comes between them is
//! *woven in* (see [`weave`]): the future of this link is computed again, and so are the links behind it
//! as far as times change. The past is never touched, so the result is the same as if each flit moved by itself, to
//! the picosecond and in the order of ties; property tests hold this.
//!
//! Where that is impossible or too expensive, flits *walk*, with an event for each flit and hop (see [`scatter`]). A
//! link never has both trains and walking flits.

mod book;
mod brief;
mod cross;
mod end;
mod enter;
mod light;
mod order;
mod scatter;
mod weave;

use crate::event::Place;
use crate::id::{LinkId, SlotId};
use crate::link::LinkState;
use crate::traffic::Traffic;
use crate::transfer::{LegEnd, Transfer};
use weave::Lane;

/// A train on a link. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Passage {
    slot: SlotId,
    flits: u32,
    /// Number of flits that have crossed and are booked.
    crossed: u32,
    /// First flit whose time of asking has changed since the link was computed.
    changed: u32,
    /// Rank of its flits when they ask.
    rank: u32,
    hop: u16,
    /// Whether it comes after all flits of the trains before it.
    is_apart: bool,
    /// Whether the train keeps only two rows of times.
    is_brief: bool,
    /// Time from which the link is free before it, if it is apart.
    before: u64,
    /// Time that its last flit takes.
    span: u64,
    /// Places at which its first and its last flit ask.
    first: Place,
    last: Place,
}

impl Passage {
    const UNCHANGED: u32 = u32::MAX;

    /// Whether its first flit starts at the same time if the link is free from `free` on.
    fn starts_alike(&self, free: u64) -> bool {
        free.max(self.first.at) == self.before.max(self.first.at)
    }
}

/// The trains on a link. One cache line, because every hop of every transfer uses it.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct LinkUse {
    /// Number of light trains.
    light: u32,
    /// Number of trains, from the first on, that are wholly booked.
    booked: u32,
    /// Event at which the last light train set out, or [`Place::NONE`] if it may tie with others that have asked.
    begun: Place,
    /// Place at which the last flit of all trains asks, and the time from which the link is free then.
    last: Place,
    free: u64,
    /// Trains by their first flits. Flits of those that are not apart come between each other.
    trains: Vec<Passage>,
}

const _: () = assert!(size_of::<LinkUse>() == 64 && size_of::<Passage>() == 64);

impl LinkUse {
    fn unbooked(&self) -> &[Passage] {
        &self.trains[self.booked as usize..]
    }

    #[inline]
    fn clear(&mut self) {
        self.trains.clear();
        self.booked = 0;
    }

    /// Whether no flit of others comes between those of the train at `index`.
    fn is_alone(&self, index: usize) -> bool {
        self.trains[index].is_apart && self.trains.get(index + 1).is_none_or(|next| next.is_apart)
    }

    /// Returns the index at which a train fits in, if no flits of others come between its own. A train that asks
    /// together with the last of all comes after it if it `ties_as_last`.
    fn gap_for(&self, passage: &Passage, ties_as_last: bool) -> Option<usize> {
        let Some(first) = self.trains.first() else { return Some(0) };
        if first.is_brief {
            return None;
        }
        if passage.first > self.last || passage.first == self.last && ties_as_last {
            return Some(self.trains.len());
        }
        let gap = self.later(passage.first)?;
        let mut before = self.trains[self.booked as usize..gap].iter();
        let is_apart = before.all(|other| other.last < passage.first)
            && self.trains[gap].is_apart
            && passage.last < self.trains[gap].first;
        is_apart.then_some(gap)
    }

    /// Returns the index of the first train, of those not wholly booked, whose first flit asks after a place.
    fn later(&self, place: Place) -> Option<usize> {
        let later = self.unbooked().iter().position(|other| other.first > place)?;
        Some(self.booked as usize + later)
    }

    /// Time from which the link is free for a train in a gap.
    fn free_before(&self, gap: usize, link: &LinkState) -> u64 {
        match self.trains.get(gap) {
            _ if gap == self.booked as usize => link.free,
            Some(next) => next.before,
            None => self.free,
        }
    }

    /// Puts a train into a gap, after which the link is free from `free` on. Fails if it delays the next one.
    fn fill(&mut self, gap: usize, passage: Passage, free: u64) -> bool {
        match self.trains.get_mut(gap) {
            Some(next) if !next.starts_alike(free) => return false,
            Some(next) => next.before = free,
            None => (self.free, self.last) = (free, passage.last),
        }
        self.trains.insert(gap, passage);
        true
    }

    /// Whether a flit that begins at the event `begun` may tie with one that did not begin there.
    fn may_tie(&self, begun: Place) -> bool {
        self.light > 0 && self.begun != begun || !self.trains.is_empty()
    }
}

/// Transfers to a node whose component takes single flits.
#[derive(Clone, Debug, Default)]
struct EndUse {
    walkers: u32,
    trains: Vec<SlotId>,
}

/// Moves the flits of a leg together, and knows the trains on each link.
#[derive(Debug)]
pub(crate) struct Trains<M> {
    pub(crate) traffic: Traffic<M>,
    /// Trains on each link.
    uses: Vec<LinkUse>,
    /// Number of transfers on each link whose flits walk.
    walkers: Vec<u32>,
    /// Transfers to each node that takes single flits.
    ends: Vec<EndUse>,
    /// Most times that a train keeps in memory, unless it is brief.
    longest: u64,
    /// Number of trains that have set out.
    made: u64,
    /// Arrival of the last train, and the trail of its last flit, which decides ties with the present. The trail
    /// is written down when it is needed; until then the slot of the transfer is not used again.
    ended: Place,
    trail: Vec<Place>,
    ended_slot: Option<SlotId>,
    /// Light trains, in no order.
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
            longest: brief::LONGEST,
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
    fn hop(&self, row: usize) -> u16 {
        self.leg.from + u16::try_from(row).expect("a route has fewer than 2¹⁶ hops")
    }

    /// The row of times at which its flits ask for the link of a hop.
    fn row(&self, hop: u16) -> usize {
        usize::from(hop - self.leg.from)
    }

    /// The row of times at which its flits arrive.
    fn last_row(&self) -> usize {
        self.row(self.leg.to)
    }

    fn time(&self, row: usize, flit: usize) -> u64 {
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

    /// Overhead of the node behind the link of a hop, unless the node stores the leg: then the next leg has it.
    fn charged(&self, hop: u16, link: &LinkState) -> u64 {
        let stores = hop + 1 == self.leg.to && self.leg.end == LegEnd::Store;
        if stores { 0 } else { link.overhead }
    }
}
