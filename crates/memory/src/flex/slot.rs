//! A slot: the place of one region in an allocator, with its lock and its accounts.
//!
//! An allocator has a fixed number of slots; a region lives in one until it is given back. Whoever
//! holds a block holds its slot, so a block can be freed from any thread with no more than the
//! slot's own lock, and a region outlives the allocator if its blocks do.
//!
//! Where each thread has a slot of its own, a thread that frees another's block does not touch that
//! one's slot but sends the block there ([`mail`](super::mail)).

use std::collections::BTreeMap;
use std::fmt;

use tracing::{Level, debug, enabled};

use super::config::{Growth, Release};
use super::granules::Granules;
use super::history::Action;
use super::mail::{Mailbox, Post};
use super::shared::Shared;
use super::stream::Waiting;
use super::tag::{FAR_STREAM, Tag};
use super::{Allocation, FreeError, RegionReport, VirtualAddress};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::index::{Block, BlockKey, FreeIndex, Hole, Part};
use crate::policy::{BlockStrategy, Kind, RegionView, Request};
use crate::stats::{Counts, Places, Pool, Quantity};
use crate::sync::{
    Apart, Arc, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Turn, lock, thread_number,
};

/// The `free` of a slot with no region in it.
const VACANT: u64 = u64::MAX;
/// How many references to itself a slot keeps. More than come at a time; few enough not to matter.
const SPARE: usize = 256;
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

    /// The longest free range that has memory.
    fn largest(&self) -> Bytes {
        let Some(granules) = &self.granules else { return self.index.largest() };
        let parts = self.index.parts().into_iter().flat_map(|part| match part {
            Part::Free(hole) => granules.backed_in(hole),
            Part::Live(_) => Vec::new(),
        });
        parts.map(|(_, size)| size).max().unwrap_or(Bytes::ZERO)
    }

    fn address(&self, offset: Bytes) -> VirtualAddress {
        VirtualAddress { region_id: self.handle.id, offset }
    }
}

/// Where a block was placed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlacedBlock {
    /// There is none.
    Nowhere,
    /// It has memory.
    There(Block),
    /// Some is missing.
    Coming(Block),
}

/// What a slot's lock guards.
#[derive(Debug)]
pub(crate) struct SlotState {
    pub(crate) region: Option<Region>,
    pub(crate) counts: Counts,
    /// Whether a region is here, or was.
    pub(crate) used: bool,
    /// The serial number of the last block of the regions that were here, so that a key of an
    /// earlier one is never mistaken for a key of this one.
    serial: u32,
    notes: BTreeMap<BlockKey, Note>,
    /// An inbox that was emptied, to be exchanged for the next full one.
    emptied: Vec<Post>,
    /// References to this slot that came with its mail. New blocks take them, so that none has to be
    /// counted in or out. None are kept once the allocator is gone: the slot would never go.
    pub(crate) spare: Vec<Arc<Slot>>,
}

/// What is remembered of the few blocks that need it.
#[derive(Debug, Default, PartialEq)]
struct Note {
    pins: usize,
    /// Its owner let it go while it was pinned; the last pin frees it.
    orphan: bool,
    /// Streams that use it beside its own.
    streams: Vec<u32>,
    /// Its own stream, where the tag has no room for that.
    own_stream: Option<u32>,
    /// The alignment that was asked for, where it is above the granule.
    alignment: Option<Bytes>,
}

impl Note {
    /// What is to be remembered of a new block, if anything is.
    fn of(request: &Request, granule: Bytes) -> Option<Self> {
        let own_stream = (request.stream >= FAR_STREAM).then_some(request.stream);
        let alignment = (request.alignment > granule).then_some(request.alignment);
        let note = Self { own_stream, alignment, ..Self::default() };
        (note != Self::default()).then_some(note)
    }
}

impl SlotState {
    /// A live block that somebody owns, and its tag.
    fn owned(&self, key: BlockKey) -> Result<(Block, Tag), FreeError> {
        let region = self.region.as_ref().ok_or(FreeError::Stale)?;
        let block = region.index.get(key).ok_or(FreeError::Stale)?;
        let tag = Tag::from_bits(block.tag);
        if tag.is_owned() { Ok((block, tag)) } else { Err(FreeError::Stale) }
    }

