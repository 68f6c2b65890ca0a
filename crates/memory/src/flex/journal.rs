//! Recording of an allocator's events: the most recent ones, for its history, and all of them, for its subscribers.
//!
//! An event is recorded where it happens, under the lock of its region, and is put into a queue. The queue has one order
//! for all threads. A call of the allocator delivers the queue when it has released its locks, before it returns. One
//! thread delivers at a time; a thread that finds another one delivering waits for it. So the events of a call have been
//! delivered when the call returns: by its own thread, or by another thread that delivered at that moment.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::event::{Action, Event};
use super::history::{History, HistoryEntry};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, Turn, lock, thread_number};

/// A subscriber of an allocator.
struct Subscriber {
    id: u64,
    /// Number of the first event for this subscriber.
    from: u64,
    /// Whether the subscriber was taken back or has panicked.
    gone: AtomicBool,
    function: Watch,
}

impl Subscriber {
    fn call(&self, event: &Event) {
        if event.number < self.from || self.gone.load(Ordering::Acquire) {
            return;
        }
        // The state of the function is not used after a panic.
        if catch_unwind(AssertUnwindSafe(|| (self.function)(event))).is_err() {
            self.gone.store(true, Ordering::Release);
        }
    }
}

/// A function that is called with events.
pub(crate) type Watch = Box<dyn Fn(&Event) + Send + Sync>;

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

impl Journal {
    /// Creates a history of the last `limit` events; 0 disables it.
    pub(crate) fn new(limit: usize, clock: Option<Clock>) -> Self {
        let log = Log {
            history: History::new(limit),
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
        log.history.restart(limit);
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

    pub(crate) fn record(&self, mut event: Event) {
        if self.is_kept() {
            let now_us = self.clock.as_ref().map(|_| self.now_us.load(Ordering::Relaxed));
            lock(&self.log).record(&mut event, now_us);
        }
    }

    /// Returns the call site of the live block at a flat address; 0 if unknown.
    pub(crate) fn site(&self, flat: u64) -> u32 {
        lock(&self.log).sites.get(&flat).copied().unwrap_or(0)
    }

    /// Returns the entries, and the call sites of live blocks by address.
    pub(crate) fn entries(&self) -> (Vec<HistoryEntry>, BTreeMap<u64, u32>) {
        let log = lock(&self.log);
        (log.history.entries(), log.sites.clone())
    }

    /// Passes all queued events to the subscribers, and the events that the subscribers cause. A thread that is already
    /// delivering leaves its events to that delivery.
    pub(super) fn deliver(&self) {
        let Some(_turn) = self.delivery.take() else { return };
        while let Some((events, subscribers)) = self.take_queue() {
            for event in &events {
                subscribers.iter().for_each(|subscriber| subscriber.call(event));
            }
            drop(self.remove_subscribers(|subscriber| subscriber.gone.load(Ordering::Acquire)));
        }
    }

    pub(super) fn unsubscribe(&self, id: u64) {
        let removed = self.remove_subscribers(|subscriber| subscriber.id == id);
        // The function may be running on another thread, which has copied the list of subscribers.
        drop(self.delivery.take());
        drop(removed);
    }

    /// Adds a subscriber to the events from now on, and returns its id.
    pub(crate) fn subscribe(&self, function: Watch) -> u64 {
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
    fn remove_subscribers(&self, unwanted: impl Fn(&Subscriber) -> bool) -> Vec<Arc<Subscriber>> {
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
    fn take_queue(&self) -> Option<(Vec<Event>, Vec<Arc<Subscriber>>)> {
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
        self.history.is_kept() || !self.subscribers.is_empty()
    }

    fn record(&mut self, event: &mut Event, now_us: Option<u64>) {
        if !self.is_kept() {
            return;
        }
        event.site = self.update_sites(event);
        self.history.record(event, now_us);
        if !self.subscribers.is_empty() {
            event.number = self.numbered;
            event.time_us = now_us.unwrap_or(event.number);
            event.thread = thread_number();
            self.queue.push(*event);
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
