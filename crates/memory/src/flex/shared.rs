//! What the slots of one allocator share.
//!
//! Locks are taken in one order: the peaks, then slots by their number, then one of the others,
//! which are held for a few instructions and under which nothing else is locked. No lock is held
//! while the device, the streams or a callback is called.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use super::config::{FlexConfig, Release};
use super::history::{Action, History, HistoryEntry};
use super::segments::SegmentTable;
use super::slot::Slot;
use super::stream::{Pending, StreamEvents, Waiting};
use crate::Bytes;
use crate::device::DeviceMemory;
use crate::index::BlockKey;
use crate::policy::Kind;
use crate::stats::{self, Counters, Peaks, Slack, Stats};
use crate::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Turn, Weak, lock};

/// A function that is called when memory runs out, and may free some.
pub(crate) type Callback = Arc<dyn Fn(&super::OutOfMemory) + Send + Sync>;
/// A clock, in microseconds.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) config: FlexConfig,
    pub(crate) device: Arc<dyn DeviceMemory>,
    /// The granule of growable regions.
    pub(crate) granule: Bytes,
    pub(crate) events: Option<Arc<dyn StreamEvents>>,
    pub(crate) clock: Option<Clock>,
    /// Set once, when the allocator is made.
    pub(crate) slots: OnceLock<Vec<Weak<Slot>>>,
    pub(crate) regions: Mutex<Regions>,
    /// Who may acquire and release.
    pub(crate) turn: Turn,
    peaks: Mutex<Peaks>,
    pub(crate) slack: Slack,
    counters: Mutex<Counters>,
    pending: Mutex<Pending>,
    pending_len: AtomicUsize,
    /// The first stream that was seen, plus one.
    first_stream: AtomicU64,
    several_streams: AtomicBool,
    history: Option<Mutex<History>>,
    pub(crate) callbacks: Mutex<Vec<Callback>>,
    moved: Mutex<Moved>,
    moved_len: AtomicUsize,
    closed: AtomicBool,
}

/// The number of this thread's own slot. Threads are numbered as they come.
pub(crate) fn home(slots: usize) -> usize {
    static THREADS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    let number = NUMBER.get().unwrap_or_else(|| {
        let number = THREADS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    });
    number % slots
}

/// What is known of the regions as a whole.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    /// No more are acquired.
    pub(crate) locked: bool,
    pub(crate) segments: SegmentTable,
}

