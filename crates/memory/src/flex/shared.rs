//! What the slots of one allocator share.
//!
//! Locks are taken in one order: the peaks, then slots by their number, then one of the others,
//! which are held for a few instructions and under which nothing else is locked (but for a slot's
//! inbox, under which the table of moved blocks may be). No lock is held while the device, the
//! streams, the clock or a callback is called; only turns are, the allocator's before a slot's.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use super::config::{FlexConfig, Release};
use super::history::{Action, History, HistoryEntry};
use super::mail::{Mail, Mailbox};
use super::segments::Segments;
use super::slot::Slot;
use super::stream::{Pending, StreamEvents, Waiting};
use super::{MAX_REGIONS, Slots, mail};
use crate::Bytes;
use crate::device::DeviceMemory;
use crate::index::BlockKey;
use crate::stats::{self, Counters, Peaks, Places, Slack, Stats};
use crate::sync::{
    Apart, Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, Turn, Weak, lock,
    thread_number,
};

/// A function that is called when memory runs out, and may free some.
pub(crate) type Callback = Arc<dyn Fn(&super::OutOfMemory) + Send + Sync>;
/// A clock, in microseconds.
pub(crate) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

pub(crate) struct Shared {
    /// Tells it from every other allocator of the process.
    pub(crate) id: u64,
    pub(crate) config: FlexConfig,
    pub(crate) device: Arc<dyn DeviceMemory>,
    /// All the memory that the device has.
    pub(crate) total: Bytes,
    /// The granule of growable regions.
    pub(crate) granule: Bytes,
    pub(crate) events: Option<Arc<dyn StreamEvents>>,
    pub(crate) clock: Option<Clock>,
    /// Set once, when the allocator is made.
    pub(crate) slots: OnceLock<Weak<Slots>>,
    pub(crate) mail: Mail,
    pub(crate) regions: Mutex<Regions>,
    /// Who may acquire and release.
    pub(crate) turn: Turn,
    /// Rises with every region that comes or goes, and with all memory given back. Changes in turn.
    changes: AtomicU64,
    /// Somebody found much idle and not the turn to give it back; whoever ends a turn looks.
    release_wanted: AtomicBool,
    /// The device trims while it is called; likewise.
    trim_wanted: AtomicBool,
    /// The allocator is gone, and nobody but the last blocks' owners will look for passed streams.
    closed: AtomicBool,
    /// The time that was seen last.
    now_us: AtomicU64,
    peaks: Apart<Mutex<Peaks>>,
    pub(crate) slack: Slack,
    counters: Mutex<Counters>,
    pending: Mutex<Pending>,
    pending_len: AtomicUsize,
    /// Who may record events and free what has passed.
    stream_turn: Turn,
    /// The first stream that was seen, plus one.
    first_stream: AtomicU64,
    /// A second stream was seen: from now on blocks wait for their streams.
    several_streams: AtomicBool,
    /// What was freed before that is safe too.
    streams_settled: AtomicBool,
    second_stream: Turn,
    history: Option<Mutex<History>>,
    pub(crate) callbacks: Mutex<Vec<Callback>>,
    /// The numbers of the threads that are calling them.
    calling_back: Mutex<Vec<usize>>,
    moved: Mutex<Moved>,
    moved_len: AtomicUsize,
}

/// What is known of the regions as a whole.
#[derive(Debug)]
pub(crate) struct Regions {
    /// The device has refused all sizes; no more are acquired.
    pub(crate) refused: bool,
    pub(crate) segments: Segments,
    /// How many were acquired so far, which orders them by age.
    pub(crate) acquired: u64,
}

/// The number of the next allocator. Numbers are all that they are for, so no thread waits for another
/// here, and no model checker need know.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Where moved blocks went, by the slot and key that their handles still have.
#[derive(Debug, Default)]
struct Moved {
    forward: BTreeMap<(usize, BlockKey), (Arc<Slot>, BlockKey)>,
    /// The handle of each moved block, to find it when it moves again.
    back: BTreeMap<(usize, BlockKey), (usize, BlockKey)>,
}

