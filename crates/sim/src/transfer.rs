//! Transfers in flight.

mod train;

pub(crate) use train::Train;

use std::ops::{Index, IndexMut};

use crate::Time;
use crate::id::{LinkId, SlotId, TransferId};
use crate::link::Paces;
use crate::network::{Network, Route};

/// A flit that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flit {
    /// Index of the flit in its transfer.
    pub index: u64,
    /// Number of bytes that the flit carries.
    pub bytes: u64,
    /// Time of delivery.
    pub at: Time,
}

/// A transfer that has been delivered.
#[derive(Debug)]
pub struct Delivery<M> {
    /// Id of the transfer.
    pub transfer: TransferId,
    /// Number of bytes that the transfer carried.
    pub bytes: u64,
    /// Time at which the transfer began.
    pub begun: Time,
    /// Content for the receiver.
    pub message: M,
}

/// Times at which the flits of a transfer request their first link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// One time for all flits.
    At(Time),
    /// A time for each flit, by index.
    Each(Vec<Time>),
}

/// A transfer to begin.
#[derive(Debug)]
pub struct TransferSpec<M> {
    /// Links of the transfer, in order.
    pub route: Route,
    /// Number of bytes that the transfer carries; zero for a command.
    pub bytes: u64,
    /// Times at which the flits request the first link; not before the current time.
    pub asks: Asks,
    /// Content for the receiver.
    pub message: M,
}

/// Maximum number of times (8 MiB) for which the memory of a train is kept for reuse.
const MOST_KEPT: usize = 1 << 20;

/// A transfer in flight.
#[derive(Debug)]
pub(crate) struct Transfer<M> {
    pub(crate) id: TransferId,
    pub(crate) slot: SlotId,
    pub(crate) message: Option<M>,
    pub(crate) begun: Time,
    pub(crate) bytes: u64,
    pub(crate) flits: u32,
    /// Number of flits that have crossed the last link of the leg, or have been delivered if the component receives
    /// single flits.
    pub(crate) arrived: u32,
    pub(crate) leg: Leg,
    pub(crate) hops: Vec<Hop>,
    pub(crate) train: Train,
}

/// A part of a route up to a store-and-forward node, or to the destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) end: LegEnd,
}

/// Treatment of flits at the end of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegEnd {
    /// The node stores all flits and forwards them.
    Store,
    /// A component receives the whole transfer.
    Whole,
    /// A component receives each flit.
    Flits,
}

/// A link of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) link: LinkId,
    /// Earliest time at which flits leave the downstream node; [`Hop::OPEN`] until the first has arrived.
    pub(crate) header: u64,
}

impl Hop {
    pub(crate) const OPEN: u64 = u64::MAX;
}

impl<M> Transfer<M> {
    #[inline]
    pub(crate) fn flit_bytes(&self, flit: u32, full: u64) -> u64 {
        if flit + 1 == self.flits { self.bytes - u64::from(flit) * full } else { full }
    }

    /// Returns the computation of the last flit's time on links.
    #[inline]
    pub(crate) fn paces<'a>(&self, network: &'a Network) -> Paces<'a> {
        Paces::new(self.flit_bytes(self.flits - 1, network.flit_bytes()), network)
    }

    pub(crate) fn last_link(&self) -> LinkId {
        self.hops[self.hops.len() - 1].link
    }

    pub(crate) fn end_link(&self) -> LinkId {
        self.hops[usize::from(self.leg.to) - 1].link
    }

    pub(crate) fn leg_hops(&self) -> &[Hop] {
        &self.hops[usize::from(self.leg.from)..usize::from(self.leg.to)]
    }
}

/// Transfers in flight, by slot.
#[derive(Debug)]
pub(crate) struct Transfers<M> {
    slots: Vec<Transfer<M>>,
    /// Free slots of transfers with one flit, and of those with more, so that few slots hold the memory of long trains.
    free: [Vec<SlotId>; 2],
    /// The transfer that finished last; its slot is not reused until the next one finishes.
    kept: Option<SlotId>,
}

impl<M> Transfers<M> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: [Vec::new(), Vec::new()], kept: None }
    }

    /// Adds a transfer without a leg. It reuses the memory of a finished transfer.
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
            self.free[usize::from(self[free].flits > 1)].push(free);
        }
    }

    pub(crate) fn under_way(&self) -> usize {
        let free = self.free.iter().map(Vec::len).sum::<usize>();
        self.slots.len() - free - usize::from(self.kept.is_some())
    }
}

impl<M> Index<SlotId> for Transfers<M> {
    type Output = Transfer<M>;
    #[inline]
    fn index(&self, slot: SlotId) -> &Transfer<M> {
        &self.slots[slot.index()]
    }
}

impl<M> IndexMut<SlotId> for Transfers<M> {
    #[inline]
    fn index_mut(&mut self, slot: SlotId) -> &mut Transfer<M> {
        &mut self.slots[slot.index()]
    }
}
