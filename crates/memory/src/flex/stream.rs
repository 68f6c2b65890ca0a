//! Streams: a freed range is taken at once by its own stream, and by another when its stream has passed.
//!
//! The work of one stream is in order. As long as the allocator has seen only one stream, a freed range is therefore
//! free at once, and no event is recorded. The first request of a second stream waits once for the first stream. From
//! then on:
//!
//! - A freed range belongs to the stream of its block. That stream takes it at once.
//! - A request of another stream has an event recorded on every stream that has freed blocks since its last event. When
//!   the event has passed, the ranges that were freed before it are free for all streams. A stream that frees
//!   [`PERIOD`] bytes or more has an event recorded at its own next request, so that other streams need not wait for
//!   all of its work.
//! - A block that other streams use as well ([`record_stream`](super::Allocation::record_stream)) waits for an event on
//!   each of them (`free_requested`). Then it belongs to its own stream (`free_completed`).
//!
//! The frees of a stream between two of its events form a period, an [`Epoch`]. A request therefore costs at most one
//! event for each stream. A stream that has made the last [`ALONE`] requests works alone, and costs none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Bytes;
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

/// Number of a period between two events of a stream.
pub(crate) type Epoch = u64;

/// Maximum number of events of a stream that are recorded and not passed.
const MOST_EVENTS: usize = 256;

/// Number of bytes that a stream frees in a period, unless another stream's request ends it.
const PERIOD: u64 = 16 << 20;

/// Number of requests in a row after which a stream counts as alone.
const ALONE: u32 = 1000;

/// Way in which a freed block becomes free.
#[derive(Debug)]
pub(crate) enum Freed {
    /// At once, for all streams.
    ForAll,
    /// At once for its own stream, and for all when the stream has passed the period.
    InOrder(Epoch),
    /// Not before these other streams have passed.
    After(Vec<u32>),
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
    /// Number of events of periods that have passed.
    passes: AtomicU64,
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
            passes: AtomicU64::new(0),
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

    /// Returns when a block of `size` bytes on stream `own` becomes free that `others` use as well.
    #[inline]
    pub(crate) fn free(&self, own: u32, others: Vec<u32>, size: Bytes) -> Freed {
        match () {
            () if self.events.is_none() => Freed::ForAll,
            () if !others.is_empty() => Freed::After(others),
            () => self.free_own(own, size),
        }
    }

    /// Returns when a block becomes free whose region is to be released: when all its streams have passed.
    pub(crate) fn free_last(&self, own: u32, others: Vec<u32>) -> Freed {
        let several = self.several.load(Ordering::SeqCst) || !others.is_empty();
        if self.events.is_none() || !several {
            return Freed::ForAll;
        }
        Freed::After(others.into_iter().chain([own]).collect())
    }

    /// Returns when a block becomes free that only stream `own` may still access.
    #[inline]
    pub(crate) fn free_own(&self, own: u32, size: Bytes) -> Freed {
        if !self.several.load(Ordering::SeqCst) {
            return Freed::ForAll;
        }
        Freed::InOrder(lock(&self.pending).line(own).free(size))
    }

    /// Returns the number of passed events; it changes when ranges of a stream become free for all streams.
    #[inline]
    pub(crate) fn passes(&self) -> u64 {
        self.passes.load(Ordering::Acquire)
    }

    /// Calls `act` with a function that returns the last period that a stream has passed.
    pub(crate) fn with_passed<R>(&self, act: impl FnOnce(&dyn Fn(u32) -> Option<Epoch>) -> R) -> R {
        let pending = lock(&self.pending);
        act(&|stream| pending.lines.iter().find(|line| line.stream == stream)?.passed)
    }

    /// Adds a block that waits for `streams`.
    pub(crate) fn wait_for(&self, block: T, streams: Vec<u32>) {
        // Counted first, so that the thread that takes the block off the list finds it counted.
        self.len.fetch_add(1, Ordering::Release);
        lock(&self.pending).requested.push((block, streams));
    }

    /// Records events for the added blocks and for the periods that end, at a request of stream `by` or of none. Passes
    /// the blocks whose streams have passed to `free`. Does nothing if another thread is already doing so.
    pub(crate) fn poll_due(&self, by: Option<u32>, free: impl FnMut(T)) {
        if let Some(events) = &self.events
            && let Some(_turn) = self.turn.try_take()
        {
            let blocks = self.len() > 0;
            if blocks {
                self.record_events(events.as_ref());
            }
            self.end_periods(events.as_ref(), by);
            if blocks {
                self.free_passed(events.as_ref(), free);
            }
            self.pass_periods(events.as_ref());
        }
    }

    /// Counts a request of stream `by`, and returns whether blocks or periods may have passed, or a period ends at the
    /// request.
    #[inline]
    pub(crate) fn may_poll(&self, by: Option<u32>) -> bool {
        let due = self.several.load(Ordering::Relaxed) && lock(&self.pending).is_due(by);
        due || self.len() > 0
    }

    /// Waits for all streams that blocks or ranges wait for, and passes the blocks to `free`. Returns whether it waited:
    /// events that call back during a wait do not wait for themselves.
    pub(crate) fn synchronize(&self, free: impl FnMut(T)) -> bool {
        let Some(events) = self.events.as_ref().filter(|_| self.may_poll(None)) else {
            return false;
        };
        let Some(_turn) = self.turn.take() else { return false };
        if !self.may_poll(None) {
            return false;
        }
        self.record_events(events.as_ref());
        let last = lock(&self.pending).last_of_blocks();
        last.into_iter().for_each(|event| events.wait(event));
        self.free_passed(events.as_ref(), free);
        // The ranges of these blocks now wait for the blocks' own streams.
        self.end_periods(events.as_ref(), None);
        let last = lock(&self.pending).last_of_periods();
        last.into_iter().for_each(|event| events.wait(event));
        self.pass_periods(events.as_ref());
        true
    }