    /// Replaces the tag of a live block.
    fn set_tag(&mut self, key: BlockKey, tag: Tag) {
        let region = self.region.as_mut().expect("a region with a live block stays");
        region.index.set_tag(key, tag.bits()).expect("the block is live");
    }

    /// The stream of a block.
    fn stream(&self, key: BlockKey, tag: Tag) -> u32 {
        let note = tag.is_noted().then(|| self.notes.get(&key)).flatten();
        note.and_then(|note| note.own_stream).unwrap_or(tag.stream())
    }

    /// Whether a block may be moved, and if so, what its start must be a multiple of.
    fn movable(&self, key: BlockKey) -> Option<Bytes> {
        let (_, tag) = self.owned(key).ok()?;
        if tag.is_fixed() {
            return None;
        }
        let note = tag.is_noted().then(|| self.notes.get(&key)).flatten();
        let free = note.is_none_or(|note| note.pins == 0 && note.streams.is_empty());
        let alignment = note.and_then(|note| note.alignment).unwrap_or(Bytes::new(1));
        free.then_some(alignment)
    }
}

/// The place of one region. What every thread reads that frees a block of it lies apart from what
/// its own thread writes with every call.
pub(crate) struct Slot {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    /// When its region came, in a number that rises with every region.
    since: AtomicU64,
    /// The region's own kind, as its number, or none.
    kind: AtomicUsize,
    /// Who may commit and decommit.
    turn: Turn,
    state: Apart<Mutex<SlotState>>,
    /// Free bytes of the region as of the last change, to be read without the lock.
    free: Apart<AtomicU64>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new(number: usize, shared: Arc<Shared>) -> Self {
        let state = SlotState {
            region: None,
            counts: Counts::new(),
            used: false,
            serial: 0,
            notes: BTreeMap::new(),
            emptied: Vec::new(),
            spare: Vec::new(),
        };
        Self {
            number,
            shared,
            since: AtomicU64::new(0),
            kind: AtomicUsize::new(usize::MAX),
            turn: Turn::default(),
            state: Apart(Mutex::new(state)),
            free: Apart(AtomicU64::new(VACANT)),
        }
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.free.load(Ordering::Relaxed) == VACANT
    }

