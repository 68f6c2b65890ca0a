//! Streams: a freed block is used again only when no stream can touch it any more.
//!
//! While the allocator has seen one stream, work and allocations are in one order and a freed block
//! can be used at once. A block that another stream uses too
//! ([`record_stream`](super::Allocation::record_stream)), and every block once there are several
//! streams, is freed in two phases: its owner lets it go (`free_requested`), an event is recorded on
//! each stream that may touch it, and when these have passed the block is free (`free_completed`).

use std::collections::{BTreeMap, VecDeque};

use super::slot::Slot;
use crate::index::BlockKey;
use crate::sync::Arc;

/// Names a point in a stream's work. The numbers are the device's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// What a device must tell an allocator about its streams. It is called with no lock held.
pub trait StreamEvents: Send + Sync {
    /// Marks the point that `stream` has reached: everything given to it so far.
    fn record(&self, stream: u32) -> EventId;

    /// Whether a stream has passed a point. Points of one stream are passed in order.
    fn is_complete(&self, event: EventId) -> bool;

    /// Waits until it has.
    fn wait(&self, event: EventId);
}

/// A block that waits for streams.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) slot: Arc<Slot>,
    pub(crate) key: BlockKey,
    pub(crate) streams: Vec<u32>,
}

/// All blocks that wait, by stream and in order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Blocks whose events are not recorded yet; that is done with no lock held.
    pub(crate) requested: Vec<Waiting>,
    queues: BTreeMap<u32, VecDeque<(EventId, u64)>>,
    /// How many events each block still waits for.
    tickets: BTreeMap<u64, (Waiting, usize)>,
    next: u64,
}

impl Pending {
    /// Enters a block whose events are recorded.
    pub(crate) fn enter(&mut self, waiting: Waiting, events: Vec<(u32, EventId)>) {
        let ticket = self.next;
        self.next += 1;
        self.tickets.insert(ticket, (waiting, events.len()));
        for (stream, event) in events {
            self.queues.entry(stream).or_default().push_back((event, ticket));
        }
    }

    /// The first event that each stream has not been seen to pass.
    pub(crate) fn fronts(&self) -> Vec<(u32, EventId)> {
        self.queues.iter().filter_map(|(&stream, queue)| Some((stream, queue.front()?.0))).collect()
    }

    /// The last event of each stream.
    pub(crate) fn backs(&self) -> Vec<EventId> {
        self.queues.values().filter_map(|queue| queue.back()).map(|&(event, _)| event).collect()
    }

    /// Notes that `stream` has passed `event`, and returns the block that waited for nothing else.
    pub(crate) fn passed(&mut self, stream: u32, event: EventId) -> Option<Waiting> {
        let queue = self.queues.get_mut(&stream)?;
        let &(_, ticket) = queue.front().filter(|(front, _)| *front == event)?;
        queue.pop_front();
        let (_, left) = self.tickets.get_mut(&ticket)?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.tickets.remove(&ticket).map(|(waiting, _)| waiting)
    }
}
