//! A slot: the place of one region in an allocator, with its lock and its accounts.
//!
//! An allocator has a fixed number of slots; a region lives in one until it is given back. Whoever
//! holds a block holds its slot, so a block can be freed from any thread with no more than the
//! slot's own lock, and a region outlives the allocator if its blocks do.
//!
//! Where each thread has a slot of its own, a thread that frees another's block does not touch that
//! one's slot: it collects such blocks in the *outbox* of its own slot and passes them on, a batch at
//! a time, to the *inboxes* of theirs. Whoever locks a slot next frees what its inbox holds.

use std::collections::BTreeMap;
use std::fmt;

use tracing::{Level, debug, enabled};

use super::config::Growth;
use super::granules::Granules;
use super::history::Action;
use super::shared::Shared;
use super::stream::Waiting;
use super::tag::Tag;
use super::{FreeError, RegionReport, VirtualAddress};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::index::{Block, BlockKey, FreeIndex, Hole, Part};
use crate::policy::{BlockStrategy, Kind, RegionView, Request};
use crate::stats::{Counts, Pool, Quantity};
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Turn, lock};

/// The `free` of a slot with no region in it.
const VACANT: u64 = u64::MAX;
/// The target of the log, for those who filter.
pub(crate) const LOG: &str = "cubeyard::alloc";

/// A region with its blocks.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) handle: RegionHandle,
    pub(crate) index: FreeIndex,
    strategy: Box<dyn BlockStrategy>,
    /// Which granules have memory; only a growable region lacks any.
    granules: Option<Granules>,
    /// Where the region begins in the address space of snapshots and the segment table.
    pub(crate) base: u64,
}

impl Region {
    /// Memory that the device has given for it.
    fn reserved(&self) -> Bytes {
        self.granules.as_ref().map_or(self.handle.size, Granules::committed)
    }

    pub(crate) fn is_growable(&self) -> bool {
        self.granules.is_some()
    }

    /// The parts that have memory, as offsets and sizes.
    pub(crate) fn backed(&self) -> Vec<(Bytes, Bytes)> {
        match &self.granules {
            None => vec![(Bytes::ZERO, self.handle.size)],
            Some(granules) => granules.backed(),
        }
    }

    fn address(&self, offset: Bytes) -> VirtualAddress {
        VirtualAddress { region_id: self.handle.id, offset }
    }
}

/// What a slot's lock guards.
#[derive(Debug)]
pub(crate) struct SlotState {
    pub(crate) region: Option<Region>,
    pub(crate) counts: Counts,
    /// The serial number of the last block of the regions that were here, so that a key of an
    /// earlier one is never mistaken for a key of this one.
    serial: u32,
    notes: BTreeMap<BlockKey, Note>,
}

/// What is remembered of the few blocks that need it.
#[derive(Debug, Default)]
struct Note {
    pins: usize,
    /// Its owner let it go while it was pinned; the last pin frees it.
    orphan: bool,
    /// Streams that use it beside its own.
    streams: Vec<u32>,
}

impl SlotState {
    /// Whether a region is here, or was.
    pub(crate) fn was_used(&self) -> bool {
        self.region.is_some() || self.serial > 0
    }
}

/// The place of one region. Slots keep apart in the cache, so that threads do not disturb each other.
#[repr(align(128))]
pub(crate) struct Slot {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    state: Mutex<SlotState>,
    /// Free bytes of the region as of the last change, to be read without the lock.
    free: AtomicU64,
    /// The region's own kind, as its number, or none.
    kind: AtomicUsize,
    /// Who may commit and decommit.
    turn: Turn,
    inbox: Mutex<Vec<BlockKey>>,
    inbox_len: AtomicUsize,
    outbox: Mutex<Vec<(Arc<Slot>, BlockKey)>>,
}

