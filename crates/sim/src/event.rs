//! Events of the fabric, and their position in the total order of events.

use crate::id::{LinkId, SlotId};

/// An event of the fabric. Twelve bytes, because the event queue consists of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FabricEvent {
    /// All flits of a leg request its first link.
    Begin { slot: SlotId },
    /// A flit requests the link of a hop.
    Ask { slot: SlotId, flit: u32, hop: u16 },
    /// A flit reaches the serial node after the link of a hop.
    Reach { slot: SlotId, flit: u32, hop: u16 },
    /// A flit is delivered to a component that receives single flits.
    Flit { slot: SlotId, flit: u32 },
    /// The last flit of a leg has arrived.
    LegDone { slot: SlotId },
    /// A train has arrived. The event is void if the slot's train has another number by then.
    TrainDone { slot: SlotId, number: u32 },
    /// With finite buffers: a flit joins the queue of its input.
    Stand { slot: SlotId, flit: u32, hop: u16 },
    /// With finite buffers: the start of a link learns that a buffer entry of the link is free.
    Credit { link: LinkId },
    /// With finite buffers: a link is granted to the head of a queue.
    Serve { link: LinkId },
}

const _: () = assert!(size_of::<FabricEvent>() == 12);

/// A position in the order of events, except for ties. Twelve bytes, because each link stores many of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(Rust, packed(4))]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) rank: u32,
}

impl Place {
    /// A position after all others.
    pub(crate) const NONE: Self = Self { at: u64::MAX, rank: u32::MAX };
}
