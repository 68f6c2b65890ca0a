//! Who looks on: an observer sees what happens and changes nothing.

use crate::id::{LinkId, TransferId};
use crate::network::Route;
use crate::{Span, Time};

/// Sees what happens. The engine is compiled for one observer, so looking away ([`NullObserver`]) costs nothing.
pub trait Observer<M> {
    /// Whether [`crossed`](Self::crossed) is to be called for every flit; there are no trains then.
    const FLITS: bool;

    /// A transfer has begun.
    fn began(&mut self, transfer: TransferId, now: Time, route: &Route, bytes: u64, message: &M) {
        let _ = (transfer, now, route, bytes, message);
    }

    /// A flit has been given a link.
    fn crossed(&mut self, crossing: Crossing) {
        let _ = crossing;
    }

    /// A transfer has waited for another one at a link. Told at the latest before it is delivered, in no order.
    fn waited(&mut self, transfer: TransferId, wait: Wait) {
        let _ = (transfer, wait);
    }

    /// A transfer has been delivered.
    fn delivered(&mut self, transfer: TransferId, now: Time) {
        let _ = (transfer, now);
    }
}

/// A flit on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The flit's transfer.
    pub transfer: TransferId,
    /// The flit's place in it.
    pub flit: u64,
    /// The link.
    pub link: LinkId,
    /// The link's place on the transfer's route.
    pub hop: usize,
    /// When the flit asked for the link.
    pub asked: Time,
    /// When it was on it with its first byte.
    pub start: Time,
    /// When it was on it with its last byte.
    pub end: Time,
    /// When it arrived at the other end.
    pub arrived: Time,
}

/// A time that a flit stood before a link which another transfer was using.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The link.
    pub link: LinkId,
    /// Who was in the way last.
    pub behind: TransferId,
    /// How long.
    pub span: Span,
}

/// An observer that does not look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullObserver;

impl<M> Observer<M> for NullObserver {
    const FLITS: bool = false;
}