/// A thread that calls the callbacks, until this is dropped, be it by a panic of one of them.
struct Calling<'a>(&'a Shared, usize);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        lock(&self.0.calling_back).retain(|&thread| thread != self.1);
    }
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
        let mail = (0..config.max_regions).map(|_| Mailbox::default()).collect();
        let entries = device.table().map_or(MAX_REGIONS, |table| table.entries.min(MAX_REGIONS));
        let segments = Segments::new(entries);
        Self {
            id: NEXT_ID.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            total: device.info().total,
            granule: device.granule().unwrap_or(Bytes::mib(2)),
            config,
            device,
            events,
            clock,
            slots: OnceLock::new(),
            mail,
            regions: Mutex::new(Regions { refused: false, segments, acquired: 0 }),
            turn: Turn::default(),
            changes: AtomicU64::new(0),
            release_wanted: AtomicBool::new(false),
            trim_wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            now_us: AtomicU64::new(0),
            peaks: Apart::default(),
            slack: Slack::new(),
            counters: Mutex::default(),
            pending: Mutex::default(),
            pending_len: AtomicUsize::new(0),
            stream_turn: Turn::default(),
            first_stream: AtomicU64::new(0),
            several_streams: AtomicBool::new(false),
            streams_settled: AtomicBool::new(false),
            second_stream: Turn::default(),
            history,
            callbacks: Mutex::new(Vec::new()),
            calling_back: Mutex::new(Vec::new()),
            moved: Mutex::default(),
            moved_len: AtomicUsize::new(0),
        }
    }

    /// All slots, while the allocator is there.
    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        let slots = self.slots.get().and_then(Weak::upgrade);
        slots.map(|slots| slots.to_vec()).unwrap_or_default()
    }

    /// Passes on what all threads have collected, and frees it.
    pub(crate) fn collect_posts(&self) {
        if !self.config.region.thread_home {
            return;
        }
        let slots = mail::collect(&self.mail);
        slots.iter().filter(|slot| slot.has_mail()).for_each(|slot| drop(slot.enter()));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut lock(&self.counters));
    }

    /// Looks into possible new peaks of some sums over all regions. With the allocator gone, nobody
    /// will ask for them.
    pub(crate) fn settle(&self, places: Places) {
        if let Some(slots) = self.slots.get().and_then(Weak::upgrade) {
            let slack = &self.slack;
            self.with_all_counts(&slots, |counts, peaks| {
                stats::settle(counts, peaks, slack, places);
            });
        }
    }

    pub(crate) fn stats(&self, slots: &[Arc<Slot>]) -> Stats {
        self.collect_posts();
        let counters = *lock(&self.counters);
        self.with_all_counts(slots, |counts, peaks| {
            stats::settle(counts, peaks, &self.slack, Places::ALL);
            Stats::collect(counts, peaks, counters)
        })
    }

    pub(crate) fn reset_peaks(&self, slots: &[Arc<Slot>]) {
        self.collect_posts();
        self.with_all_counts(slots, |counts, peaks| {
            counts.iter_mut().for_each(|counts| counts.reset_peaks());
            peaks.reset(counts);
            stats::settle(counts, peaks, &self.slack, Places::ALL);
        });
    }

    pub(crate) fn reset_accumulated(&self, slots: &[Arc<Slot>]) {
        self.collect_posts();
        *lock(&self.counters) = Counters::default();
        self.with_all_counts(slots, |counts, _| {
            counts.iter_mut().for_each(|counts| counts.reset_accumulated());
        });
    }

    /// Runs with the accounts of all slots locked at once, so that they are of one moment.
    fn with_all_counts<T>(
        &self,
        slots: &[Arc<Slot>],
        run: impl FnOnce(&mut [&mut stats::Counts], &mut Peaks) -> T,
    ) -> T {
        let mut peaks = lock(&self.peaks);
        let mut states: Vec<_> = slots.iter().map(Slot::enter).collect();
        // Slots that never held a region have nothing to add, and need no share of the ceilings.
        let mut counts: Vec<_> =
            states.iter_mut().filter(|state| state.used).map(|state| &mut state.counts).collect();
        run(&mut counts, &mut peaks)
    }

    /// Looks at the clock, which is done with no lock held.
    pub(crate) fn tick(&self) {
        if let (Some(clock), Some(_)) = (&self.clock, &self.history) {
            self.now_us.fetch_max(clock(), Ordering::Relaxed);
        }
    }

    /// Adds to the history, if one is kept, with the time that was seen last.
    pub(crate) fn record(&self, action: Action, address: u64, size: Bytes, stream: u32) {
        if let Some(history) = &self.history {
            let mut history = lock(history);
            let now_us = || self.now_us.load(Ordering::Relaxed);
            let time_us = self.clock.as_ref().map_or(history.recorded, |_| now_us());
            history.push(HistoryEntry { action, address, size, stream, time_us });
        }
    }

    pub(crate) fn history(&self) -> Vec<HistoryEntry> {
        self.history.as_ref().map(|history| lock(history).entries()).unwrap_or_default()
    }

    /// Notes the stream of a request. When a second one appears, blocks that the first has freed may
    /// still be touched by it, so it is waited for, once. Says whether that is so: not to the streams
    /// themselves, when they are being waited for on this very thread.
    pub(crate) fn see_stream(&self, stream: u32) -> bool {
        let Some(events) = &self.events else { return true };
        let number = u64::from(stream) + 1;
        let first = match self.first_stream.load(Ordering::Relaxed) {
            0 => self.first_stream.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire),
            first => Err(first),
        };
        let Err(first) = first else { return true };
        if first == number || self.streams_settled.load(Ordering::Acquire) {
            return true;
        }
        // Whoever comes while the first stream is waited for waits too.
        let Some(_turn) = self.second_stream.take() else { return false };
        if self.streams_settled.load(Ordering::Acquire) {
            return true;
        }
        // Before the event, so that a block which is freed after it waits for its stream.
        self.several_streams.store(true, Ordering::SeqCst);
        let first = u32::try_from(first - 1).expect("it was a stream plus one");
        events.wait(events.record(first));
        self.count(|counters| counters.sync_all_streams += 1);
        self.streams_settled.store(true, Ordering::Release);
        true
    }

    /// The streams that must pass before a block of `own`, used by `others` too, is free; none where
    /// it is free at once.
    pub(crate) fn streams_to_wait_for(&self, own: u32, others: Vec<u32>) -> Option<Vec<u32>> {
        self.events.as_ref()?;
        let several = self.several_streams.load(Ordering::SeqCst);
        (several || !others.is_empty()).then(|| {
            let mut streams = others;
            streams.push(own);
            streams
        })
    }

    pub(crate) fn wait_for(&self, waiting: Waiting) {
        // First, so that whoever takes it off the list finds it counted.
        self.pending_len.fetch_add(1, Ordering::Release);
        lock(&self.pending).requested.push(waiting);
    }

    /// How many blocks wait for streams.
    pub(crate) fn pending(&self) -> usize {
        self.pending_len.load(Ordering::Acquire)
    }

    /// Records events for the blocks that were let go, and frees those whose streams have passed,
    /// unless somebody is at it.
    pub(crate) fn poll(&self) {
        if self.pending() > 0
            && let Some(events) = &self.events
            && let Some(turn) = self.stream_turn.try_take()
        {
            self.record_events(events.as_ref());
            let idle = self.free_passed(events.as_ref());
            drop(turn);
            self.release_idle(idle);
        }
    }

    /// Waits for all streams that a block waits for, and frees the blocks.
    pub(crate) fn synchronize(&self) {
        self.collect_posts();
        // All of them, with mail or without: another thread may be about to free what it has found.
        self.slots().iter().for_each(|slot| drop(slot.enter()));
        let Some(events) = self.events.as_ref().filter(|_| self.pending() > 0) else { return };
        // Streams that call back while they are waited for need not wait for themselves.
        let Some(turn) = self.stream_turn.take() else { return };
        if self.pending() == 0 {
            return;
        }
        self.record_events(events.as_ref());
        let last = lock(&self.pending).backs();
        last.into_iter().for_each(|event| events.wait(event));
        self.count(|counters| counters.sync_all_streams += 1);
        let idle = self.free_passed(events.as_ref());
        drop(turn);
        self.release_idle(idle);
    }

    fn record_events(&self, events: &dyn StreamEvents) {
        let requested = std::mem::take(&mut lock(&self.pending).requested);
        for waiting in requested {
            let points =
                waiting.streams.iter().map(|&stream| (stream, events.record(stream))).collect();
            lock(&self.pending).enter(waiting, points);
        }
    }

    /// Frees the blocks whose streams have passed; says whether a region is idle since.
    fn free_passed(&self, events: &dyn StreamEvents) -> bool {
        let mut idle = false;
        loop {
            let mut fronts = lock(&self.pending).fronts();
            fronts.retain(|&(_, event)| events.is_complete(event));
            if fronts.is_empty() {
                return idle;
            }
            self.tick();
            for (stream, event) in fronts {
                let done = lock(&self.pending).passed(stream, event);
                if let Some(Waiting { slot, key, .. }) = done {
                    idle |= slot.complete(key);
                    self.pending_len.fetch_sub(1, Ordering::Release);
                }
            }
        }
    }

    /// What is done after a free, with no lock held.
    pub(crate) fn after_free(&self, idle: bool) {
        if self.pending() > 0 {
            if self.is_closed() {
                self.synchronize();
            } else {
                self.poll();
            }
        }
        self.release_idle(idle);
    }

    /// Gives back what is wholly free if the policy says so, now or when whoever has the turn ends
    /// it: a device that frees a block while it is called must not wait for itself.
    fn release_idle(&self, idle: bool) {
        if idle && self.config.release != Release::Never {
            self.release_wanted.store(true, Ordering::SeqCst);
            self.after_turn();
        }
    }

    /// Does what others have put off until a turn has ended.
    pub(crate) fn after_turn(&self) {
        while self.release_wanted.load(Ordering::SeqCst) || self.trim_wanted.load(Ordering::SeqCst)
        {
            let slots = self.slots();
            let Some(_turn) = self.turn.try_take() else { return };
            let trim = self.trim_wanted.swap(false, Ordering::SeqCst);
            self.release_wanted.store(false, Ordering::SeqCst);
            if trim || self.is_idle_above_limit(&slots) {
                self.give_back(&slots, false);
            }
        }
    }

    fn is_idle_above_limit(&self, slots: &[Arc<Slot>]) -> bool {
        let Release::WhenIdle(limit) = self.config.release else { return false };
        slots.iter().filter_map(Slot::idle_bytes).sum::<Bytes>() > limit
    }

    /// Gives everything back that is wholly free: regions, and granules of growable ones. In a call of
    /// the device's, when that has returned.
    pub(crate) fn trim(&self) -> Bytes {
        self.collect_posts();
        let slots = self.slots();
        let Some(turn) = self.turn.take() else {
            self.trim_wanted.store(true, Ordering::SeqCst);
            return Bytes::ZERO;
        };
        let bytes = self.give_back(&slots, true);
        drop(turn);
        self.after_turn();
        bytes
    }

    /// Needs the turn. With `wait`, regions that somebody commits to are waited for.
    pub(crate) fn give_back(&self, slots: &[Arc<Slot>], wait: bool) -> Bytes {
        self.give_back_of(slots, wait, true)
    }

    /// Gives idle granules back and keeps the regions, so that memory can be committed elsewhere. Needs
    /// the turn.
    pub(crate) fn give_granules_back(&self, slots: &[Arc<Slot>]) {
        self.give_back_of(slots, true, false);
    }

    fn give_back_of(&self, slots: &[Arc<Slot>], wait: bool, regions: bool) -> Bytes {
        self.tick();
        let mut given = Bytes::ZERO;
        for slot in slots {
            let region = if regions { self.release(slot) } else { None };
            let bytes = region.unwrap_or_else(|| slot.shrink(wait));
            if region.is_some() || !bytes.is_zero() {
                self.note_change();
            }
            given += bytes;
        }
        given
    }

    /// Gives a slot's region back if it is wholly free, and says how much memory it had. Needs the
    /// turn.
    pub(crate) fn release(&self, slot: &Arc<Slot>) -> Option<Bytes> {
        let (handle, bytes) = slot.move_out()?;
        lock(&self.regions).segments.retire(handle.id);
        self.device.release(handle);
        self.count(|counters| counters.device_frees += 1);
        lock(&self.regions).refused = false;
        Some(bytes)
    }

    /// Whether this thread is inside a function of the device or of the streams that this allocator
    /// has called, so that it may not call them again.
    pub(crate) fn is_calling(&self) -> bool {
        let turns = [&self.turn, &self.stream_turn, &self.second_stream];
        turns.into_iter().any(Turn::is_mine)
    }

    /// Whether this thread is inside a callback.
    pub(crate) fn is_calling_back(&self) -> bool {
        lock(&self.calling_back).contains(&thread_number())
    }

    /// Calls the callbacks for a request that found no room, and says whether there were any. A
    /// request that a callback makes calls none: it would do so without end.
    pub(crate) fn call_back(&self, report: impl FnOnce() -> super::OutOfMemory) -> bool {
        let callbacks = lock(&self.callbacks).clone();
        let me = thread_number();
        if callbacks.is_empty() || self.is_calling_back() {
            return false;
        }
        let report = report();
        lock(&self.calling_back).push(me);
        let _end = Calling(self, me);
        callbacks.iter().for_each(|callback| callback(&report));
        true
    }

    /// How much has changed in the regions so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that a region has come or gone, or memory was given back. Not for a region that came and
    /// went for nothing: whoever looks for changes would make one by looking.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The allocator is going; its blocks may stay. Nobody can free leaked ones any more, and nobody
    /// but the owners of the others will look for passed streams.
    pub(crate) fn close(&self, slots: &[Arc<Slot>]) {
        self.closed.store(true, Ordering::Release);
        self.collect_posts();
        // What is in an inbox holds its slot, as spare references do; entering the slot empties it.
        slots.iter().for_each(|slot| slot.enter().spare.clear());
        self.synchronize();
        let moved: Vec<_> = lock(&self.moved).forward.values().cloned().collect();
        for (slot, key) in moved {
            if slot.is_leaked(key) {
                self.forget_place(&slot, key);
            }
        }
    }

    /// Where the block of a handle is now.
    pub(crate) fn follow(&self, slot: &Arc<Slot>, key: BlockKey) -> Option<(Arc<Slot>, BlockKey)> {
        if !self.any_moved() {
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

    /// Whether any block has moved and is live.
    pub(crate) fn any_moved(&self) -> bool {
        self.moved_len.load(Ordering::Acquire) > 0
    }

    /// Whether a handle's block has moved from where the handle thinks it is.
    pub(crate) fn has_moved(&self, slot: &Slot, key: BlockKey) -> bool {
        self.any_moved() && lock(&self.moved).forward.contains_key(&(slot.number, key))
    }

    /// Forgets where a handle's block went; it is being freed.
    pub(crate) fn forget(&self, slot: &Arc<Slot>, key: BlockKey) -> Option<(Arc<Slot>, BlockKey)> {
        if !self.any_moved() {
            return None;
        }
        let mut moved = lock(&self.moved);
        let to = moved.forward.remove(&(slot.number, key))?;
        moved.back.remove(&(to.0.number, to.1));
        self.moved_len.store(moved.forward.len(), Ordering::Release);
        Some(to)
    }

    /// Forgets which handle a moved block has, given where it is now.
    pub(crate) fn forget_place(&self, slot: &Arc<Slot>, key: BlockKey) {
        let gone = {
            let mut moved = lock(&self.moved);
            let handle = moved.back.remove(&(slot.number, key));
            let gone = handle.and_then(|handle| moved.forward.remove(&handle));
            self.moved_len.store(moved.forward.len(), Ordering::Release);
            gone
        };
        drop(gone);
    }
}
