//! The engine as seen by the fabric: a clock, a queue of events, an observer and receivers of flits.

use crate::Time;
use crate::event::{FabricEvent, Place};
use crate::id::{NodeId, TransferId};
use crate::observer::{Crossing, Wait};
use crate::transfer::Flit;

/// The part of the engine that the fabric acts on.
pub(crate) trait Environment<M> {
    /// Whether every link crossing is reported; trains are disabled then.
    const REPORTS_FLITS: bool;

    fn now(&self) -> Time;

    /// Returns the current time with the highest rank of any event so far in this instant. An event may schedule
    /// another one of a lower rank; trains treat everything up to the highest rank as past.
    fn reached(&self) -> Place;

    /// Schedules an event. Events of one instant are executed in the order of their ranks.
    fn schedule(&mut self, time: Time, rank: u32, event: FabricEvent);

    /// Reports that a flit was granted a link.
    fn crossed(&mut self, crossing: Crossing);

    /// Reports that a transfer has waited for another.
    fn waited(&mut self, transfer: TransferId, wait: Wait);

    /// Passes flits to the component at a node.
    fn deliver_flits(&mut self, node: NodeId, flits: impl Iterator<Item = Flit>, message: &M);
}