    /// What orders regions by age.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Whether its region is for the same kinds as another's.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.kind.load(Ordering::Relaxed) == other.kind.load(Ordering::Relaxed)
    }

    /// What a region strategy may know, if a block of this kind may be put here.
    pub(crate) fn view(&self, kind: Kind) -> Option<RegionView> {
        let free = self.free.load(Ordering::Relaxed);
        let own = self.shared.config.own_regions.contains(&kind);
        let wanted = if own { kind as usize } else { usize::MAX };
        let fits = free != VACANT && self.kind.load(Ordering::Relaxed) == wanted;
        fits.then_some(RegionView { slot: self.number, free: Bytes::new(free) })
    }

    /// This thread's own slot, if this is another's, which is then left to free its blocks itself.
    /// Where idle regions go back to the device at once, they must be seen to be idle at once.
    pub(crate) fn foreign_home(&self) -> Option<usize> {
        let config = &self.shared.config;
        if !config.region.thread_home || config.release != Release::Never {
            return None;
        }
        let home = thread_number() % config.max_regions;
        (home != self.number && !self.shared.is_closed()).then_some(home)
    }

    fn mailbox(&self) -> &Mailbox {
        &self.shared.mail[self.number]
    }

    /// Whether another thread has left blocks to be freed here.
    pub(crate) fn has_mail(&self) -> bool {
        self.mailbox().has_arrived()
    }

    /// Locks the slot and frees what the inbox holds.
    pub(crate) fn enter(self: &Arc<Self>) -> MutexGuard<'_, SlotState> {
        let mut state = lock(&self.state);
        if self.has_mail() {
            let mut posts = self.mailbox().take(std::mem::take(&mut state.emptied));
            let room = if self.shared.is_closed() { 0 } else { SPARE };
            for (slot, key) in posts.drain(..) {
                if state.spare.len() < room {
                    state.spare.push(slot);
                }
                // The key came from a handle, and nothing moves a block whose key is in the inbox.
                self.let_go(&mut state, key).expect("a block in the inbox is live");
            }
            state.emptied = posts;
        }
        state
    }

    /// Puts a region into the vacant slot, and a request into the region before anybody else can.
    pub(crate) fn settle_in(
        self: &Arc<Self>,
        handle: RegionHandle,
        kind: Option<Kind>,
        (base, since): (u64, u64),
        request: Option<&Request>,
    ) -> PlacedBlock {
        let config = &self.shared.config;
        let mut state = lock(&self.state);
        let granules = (config.growth != Growth::Fixed).then(|| Granules::new(self.shared.granule));
        let index = FreeIndex::with_serial(handle.size, config.alignment, state.serial);
        let region = Region { handle, index, strategy: (config.block.make)(), granules, base };
        state.used = true;
        state.counts.hold();
        state.counts.add(Quantity::Segment, Pool::Large, 1);
        state.counts.add(Quantity::ReservedBytes, Pool::Large, region.reserved().get());
        self.kind.store(kind.map_or(usize::MAX, |kind| kind as usize), Ordering::Relaxed);
        self.since.store(since, Ordering::Relaxed);
        self.free.store(region.index.free_bytes().get(), Ordering::Relaxed);
        if region.granules.is_none() {
            self.shared.record(Action::SegmentAlloc, base, region.reserved(), 0);
        }
        state.region = Some(region);
        let placed = request.and_then(|request| self.place(&mut state, request));
        placed.unwrap_or(PlacedBlock::Nowhere)
    }

    /// Takes the region out if nothing in it is live, and says how much memory it has.
    pub(crate) fn move_out(self: &Arc<Self>) -> Option<(RegionHandle, Bytes)> {
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
        let memory = region.reserved();
        Some((region.handle, memory))
    }

    /// Places a request here, or changes nothing where there is no room, or no memory for it.
    pub(crate) fn try_allocate(self: &Arc<Self>, request: &Request) -> Option<Allocation> {
        let mut state = self.enter();
        let placed = self.place(&mut state, request)?;
        let spare = state.spare.pop();
        self.leave(state);
        let block = self.complete_place(placed)?;
        Some(Allocation::new(spare.unwrap_or_else(|| Arc::clone(self)), block.key))
    }

    /// Places a request in a slot that is locked; memory that is missing for it comes later.
    fn place(&self, state: &mut SlotState, request: &Request) -> Option<PlacedBlock> {
        let region = state.region.as_mut()?;
        // More than the device has could never be committed, and would have very many granules.
        if region.granules.is_some() && request.size > self.shared.total {
            return None;
        }
        let note = Note::of(request, self.shared.config.alignment);
        let tag = Tag::new(request.kind, request.stream);
        let tag = if note.is_some() { tag.noted() } else { tag };
        let block = region.strategy.place(&mut region.index, request, tag.bits())?;
        let granules = region.granules.as_ref();
        let growing =
            granules.is_some_and(|granules| !granules.missing(block.offset, block.size).is_empty());
        if let Some(note) = note {
            state.notes.insert(block.key, note);
        }
        if growing {
            state.set_tag(block.key, tag.coming(true));
            return Some(PlacedBlock::Coming(block));
        }
        self.admit(state, &block);
        Some(PlacedBlock::There(block))
    }

    /// Gets memory for a block that was placed, if it lacks any; without memory the block is gone.
    pub(crate) fn complete_place(self: &Arc<Self>, placed: PlacedBlock) -> Option<Block> {
        match placed {
            PlacedBlock::Nowhere => None,
            PlacedBlock::There(block) => Some(block),
            PlacedBlock::Coming(block) => self.commit(block),
        }
    }

    /// Places a request where the region has memory already, wherever that is: the last resort when
    /// the device has no more. Takes O(n) time in the number of blocks of a growable region.
    pub(crate) fn try_backed(self: &Arc<Self>, request: &Request) -> Option<Block> {
        let mut state = self.enter();
        let block = self.place_backed(&mut state, request)?;
        self.leave(state);
        Some(block)
    }

    /// The same in a slot that is locked.
    pub(crate) fn place_backed(&self, state: &mut SlotState, request: &Request) -> Option<Block> {
        let region = state.region.as_mut()?;
        region.index.join_quick();
        let note = Note::of(request, self.shared.config.alignment);
        let tag = Tag::new(request.kind, request.stream);
        let tag = if note.is_some() { tag.noted() } else { tag };
        let block = if let Some(granules) = &region.granules {
            let size = request.size.align_up(self.shared.config.alignment)?;
            let fits = |(start, length): (Bytes, Bytes)| {
                let at = start.align_up(request.alignment.max(self.shared.config.alignment))?;
                (at.checked_add(size)? <= start + length).then_some(at)
            };
            let mut parts = region.index.parts().into_iter();
            let place = parts.find_map(|part| match part {
                Part::Free(hole) => granules.backed_in(hole).into_iter().find_map(fits),
                Part::Live(_) => None,
            })?;
            region.index.allocate_at(place, request.size, tag.bits())?
        } else {
            region.strategy.place(&mut region.index, request, tag.bits())?
        };
        if let Some(note) = note {
            state.notes.insert(block.key, note);
        }
        self.admit(state, &block);
        Some(block)
    }

    /// Ends a critical section; what may be a new peak is then looked into.
    pub(crate) fn leave(&self, mut state: MutexGuard<'_, SlotState>) {
        if !state.counts.is_above() {
            return;
        }
        let lacking = state.counts.raise_ceilings(&self.shared.slack);
        drop(state);
        if !lacking.is_empty() {
            self.shared.settle(lacking);
        }
    }

    /// Gets memory for a block that is placed where some is missing, with no lock held.
    fn commit(self: &Arc<Self>, block: Block) -> Option<Block> {
        let Some(turn) = self.turn.take() else { return self.take_back(block) };
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
            counters.device_allocs += done as u64;
            counters.device_frees += idle.len() as u64 + if failed { done as u64 } else { 0 };
        });
        self.shared.tick();
        let mut state = self.enter();
        let outcome = self.finish_commit(&mut state, block, if failed { &[] } else { &missing });
        drop(turn);
        self.leave(state);
        outcome
    }

    /// Removes a block that was placed where memory is missing: this thread is committing to the
    /// region already, and the device is not called twice at a time for it.
    fn take_back(self: &Arc<Self>, block: Block) -> Option<Block> {
        let mut state = self.enter();
        let outcome = self.finish_commit(&mut state, block, &[]);
        self.leave(state);
        outcome
    }

    /// Whether this thread is inside a call of the device for this region.
    pub(crate) fn is_calling(&self) -> bool {
        self.turn.is_mine()
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
            state.set_tag(block.key, Tag::from_bits(block.tag));
            self.account_memory(state);
            self.admit(state, &block);
            return Some(block);
        }
        let freed = region.strategy.free(&mut region.index, block.key);
        freed.expect("the block was placed just now");
        state.notes.remove(&block.key);
        self.account_memory(state);
        None
    }

    /// Gives granules that are wholly free back to the device, and says how many bytes they were.
    /// Without `wait` nothing happens while somebody commits: that may be this very thread, in a
    /// device that frees blocks.
    pub(crate) fn shrink(self: &Arc<Self>, wait: bool) -> Bytes {
        let turn = if wait { self.turn.take() } else { self.turn.try_take() };
        let Some(turn) = turn else { return Bytes::ZERO };
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
        self.shared.tick();
        let mut state = self.enter();
        let outcome = self.let_go(&mut state, key);
        self.leave_idle(state);
        outcome
    }

    /// Frees the leaked block that starts at `address`.
    pub(crate) fn free_at(self: &Arc<Self>, address: VirtualAddress) -> Result<(), FreeError> {
        self.shared.tick();
        let mut state = self.enter();
        let outcome = self.let_go_at(&mut state, address);
        self.leave_idle(state);
        outcome
    }

    fn let_go_at(
        self: &Arc<Self>,
        state: &mut SlotState,
        address: VirtualAddress,
    ) -> Result<(), FreeError> {
        let region = state.region.as_mut().filter(|region| region.handle.id == address.region_id);
        let region = region.ok_or(FreeError::UnknownRegion { address })?;
        let block = region.index.block_at(address.offset);
        let owned = |block: &Block| Tag::from_bits(block.tag).is_owned();
        let block = block.filter(owned).ok_or(FreeError::NotLive { address })?;
        let tag = Tag::from_bits(block.tag);
        if !tag.is_leaked() {
            return Err(FreeError::Owned);
        }
        state.set_tag(block.key, tag.leaked(false));
        self.shared.forget_place(self, block.key);
        self.let_go(state, block.key)
    }

    /// Ends a critical section in which a block may have been the last to go.
    fn leave_idle(&self, state: MutexGuard<'_, SlotState>) {
        let idle = state.region.as_ref().is_some_and(|region| region.index.live_blocks() == 0);
        self.leave(state);
        self.shared.after_free(idle);
    }

    /// The owner lets a block go: it is free at once, when its pins are gone, or when its streams
    /// have passed.
    fn let_go(self: &Arc<Self>, state: &mut SlotState, key: BlockKey) -> Result<(), FreeError> {
        let (block, tag) = state.owned(key)?;
        if let Some(note) = tag.is_noted().then(|| state.notes.get_mut(&key)).flatten()
            && note.pins > 0
        {
            note.orphan = true;
            return Ok(());
        }
        let own = state.stream(key, tag);
        let note = tag.is_noted().then(|| state.notes.remove(&key)).flatten();
        let streams = note.map(|note| note.streams).unwrap_or_default();
        let base = state.region.as_ref().expect("a region with a live block stays").base;
        let size = block.size;
        self.shared.record(Action::FreeRequested, base + block.offset.get(), block.requested, own);
        state.counts.take(Quantity::Allocation, Pool::of(size), 1);
        state.counts.take(Quantity::AllocatedBytes, Pool::of(size), size.get());
        if let Some(streams) = self.shared.streams_to_wait_for(own, streams) {
            state.set_tag(key, tag.without_note().pending());
            self.shared.wait_for(Waiting { slot: Arc::clone(self), key, streams });
        } else {
            self.give_back(state, key);
        }
        Ok(())
    }

    /// The streams have passed: a block that waited is free. Says whether it was the last one here.
    pub(crate) fn complete(self: &Arc<Self>, key: BlockKey) -> bool {
        let mut state = self.enter();
        self.give_back(&mut state, key);
        let idle = state.region.as_ref().is_some_and(|region| region.index.live_blocks() == 0);
        self.leave(state);
        idle
    }

    /// How much memory the region has, if nothing in it is live.
    pub(crate) fn idle_bytes(self: &Arc<Self>) -> Option<Bytes> {
        let state = self.enter();
        let region = state.region.as_ref()?;
        (region.index.live_blocks() == 0).then(|| region.reserved())
    }

    /// Returns a block's range to the region.
    fn give_back(&self, state: &mut SlotState, key: BlockKey) {
        let region = state.region.as_mut().expect("a region with a live block stays");
        let block = region.strategy.free(&mut region.index, key);
        let block = block.expect("a block is given back once");
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

    /// Accounts for a block that has been placed and has an owner.
    fn admit(&self, state: &mut SlotState, block: &Block) {
        Self::account_owner(state, block);
        self.account_use(state, block);
    }

    fn account_owner(state: &mut SlotState, block: &Block) {
        let pool = Pool::of(block.size);
        state.counts.add(Quantity::Allocation, pool, 1);
        state.counts.add(Quantity::AllocatedBytes, pool, block.size.get());
    }

    /// Accounts for a block that has been placed, whoever owns it.
    fn account_use(&self, state: &mut SlotState, block: &Block) {
        let pool = Pool::of(block.size);
        state.counts.add(Quantity::Active, pool, 1);
        state.counts.add(Quantity::ActiveBytes, pool, block.size.get());
        state.counts.add(Quantity::RequestedBytes, pool, block.requested.get());
        self.account_splits(state);
        let tag = Tag::from_bits(block.tag);
        let stream = state.stream(block.key, tag);
        let region = state.region.as_ref().expect("a block was placed in it");
        self.shared.record(
            Action::Alloc,
            region.base + block.offset.get(),
            block.requested,
            stream,
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
        let Some(region) = &mut state.region else { return };
        // What was freed last would be looked up now to be counted, and once more to be joined.
        region.index.join_waiting();
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
        let (block, _) = state.owned(key).ok()?;
        state.region.as_ref().map(|region| (region.address(block.offset), block))
    }

    /// Says whether a live block may be freed by its address or token, and not by a handle; refuses
    /// to change what is so already.
    pub(crate) fn set_leaked(
        self: &Arc<Self>,
        key: BlockKey,
        leaked: bool,
    ) -> Result<(), FreeError> {
        let mut state = self.enter();
        let (_, tag) = state.owned(key)?;
        if tag.is_leaked() == leaked {
            return Err(FreeError::Owned);
        }
        state.set_tag(key, tag.leaked(leaked));
        Ok(())
    }

    /// Lets go of the handle of a block that is to be known by its address alone from now on, which
    /// is returned: nothing moves the block any more.
    pub(crate) fn leak(self: &Arc<Self>, key: BlockKey) -> Result<VirtualAddress, FreeError> {
        let mut state = self.enter();
        let (block, tag) = state.owned(key)?;
        if tag.is_leaked() {
            return Err(FreeError::Owned);
        }
        state.set_tag(key, tag.leaked(true).fixed());
        let region = state.region.as_ref().expect("a region with a live block stays");
        Ok(region.address(block.offset))
    }

    /// Whether no handle owns a block.
    pub(crate) fn is_leaked(self: &Arc<Self>, key: BlockKey) -> bool {
        self.enter().owned(key).is_ok_and(|(_, tag)| tag.is_leaked())
    }

    /// Changes the note on a live block that is as `usable` says.
    fn note<T>(
        self: &Arc<Self>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        change: impl FnOnce(&mut Note, Tag) -> T,
    ) -> Result<T, FreeError> {
        let mut state = self.enter();
        let (_, tag) = state.owned(key)?;
        if !usable(tag) {
            return Err(FreeError::Stale);
        }
        let note = state.notes.entry(key).or_default();
        let answer = change(note, tag);
        let plain = *note == Note::default();
        if plain {
            state.notes.remove(&key);
        }
        state.set_tag(key, if plain { tag.without_note() } else { tag.noted() });
        Ok(answer)
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
            let own = note.own_stream.unwrap_or(tag.stream());
            if own != stream && !note.streams.contains(&stream) {
                note.streams.push(stream);
            }
        })
    }

    /// Takes room for a block that is to be moved here: as it is now, at the lowest place that holds
    /// it, below `limit` if there is one. It is nobody's until the block is moved into it.
    pub(crate) fn reserve_room(
        self: &Arc<Self>,
        block: &Block,
        alignment: Bytes,
        limit: Option<Bytes>,
    ) -> Option<Block> {
        let mut state = self.enter();
        let region = state.region.as_mut()?;
        let tag = Tag::from_bits(block.tag).without_note().coming(true);
        let room = region.index.allocate_aligned(
            crate::index::Fit::First,
            block.requested,
            alignment,
            tag.bits(),
        )?;
        let granules = region.granules.as_ref();
        let backed =
            granules.is_none_or(|granules| granules.missing(room.offset, room.size).is_empty());
        if !backed || limit.is_some_and(|limit| room.offset >= limit) {
            region.index.free(room.key).expect("it was taken just now");
            return None;
        }
        self.account_use(&mut state, &room);
        self.leave(state);
        Some(room)
    }

    /// Gives room back that no block was moved into.
    pub(crate) fn give_room_back(self: &Arc<Self>, room: BlockKey) {
        self.shared.tick();
        let mut state = self.enter();
        let region = state.region.as_ref().expect("a region with a live block stays");
        let block = region.index.get(room).expect("the room belongs to the plan");
        let (address, stream) =
            (region.base + block.offset.get(), Tag::from_bits(block.tag).stream());
        self.shared.record(Action::FreeRequested, address, block.requested, stream);
        self.give_back(&mut state, room);
        self.leave_idle(state);
    }

    /// The blocks that may be moved, with what their starts must be multiples of.
    pub(crate) fn movable(self: &Arc<Self>) -> Vec<(Block, Bytes)> {
        let state = self.enter();
        let parts = state.region.as_ref().map(|region| region.index.parts()).unwrap_or_default();
        let live = parts.into_iter().filter_map(|part| match part {
            Part::Live(block) => Some(block),
            Part::Free(_) => None,
        });
        live.filter_map(|block| Some((block, state.movable(block.key)?))).collect()
    }

    /// Moves a block into the room that was taken for it, and says whether it still could be. Its
    /// handle finds it in the new place from the moment on in which it is gone from the old one.
    pub(crate) fn relocate(
        self: &Arc<Self>,
        key: BlockKey,
        to: &Arc<Self>,
        room: BlockKey,
    ) -> bool {
        self.shared.tick();
        if self.number == to.number {
            let mut state = self.enter();
            let moved = self.hand_over(&mut state, key, to, room);
            let done = moved.map(|moved| Self::take_over(&mut state, room, moved)).is_some();
            self.leave_idle(state);
            return done;
        }
        let (low, high) = if self.number < to.number { (self, to) } else { (to, self) };
        let (mut low, mut high) = (low.enter(), high.enter());
        let (from_state, to_state) =
            if self.number < to.number { (&mut low, &mut high) } else { (&mut high, &mut low) };
        let moved = self.hand_over(from_state, key, to, room);
        let done = moved.map(|moved| Self::take_over(to_state, room, moved)).is_some();
        let above = low.counts.is_above() || high.counts.is_above();
        drop((low, high));
        if above {
            self.shared.settle(Places::ALL);
        }
        self.shared.after_free(true);
        done
    }

    /// Frees a block here that is moved to `room` in `to`, if it may be moved.
    fn hand_over(
        self: &Arc<Self>,
        state: &mut SlotState,
        key: BlockKey,
        to: &Arc<Self>,
        room: BlockKey,
    ) -> Option<(Tag, Option<Note>)> {
        state.movable(key)?;
        let (_, tag) = state.owned(key).ok()?;
        let forward = || self.shared.forward((self, key), (Arc::clone(to), room));
        if !self.mailbox().unless_arrived(key, forward) {
            return None;
        }
        let note = state.notes.remove(&key);
        state.set_tag(key, tag.without_note());
        self.let_go(state, key).expect("a movable block is live");
        Some((tag, note))
    }

    /// Makes the room of a plan the block that was moved into it.
    fn take_over(state: &mut SlotState, room: BlockKey, (tag, note): (Tag, Option<Note>)) {
        let region = state.region.as_ref().expect("a region with a live block stays");
        let block = region.index.get(room).expect("the room belongs to the plan");
        state.set_tag(room, tag);
        if let Some(note) = note {
            state.notes.insert(room, note);
        }
        Self::account_owner(state, &block);
    }

    pub(crate) fn address(self: &Arc<Self>, offset: Bytes) -> Option<VirtualAddress> {
        self.enter().region.as_ref().map(|region| region.address(offset))
    }

    /// The region in figures.
    pub(crate) fn report(self: &Arc<Self>) -> Option<RegionReport> {
        let mut state = self.enter();
        state.region.as_mut()?.index.join_quick();
        self.account_splits(&mut state);
        let region = state.region.as_ref()?;
        let size = region.reserved();
        Some(RegionReport {
            id: region.handle.id,
            size,
            free: size.saturating_sub(Bytes::new(state.counts.current(Quantity::ActiveBytes))),
            largest: region.largest(),
            blocks: region.index.live_blocks(),
        })
    }
}

/// What is left of a region when the last block and the allocator are gone is given back.
impl Drop for Slot {
    fn drop(&mut self) {
        let state = self.state.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(region) = state.region.take() {
            // None where the device itself let the last block go, in a call of this thread's.
            let _turn = self.shared.turn.take();
            self.shared.device.release(region.handle);
        }
    }
}

/// Marks committed granules that lie wholly in free ranges as not committed, from the highest down,
/// until there are `wanted` bytes of them, and returns them.
fn take_idle(region: &mut Region, wanted: Bytes) -> Vec<(Bytes, Bytes)> {
    region.index.join_quick();
    let Some(granules) = &mut region.granules else { return Vec::new() };
    let mut taken = Vec::new();
    let (mut left, mut limit) = (wanted, region.handle.size);
    while let Some(hole) = region.index.hole_below(limit, granules.size()) {
        for (offset, size) in granules.idle(hole).into_iter().rev() {
            let size = size.min(left);
            if size.is_zero() {
                return taken;
            }
            granules.mark(offset, size, false);
            taken.push((offset, size));
            left = left.saturating_sub(size);
        }
        limit = hole.offset;
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
