//! Transfers on their way.

mod train;

pub(crate) use train::Train;

use crate::Time;
use crate::id::{LinkId, SlotId, TransferId};
use crate::link::Paces;
use crate::network::{Network, Route};

/// A flit that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flit {
    /// Its place in the transfer.
    pub index: u64,
    /// What it carries.
    pub bytes: u64,
    /// When it was delivered.
    pub at: Time,
}

/// A transfer that has been delivered.
#[derive(Debug)]
pub struct Delivery<M> {
    /// Which it is.
    pub transfer: TransferId,
    /// What it carried as payload.
    pub bytes: u64,
    /// When it began.
    pub begun: Time,
    /// What it means.
    pub message: M,
}

/// When the flits of a transfer ask for their first link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// All at once.
    At(Time),
    /// Each at its own time, by index.
    Each(Vec<Time>),
}

/// A transfer to be begun.
#[derive(Debug)]
pub struct TransferSpec<M> {
    /// The way it takes.
    pub route: Route,
    /// How many bytes it carries; none for a command.
    pub bytes: u64,
    /// When its flits ask for the first link; never before the present.
    pub asks: Asks,
    /// What it means to who receives it.
    pub message: M,
}

/// How many times of a train that is done are kept as memory for the next (8 MiB).
const MOST_KEPT: usize = 1 << 20;

/// A transfer on its way.
#[derive(Debug)]
pub(crate) struct Transfer<M> {
    pub(crate) id: TransferId,
    /// Its place in the list of all.
    pub(crate) slot: SlotId,
    pub(crate) message: Option<M>,
    pub(crate) begun: Time,
    pub(crate) bytes: u64,
    pub(crate) flits: u32,
    /// How many flits have crossed the last link of the leg, or been delivered where each is.
    pub(crate) arrived: u32,
    /// The leg: hops up to a node that stores and forwards, or to the end.
    pub(crate) leg: Leg,
    pub(crate) hops: Vec<Hop>,
    /// Its leg as a train, if it is one.
    pub(crate) train: Train,
}

/// A part of a route at whose ends all flits are gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) end: LegEnd,
}

/// What happens at the end of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegEnd {
    /// The node gathers the flits and sends them on.
    Store,
    /// A component wants to know of the whole.
    Whole,
    /// A component wants to know of each flit.
    Flits,
}

/// A link of a route, and what the node behind it has said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) link: LinkId,
    /// No flit leaves the node behind the link before; [`Hop::OPEN`] until the first flit has come.
    pub(crate) header: u64,
}

impl Hop {
    pub(crate) const OPEN: u64 = u64::MAX;
}

impl<M> Transfer<M> {
    /// What a flit carries.
    #[inline]
    pub(crate) fn flit_bytes(&self, flit: u32, full: u64) -> u64 {
        if flit + 1 == self.flits { self.bytes - u64::from(flit) * full } else { full }
    }

    /// Computes the time of its last flit on links.
    #[inline]
    pub(crate) fn paces<'a>(&self, network: &'a Network) -> Paces<'a> {
        Paces::new(self.flit_bytes(self.flits - 1, network.flit_bytes()), network)
    }

    /// The link to the end of the route.
    pub(crate) fn last_link(&self) -> LinkId {
        self.hops[self.hops.len() - 1].link
    }

    /// The link to the end of the leg.
    pub(crate) fn end_link(&self) -> LinkId {
        self.hops[usize::from(self.leg.to) - 1].link
    }

    pub(crate) fn leg_hops(&self) -> &[Hop] {
        &self.hops[usize::from(self.leg.from)..usize::from(self.leg.to)]
    }
}

/// The transfers on their way, by slot.
#[derive(Debug)]
pub(crate) struct Transfers<M> {
    slots: Vec<Transfer<M>>,
    /// The places that are free: those of commands, which had one flit, and those of others, which had more. So
    /// few have the memory of long trains, and that is soon used again.
    free: [Vec<SlotId>; 2],
    /// The one that was done last, which is kept until the next is.
    kept: Option<SlotId>,
}

impl<M> Transfers<M> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: [Vec::new(), Vec::new()], kept: None }
    }

    /// Takes a transfer in, whose first leg is to be set. It has the place and the memory of one that is done.
    pub(crate) fn insert(
        &mut self,
        id: TransferId,
        route: &[LinkId],
        bytes: u64,
        flits: u32,
        begun: Time,
        message: M,
    ) -> SlotId {
        let slot = self.free[usize::from(flits > 1)].pop().unwrap_or_else(|| self.grow());
        let place = &mut self.slots[slot.index()];
        (place.id, place.bytes, place.flits, place.begun) = (id, bytes, flits, begun);
        place.message = Some(message);
        if place.train.times.len() > MOST_KEPT {
            place.train.times = Vec::new();
        }
        place.hops.clear();
        place.hops.extend(route.iter().map(|&link| Hop { link, header: Hop::OPEN }));
        slot
    }

    #[cold]
    fn grow(&mut self) -> SlotId {
        let slot = SlotId::new(self.slots.len());
        self.slots.push(Transfer {
            id: TransferId(0),
            slot,
            message: None,
            begun: Time::ZERO,
            bytes: 0,
            flits: 0,
            arrived: 0,
            leg: Leg { from: 0, to: 0, end: LegEnd::Whole },
            hops: Vec::new(),
            train: Train::default(),
        });
        slot
    }

    pub(crate) fn remove(&mut self, slot: SlotId) {
        if let Some(free) = self.kept.replace(slot) {
            self.free[usize::from(self.at(free).flits > 1)].push(free);
        }
    }

    pub(crate) fn under_way(&self) -> usize {
        let free = self.free.iter().map(Vec::len).sum::<usize>();
        self.slots.len() - free - usize::from(self.kept.is_some())
    }

    #[inline]
    pub(crate) fn get(&mut self, slot: SlotId) -> &mut Transfer<M> {
        &mut self.slots[slot.index()]
    }

    #[inline]
    pub(crate) fn at(&self, slot: SlotId) -> &Transfer<M> {
        &self.slots[slot.index()]
    }
}
