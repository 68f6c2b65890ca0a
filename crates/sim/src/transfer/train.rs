//! The state of a leg that moves as a train.

use crate::event::Place;
use crate::id::TransferId;
use crate::observer::Wait;

/// State of a leg that moves as a train.
#[derive(Debug, Default)]
pub(crate) struct Train {
    pub(crate) is_on: bool,
    /// Whether only the first and the last row of times are kept, because the train has met no other.
    pub(crate) is_brief: bool,
    /// Number in the order in which trains begin.
    pub(crate) number: u64,
    /// Event at which the train began. Flits with requests in this instant come after it, even if their rank is lower.
    pub(crate) begun: Place,
    /// Trail of the flit whose arrival this event was, if other flits on the first link may tie with it. All such flits
    /// are present when the train begins, because they have crossed the link over which that flit arrived.
    pub(crate) behind: Vec<Place>,
    /// Times at which the flits request each link of the leg, one row per link; the last row holds their arrivals.
    pub(crate) times: Vec<u64>,
    /// First hop whose link does not list the train yet.
    pub(crate) entered: u16,
    /// Expected time of arrival, and the number of its event.
    pub(crate) end: u64,
    pub(crate) event: u32,
    /// Number of flits that the component at the destination has received.
    pub(crate) handed: u32,
    /// Number of recomputed flit times, over all links.
    pub(crate) work: u64,
    pub(crate) light: Light,
}

/// State of a light train, with which its bookings can be undone.
#[derive(Debug, Default)]
pub(crate) struct Light {
    pub(crate) is_on: bool,
    /// Index in the list of light trains.
    pub(crate) place: u32,
    /// Number of links that the flit had requested when the train was unpacked.
    pub(crate) asked: usize,
    /// Transfer that had used each link before.
    pub(crate) users: Vec<TransferId>,
    /// Waits for other transfers, to be reported.
    pub(crate) waits: Vec<Wait>,
}
