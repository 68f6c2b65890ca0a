//! The engine as the fabric sees it: a clock, a queue of events, an observer and receivers of flits.

use crate::Time;
use crate::event::{FabricEvent, Place};
use crate::id::{NodeId, TransferId};
use crate::observer::{Crossing, Wait};
use crate::transfer::Flit;

/// The part of the engine that the fabric acts on.
pub(crate) trait Environment<M> {
    /// Whether every crossing of a link is reported; there are no trains then.
    const REPORTS_FLITS: bool;

    fn now(&self) -> Time;

    /// The present time with the highest rank that an event of this instant has had so far. An event may
    /// schedule one of a lower rank; trains treat everything up to the highest as past.
    fn reached(&self) -> Place;

    /// Schedules an event. Events of one instant happen in the order of their ranks.
    fn schedule(&mut self, time: Time, rank: u32, event: FabricEvent);

    /// Reports that a flit has been given a link.
    fn crossed(&mut self, crossing: Crossing);

    /// Reports that a transfer has waited for another one.
    fn waited(&mut self, transfer: TransferId, wait: Wait);

    /// Gives flits to the component at a node.
    fn deliver_flits(&mut self, node: NodeId, flits: impl Iterator<Item = Flit>, message: &M);
}
