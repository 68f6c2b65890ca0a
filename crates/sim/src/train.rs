//! Trains: the flits of a leg, moved together.
//!
//! The flits of a leg keep their order, and a link serves flits in the order of their requests. So when a leg begins,
//! the request times of its flits at each link can be computed in a loop, and the only event is the train's arrival. A
//! train that comes after all known trains on a link changes nothing for them. A train that comes between them is
//! *woven in* (see [`weave`]): the future of this link is recomputed, and so are the following links as far as times
//! change. The past is never touched. The result is therefore the same as if each flit moved by itself, to the
//! picosecond and in the order of ties; property tests check this.
//!
//! Where that is impossible or too expensive, flits *walk*: they move one by one, with an event per flit and hop (see
//! [`scatter`]). A link never has both trains and walking flits.

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

/// Entry of a train on a link. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Passage {
    slot: SlotId,
    flits: u32,
    /// Number of flits that have crossed and are booked.
    crossed: u32,
    /// First flit whose request time has changed since the link was computed.
    changed: u32,
    /// Rank of the flits' requests.
    rank: u32,
    hop: u16,
    /// Whether the train comes after all flits of the preceding trains.
    is_apart: bool,
    /// Whether the train keeps only two rows of times.
    is_brief: bool,
    /// Time from which the link is free before the train, if the train is apart.
    before: u64,
    /// Time of the last flit on the link.
    span: u64,
    /// Positions of the requests of the first and the last flit.
    first: Place,
    last: Place,
}

impl Passage {
    const UNCHANGED: u32 = u32::MAX;

    /// Returns whether the first flit starts at the same time if the link is free from `free`.
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
    /// Number of trains, from the front, that are completely booked.
    booked: u32,
    /// Event at which the last light train began, or [`Place::NONE`] if it may tie with other requests.
    begun: Place,
    /// Position of the last request of all trains, and the time from which the link is free then.
    last: Place,
    free: u64,
    /// Trains by their first flits. Flits of trains that are not apart interleave.
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

    /// Returns whether the train at `index` does not interleave with others.
    fn is_alone(&self, index: usize) -> bool {
        self.trains[index].is_apart && self.trains.get(index + 1).is_none_or(|next| next.is_apart)
    }

    /// Returns the index at which a train fits without interleaving. A train whose first request ties with the last one
    /// of all comes after it if `ties_as_last`.
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

    /// Returns the index of the first train that is not completely booked and whose first request comes after a
    /// position.
    fn later(&self, place: Place) -> Option<usize> {
        let later = self.unbooked().iter().position(|other| other.first > place)?;
        Some(self.booked as usize + later)
    }

    /// Returns the time from which the link is free for a train in a gap.
    fn free_before(&self, gap: usize, link: &LinkState) -> u64 {
        match self.trains.get(gap) {
            _ if gap == self.booked as usize => link.free,
            Some(next) => next.before,
            None => self.free,
        }
    }

    /// Inserts a train into a gap, after which the link is free from `free`. Fails if it delays the next train.
    fn fill(&mut self, gap: usize, passage: Passage, free: u64) -> bool {
        match self.trains.get_mut(gap) {
            Some(next) if !next.starts_alike(free) => return false,
            Some(next) => next.before = free,
            None => (self.free, self.last) = (free, passage.last),
        }
        self.trains.insert(gap, passage);
        true
    }

    /// Returns whether a flit that begins at the event `begun` may tie with one that did not begin there.
    fn may_tie(&self, begun: Place) -> bool {
        self.light > 0 && self.begun != begun || !self.trains.is_empty()
    }
}

/// Transfers to a node whose component receives single flits.
#[derive(Clone, Debug, Default)]
struct EndUse {
    walkers: u32,
    trains: Vec<SlotId>,
}

/// Moves the flits of a leg together, and tracks the trains on each link.
#[derive(Debug)]
pub(crate) struct Trains<M> {
    pub(crate) traffic: Traffic<M>,
    /// Trains on each link.
    uses: Vec<LinkUse>,
    /// Number of transfers on each link whose flits walk.
    walkers: Vec<u32>,
    /// Transfers to each node that receives single flits.
    ends: Vec<EndUse>,
    /// Maximum number of times that a train keeps in memory, unless it is brief.
    longest: u64,
    /// Number of trains that have begun.
    made: u64,
    /// Arrival of the last train, and the trail of its last flit, which breaks ties with the current event. The trail
    /// is stored lazily; until then the slot of the transfer is not reused.
    ended: Place,
    trail: Vec<Place>,
    ended_slot: Option<SlotId>,
    /// Light trains, in no order.
    light: Vec<SlotId>,
    /// Links to be recomputed, each from a time on.
    dirty: Vec<(u64, LinkId)>,
    /// A train that has been recomputed too often.
    tired: Option<SlotId>,
    /// Memory for the lanes of links that are computed and booked.
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

    /// Returns the row of times at which the flits request the link of a hop.
    fn row(&self, hop: u16) -> usize {
        usize::from(hop - self.leg.from)
    }

    /// Returns the row of times at which the flits arrive.
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

    /// Returns the overhead of the node after the link of a hop. It is 0 if the node stores the leg, since the next leg
    /// has the overhead then.
    fn charged(&self, hop: u16, link: &LinkState) -> u64 {
        let stores = hop + 1 == self.leg.to && self.leg.end == LegEnd::Store;
        if stores { 0 } else { link.overhead }
    }
}