/// How many blocks an outbox collects. Enough that passing them on costs little for each; few enough
/// that what waits there does not matter.
const OUTBOX: usize = 32;

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new(number: usize, shared: Arc<Shared>) -> Self {
        let state =
            SlotState { region: None, counts: Counts::new(), serial: 0, notes: BTreeMap::new() };
        Self {
            number,
            shared,
            state: Mutex::new(state),
            free: AtomicU64::new(VACANT),
            kind: AtomicUsize::new(usize::MAX),
            turn: Turn::default(),
            inbox: Mutex::new(Vec::new()),
            inbox_len: AtomicUsize::new(0),
            outbox: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.free.load(Ordering::Relaxed) == VACANT
    }

    /// What a region strategy may know, if a block of this kind may be put here.
    pub(crate) fn view(&self, kind: Kind) -> Option<RegionView> {
        let free = self.free.load(Ordering::Relaxed);
        let own = self.shared.config.own_regions.contains(&kind);
        let wanted = if own { kind as usize } else { usize::MAX };
        let fits = free != VACANT && self.kind.load(Ordering::Relaxed) == wanted;
        fits.then_some(RegionView { slot: self.number, free: Bytes::new(free) })
    }

    /// Locks the slot and frees what the inbox holds.
    pub(crate) fn enter(self: &Arc<Self>) -> MutexGuard<'_, SlotState> {
        let mut state = lock(&self.state);
        if self.inbox_len.load(Ordering::Acquire) > 0 {
            let keys = {
                let mut inbox = lock(&self.inbox);
                self.inbox_len.store(0, Ordering::Release);
                std::mem::take(&mut *inbox)
            };
            for key in keys {
                // A key in the inbox came from a handle, whose block is live until this frees it.
                let _ = self.let_go(&mut state, key);
            }
        }
        state
    }

    /// Puts a region into the vacant slot.
    pub(crate) fn settle_in(self: &Arc<Self>, handle: RegionHandle, kind: Option<Kind>, base: u64) {
        let config = &self.shared.config;
        let mut state = lock(&self.state);
        let granules = (config.growth != Growth::Fixed).then(|| Granules::new(self.shared.granule));
        let index = FreeIndex::with_serial(handle.size, config.alignment, state.serial);
        let region = Region { handle, index, strategy: (config.block.make)(), granules, base };
        state.counts.add(Quantity::Segment, Pool::Large, 1);
        state.counts.add(Quantity::ReservedBytes, Pool::Large, region.reserved().get());
        self.kind.store(kind.map_or(usize::MAX, |kind| kind as usize), Ordering::Relaxed);
        self.free.store(region.index.free_bytes().get(), Ordering::Relaxed);
        if region.granules.is_none() {
            self.shared.record(Action::SegmentAlloc, base, region.reserved(), 0);
        }
        state.region = Some(region);
    }

    /// Takes the region out if nothing in it is live.
    pub(crate) fn move_out(self: &Arc<Self>) -> Option<RegionHandle> {
        let mut state = self.enter();
        state.region.as_ref().filter(|region| region.index.live_blocks() == 0)?;
        let region = state.region.take()?;
        state.serial = region.index.serial();
        state.counts.take(Quantity::Segment, Pool::Large, 1);
        state.counts.take(Quantity::ReservedBytes, Pool::Large, region.reserved().get());
        self.free.store(VACANT, Ordering::Relaxed);
        match &region.granules {
            None => self.shared.record(Action::SegmentFree, region.base, region.reserved(), 0),
            Some(granules) => self.record_unmapped(region.base, &granules.backed()),
        }
        Some(region.handle)
    }

    /// Places a request here, or changes nothing where there is no room, or no memory for it.
    pub(crate) fn try_allocate(self: &Arc<Self>, request: &Request) -> Option<Block> {
        let mut state = self.enter();
        let region = state.region.as_mut()?;
        let tag = Tag::new(request.kind, request.stream);
        let block = region.strategy.place(&mut region.index, request, tag.bits())?;
        let growing = region
            .granules
            .as_ref()
            .is_some_and(|granules| !granules.missing(block.offset, block.size).is_empty());
        if growing {
            drop(state);
            return self.commit(block);
        }
        self.admit(&mut state, &block);
        self.leave(state);
        Some(block)
    }

    /// Ends a critical section; what may be a new peak is then looked into.
    pub(crate) fn leave(&self, mut state: MutexGuard<'_, SlotState>) {
        let above = state.counts.is_above() && !state.counts.raise_ceilings(&self.shared.slack);
        drop(state);
        if above {
            self.shared.settle();
        }
    }

    /// Gets memory for a block that is placed where some is missing, with no lock held.
    fn commit(self: &Arc<Self>, block: Block) -> Option<Block> {
        let turn = self.turn.take();
        let device = &self.shared.device;
        let (handle, missing, idle) = self.plan_commit(&block);
        for &(offset, size) in &idle {
            device.decommit(&handle, offset, size);
        }
        let done = missing
            .iter()
            .take_while(|&&(offset, size)| device.commit(&handle, offset, size))
            .count();
        let failed = done < missing.len();
        if failed {
            missing[..done]
                .iter()
                .for_each(|&(offset, size)| device.decommit(&handle, offset, size));
        }
        self.shared.count(|counters| {
            counters.device_allocs += done as u64 + u64::from(failed);
            counters.device_frees += idle.len() as u64 + if failed { done as u64 } else { 0 };
        });
        let mut state = self.enter();
        let outcome = self.finish_commit(&mut state, block, if failed { &[] } else { &missing });
        drop(turn);
        self.leave(state);
        outcome
    }

    /// What must be committed for a block, and, where granules are recycled, what is taken away for
    /// that. The latter is marked so at once: nobody may count on it any more.
    #[expect(clippy::type_complexity, reason = "three answers from under one lock")]
    fn plan_commit(
        self: &Arc<Self>,
        block: &Block,
    ) -> (RegionHandle, Vec<(Bytes, Bytes)>, Vec<(Bytes, Bytes)>) {
        let mut state = self.enter();
        let region = state.region.as_mut().expect("a region with a live block stays");
        let handle = region.handle.duplicate();
        let granules = region.granules.as_ref().expect("only growable regions commit");
        let missing = granules.missing(block.offset, block.size);
        let recycles = matches!(self.shared.config.growth, Growth::Recycle(_));
        let wanted: Bytes = missing.iter().map(|&(_, size)| size).sum();
        let idle = if recycles { take_idle(region, wanted) } else { Vec::new() };
        self.record_unmapped(region.base, &idle);
        self.account_memory(&mut state);
        (handle, missing, idle)
    }

    fn finish_commit(
        &self,
        state: &mut SlotState,
        block: Block,
        committed: &[(Bytes, Bytes)],
    ) -> Option<Block> {
        let region = state.region.as_mut().expect("a region with a live block stays");
        let granules = region.granules.as_mut().expect("only growable regions commit");
        for &(offset, size) in committed {
            granules.mark(offset, size, true);
            self.shared.record(Action::SegmentMap, region.base + offset.get(), size, 0);
        }
        if granules.missing(block.offset, block.size).is_empty() {
            self.account_memory(state);
            self.admit(state, &block);
            return Some(block);
        }
        region.strategy.free(&mut region.index, block.key).expect("the block was placed just now");
        self.account_memory(state);
        None
    }

    /// Gives granules that are wholly free back to the device, and says how many bytes they were.
    pub(crate) fn shrink(self: &Arc<Self>) -> Bytes {
        let turn = self.turn.take();
        let mut state = self.enter();
        let Some(region) = state.region.as_mut().filter(|region| region.granules.is_some()) else {
            return Bytes::ZERO;
        };
        let idle = take_idle(region, Bytes::MAX);
        let (handle, base) = (region.handle.duplicate(), region.base);
        self.account_memory(&mut state);
        self.record_unmapped(base, &idle);
        self.leave(state);
        idle.iter().for_each(|&(offset, size)| self.shared.device.decommit(&handle, offset, size));
        self.shared.count(|counters| counters.device_frees += idle.len() as u64);
        drop(turn);
        idle.iter().map(|&(_, size)| size).sum()
    }

    /// A growable region is nothing to a snapshot but the memory in it.
    fn record_unmapped(&self, base: u64, parts: &[(Bytes, Bytes)]) {
        for &(offset, size) in parts {
            self.shared.record(Action::SegmentUnmap, base + offset.get(), size, 0);
        }
    }

    /// Frees a block for its owner.
    pub(crate) fn free(self: &Arc<Self>, key: BlockKey) -> Result<(), FreeError> {
        let mut state = self.enter();
        let outcome = self.let_go(&mut state, key);
        let idle = state.region.as_ref().is_some_and(|region| region.index.live_blocks() == 0);
        self.leave(state);
        self.shared.after_free(idle);
        outcome
    }

    /// Collects a block of another slot, which this slot's thread frees.
    pub(crate) fn post(&self, slot: Arc<Self>, key: BlockKey) {
        let mut outbox = lock(&self.outbox);
        outbox.push((slot, key));
        if outbox.len() >= OUTBOX {
            let posts = std::mem::take(&mut *outbox);
            drop(outbox);
            deliver(posts);
        }
    }

    /// Passes on what the outbox has collected.
    pub(crate) fn empty_outbox(&self) {
        let posts = std::mem::take(&mut *lock(&self.outbox));
        deliver(posts);
    }

    /// The owner lets a block go: it is free at once, when its pins are gone, or when its streams
    /// have passed.
    fn let_go(self: &Arc<Self>, state: &mut SlotState, key: BlockKey) -> Result<(), FreeError> {
        let region = state.region.as_mut().ok_or(FreeError::Stale)?;
        let block = region.index.get(key).ok_or(FreeError::Stale)?;
        let tag = Tag::from_bits(block.tag);
        if tag.is_pending() {
            return Err(FreeError::Stale);
        }
        if let Some(note) = tag.is_noted().then(|| state.notes.get_mut(&key)).flatten()
            && note.pins > 0
        {
            note.orphan = true;
            return Ok(());
        }
        let streams = state.notes.remove(&key).map(|note| note.streams).unwrap_or_default();
        let base = region.base;
        let (offset, size) = (block.offset, block.size);
        self.shared.record(
            Action::FreeRequested,
            base + offset.get(),
            block.requested,
            tag.stream(),
        );
        state.counts.take(Quantity::Allocation, Pool::of(size), 1);
        state.counts.take(Quantity::AllocatedBytes, Pool::of(size), size.get());
        if let Some(streams) = self.shared.streams_to_wait_for(tag.stream(), streams) {
            region
                .index
                .set_tag(key, tag.without_note().pending().bits())
                .expect("the block is live");
            self.shared.wait_for(Waiting { slot: Arc::clone(self), key, streams });
        } else {
            self.give_back(state, key);
        }
        Ok(())
    }

    /// The streams have passed: a block that waited is free.
    pub(crate) fn complete(self: &Arc<Self>, key: BlockKey) {
        let mut state = self.enter();
        self.give_back(&mut state, key);
        self.leave(state);
    }

    /// Returns a block's range to the region.
    fn give_back(&self, state: &mut SlotState, key: BlockKey) {
        let region = state.region.as_mut().expect("a region with a live block stays");
        let block =
            region.strategy.free(&mut region.index, key).expect("a block is given back once");
        let pool = Pool::of(block.size);
        state.counts.take(Quantity::Active, pool, 1);
        state.counts.take(Quantity::ActiveBytes, pool, block.size.get());
        state.counts.take(Quantity::RequestedBytes, pool, block.requested.get());
        let stream = Tag::from_bits(block.tag).stream();
        self.shared.record(
            Action::FreeCompleted,
            region.base + block.offset.get(),
            block.requested,
            stream,
        );
        if enabled!(target: LOG, Level::DEBUG) {
            log_free(region, &block);
        }
        self.account_splits(state);
    }

    /// Accounts for a block that has been placed.
    fn admit(&self, state: &mut SlotState, block: &Block) {
        let pool = Pool::of(block.size);
        for quantity in [Quantity::Allocation, Quantity::Active] {
            state.counts.add(quantity, pool, 1);
        }
        for quantity in [Quantity::AllocatedBytes, Quantity::ActiveBytes] {
            state.counts.add(quantity, pool, block.size.get());
        }
        state.counts.add(Quantity::RequestedBytes, pool, block.requested.get());
        self.account_splits(state);
        let region = state.region.as_ref().expect("a block was placed in it");
        let tag = Tag::from_bits(block.tag);
        self.shared.record(
            Action::Alloc,
            region.base + block.offset.get(),
            block.requested,
            tag.stream(),
        );
        debug!(
            target: LOG,
            region = %region.handle.id, offset = block.offset.get(), size = block.size.get(),
            requested = block.requested.get(), kind = tag.kind().name(), region_free = region.index.free_bytes().get(),
            "block assigned"
        );
    }

    fn account_memory(&self, state: &mut SlotState) {
        let reserved = state.region.as_ref().map_or(0, |region| region.reserved().get());
        state.counts.set(Quantity::ReservedBytes, Pool::Large, reserved);
        self.account_splits(state);
    }

    fn account_splits(&self, state: &mut SlotState) {
        let Some(region) = &state.region else { return };
        let used = region.index.live_blocks() > 0;
        let active = state.counts.current(Quantity::ActiveBytes);
        let bytes = if used { region.reserved().get().saturating_sub(active) } else { 0 };
        let count = if used { region.index.holes() as u64 } else { 0 };
        self.free.store(region.index.free_bytes().get(), Ordering::Relaxed);
        state.counts.set(Quantity::InactiveSplit, Pool::Large, count);
        state.counts.set(Quantity::InactiveSplitBytes, Pool::Large, bytes);
    }

    /// Where a block is, how long it is and what is known of it.
    pub(crate) fn find(self: &Arc<Self>, key: BlockKey) -> Option<(VirtualAddress, Block)> {
        let state = self.enter();
        let region = state.region.as_ref()?;
        let block =
            region.index.get(key).filter(|block| !Tag::from_bits(block.tag).is_pending())?;
        Some((region.address(block.offset), block))
    }

    /// The live block that starts at `address`, or whether it is the region or the block that is
    /// not here.
    pub(crate) fn find_at(self: &Arc<Self>, address: VirtualAddress) -> Result<Block, FreeError> {
        let mut state = self.enter();
        let region = state.region.as_mut().filter(|region| region.handle.id == address.region_id);
        let block =
            region.ok_or(FreeError::UnknownRegion { address })?.index.block_at(address.offset);
        let block = block.filter(|block| !Tag::from_bits(block.tag).is_pending());
        block.ok_or(FreeError::NotLive { address })
    }

    /// Says whether a live block may be freed by its address or token, and not by a handle; refuses
    /// to change what is so already.
    pub(crate) fn set_leaked(
        self: &Arc<Self>,
        key: BlockKey,
        leaked: bool,
    ) -> Result<(), FreeError> {
        let mut state = self.enter();
        let region = state.region.as_mut().ok_or(FreeError::Stale)?;
        let tag = region.index.get(key).map(|block| Tag::from_bits(block.tag));
        let tag = tag.filter(|tag| !tag.is_pending()).ok_or(FreeError::Stale)?;
        if tag.is_leaked() == leaked {
            return Err(FreeError::Owned);
        }
        region.index.set_tag(key, tag.leaked(leaked).bits()).expect("the block is live");
        Ok(())
    }

    /// Changes the note on a live block that is as `usable` says.
    fn note<T>(
        self: &Arc<Self>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        change: impl FnOnce(&mut Note, Tag) -> T,
    ) -> Result<T, FreeError> {
        let mut state = self.enter();
        let region = state.region.as_mut().ok_or(FreeError::Stale)?;
        let block = region.index.get(key).ok_or(FreeError::Stale)?;
        let tag = Tag::from_bits(block.tag);
        if tag.is_pending() || !usable(tag) {
            return Err(FreeError::Stale);
        }
        region.index.set_tag(key, tag.noted().bits()).expect("the block is live");
        Ok(change(state.notes.entry(key).or_default(), tag))
    }

    /// Keeps a block where it is until it is unpinned as often.
    pub(crate) fn pin(
        self: &Arc<Self>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
    ) -> Result<(), FreeError> {
        self.note(key, usable, |note, _| note.pins += 1)
    }

    /// Takes a pin off; the last one frees a block that its owner has let go.
    pub(crate) fn unpin(self: &Arc<Self>, key: BlockKey) {
        let unpinned = self.note(
            key,
            |_| true,
            |note, _| {
                note.pins -= 1;
                note.pins == 0 && note.orphan
            },
        );
        if unpinned.expect("a pinned block is live") {
            self.free(key).expect("an orphan is live until its last pin");
        }
    }

    /// Notes that another stream uses a block.
    pub(crate) fn record_stream(
        self: &Arc<Self>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        stream: u32,
    ) -> Result<(), FreeError> {
        self.note(key, usable, |note, tag| {
            if tag.stream() != stream && !note.streams.contains(&stream) {
                note.streams.push(stream);
            }
        })
    }

    /// Takes room for a block that is to be moved here: as it is now, at the lowest place that holds
    /// it, below `limit` if there is one. It is nobody's until it is adopted.
    pub(crate) fn reserve_room(
        self: &Arc<Self>,
        block: &Block,
        limit: Option<Bytes>,
    ) -> Option<Block> {
        use crate::index::Fit;
        let mut state = self.enter();
        let region = state.region.as_mut()?;
        let hole = region.index.find(Fit::First, block.requested, self.shared.config.alignment)?;
        if limit.is_some_and(|limit| hole.offset >= limit) {
            return None;
        }
        let room = region.index.allocate_at(hole.offset, block.requested, block.tag)?;
        let backed = region
            .granules
            .as_ref()
            .is_none_or(|granules| granules.missing(room.offset, room.size).is_empty());
        if !backed {
            region.index.free(room.key).expect("it was taken just now");
            return None;
        }
        self.admit(&mut state, &room);
        self.leave(state);
        Some(room)
    }

    /// Whether a block may be moved: live, with no note on it.
    pub(crate) fn movable(self: &Arc<Self>) -> Vec<Block> {
        let state = self.enter();
        let parts = state.region.as_ref().map(|region| region.index.parts()).unwrap_or_default();
        let plain = |block: &Block| {
            let tag = Tag::from_bits(block.tag);
            !tag.is_noted() && !tag.is_pending()
        };
        let live = parts.into_iter().filter_map(|part| match part {
            Part::Live(block) => Some(block),
            Part::Free(_) => None,
        });
        live.filter(plain).collect()
    }

    pub(crate) fn address(self: &Arc<Self>, offset: Bytes) -> Option<VirtualAddress> {
        self.enter().region.as_ref().map(|region| region.address(offset))
    }

    /// The region in figures.
    pub(crate) fn report(self: &Arc<Self>, kind: Kind) -> Option<RegionReport> {
        self.view(kind)?;
        let state = self.enter();
        let region = state.region.as_ref()?;
        let size = region.reserved();
        Some(RegionReport {
            id: region.handle.id,
            size,
            free: size.saturating_sub(Bytes::new(state.counts.current(Quantity::ActiveBytes))),
            largest: region.index.largest(),
            blocks: region.index.live_blocks(),
        })
    }
}