/// Where moved blocks went, by the slot and key that their handles still have.
#[derive(Debug, Default)]
struct Moved {
    forward: BTreeMap<(usize, BlockKey), (Arc<Slot>, BlockKey)>,
    /// The handle of each moved block, to find it when it moves again.
    back: BTreeMap<(usize, BlockKey), (usize, BlockKey)>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        config: FlexConfig,
        device: Arc<dyn DeviceMemory>,
        events: Option<Arc<dyn StreamEvents>>,
        clock: Option<Clock>,
    ) -> Self {
        let history = (config.history > 0).then(|| Mutex::new(History::new(config.history)));
        Self {
            granule: device.granule().unwrap_or(Bytes::mib(2)),
            config,
            device,
            events,
            clock,
            slots: OnceLock::new(),
            regions: Mutex::default(),
            turn: Turn::default(),
            peaks: Mutex::default(),
            slack: Slack::new(),
            counters: Mutex::default(),
            pending: Mutex::default(),
            pending_len: AtomicUsize::new(0),
            first_stream: AtomicU64::new(0),
            several_streams: AtomicBool::new(false),
            history,
            callbacks: Mutex::new(Vec::new()),
            moved: Mutex::default(),
            moved_len: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The slots that are still there: all of them while the allocator is.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots
            .get()
            .map(|slots| slots.iter().filter_map(Weak::upgrade).collect())
            .unwrap_or_default()
    }

    /// The slot of this thread, where threads have slots and `slot` is another's.
    pub(crate) fn other_slot(&self, slot: &Slot) -> Option<Arc<Slot>> {
        if !self.config.region.thread_home || self.closed.load(Ordering::Acquire) {
            return None;
        }
        let home = home(self.config.max_regions);
        (home != slot.number).then(|| self.slots.get()?[home].upgrade()).flatten()
    }

    /// Brings every block that was freed to its slot.
    pub(crate) fn empty_outboxes(&self) {
        if self.config.region.thread_home {
            self.slots().iter().for_each(|slot| slot.empty_outbox());
        }
    }

    /// The allocator is gone; what is left of it are blocks that somebody still holds.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.empty_outboxes();
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut lock(&self.counters));
    }

    /// Looks into a possible new peak of the sums over all regions.
    pub(crate) fn settle(&self) {
        self.with_all_counts(|counts, peaks| stats::settle(counts, peaks, &self.slack));
    }

    pub(crate) fn stats(&self) -> Stats {
        self.empty_outboxes();
        let counters = *lock(&self.counters);
        self.with_all_counts(|counts, peaks| {
            stats::settle(counts, peaks, &self.slack);
            Stats::collect(counts, peaks, counters)
        })
    }

    pub(crate) fn reset_peaks(&self) {
        self.empty_outboxes();
        self.with_all_counts(|counts, peaks| {
            counts.iter_mut().for_each(|counts| counts.reset_peaks());
            peaks.reset(counts);
            stats::settle(counts, peaks, &self.slack);
        });
    }

    pub(crate) fn reset_accumulated(&self) {
        *lock(&self.counters) = Counters::default();
        self.with_all_counts(|counts, _| {
            counts.iter_mut().for_each(|counts| counts.reset_accumulated());
        });
    }

    /// Runs with the accounts of all slots locked at once, so that they are of one moment.
    fn with_all_counts<T>(
        &self,
        run: impl FnOnce(&mut [&mut stats::Counts], &mut Peaks) -> T,
    ) -> T {
        let mut peaks = lock(&self.peaks);
        let slots = self.slots();
        let mut states: Vec<_> = slots.iter().map(Slot::enter).collect();
        // Slots that never held a region have nothing to add, and need no share of the ceilings.
        let mut counts: Vec<_> = states
            .iter_mut()
            .filter(|state| state.was_used())
            .map(|state| &mut state.counts)
            .collect();
        run(&mut counts, &mut peaks)
    }

    /// Adds to the history, if one is kept.
    pub(crate) fn record(&self, action: Action, address: u64, size: Bytes, stream: u32) {
        if let Some(history) = &self.history {
            let mut history = lock(history);
            let time_us = self.clock.as_ref().map_or(history.recorded, |clock| clock());
            history.push(HistoryEntry { action, address, size, stream, time_us });
        }
    }

    pub(crate) fn history(&self) -> Vec<HistoryEntry> {
        self.history.as_ref().map(|history| lock(history).entries()).unwrap_or_default()
    }

    /// Notes the stream of a request. When a second one appears, blocks that the first has freed may
    /// still be touched by it, so it is waited for, once.
    pub(crate) fn see_stream(&self, stream: u32) {
        let Some(events) = &self.events else { return };
        let number = u64::from(stream) + 1;
        let first = self.first_stream.load(Ordering::Relaxed);
        if first == number || self.several_streams.load(Ordering::Acquire) {
            return;
        }
        if first == 0
            && self
                .first_stream
                .compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        {
            return;
        }
        if !self.several_streams.swap(true, Ordering::AcqRel) {
            let first = self.first_stream.load(Ordering::Acquire) - 1;
            let first = u32::try_from(first).expect("it was a stream plus one");
            events.wait(events.record(first));
            self.count(|counters| counters.sync_all_streams += 1);
        }
    }

    /// The streams that must pass before a block of `own`, used by `others` too, is free; none where
    /// it is free at once.
    pub(crate) fn streams_to_wait_for(&self, own: u32, others: Vec<u32>) -> Option<Vec<u32>> {
        self.events.as_ref()?;
        let several = self.several_streams.load(Ordering::Acquire);
        (several || !others.is_empty()).then(|| {
            let mut streams = others;
            streams.push(own);
            streams
        })
    }

    pub(crate) fn wait_for(&self, waiting: Waiting) {
        lock(&self.pending).requested.push(waiting);
        self.pending_len.fetch_add(1, Ordering::Release);
    }

    /// How many blocks wait for streams.
    pub(crate) fn pending(&self) -> usize {
        self.pending_len.load(Ordering::Acquire)
    }

    /// Records events for the blocks that were let go, and frees those whose streams have passed.
    pub(crate) fn poll(&self) {
        if self.pending() > 0
            && let Some(events) = &self.events
        {
            self.record_events(events.as_ref());
            while self.free_passed(events.as_ref()) {}
        }
    }

    /// Waits for all streams that a block waits for, and frees the blocks.
    pub(crate) fn synchronize(&self) {
        if self.pending() > 0
            && let Some(events) = &self.events
        {
            self.record_events(events.as_ref());
            let last = lock(&self.pending).backs();
            last.into_iter().for_each(|event| events.wait(event));
            self.count(|counters| counters.sync_all_streams += 1);
            while self.free_passed(events.as_ref()) {}
        }
    }

    fn record_events(&self, events: &dyn StreamEvents) {
        let requested = std::mem::take(&mut lock(&self.pending).requested);
        for waiting in requested {
            let points =
                waiting.streams.iter().map(|&stream| (stream, events.record(stream))).collect();
            lock(&self.pending).enter(waiting, points);
        }
    }

    /// Asks once for every stream; says whether any has moved on.
    fn free_passed(&self, events: &dyn StreamEvents) -> bool {
        let fronts = lock(&self.pending).fronts();
        let passed: Vec<_> =
            fronts.into_iter().filter(|&(_, event)| events.is_complete(event)).collect();
        for &(stream, event) in &passed {
            let done = lock(&self.pending).passed(stream, event);
            if let Some(Waiting { slot, key, .. }) = done {
                self.pending_len.fetch_sub(1, Ordering::Release);
                slot.complete(key);
            }
        }
        !passed.is_empty()
    }

    /// What is done after a free, with no lock held.
    pub(crate) fn after_free(&self, idle: bool) {
        self.poll();
        if idle && let Release::WhenIdle(limit) = self.config.release {
            let idle = Kind::ALL.iter().flat_map(|&kind| {
                self.slots().into_iter().filter_map(move |slot| slot.report(kind))
            });
            let idle: Bytes =
                idle.filter(|region| region.blocks == 0).map(|region| region.size).sum();
            if idle > limit {
                self.trim();
            }
        }
    }

    /// Gives everything back that is wholly free: regions, and granules of growable ones.
    pub(crate) fn trim(&self) -> Bytes {
        self.empty_outboxes();
        let _turn = self.turn.take();
        let before = self.device.info().free;
        for slot in self.slots() {
            if let Some(handle) = slot.move_out() {
                lock(&self.regions).segments.clear(handle.id);
                self.device.release(handle);
                self.count(|counters| counters.device_frees += 1);
                lock(&self.regions).locked = false;
            } else {
                slot.shrink();
            }
        }
        self.device.info().free.saturating_sub(before)
    }

    /// Where the block of a handle is now.
    pub(crate) fn follow(&self, slot: &Arc<Slot>, key: BlockKey) -> Option<(Arc<Slot>, BlockKey)> {
        if self.moved_len.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.moved).forward.get(&(slot.number, key)).cloned()
    }

    /// Notes that a block has moved.
    pub(crate) fn forward(&self, from: (&Arc<Slot>, BlockKey), to: (Arc<Slot>, BlockKey)) {
        let mut moved = lock(&self.moved);
        let from = (from.0.number, from.1);
        let handle = moved.back.remove(&from).unwrap_or(from);
        moved.back.insert((to.0.number, to.1), handle);
        moved.forward.insert(handle, to);
        self.moved_len.store(moved.forward.len(), Ordering::Release);
    }

    /// Forgets where a handle's block went; it is being freed.
    pub(crate) fn forget(&self, slot: &Arc<Slot>, key: BlockKey) -> Option<(Arc<Slot>, BlockKey)> {
        if self.moved_len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut moved = lock(&self.moved);
        let to = moved.forward.remove(&(slot.number, key))?;
        moved.back.remove(&(to.0.number, to.1));
        self.moved_len.store(moved.forward.len(), Ordering::Release);
        Some(to)
    }
}
