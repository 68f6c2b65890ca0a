//! The state of a leg that moves as a train.

use crate::event::Place;
use crate::id::TransferId;
use crate::observer::Wait;

/// State of a leg that moves as a train.
#[derive(Debug, Default)]
pub(crate) struct Train {
    pub(crate) is_on: bool,
    /// Whether only the first and the last row of times are kept, because it has met no other train.
    pub(crate) is_brief: bool,
    /// Number in the order in which trains set out.
    pub(crate) number: u64,
    /// Event at which it set out. Flits that ask in this instant come after it, even if their rank is lower.
    pub(crate) begun: Place,
    /// Trail of the flit whose arrival this event was, if others on the first link may tie with it. All that do
    /// are there when the train sets out, because they have crossed the link by which that flit came.
    pub(crate) behind: Vec<Place>,
    /// Times at which the flits ask for each link of the leg, a row for each link; in the last row they arrive.
    pub(crate) times: Vec<u64>,
    /// First hop whose link does not list the train yet.
    pub(crate) entered: u16,
    /// Expected time of arrival, and the number of the event for it.
    pub(crate) end: u64,
    pub(crate) event: u32,
    /// Number of flits that the component at its end has received.
    pub(crate) handed: u32,
    /// Number of times of flits that have been computed again, over all links.
    pub(crate) work: u64,
    pub(crate) light: Light,
}

/// State of a light train, with which its links can be given back.
#[derive(Debug, Default)]
pub(crate) struct Light {
    pub(crate) is_on: bool,
    /// Index in the list of light trains.
    pub(crate) place: u32,
    /// Number of links that it had asked for when it was unpacked.
    pub(crate) asked: usize,
    /// Transfer that had used each link before.
    pub(crate) users: Vec<TransferId>,
    /// Waits for others, to be reported.
    pub(crate) waits: Vec<Wait>,
}
