//! The slots of an allocator, and the state that they share.
//!
//! A slot holds one region: a lock around a [`RegionState`], a turn for device calls about the region, and a
//! [mailbox](mail). An allocator has a fixed number of slots; a region stays in its slot until it is released. A handle
//! holds the slot of its block. So a block can be freed from any thread with only the slot's lock, and a region
//! outlives the allocator if its blocks do.
//!
//! Locks are taken in one order: the peaks, then slots by number, then one of the others. The latter are held for a few
//! instructions, and nothing else is locked under them (except that the table of moved blocks may be locked under a
//! slot's inbox). No lock is held while the device, the streams, the clock or a callback is called. Only turns are held
//! then, the allocator's before a slot's.

#![expect(clippy::inline_always, reason = "parts of the paths of a request and a free")]

mod block;
mod commit;
mod mail;
mod release;
mod resize;
mod rest;
mod still;

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use tracing::{Level, debug, enabled};

use super::budgets::Tags;
use super::callbacks::Callbacks;
use super::config::{FlexConfig, MAX_REGIONS, Release};
use super::error::{FreeError, RegionReport};
use super::event::Event;
use super::history::Action;
use super::journal::{Clock, Journal};
use super::moves::{Moves, SlotKey};
use super::pass::Pass;
use super::pools::{Domain, PoolState, Pools};
use super::region::{PlacedBlock, Region, RegionState};
use super::segments::Segments;
use super::stream::{Freed, StreamEvents, Streams};
use super::tag::Tag;
use crate::Bytes;
use crate::device::{DeviceMemory, RegionHandle};
use crate::index::{Block, BlockKey, Hole};
use crate::policy::{First, GROUP, PoolId, RegionView, Request, TagId};
use crate::stats::{self, Counters, Counts, Peaks, Places, Slack, Stats};
use crate::sync::{
    Apart, Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, Turn, Weak, lock, thread_number,
};
pub(crate) use block::{follow, free_now};
pub(crate) use mail::post;
use mail::{Mail, Mailbox};
pub(crate) use release::RegionTurn;

/// Value of [`Slot::free`] while the slot has no region.
const VACANT: u64 = u64::MAX;
/// Maximum number of references to itself that a slot keeps.
const SPARE: usize = 256;
pub(crate) const LOG: &str = "cubeyard::alloc";

/// A block, given by its slot and key.
pub(crate) type SlotBlock = (Arc<Slot>, BlockKey);

/// A freed block that waits for streams, and its own stream.
type Waiting = (SlotBlock, u32);

fn slot_key((slot, key): &SlotBlock) -> SlotKey {
    (slot.number, *key)
}

/// State shared by the slots of one allocator.
pub(crate) struct Shared {
    pub(crate) id: u64,
    pub(crate) config: FlexConfig,
    pub(crate) device: Arc<dyn DeviceMemory>,
    pub(crate) total: Bytes,
    pub(crate) granule: Bytes,
    /// The slots, while the allocator exists; set once.
    pub(super) slots: OnceLock<Weak<Slots>>,
    mail: Mail,
    /// Free bytes of the slots' regions as of their last changes, 0 without a region of the default pool, for whole groups
    /// of slots; `None` if each thread has its own region, since threads would share the cache lines.
    free: Option<Box<[AtomicU64]>>,
    pub(crate) regions: Mutex<Regions>,
    /// Turn that is held while regions are acquired and released.
    turn: Turn,
    /// Number of changes: incremented under the turn for every region acquired or released, and whenever memory is
    /// returned to the device.
    changes: AtomicU64,
    /// Whether a release of idle memory, or a trim, was requested while another thread had the turn.
    release_wanted: AtomicBool,
    trim_wanted: AtomicBool,
    /// Whether idle regions are released by themselves: as configured, or because a closed pool has regions.
    eager: AtomicBool,
    /// Whether the allocator is gone; only the owners of its last blocks still poll the streams.
    closed: AtomicBool,
    pub(crate) journal: Journal,
    peaks: Apart<Mutex<Peaks>>,
    pub(crate) slack: Slack,
    counters: Mutex<Counters>,
    pub(crate) streams: Streams<Waiting>,
    pub(crate) callbacks: Callbacks,
    pub(crate) moves: Moves<SlotBlock>,
    /// Compaction in steps that is under way.
    pub(crate) pass: Mutex<Option<Pass>>,
    pub(crate) pools: Pools,
    pub(crate) tags: Tags,
}

