//! Read-only observers of a run.

use crate::id::{LinkId, TransferId};
use crate::network::Route;
use crate::{Span, Time};

/// A read-only observer of a run. The engine is compiled for one type of observer, so [`NullObserver`] costs nothing.
pub trait Observer<M> {
    /// Whether [`crossed`](Self::crossed) is called for every flit and link; this disables trains.
    const FLITS: bool;

    /// Reports that a transfer begins.
    fn began(&mut self, transfer: TransferId, now: Time, route: &Route, bytes: u64, message: &M) {
        let _ = (transfer, now, route, bytes, message);
    }

    /// Reports that a flit was granted a link.
    fn crossed(&mut self, crossing: Crossing) {
        let _ = crossing;
    }

    /// Reports that a transfer has waited for another. Called before the transfer is delivered, in no particular order.
    fn waited(&mut self, transfer: TransferId, wait: Wait) {
        let _ = (transfer, wait);
    }

    /// Reports that a transfer has been delivered.
    fn delivered(&mut self, transfer: TransferId, now: Time) {
        let _ = (transfer, now);
    }
}

/// Passage of a flit over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Transfer of the flit.
    pub transfer: TransferId,
    /// Index of the flit in the transfer.
    pub flit: u64,
    /// Link that the flit crosses.
    pub link: LinkId,
    /// Index of the link on the route of the transfer.
    pub hop: usize,
    /// Time at which the flit requested the link.
    pub asked: Time,
    /// Time at which the flit's first byte entered the link.
    pub start: Time,
    /// Time at which the flit's last byte had entered the link.
    pub end: Time,
    /// Time at which the flit arrived at the other end.
    pub arrived: Time,
}

/// Wait of a flit for a link that another transfer was using.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Link that the flit waited for.
    pub link: LinkId,
    /// Transfer that used the link last.
    pub behind: TransferId,
    /// Length of the wait.
    pub span: Span,
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullObserver;

impl<M> Observer<M> for NullObserver {
    const FLITS: bool = false;
}