/// What is left of a region when the last block and the allocator are gone is given back.
impl Drop for Slot {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(region) = state.region.take() {
            self.shared.device.release(region.handle);
        }
    }
}

/// Puts blocks into the inboxes of their slots.
fn deliver(mut posts: Vec<(Arc<Slot>, BlockKey)>) {
    posts.sort_by_key(|(slot, _)| slot.number);
    for posts in posts.chunk_by(|one, other| one.0.number == other.0.number) {
        let slot = &posts[0].0;
        let mut inbox = lock(&slot.inbox);
        inbox.extend(posts.iter().map(|&(_, key)| key));
        slot.inbox_len.store(inbox.len(), Ordering::Release);
    }
}

/// Marks committed granules that lie wholly in free ranges as not committed, from the highest down,
/// until there are `wanted` bytes of them, and returns them.
fn take_idle(region: &mut Region, wanted: Bytes) -> Vec<(Bytes, Bytes)> {
    let Some(granules) = &mut region.granules else { return Vec::new() };
    region.index.join_quick();
    let mut taken = Vec::new();
    let mut left = wanted;
    for part in region.index.parts().into_iter().rev() {
        let Part::Free(hole) = part else { continue };
        for (offset, size) in granules.idle(hole).into_iter().rev() {
            let size = size.min(left);
            if size.is_zero() {
                return taken;
            }
            granules.mark(offset, size, false);
            taken.push((offset, size));
            left = left.saturating_sub(size);
        }
    }
    taken
}

fn log_free(region: &mut Region, block: &Block) {
    // A block on a quick list is not joined yet.
    let alone = Hole { offset: block.offset, size: block.size };
    let hole = region.index.hole_at(block.offset).unwrap_or(alone);
    debug!(
        target: LOG,
        region = %region.handle.id, offset = block.offset.get(), size = block.size.get(),
        joined_below = (block.offset - hole.offset).get(),
        joined_above = (hole.offset + hole.size - block.offset - block.size).get(),
        region_free = region.index.free_bytes().get(),
        "block freed"
    );
}