    /// Waits until `streams` have passed all work that was submitted to them, and returns whether it waited. While a
    /// program uses one stream, the device orders its calls after that work. Events that call back do not wait for
    /// themselves.
    pub(crate) fn wait_on(&self, streams: &BTreeSet<u32>) -> bool {
        let several = self.several.load(Ordering::SeqCst) || streams.len() > 1;
        let Some(events) = self.events.as_ref().filter(|_| several && !streams.is_empty()) else {
            return false;
        };
        let Some(_turn) = self.turn.take() else { return false };
        streams.iter().for_each(|&stream| events.wait(events.record(stream)));
        true
    }

    /// Records an event on every stream whose period ends at a request of stream `by`, or without a request.
    fn end_periods(&self, events: &dyn StreamEvents, by: Option<u32>) {
        let mut ended = lock(&self.pending).end_period(by);
        // The period ends before the event is recorded, so that the event comes after all frees in it.
        while let Some((stream, epoch)) = ended {
            let event = events.record(stream);
            let mut pending = lock(&self.pending);
            pending.line(stream).events.push_back((event, epoch));
            ended = pending.end_period(by);
        }
    }

    fn pass_periods(&self, events: &dyn StreamEvents) {
        let mut at = 0;
        let mut front = lock(&self.pending).front_from(&mut at);
        while let Some(event) = front {
            let passed = events.is_complete(event);
            let mut pending = lock(&self.pending);
            if passed {
                pending.lines[at].pass();
                self.passes.fetch_add(1, Ordering::Release);
            } else {
                at += 1;
            }
            front = pending.front_from(&mut at);
        }
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
    /// Periods of the streams that have freed blocks.
    lines: Vec<Line>,
    /// Stream of the last request, and the number of its requests in a row.
    row: (u32, u32),
}

/// The periods of one stream.
struct Line {
    stream: u32,
    current: Epoch,
    /// Whether blocks were freed in the current period, and the number of bytes.
    freed: bool,
    bytes: u64,
    /// Events of earlier periods that have not passed.
    events: VecDeque<(EventId, Epoch)>,
    /// Last period whose event has passed.
    passed: Option<Epoch>,
}

impl Line {
    fn new(stream: u32) -> Self {
        Self { stream, current: 0, freed: false, bytes: 0, events: VecDeque::new(), passed: None }
    }

    fn free(&mut self, size: Bytes) -> Epoch {
        self.freed = true;
        self.bytes += size.get();
        self.current
    }

    /// Returns whether the current period ends at a request of stream `by`, the last of `row` requests in a row. Without
    /// a request every period ends; otherwise the number of events is limited.
    fn ends(&self, by: Option<u32>, row: u32) -> bool {
        let due = match by {
            None => return self.freed,
            Some(by) if by == self.stream => self.bytes >= PERIOD && row < ALONE,
            Some(_) => self.freed,
        };
        due && self.events.len() < MOST_EVENTS
    }

    fn pass(&mut self) {
        self.passed = self.events.pop_front().map(|(_, epoch)| epoch).or(self.passed);
    }
}

impl<T> Pending<T> {
    fn new() -> Self {
        Self {
            requested: Vec::new(),
            queues: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next: 0,
            lines: Vec::new(),
            row: (0, 0),
        }
    }

    fn line(&mut self, stream: u32) -> &mut Line {
        let known = self.lines.iter().position(|line| line.stream == stream);
        let at = known.unwrap_or_else(|| {
            self.lines.push(Line::new(stream));
            self.lines.len() - 1
        });
        &mut self.lines[at]
    }

    /// Counts a request of stream `by`, and returns whether a period ends at it or may have passed.
    fn is_due(&mut self, by: Option<u32>) -> bool {
        if let Some(by) = by {
            self.row = if self.row.0 == by { (by, self.row.1.saturating_add(1)) } else { (by, 0) };
        }
        let row = self.row.1;
        self.lines.iter().any(|line| !line.events.is_empty() || line.ends(by, row))
    }

    /// Ends a period that ends at a request of stream `by`, and returns the stream and the period.
    fn end_period(&mut self, by: Option<u32>) -> Option<(u32, Epoch)> {
        let row = self.row.1;
        let line = self.lines.iter_mut().find(|line| line.ends(by, row))?;
        (line.freed, line.bytes) = (false, 0);
        line.current += 1;
        Some((line.stream, line.current - 1))
    }

    /// Returns the first event of the line at `at`, or of the next line with events, and moves `at` there.
    fn front_from(&self, at: &mut usize) -> Option<EventId> {
        let mut lines = self.lines.iter().enumerate().skip(*at);
        let (found, event) = lines.find_map(|(at, line)| Some((at, line.events.front()?.0)))?;
        *at = found;
        Some(event)
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

    /// Returns the last event of each stream that blocks wait for.
    fn last_of_blocks(&self) -> Vec<EventId> {
        self.queues.values().filter_map(|queue| queue.back()).map(|&(event, _)| event).collect()
    }

    /// Returns the last event of each stream that ranges wait for.
    fn last_of_periods(&self) -> Vec<EventId> {
        self.lines.iter().filter_map(|line| line.events.back()).map(|&(event, _)| event).collect()
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
