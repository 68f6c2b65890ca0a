//! Recording of an allocator's events: the most recent ones, for its snapshots, and all of them, for its subscribers.

use std::collections::{BTreeMap, VecDeque};

use super::watch::{Event, Subscriber};
use crate::Bytes;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, Turn, lock, thread_number};

/// Kind of an event. The first seven, and the last two, are in PyTorch's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// A block was allocated.
    Alloc,
    /// A block was freed by its owner.
    FreeRequested,
    /// A freed range can be allocated again: its streams have passed, or it was reserved room.
    FreeCompleted,
    /// A region was acquired. (A reserved region counts only the memory mapped into it.)
    SegmentAlloc,
    /// A region was released.
    SegmentFree,
    /// Memory was committed to a part of a region.
    SegmentMap,
    /// Memory was decommitted from a part of a region.
    SegmentUnmap,
    /// Compaction reserved room for a block that may move there. Histories show it as an allocation.
    RoomReserved,
    /// Compaction released reserved room that no block has moved to. Histories show it as a free.
    RoomReleased,
    /// A block moved to its reserved room. Its old place is free when `FreeCompleted` follows. Histories show the move
    /// as a free of the old place.
    Move,
    /// The allocator waited for streams. Histories do not show it.
    StreamWait,
    /// A request failed. The address field of a history entry holds the device's free memory in bytes.
    OutOfMemory,
    /// A snapshot was taken.
    Snapshot,
}

impl Action {
    /// Returns the name of the action in snapshots and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::RoomReserved => "room_reserved",
            Self::RoomReleased => "room_released",
            Self::Move => "move",
            Self::StreamWait => "stream_wait",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
        }
    }

    /// Returns the action in histories, which use PyTorch's actions only.
    const fn in_history(self) -> Option<Self> {
        match self {
            Self::RoomReserved => Some(Self::Alloc),
            Self::RoomReleased | Self::Move => Some(Self::FreeRequested),
            Self::StreamWait => None,
            other => Some(other),
        }
    }
}

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
}

pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Recorder of an allocator's events: for its history, if it keeps one, and for its [subscribers](super::watch).
pub(crate) struct Journal {
    log: Mutex<Log>,
    /// Whether events are recorded, for the history or for subscribers; read without the lock.
    kept: AtomicBool,
    /// Whether there is a subscriber; read without the lock.
    watched: AtomicBool,
    /// Turn that is held while subscribers are called.
    pub(super) delivery: Turn,
    clock: Option<Clock>,
    now_us: AtomicU64,
}

struct Log {
    history: History,
    subscribers: Vec<Arc<Subscriber>>,
    /// Events that are not delivered to the subscribers yet.
    queue: Vec<Event>,
    /// Number of events recorded for subscribers so far.
    numbered: u64,
    /// Number of subscribers so far.
    subscribed: u64,
    /// Call sites of live blocks by address, where known.
    sites: BTreeMap<u64, u32>,
}

/// The most recent events.
struct History {
    entries: VecDeque<HistoryEntry>,
    limit: usize,
    recorded: u64,
}

impl Journal {
    /// Creates a history of the last `limit` events; 0 disables it.
    pub(crate) fn new(limit: usize, clock: Option<Clock>) -> Self {
        let log = Log {
            history: History { entries: VecDeque::new(), limit, recorded: 0 },
            subscribers: Vec::new(),
            queue: Vec::new(),
            numbered: 0,
            subscribed: 0,
            sites: BTreeMap::new(),
        };
        Self {
            log: Mutex::new(log),
            kept: AtomicBool::new(limit > 0),
            watched: AtomicBool::new(false),
            delivery: Turn::default(),
            clock,
            now_us: AtomicU64::new(0),
        }
    }

    /// Starts a new history of the last `limit` events.
    pub(crate) fn restart(&self, limit: usize) {
        let mut log = lock(&self.log);
        log.history.limit = limit;
        log.history.entries = VecDeque::new();
        if log.subscribers.is_empty() {
            log.sites = BTreeMap::new();
        }
        self.publish(&log);
    }