#[derive(Debug)]
pub(crate) struct Regions {
    /// Whether the device has refused all sizes, and has provided no region since then.
    pub(crate) refused: bool,
    pub(crate) segments: Segments,
    /// Number of regions acquired so far; orders regions by age.
    pub(crate) acquired: u64,
}

/// Id of the next allocator. It synchronizes nothing, so the model checker need not know it.
static NEXT_ID: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

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
        // Without a table of the device, the number of regions alone is the limit.
        let unlimited = config.max_regions.max(64);
        let entries = device.table().map_or(unlimited, |table| table.entries.min(MAX_REGIONS));
        let segments = Segments::new(entries);
        let slots = config.max_regions.next_multiple_of(GROUP);
        Self {
            id: NEXT_ID.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            total: device.info().total,
            granule: device.granule().unwrap_or(Bytes::mib(2)),
            slots: OnceLock::new(),
            mail: (0..config.max_regions).map(|_| Mailbox::default()).collect(),
            free: (!config.region.thread_home)
                .then(|| (0..slots).map(|_| AtomicU64::new(0)).collect()),
            regions: Mutex::new(Regions { refused: false, segments, acquired: 0 }),
            turn: Turn::default(),
            changes: AtomicU64::new(0),
            release_wanted: AtomicBool::new(false),
            trim_wanted: AtomicBool::new(false),
            eager: AtomicBool::new(config.release != Release::Never),
            closed: AtomicBool::new(false),
            journal: Journal::new(config.history, clock),
            peaks: Apart::default(),
            slack: Slack::new(!config.region.thread_home),
            counters: Mutex::default(),
            streams: Streams::new(events),
            callbacks: Callbacks::default(),
            moves: Moves::new(),
            pass: Mutex::new(None),
            pools: Pools::default(),
            tags: Tags::default(),
            config,
            device,
        }
    }

    pub(super) fn slots(&self) -> Vec<Arc<Slot>> {
        let slots = self.slots.get().and_then(Weak::upgrade);
        slots.map(|slots| slots.to_vec()).unwrap_or_default()
    }

    /// Returns whether idle regions are released by themselves.
    #[inline]
    pub(crate) fn is_eager(&self) -> bool {
        self.eager.load(Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns whether this thread is inside a function of the device or the streams. These must not be called again
    /// from there.
    pub(crate) fn is_calling(&self) -> bool {
        self.turn.is_mine() || self.streams.is_calling()
    }

    /// Returns a number that changes with the regions and their memory.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records a change of the regions. A region that was acquired and released without use does not count: a thread
    /// that retries on changes would cause one with every retry.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Returns the region to be tried first; none for other pools than the default, and if kinds have separate regions or
    /// threads have homes.
    #[inline]
    pub(crate) fn first_region(&self, request: &Request) -> First {
        match &self.free {
            Some(_) if !self.config.own_regions.is_empty() || request.pool != PoolId::DEFAULT => {
                First::None
            }
            Some(_) if self.config.max_regions == 1 => First::Slot(0),
            Some(free) => (self.config.region.first)(free, request.size),
            None => First::None,
        }
    }

    /// Returns the slots whose regions have as many free bytes as the region of `slot`.
    pub(crate) fn equals(&self, slot: usize) -> impl Iterator<Item = usize> {
        let free = self.free.as_deref().unwrap_or_default();
        let load = |slot: &AtomicU64| slot.load(Ordering::Relaxed);
        let equal = free.get(slot).map(load);
        // The last group has room for more slots than there are.
        let slots = free.iter().take(self.config.max_regions).enumerate();
        slots.filter(move |&(_, free)| equal == Some(load(free))).map(|(slot, _)| slot)
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut lock(&self.counters));
    }

    /// Counts an event of the allocator and of a pool; `None` is the default pool.
    pub(crate) fn count_in(&self, pool: Option<&PoolState>, change: impl Fn(&mut Counters)) {
        self.count(&change);
        if let Some(pool) = pool {
            pool.tally.count(change);
        }
    }

    /// Updates the peaks of the sums over all regions, as long as the allocator exists.
    pub(crate) fn settle(&self, places: Places) {
        if let Some(slots) = self.slots.get().and_then(Weak::upgrade) {
            self.with_all_counts(&slots, |counts, peaks| {
                stats::settle(counts, peaks, &self.slack, places);
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

    /// Brings the counts of the pools up to date.
    pub(crate) fn update_pools(&self, slots: &[Arc<Slot>]) {
        self.collect_posts();
        self.with_all_counts(slots, |counts, _| {
            counts.iter_mut().for_each(|counts| counts.update_share());
        });
    }

    /// Returns the pools with their statistics, and the statistics of the allocator, of one moment.
    pub(crate) fn stats_with_pools(
        &self,
        slots: &[Arc<Slot>],
    ) -> (Vec<(Arc<PoolState>, Stats)>, Stats) {
        self.collect_posts();
        let pools = self.pools.all();
        let counters = *lock(&self.counters);
        self.with_all_counts(slots, |counts, peaks| {
            counts.iter_mut().for_each(|counts| counts.update_share());
            let stats = Stats::collect(counts, peaks, counters);
            let of_pool = |pool: Arc<PoolState>| {
                let stats = pool.tally.stats();
                (pool, stats)
            };
            (pools.into_iter().map(of_pool).collect(), stats)
        })
    }

    pub(crate) fn reset_peaks(&self, slots: &[Arc<Slot>]) {
        self.update_pools(slots);
        self.pools.all().iter().for_each(|pool| pool.tally.reset_peaks());
        self.tags.reset_peaks();
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
        self.pools.all().iter().for_each(|pool| pool.tally.reset_accumulated());
    }

    /// Calls `run` with the counts of all slots, which are locked so that the counts are from one moment.
    fn with_all_counts<T>(
        &self,
        slots: &[Arc<Slot>],
        run: impl FnOnce(&mut [&mut Counts], &mut Peaks) -> T,
    ) -> T {
        let mut peaks = lock(&self.peaks);
        let mut states: Vec<_> = slots.iter().map(Slot::enter).collect();
        let regions = states.iter_mut().map(|state| &mut state.region);
        // Slots that never held a region have nothing to add and need no share of the ceilings.
        let mut counts: Vec<_> =
            regions.filter(|region| region.used).map(|region| &mut region.counts).collect();
        run(&mut counts, &mut peaks)
    }

    /// Frees the blocks that threads have collected for the slots of others.
    pub(crate) fn collect_posts(&self) {
        if !self.config.region.thread_home {
            return;
        }
        let slots = mail::collect(&self.mail);
        slots
            .iter()
            .filter(|slot| slot.mailbox().has_arrived())
            .for_each(|slot| drop(slot.enter()));
        self.deliver();
    }

    /// Frees the blocks and ranges whose streams have passed, unless another thread is already doing so; for a request of
    /// stream `by`, or without one.
    #[inline]
    pub(crate) fn poll(&self, by: Option<u32>) {
        if self.streams.may_poll(by) {
            self.poll_due(by);
        }
    }

    /// Does the same if blocks or periods of streams may have passed.
    fn poll_due(&self, by: Option<u32>) {
        let passes = self.streams.passes();
        let mut idle = false;
        self.streams.poll_due(by, |block| idle |= self.complete(block));
        if self.is_eager() && self.streams.passes() != passes {
            idle |= self.sweep_all();
        }
        self.release_idle(idle);
    }

    /// Frees everything whose streams have passed. The ranges of blocks that other streams have used begin to wait for the
    /// blocks' own streams when the first poll frees the blocks; the second one frees these ranges.
    pub(crate) fn poll_all(&self) {
        self.poll(None);
        self.poll(None);
        self.sweep_all();
    }

    /// Waits for all streams that blocks or ranges wait for, and frees these.
    pub(crate) fn synchronize(&self) {
        self.collect_posts();
        // Every slot is entered, with mail or without: another thread may be about to free the mail it has taken.
        self.slots().iter().for_each(|slot| drop(slot.enter()));
        let mut idle = false;
        if self.streams.synchronize(|block| idle |= self.complete(block)) {
            self.count_stream_waits(1);
        }
        idle |= self.sweep_all();
        self.release_idle(idle);
        self.deliver();
    }

    /// Counts and records waits for streams.
    pub(crate) fn count_stream_waits(&self, waits: u64) {
        self.count(|counters| counters.sync_all_streams += waits);
        self.journal.tick();
        self.journal.record(Event::new(Action::StreamWait, Bytes::ZERO, 0));
    }

    /// Frees the ranges whose streams have passed in all regions, and returns whether a region is then idle.
    pub(crate) fn sweep_all(&self) -> bool {
        let mut idle = false;
        for slot in self.slots().iter().filter(|slot| !slot.is_vacant()) {
            let state = slot.enter_swept();
            idle |= state.region.is_idle();
            slot.leave(state);
        }
        idle
    }

    /// Frees a block whose other streams have passed, and returns whether its region is then idle.
    fn complete(&self, ((slot, key), stream): Waiting) -> bool {
        self.journal.tick();
        let mut state = slot.enter();
        let block = state.region.block(key);
        let freed = self.streams.free_own(stream, block.size);
        slot.give_back_in_order(&mut state.region, &block, stream, &freed);
        let idle = state.region.is_idle();
        slot.leave(state);
        idle
    }
}

#[derive(Debug)]
pub(crate) struct Slots(Box<[Arc<Slot>]>);

impl Slots {
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        let numbers = 0..shared.config.max_regions;
        let slots = numbers.map(|number| Arc::new(Slot::new(number, Arc::clone(shared))));
        let slots = Arc::new(Self(slots.collect()));
        shared.slots.set(Arc::downgrade(&slots)).expect("the slots are set once");
        slots
    }
}

impl Deref for Slots {
    type Target = [Arc<Slot>];
    fn deref(&self) -> &[Arc<Slot>] {
        &self.0
    }
}

/// Runs when the last handle to the allocator is dropped; blocks may remain.
impl Drop for Slots {
    fn drop(&mut self) {
        let shared = self.0.first().map(|slot| Arc::clone(&slot.shared));
        shared.expect("an allocator has a slot").close(&self.0);
    }
}

#[derive(Debug)]
pub(crate) struct SlotState {
    pub(crate) region: RegionState,
    /// Pool of the region; `None` for the default pool.
    pub(crate) pool: Option<Arc<PoolState>>,
    /// An emptied inbox, to be swapped with the next full one.
    emptied: Vec<SlotBlock>,
    /// References to this slot that arrived with its mail. New blocks take them, which saves updates of the reference
    /// count. None are kept once the allocator is gone; otherwise the slot would never be dropped.
    spare: Vec<Arc<Slot>>,
}

/// Holder of one region. The fields that other threads read when they free a block are on different cache lines from
/// the fields that the slot's own thread writes with every call.
pub(crate) struct Slot {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    since: AtomicU64,
    /// Bits of the [`Domain`] of the blocks that the region accepts. Changed under the lock.
    domain: AtomicU64,
    /// Turn that is held while memory of the region is committed and decommitted.
    turn: Turn,
    state: Apart<Mutex<SlotState>>,
    /// Free bytes of the region as of the last change; read without the lock.
    free: Apart<AtomicU64>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Slot {
    fn new(number: usize, shared: Arc<Shared>) -> Self {
        let (region, pool) = (RegionState::vacant(), None);
        let (emptied, spare) = (Vec::new(), Vec::new());
        Self {
            number,
            shared,
            since: AtomicU64::new(0),
            domain: AtomicU64::new(Domain::DEFAULT.bits()),
            turn: Turn::default(),
            state: Apart(Mutex::new(SlotState { region, pool, emptied, spare })),
            free: Apart(AtomicU64::new(VACANT)),
        }
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.free.load(Ordering::Relaxed) == VACANT
    }

    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    pub(crate) fn is_calling(&self) -> bool {
        self.turn.is_mine()
    }

    /// Returns the domain of the region, or of the slot's last region.
    #[inline]
    pub(crate) fn domain(&self) -> Domain {
        Domain::from_bits(self.domain.load(Ordering::Relaxed))
    }

    /// Returns the view for a region strategy, if the region accepts blocks of this domain.
    pub(crate) fn view(&self, domain: Domain) -> Option<RegionView> {
        let free = self.free.load(Ordering::Relaxed);
        let fits = free != VACANT && self.domain() == domain;
        fits.then_some(RegionView { slot: self.number, free: Bytes::new(free) })
    }

    /// Returns this thread's own slot if this slot belongs to another thread; a freed block is then mailed. Returns
    /// `None` if idle regions are released at once, since idleness must then be noticed at once.
    pub(crate) fn foreign_home(&self) -> Option<usize> {
        let config = &self.shared.config;
        if !config.region.thread_home || self.shared.is_eager() {
            return None;
        }
        let home = thread_number() % config.max_regions;
        (home != self.number && !self.shared.is_closed()).then_some(home)
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.shared.mail[self.number]
    }

    /// Locks the slot and frees the blocks in its inbox.
    #[inline(always)]
    pub(crate) fn enter(self: &Arc<Self>) -> MutexGuard<'_, SlotState> {
        let mut state = lock(&self.state);
        if self.mailbox().has_arrived() {
            self.take_mail(&mut state);
        }
        state
    }

    #[cold]
    fn take_mail(self: &Arc<Self>, state: &mut SlotState) {
        let mut posts = self.mailbox().take(std::mem::take(&mut state.emptied));
        let room = if self.shared.is_closed() { 0 } else { SPARE };
        for (slot, key) in posts.drain(..) {
            if state.spare.len() < room {
                state.spare.push(slot);
            }
            // The key came from a handle, and compaction does not move a block whose key is in the inbox.
            self.let_go(&mut state.region, key).expect("a block in the inbox is live");
        }
        state.emptied = posts;
        self.publish(&mut state.region);
    }

    /// Stores the free bytes of a locked region for readers that do not take the lock.
    #[inline(always)]
    pub(crate) fn publish(&self, state: &mut RegionState) {
        let free = state.get().map(|region| region.free_bytes().get());
        self.free.store(free.unwrap_or(VACANT), Ordering::Relaxed);
        if state.counts.is_shared() {
            state.counts.update_share();
        } else if let Some(all) = &self.shared.free {
            all[self.number].store(free.unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Unlocks the slot after a change, and updates the peaks that it may have raised.
    #[inline(always)]
    pub(crate) fn leave(&self, mut state: MutexGuard<'_, SlotState>) {
        self.publish(&mut state.region);
        if state.region.counts.may_be_above(&self.shared.slack) {
            self.raise_peaks(state);
        }
    }

    #[cold]
    fn raise_peaks(&self, mut state: MutexGuard<'_, SlotState>) {
        let lacking = state.region.counts.raise_ceilings(&self.shared.slack);
        drop(state);
        if !lacking.is_empty() {
            self.shared.settle(lacking);
        }
    }

    #[inline(always)]
    pub(crate) fn leave_freed(self: &Arc<Self>, state: MutexGuard<'_, SlotState>) {
        let idle = state.region.is_idle();
        self.leave(state);
        if self.shared.is_closed() {
            self.shared.synchronize();
            drop(self.enter_swept());
        } else {
            self.shared.after_free(idle);
        }
    }

    /// Locks the slot and frees the ranges whose streams have passed.
    #[inline(always)]
    pub(crate) fn enter_swept(self: &Arc<Self>) -> MutexGuard<'_, SlotState> {
        let mut state = self.enter();
        self.sweep(&mut state.region);
        state
    }

    /// Puts a region into the vacant slot, and places a request in it before another thread can.
    pub(crate) fn settle_in(
        self: &Arc<Self>,
        handle: RegionHandle,
        (domain, pool): (Domain, Option<Arc<PoolState>>),
        (base, since): (u64, u64),
        request: Option<&Request>,
    ) -> Option<PlacedBlock> {
        let Shared { config, granule, .. } = &*self.shared;
        let mut state = lock(&self.state);
        let (id, tally) =
            (pool.as_ref().map(|pool| pool.id), pool.as_ref().map(|pool| &pool.tally));
        state.region.counts.join(tally.cloned());
        let region = state.region.settle(handle, base, id.unwrap_or_default(), config, *granule);
        if !region.is_growable() {
            self.record_whole(Action::SegmentAlloc, region);
        }
        state.pool = pool;
        self.domain.store(domain.bits(), Ordering::Relaxed);
        self.since.store(since, Ordering::Relaxed);
        let placed = request.and_then(|request| self.place(&mut state.region, request));
        self.publish(&mut state.region);
        placed
    }

    /// Frees a block on behalf of its owner: at once, when its pins are gone, or when its streams have passed.
    #[inline(always)]
    fn let_go(self: &Arc<Self>, state: &mut RegionState, key: BlockKey) -> Result<(), FreeError> {
        if state.counts.paused > 0 && self.free_paused(state, key)? {
            return Ok(());
        }
        if let Some((block, stream)) = state.let_go(key)? {
            let tag = state.tag(&block);
            if tag != TagId::NONE {
                self.shared.tags.free(tag, block.size);
            }
            if self.shared.journal.is_kept() {
                let event = block_event(Action::FreeRequested, state.region(), &block, stream);
                self.shared.journal.record(Event { tag, ..event });
            }
            self.free_when_passed(state, &block, stream);
        }
        Ok(())
    }

    /// Frees the range of a freed block, at once or when its streams have passed.
    #[inline(always)]
    pub(crate) fn free_when_passed(
        self: &Arc<Self>,
        state: &mut RegionState,
        block: &Block,
        stream: u32,
    ) {
        match self.freed(stream, state.take_streams(block.key), block.size) {
            Freed::After(others) => {
                state.set_pending(block.key);
                self.shared.streams.wait_for(((Arc::clone(self), block.key), stream), others);
            }
            freed => self.give_back_in_order(state, block, stream, &freed),
        }
    }

    /// Returns when a freed range of `size` bytes on `stream` becomes free that `others` use as well.
    #[inline]
    fn freed(&self, stream: u32, others: Vec<u32>, size: Bytes) -> Freed {
        let streams = &self.shared.streams;
        if self.shared.is_closed() {
            streams.free_last(stream, others)
        } else {
            streams.free(stream, others, size)
        }
    }

    /// Frees the range of a block that only its own stream may still access.
    #[inline(always)]
    fn give_back_in_order(
        &self,
        state: &mut RegionState,
        block: &Block,
        stream: u32,
        freed: &Freed,
    ) {
        if let Freed::InOrder(epoch) = *freed {
            self.sweep(state);
            state.shelve(block, stream, epoch);
            self.record_freed(state, block);
        } else {
            self.give_back(state, block);
        }
    }

    /// Frees the ranges of a locked region whose streams have passed.
    #[inline(always)]
    fn sweep(&self, state: &mut RegionState) {
        let passes = self.shared.streams.passes();
        if state.may_sweep(passes) {
            self.shared.streams.with_passed(|passed| state.sweep(passes, passed));
        }
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, state: &mut RegionState, block: &Block) {
        state.give_back(block);
        self.record_freed(state, block);
    }

    #[inline(always)]
    fn record_freed(&self, state: &mut RegionState, block: &Block) {
        let stream = Tag::from_bits(block.tag).stream();
        self.record(Action::FreeCompleted, state.region(), block, stream);
        if enabled!(target: LOG, Level::DEBUG)
            && let Some(region) = state.get_mut()
        {
            log_free(region, block);
        }
    }

    /// Returns whether allocations and frees are recorded or logged.
    fn is_recorded(&self) -> bool {
        self.shared.journal.is_kept() || enabled!(target: LOG, Level::DEBUG)
    }

    /// Records a placed block, or room that compaction has reserved for one.
    pub(crate) fn record_placed(
        &self,
        action: Action,
        state: &RegionState,
        block: &Block,
        site: u32,
    ) {
        let tag = Tag::from_bits(block.tag);
        let region = state.region();
        let event = block_event(action, region, block, state.stream(block.key, tag));
        self.shared.journal.record(Event { site, tag: state.tag(block), ..event });
        debug!(
            target: LOG,
            region = %region.handle.id, offset = block.offset.get(), size = block.size.get(),
            requested = block.requested.get(), kind = tag.kind().name(), region_free = region.free_bytes().get(),
            "block assigned"
        );
    }

    pub(crate) fn record(&self, action: Action, region: &Region, block: &Block, stream: u32) {
        if self.shared.journal.is_kept() {
            self.shared.journal.record(block_event(action, region, block, stream));
        }
    }

    /// Records that a region of fixed size was acquired or released.
    pub(crate) fn record_whole(&self, action: Action, region: &Region) {
        self.record_parts(action, region, &[(Bytes::ZERO, region.reserved())]);
    }

    pub(crate) fn idle_bytes(self: &Arc<Self>) -> Option<Bytes> {
        self.enter().region.get().filter(|region| region.is_idle()).map(Region::reserved)
    }

    pub(crate) fn report(self: &Arc<Self>) -> Option<RegionReport> {
        let mut state = self.enter();
        let report = state.region.report();
        self.leave(state);
        report
    }
}

/// Releases the region when its last block and the allocator are gone.
impl Drop for Slot {
    fn drop(&mut self) {
        let state = self.state.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(region) = state.region.take_region() {
            // `None` if the device itself freed the last block, in a call from this thread.
            let turn = self.shared.turn.take();
            self.record_released(&region);
            self.shared.device.release(region.handle);
            drop(turn);
            self.shared.deliver();
        }
    }
}

/// Creates an event about a block of a region.
pub(crate) fn block_event(action: Action, region: &Region, block: &Block, stream: u32) -> Event {
    let event = Event::about(action, region, (block.offset, block.size));
    Event { requested: block.requested, stream, ..event }
}

fn log_free(region: &mut Region, block: &Block) {
    // A block on a quick list is not merged yet.
    let alone = Hole { offset: block.offset, size: block.size };
    let hole = region.index.hole_at(block.offset).unwrap_or(alone);
    debug!(
        target: LOG,
        region = %region.handle.id, offset = block.offset.get(), size = block.size.get(),
        joined_below = (block.offset - hole.offset).get(),
        joined_above = (hole.offset + hole.size - block.offset - block.size).get(),
        region_free = region.free_bytes().get(),
        "block freed"
    );
}
