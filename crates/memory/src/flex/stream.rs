//! Streams: a freed block is reused only when no stream can access it any more.
//!
//! As long as the allocator has seen only one stream, work and allocations are in one order, and a freed block can be
//! reused at once. Two-phase frees apply to a block that another stream uses as well
//! ([`record_stream`](super::Allocation::record_stream)), and to every block once there are several streams. The owner
//! frees the block (`free_requested`), and an event is recorded on each stream that may access it. When these events
//! have passed, the block is free (`free_completed`).

use std::collections::{BTreeMap, VecDeque};

use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Turn, lock};

/// A point in a stream's work. The device assigns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId(pub u64);

/// Events on the streams of a device. The allocator holds no lock while it calls these.
pub trait StreamEvents: Send + Sync {
    /// Records an event after all work submitted to `stream` so far.
    fn record(&self, stream: u32) -> EventId;

    /// Returns whether the stream has passed the event. Events of one stream are passed in order.
    fn is_complete(&self, event: EventId) -> bool;

    /// Waits until the stream has passed the event.
    fn wait(&self, event: EventId);
}

/// The streams of an allocator, and the freed blocks (`T`) that wait for them.
pub(crate) struct Streams<T> {
    /// Events of the device's streams. Without events all work is in one order, and no block waits.
    events: Option<Arc<dyn StreamEvents>>,
    pending: Mutex<Pending<T>>,
    len: AtomicUsize,
    /// Turn that is held while events are recorded and waited for.
    turn: Turn,
    /// First stream seen, plus one; 0 before any.
    first: AtomicU64,
    /// Whether a second stream was seen: from then on, blocks wait for their streams.
    several: AtomicBool,
    /// Whether the first stream has passed everything that was freed before the second stream appeared.
    settled: AtomicBool,
    second: Turn,
}

impl<T> Streams<T> {
    pub(crate) fn new(events: Option<Arc<dyn StreamEvents>>) -> Self {
        Self {
            events,
            pending: Mutex::new(Pending::new()),
            len: AtomicUsize::new(0),
            turn: Turn::default(),
            first: AtomicU64::new(0),
            several: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            second: Turn::default(),
        }
    }

    /// Returns the number of waiting blocks.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns whether this thread is inside a function of the events.
    pub(crate) fn is_calling(&self) -> bool {
        self.turn.is_mine() || self.second.is_mine()
    }

