//! The most recent events of an allocator, for its snapshots.

use std::collections::VecDeque;

pub(crate) use super::event::Action;
use super::event::Event;
use crate::Bytes;
use crate::policy::{PoolId, TagId};

/// One event of an allocator's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// Kind of the event.
    pub action: Action,
    /// Address in the flat address space of snapshots.
    pub address: u64,
    /// Number of bytes affected.
    pub size: Bytes,
    /// Stream of the block; 0 for events about regions.
    pub stream: u32,
    /// Time of the event in microseconds, from the allocator's clock; without a clock, the event's number.
    pub time_us: u64,
    /// Call site of the block's allocation; 0 if unknown.
    pub site: u32,
    /// Pool of the region or the request.
    pub pool: PoolId,
    /// Tag of the block or the request; none for `FreeCompleted`.
    pub tag: TagId,
}

/// The most recent events.
#[derive(Debug)]
pub(crate) struct History {
    entries: VecDeque<HistoryEntry>,
    limit: usize,
    recorded: u64,
}

impl History {
    /// Creates a history of the last `limit` events; 0 disables it.
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), limit, recorded: 0 }
    }

    /// Starts a new history of the last `limit` events.
    pub(super) fn restart(&mut self, limit: usize) {
        self.limit = limit;
        self.entries = VecDeque::new();
    }

    pub(super) fn is_kept(&self) -> bool {
        self.limit > 0
    }

    pub(super) fn entries(&self) -> Vec<HistoryEntry> {
        self.entries.iter().copied().collect()
    }

    pub(super) fn record(&mut self, event: &Event, now_us: Option<u64>) {
        let Some(action) = event.action.in_history().filter(|_| self.limit > 0) else { return };
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        let address =
            if action == Action::OutOfMemory { event.device_free.get() } else { event.flat };
        let Event { requested: size, stream, site, pool, tag, .. } = *event;
        let time_us = now_us.unwrap_or(self.recorded);
        let entry = HistoryEntry { action, address, size, stream, time_us, site, pool, tag };
        self.entries.push_back(entry);
        self.recorded += 1;
    }
}
