//! The current instant, as the fabric sees it.

use crate::Time;
use crate::arena::Key;
use crate::component::Component;
use crate::environment::Environment;
use crate::event::{FabricEvent, Place};
use crate::id::{NodeId, TransferId};
use crate::observer::{Crossing, Observer, Wait};
use crate::queue::Wheel;
use crate::transfer::Flit;

/// An event of the engine. Twelve bytes, because the event queue consists of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Fabric(FabricEvent),
    /// An alarm of a component goes off.
    Wake(Key),
    /// A component is called from outside.
    Call(Key),
    /// A task resumes.
    Task(Key),
}

const _: () = assert!(size_of::<Event>() == 12);

/// The current event, the pending ones, and the receivers of flits and reports.
#[derive(Debug)]
pub(super) struct Present<C, O> {
    pub(super) now: Time,
    /// Rank of the current event.
    pub(super) rank: u32,
    /// Highest rank so far in this instant.
    pub(super) reached: u32,
    pub(super) queue: Wheel<Event>,
    pub(super) components: Vec<C>,
    /// Index of the component of each node.
    pub(super) seats: Vec<Option<u32>>,
    pub(super) observer: O,
}

impl<C, O> Present<C, O> {
    pub(super) fn component(&mut self, node: NodeId) -> &mut C {
        let seat = self.seats[node.index()].expect("a component sits there");
        &mut self.components[seat as usize]
    }
}

impl<C: Component, O: Observer<C::Message>> Environment<C::Message> for Present<C, O> {
    const REPORTS_FLITS: bool = O::FLITS;

    #[inline]
    fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn reached(&self) -> Place {
        Place { at: self.now.ps(), rank: self.reached }
    }

    #[inline]
    fn schedule(&mut self, time: Time, rank: u32, event: FabricEvent) {
        self.queue.push(time, rank, Event::Fabric(event));
    }

    #[inline]
    fn crossed(&mut self, crossing: Crossing) {
        self.observer.crossed(crossing);
    }

    #[inline]
    fn waited(&mut self, transfer: TransferId, wait: Wait) {
        self.observer.waited(transfer, wait);
    }

    #[inline]
    fn deliver_flits(
        &mut self,
        node: NodeId,
        flits: impl Iterator<Item = Flit>,
        message: &C::Message,
    ) {
        let component = self.component(node);
        flits.for_each(|flit| component.flit(flit, message));
    }
}