    /// Returns whether events are recorded.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Relaxed)
    }

    /// Returns whether there is a subscriber.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Reads the clock. It is called with no lock held, since the clock is user code.
    pub(crate) fn tick(&self) {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.is_kept()) {
            self.now_us.fetch_max(clock(), Ordering::Relaxed);
        }
    }

    pub(crate) fn record(&self, event: Event) {
        if self.is_kept() {
            let now_us = self.clock.as_ref().map(|_| self.now_us.load(Ordering::Relaxed));
            lock(&self.log).record(event, now_us);
        }
    }

    /// Returns the entries, and the call sites of live blocks by address.
    pub(crate) fn entries(&self) -> (Vec<HistoryEntry>, BTreeMap<u64, u32>) {
        let log = lock(&self.log);
        (log.history.entries.iter().copied().collect(), log.sites.clone())
    }

    /// Adds a subscriber to the events from now on, and returns its id.
    pub(crate) fn subscribe(&self, function: Box<dyn Fn(&Event) + Send + Sync>) -> u64 {
        let mut log = lock(&self.log);
        log.subscribed += 1;
        let (id, from, gone) = (log.subscribed, log.numbered, AtomicBool::new(false));
        log.subscribers.push(Arc::new(Subscriber { id, from, gone, function }));
        self.publish(&log);
        id
    }

    pub(super) fn has_subscriber(&self, id: u64) -> bool {
        lock(&self.log).subscribers.iter().any(|subscriber| subscriber.id == id)
    }

    /// Removes subscribers, and returns them, so that the caller drops them with no lock held.
    pub(super) fn remove_subscribers(
        &self,
        unwanted: impl Fn(&Subscriber) -> bool,
    ) -> Vec<Arc<Subscriber>> {
        let mut log = lock(&self.log);
        let removed: Vec<_> =
            log.subscribers.extract_if(.., |subscriber| unwanted(subscriber)).collect();
        removed.iter().for_each(|subscriber| subscriber.gone.store(true, Ordering::Release));
        if log.subscribers.is_empty() {
            log.queue = Vec::new();
        }
        self.publish(&log);
        removed
    }

    /// Takes the queued events and the subscribers to call with them; `None` if the queue is empty.
    pub(super) fn take_queue(&self) -> Option<(Vec<Event>, Vec<Arc<Subscriber>>)> {
        let mut log = lock(&self.log);
        let events = std::mem::take(&mut log.queue);
        (!events.is_empty()).then(|| (events, log.subscribers.clone()))
    }

    /// Stores whether events are recorded and delivered, for readers that do not take the lock.
    fn publish(&self, log: &Log) {
        self.watched.store(!log.subscribers.is_empty(), Ordering::Relaxed);
        self.kept.store(log.is_kept(), Ordering::Relaxed);
    }
}

impl Log {
    fn is_kept(&self) -> bool {
        self.history.limit > 0 || !self.subscribers.is_empty()
    }

    fn record(&mut self, mut event: Event, now_us: Option<u64>) {
        if !self.is_kept() {
            return;
        }
        event.site = self.update_sites(&event);
        self.history.record(&event, now_us);
        if !self.subscribers.is_empty() {
            event.number = self.numbered;
            event.time_us = now_us.unwrap_or(event.number);
            event.thread = thread_number();
            self.queue.push(event);
            self.numbered += 1;
        }
    }

    /// Updates the call sites of live blocks, and returns the call site of the event's block.
    fn update_sites(&mut self, event: &Event) -> u32 {
        let site = match event.action {
            Action::Alloc if event.site != 0 => {
                self.sites.insert(event.flat, event.site);
                Some(event.site)
            }
            Action::FreeRequested => self.sites.get(&event.flat).copied(),
            Action::FreeCompleted => self.sites.remove(&event.flat),
            Action::Move => {
                let site = self.sites.get(&event.flat).copied();
                site.map(|site| self.sites.insert(event.target_flat, site));
                site
            }
            _ => None,
        };
        site.unwrap_or(0)
    }
}

impl History {
    fn record(&mut self, event: &Event, now_us: Option<u64>) {
        let Some(action) = event.action.in_history().filter(|_| self.limit > 0) else { return };
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
        }
        let address =
            if action == Action::OutOfMemory { event.device_free.get() } else { event.flat };
        let Event { requested: size, stream, site, .. } = *event;
        let time_us = now_us.unwrap_or(self.recorded);
        self.entries.push_back(HistoryEntry { action, address, size, stream, time_us, site });
        self.recorded += 1;
    }
}
