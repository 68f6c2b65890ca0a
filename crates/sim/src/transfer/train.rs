//! The state of a leg that moves as a train.

use crate::event::Place;
use crate::id::TransferId;
use crate::observer::Wait;

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
    pub(crate) event: u32,
    /// How many flits the component at its end has been given.
    pub(crate) handed: u32,
    /// How often its flits have been worked out, over all links.
    pub(crate) work: u64,
    pub(crate) light: Light,
}

/// What a light train has to be told apart from others by, and to give its links back with.
#[derive(Debug, Default)]
pub(crate) struct Light {
    pub(crate) is_on: bool,
    /// Its place in the list of all.
    pub(crate) place: u32,
    /// For how many of its links it had asked when it was unpacked.
    pub(crate) asked: usize,
    /// Who had used each link last.
    pub(crate) users: Vec<TransferId>,
    /// How long it waits for others.
    pub(crate) waits: Vec<Wait>,
}