    /// Records the stream of a request. When a second stream appears, the first one may still access blocks that were
    /// freed before, so it is waited for once. Returns the number of waits in this call, or `None` if the events
    /// themselves make the request during such a wait on this thread.
    pub(crate) fn see(&self, stream: u32) -> Option<u64> {
        let Some(events) = &self.events else { return Some(0) };
        let number = u64::from(stream) + 1;
        let first = match self.first.load(Ordering::Relaxed) {
            0 => self.first.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire),
            first => Err(first),
        };
        let Err(first) = first else { return Some(0) };
        if first == number || self.settled.load(Ordering::Acquire) {
            return Some(0);
        }
        // A request that arrives while the first stream is being waited for waits as well.
        let _turn = self.second.take()?;
        if self.settled.load(Ordering::Acquire) {
            return Some(0);
        }
        // Set before the event is recorded, so that a block freed after the event waits for its stream.
        self.several.store(true, Ordering::SeqCst);
        let first = u32::try_from(first - 1).expect("it was a stream plus one");
        events.wait(events.record(first));
        self.settled.store(true, Ordering::Release);
        Some(1)
    }

    /// Returns the streams that must pass before a block is free, or `None` if it is free at once. The block belongs to
    /// stream `own`, and `others` use it as well.
    pub(crate) fn to_wait_for(&self, own: u32, others: Vec<u32>) -> Option<Vec<u32>> {
        self.events.as_ref()?;
        let several = self.several.load(Ordering::SeqCst);
        (several || !others.is_empty()).then(|| {
            let mut streams = others;
            streams.push(own);
            streams
        })
    }

    /// Adds a block that waits for `streams`.
    pub(crate) fn wait_for(&self, block: T, streams: Vec<u32>) {
        // Counted first, so that the thread that takes the block off the list finds it counted.
        self.len.fetch_add(1, Ordering::Release);
        lock(&self.pending).requested.push((block, streams));
    }

    /// Records events for the added blocks, and passes the blocks whose streams have passed to `free`. Does nothing if
    /// another thread is already doing so.
    pub(crate) fn poll(&self, free: impl FnMut(T)) {
        if self.len() > 0
            && let Some(events) = &self.events
            && let Some(_turn) = self.turn.try_take()
        {
            self.record_events(events.as_ref());
            self.free_passed(events.as_ref(), free);
        }
    }

    /// Waits for all streams that blocks wait for, and passes the blocks to `free`. Returns whether it waited: events
    /// that call back during a wait do not wait for themselves.
    pub(crate) fn synchronize(&self, free: impl FnMut(T)) -> bool {
        let Some(events) = self.events.as_ref().filter(|_| self.len() > 0) else { return false };
        let Some(_turn) = self.turn.take() else { return false };
        if self.len() == 0 {
            return false;
        }
        self.record_events(events.as_ref());
        let last = lock(&self.pending).backs();
        last.into_iter().for_each(|event| events.wait(event));
        self.free_passed(events.as_ref(), free);
        true
    }

    fn record_events(&self, events: &dyn StreamEvents) {
        let requested = std::mem::take(&mut lock(&self.pending).requested);
        for (block, streams) in requested {
            let points =
                streams.into_iter().map(|stream| (stream, events.record(stream))).collect();
            lock(&self.pending).enter(block, points);
        }
    }

    fn free_passed(&self, events: &dyn StreamEvents, mut free: impl FnMut(T)) {
        loop {
            let mut fronts = lock(&self.pending).fronts();
            fronts.retain(|&(_, event)| events.is_complete(event));
            if fronts.is_empty() {
                return;
            }
            for (stream, event) in fronts {
                let done = lock(&self.pending).passed(stream, event);
                if let Some(block) = done {
                    free(block);
                    self.len.fetch_sub(1, Ordering::Release);
                }
            }
        }
    }
}

/// Waiting blocks, by stream and in order.
struct Pending<T> {
    /// Blocks whose events are not recorded yet; recording happens with no lock held.
    requested: Vec<(T, Vec<u32>)>,
    queues: BTreeMap<u32, VecDeque<(EventId, u64)>>,
    /// Blocks with the number of events that each still waits for.
    tickets: BTreeMap<u64, (T, usize)>,
    next: u64,
}

impl<T> Pending<T> {
    fn new() -> Self {
        Self { requested: Vec::new(), queues: BTreeMap::new(), tickets: BTreeMap::new(), next: 0 }
    }

    fn enter(&mut self, block: T, events: Vec<(u32, EventId)>) {
        let ticket = self.next;
        self.next += 1;
        self.tickets.insert(ticket, (block, events.len()));
        for (stream, event) in events {
            self.queues.entry(stream).or_default().push_back((event, ticket));
        }
    }

    /// Returns, for each stream, the first event that it is not known to have passed.
    fn fronts(&self) -> Vec<(u32, EventId)> {
        self.queues.iter().filter_map(|(&stream, queue)| Some((stream, queue.front()?.0))).collect()
    }

    /// Returns the last event of each stream.
    fn backs(&self) -> Vec<EventId> {
        self.queues.values().filter_map(|queue| queue.back()).map(|&(event, _)| event).collect()
    }

    /// Records that `stream` has passed `event`, and returns the block if it waited for nothing else.
    fn passed(&mut self, stream: u32, event: EventId) -> Option<T> {
        let queue = self.queues.get_mut(&stream)?;
        let &(_, ticket) = queue.front().filter(|(front, _)| *front == event)?;
        queue.pop_front();
        let (_, left) = self.tickets.get_mut(&ticket)?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.tickets.remove(&ticket).map(|(block, _)| block)
    }
}
