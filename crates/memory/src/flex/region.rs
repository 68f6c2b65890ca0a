//! State of one region: its blocks, committed granules and counts. It has no lock, calls no device and keeps no
//! history; a [slot](super::slots) adds these.

#![expect(
    clippy::inline_always,
    reason = "a request and a free pass a dozen small functions, each with one caller on that path"
)]

mod growth;
mod resize;
mod rest;
mod room;
mod shelf;
mod still;

use std::collections::BTreeMap;

use super::VirtualAddress;
use super::config::{FlexConfig, Growth};
use super::error::{FreeError, RegionReport};
use super::granules::Granules;
use super::stream::Epoch;
use super::tag::{FAR_STREAM, Tag};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::index::{Block, BlockKey, Extent, FreeIndex};
use crate::policy::{BlockStrategy, PoolId, Request, TagId};
use crate::stats::{Counts, Pool, Quantity};
pub(crate) use growth::CommitPlan;
pub(crate) use resize::{Cut, Grown, Tail};
pub(crate) use rest::Rest;
pub(crate) use room::Moving;
use shelf::Shelf;

/// A region of the device with its blocks.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) handle: RegionHandle,
    pub(crate) index: FreeIndex,
    strategy: Box<dyn BlockStrategy>,
    /// Granules with memory; `None` for a region of fixed size, which is fully backed.
    granules: Option<Granules>,
    shelf: Shelf,
    /// Whether idle granules are used elsewhere in the region.
    recycles: bool,
    /// Streams for which memory was committed, in the order of their first requests.
    streams: Vec<u32>,
    /// Blocks for which memory is being committed, and the length of the part below that was their stream's already.
    own_parts: BTreeMap<BlockKey, Bytes>,
    /// Start in the flat address space of snapshots and the segment table.
    pub(crate) base: u64,
    pub(crate) pool: PoolId,
}

impl Region {
    pub(crate) fn new(
        handle: RegionHandle,
        (base, pool): (u64, PoolId),
        config: &FlexConfig,
        granule: Bytes,
        serial: u32,
    ) -> Self {
        let granules = (config.growth != Growth::Fixed).then(|| Granules::new(granule));
        let index = FreeIndex::with_serial(handle.size, config.alignment, serial);
        Self {
            handle,
            index,
            strategy: (config.block.make)(),
            granules,
            shelf: Shelf::default(),
            recycles: matches!(config.growth, Growth::Recycle(_)),
            streams: Vec::new(),
            own_parts: BTreeMap::new(),
            base,
            pool,
        }
    }

    pub(crate) fn reserved(&self) -> Bytes {
        self.granules.as_ref().map_or(self.handle.size, Granules::committed)
    }

    pub(crate) fn is_growable(&self) -> bool {
        self.granules.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.index.live_blocks() == 0
    }

    /// Returns the number of free bytes, with the ranges that only one stream may take.
    pub(crate) fn free_bytes(&self) -> Bytes {
        self.index.free_bytes() + self.shelf.bytes()
    }

    pub(crate) fn backed(&self) -> Vec<(Bytes, Bytes)> {
        match &self.granules {
            None => vec![(Bytes::ZERO, self.handle.size)],
            Some(granules) => granules.backed(),
        }
    }

    pub(crate) fn address(&self, offset: Bytes) -> VirtualAddress {
        VirtualAddress { region_id: self.handle.id, offset }
    }

    fn is_backed(&self, block: &Block) -> bool {
        self.granules.as_ref().is_none_or(|granules| granules.is_backed(block.offset, block.size))
    }

    fn largest(&self) -> Bytes {
        let Some(granules) = &self.granules else { return self.index.largest() };
        let parts = self.index.extents().into_iter().flat_map(|part| match part {
            Extent::Free(hole) => granules.backed_in(hole),
            Extent::Live(_) => Vec::new(),
        });
        parts.map(|(_, size)| size).max().unwrap_or(Bytes::ZERO)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedBlock {
    pub(crate) key: BlockKey,
    /// Whether the block already has memory; otherwise memory must be committed for it.
    pub(crate) backed: bool,
}

/// Additional state of the few blocks that need more than a tag.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Note {
    pins: usize,
    /// Whether the owner freed the block while it was pinned; the last pin completes the free.
    orphan: bool,
    /// Streams that use the block besides its own.
    streams: Vec<u32>,
    /// The block's own stream, if the tag has no room for it.
    own_stream: Option<u32>,
    /// The requested alignment, if it is above the granule.
    alignment: Option<Bytes>,
    /// Whether the block is paused.
    rest: Rest,
    tag: TagId,
}

impl Note {
    fn of(request: &Request, granule: Bytes) -> (Option<Self>, Tag) {
        let own_stream = (request.stream >= FAR_STREAM).then_some(request.stream);
        let alignment = (request.alignment > granule).then_some(request.alignment);
        let tag = Tag::new(request.kind, request.stream);
        if own_stream.is_none() && alignment.is_none() && request.tag == TagId::NONE {
            return (None, tag);
        }
        let note = Self { own_stream, alignment, tag: request.tag, ..Self::default() };
        (Some(note), tag.noted())
    }
}

/// State of the region in a slot, with the accumulated counts of all regions that were in the slot.
#[derive(Debug)]
pub(crate) struct RegionState {
    region: Option<Region>,
    pub(crate) counts: Counts,
    notes: BTreeMap<BlockKey, Note>,
    /// Whether the slot holds or ever held a region.
    pub(crate) used: bool,
    /// Serial number of the last block of earlier regions, so that no key is valid in two regions.
    serial: u32,
}

impl RegionState {
    pub(crate) fn vacant() -> Self {
        let (counts, notes) = (Counts::new(), BTreeMap::new());
        Self { region: None, counts, notes, used: false, serial: 0 }
    }

    pub(crate) fn get(&self) -> Option<&Region> {
        self.region.as_ref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut Region> {
        self.region.as_mut()
    }

    pub(crate) fn region(&self) -> &Region {
        self.region.as_ref().expect("a region with a live block stays")
    }

    fn region_mut(&mut self) -> &mut Region {
        self.region.as_mut().expect("a region with a live block stays")
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.region.as_ref().is_some_and(Region::is_idle)
    }

    /// Puts a new region into an empty slot.
    pub(crate) fn settle(
        &mut self,
        handle: RegionHandle,
        base: u64,
        pool: PoolId,
        config: &FlexConfig,
        granule: Bytes,
    ) -> &Region {
        self.used = true;
        self.counts.hold();
        let region = Region::new(handle, (base, pool), config, granule, self.serial);
        self.counts.add(Quantity::Segment, Pool::Large, 1);
        self.counts.add(Quantity::ReservedBytes, Pool::Large, region.reserved().get());
        self.region.insert(region)
    }

    pub(crate) fn take_idle_region(&mut self) -> Option<Region> {
        let region = self.region.take_if(|region| region.is_idle())?;
        self.serial = region.index.serial();
        self.counts.take(Quantity::Segment, Pool::Large, 1);
        self.counts.take(Quantity::ReservedBytes, Pool::Large, region.reserved().get());
        Some(region)
    }

    pub(crate) fn take_region(&mut self) -> Option<Region> {
        self.region.take()
    }

    /// Places a request; changes nothing if there is no room. Ranges of the request's own stream come first, since no
    /// other stream can take them. A run of several ranges is used only to save memory or when nothing else fits.
    #[inline(always)]
    pub(crate) fn place(&mut self, request: &Request) -> Option<PlacedBlock> {
        if let Some(block) = self.place_shelved(request) {
            return Some(PlacedBlock { key: block.key, backed: true });
        }
        match self.place_free(request) {
            Some(placed) if placed.backed => Some(placed),
            placed => self.place_otherwise(request, placed),
        }
    }

    /// Places a request in a run of several ranges, or where memory has to be committed. `placed` is its place among the
    /// free ranges, without memory.
    #[cold]
    fn place_otherwise(
        &mut self,
        request: &Request,
        placed: Option<PlacedBlock>,
    ) -> Option<PlacedBlock> {
        if let Some(run) = self.place_run(request) {
            self.remove_placed(placed);
            return Some(PlacedBlock { key: run.key, backed: true });
        }
        if !self.grows_apart(request.stream) {
            return placed;
        }
        self.remove_placed(placed);
        let apart = self.place_apart(request).map(|key| PlacedBlock { key, backed: false });
        apart.or_else(|| self.place_free(request))
    }

    /// Places a request in the ranges that are free for all streams.
    #[inline(always)]
    fn place_free(&mut self, request: &Request) -> Option<PlacedBlock> {
        let region = self.region.as_mut()?;
        let (note, tag) = Note::of(request, region.index.granule());
        let block = region.strategy.place(&mut region.index, request, tag.bits())?;
        let backed = region.is_backed(&block);
        if let Some(note) = note {
            self.notes.insert(block.key, note);
        }
        if backed {
            self.count_placed(&block);
        } else {
            self.set_tag(block.key, tag.coming(true));
        }
        Some(PlacedBlock { key: block.key, backed })
    }

    /// Counts a placed block and keeps its note.
    fn enter_placed(&mut self, block: &Block, note: Option<Note>) {
        if let Some(note) = note {
            self.notes.insert(block.key, note);
        }
        self.count_placed(block);
    }

    /// Removes a placed block that has no memory, since there is a better place.
    fn remove_placed(&mut self, placed: Option<PlacedBlock>) {
        let Some(PlacedBlock { key, .. }) = placed else { return };
        let block = self.block(key);
        let region = self.region_mut();
        region.strategy.free(&mut region.index, &block);
        self.notes.remove(&key);
    }

    /// Returns a live block that has an owner, and its tag.
    #[inline(always)]
    pub(crate) fn owned(&self, key: BlockKey) -> Result<(Block, Tag), FreeError> {
        let region = self.region.as_ref().ok_or(FreeError::Stale)?;
        let block = region.index.get(key).ok_or(FreeError::Stale)?;
        let tag = Tag::from_bits(block.tag);
        if tag.is_owned() { Ok((block, tag)) } else { Err(FreeError::Stale) }
    }

    /// Returns the key of the leaked block at an address and makes the block owned, so that it can be freed.
    pub(crate) fn reclaim_at(&mut self, address: VirtualAddress) -> Result<BlockKey, FreeError> {
        let region = self.region.as_mut().filter(|region| region.handle.id == address.region_id);
        let region = region.ok_or(FreeError::UnknownRegion { address })?;
        let block = region.index.block_at(address.offset);
        let owned = |block: &Block| Tag::from_bits(block.tag).is_owned();
        let block = block.filter(owned).ok_or(FreeError::NotLive { address })?;
        self.set_leaked(block.key, false)?;
        Ok(block.key)
    }

    /// Frees a block on behalf of its owner, and returns it with its stream. The range stays in use until
    /// [`give_back`](Self::give_back). A pinned block stays live until its last pin is gone; `None` is returned for it.
    #[inline(always)]
    pub(crate) fn let_go(&mut self, key: BlockKey) -> Result<Option<(Block, u32)>, FreeError> {
        let (block, tag) = self.owned(key)?;
        if let Some(note) = tag.is_noted().then(|| self.notes.get_mut(&key)).flatten()
            && note.pins > 0
        {
            note.orphan = true;
            return Ok(None);
        }
        let stream = self.stream(key, tag);
        let pool = Pool::of(block.size);
        self.counts.take(Quantity::Allocation, pool, 1);
        self.counts.take(Quantity::AllocatedBytes, pool, block.size.get());
        Ok(Some((block, stream)))
    }

    /// Removes the note of a freed block, and returns the streams that use the block besides its own.
    #[inline(always)]
    pub(crate) fn take_streams(&mut self, key: BlockKey) -> Vec<u32> {
        if self.notes.is_empty() {
            return Vec::new();
        }
        self.notes.remove(&key).map(|note| note.streams).unwrap_or_default()
    }

    pub(crate) fn set_pending(&mut self, key: BlockKey) {
        let tag = Tag::from_bits(self.block(key).tag);
        self.set_tag(key, tag.without_note().pending());
    }

    /// Returns a block in use, or room that compaction has reserved for one.
    pub(crate) fn block(&self, key: BlockKey) -> Block {
        self.region().index.get(key).expect("a block in use has its key")
    }

    /// Returns the range of a freed block to the region.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, block: &Block) {
        let region = self.region_mut();
        region.strategy.free(&mut region.index, block);
        self.count_unused(block);
    }

    /// Returns the range of a freed block to its stream, which may still access it.
    #[inline]
    pub(crate) fn shelve(&mut self, block: &Block, stream: u32, epoch: Epoch) {
        self.region_mut().shelve(block, stream, epoch);
        self.count_unused(block);
    }

    #[inline(always)]
    fn count_unused(&mut self, block: &Block) {
        let pool = Pool::of(block.size);
        self.counts.take(Quantity::Active, pool, 1);
        self.counts.take(Quantity::ActiveBytes, pool, block.size.get());
        self.counts.take(Quantity::RequestedBytes, pool, block.requested.get());
        self.count_splits();
    }

    /// Sets whether a live block is freed by its address or token instead of by a handle. Refused if the block is
    /// already in that state.
    pub(crate) fn set_leaked(&mut self, key: BlockKey, leaked: bool) -> Result<(), FreeError> {
        let (_, tag) = self.owned(key)?;
        if tag.is_leaked() == leaked {
            return Err(FreeError::Owned);
        }
        self.set_tag(key, tag.leaked(leaked));
        Ok(())
    }

    /// Detaches a block from its handle and returns the block's address. The block does not move any more.
    pub(crate) fn leak(&mut self, key: BlockKey) -> Result<VirtualAddress, FreeError> {
        let (block, tag) = self.owned(key)?;
        if tag.is_leaked() {
            return Err(FreeError::Owned);
        }
        self.set_tag(key, tag.leaked(true).fixed());
        Ok(self.region().address(block.offset))
    }

    /// Adds a pin, and returns whether the block rests.
    pub(crate) fn pin(
        &mut self,
        key: BlockKey,
        usable: fn(Tag) -> bool,
    ) -> Result<bool, FreeError> {
        self.change_note(key, usable, |note, _| {
            note.pins += 1;
            note.rest != Rest::Awake
        })
    }

    /// Removes a pin, and returns whether it was the last pin of a block that its owner has freed.
    pub(crate) fn unpin(&mut self, key: BlockKey) -> bool {
        let unpinned = self.change_note(
            key,
            |_| true,
            |note, _| {
                note.pins -= 1;
                note.pins == 0 && note.orphan
            },
        );
        unpinned.expect("a pinned block is live")
    }

    pub(crate) fn record_stream(
        &mut self,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        stream: u32,
    ) -> Result<(), FreeError> {
        self.change_note(key, usable, |note, tag| {
            let own = note.own_stream.unwrap_or(tag.stream());
            if own != stream && !note.streams.contains(&stream) {
                note.streams.push(stream);
            }
        })
    }

    /// Changes the note of a live block; refused if the tag is not `usable`.
    fn change_note<T>(
        &mut self,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        change: impl FnOnce(&mut Note, Tag) -> T,
    ) -> Result<T, FreeError> {
        let (_, tag) = self.owned(key)?;
        if !usable(tag) {
            return Err(FreeError::Stale);
        }
        let note = self.notes.entry(key).or_default();
        let answer = change(note, tag);
        let plain = *note == Note::default();
        if plain {
            self.notes.remove(&key);
        }
        self.set_tag(key, if plain { tag.without_note() } else { tag.noted() });
        Ok(answer)
    }

    /// Returns the length of the ranges that only one stream may take.
    pub(crate) fn waiting_bytes(&self) -> Bytes {
        self.region.as_ref().map_or(Bytes::ZERO, |region| region.shelf.bytes())
    }

    pub(crate) fn report(&mut self) -> Option<RegionReport> {
        self.region.as_mut()?.index.join_quick();
        self.count_splits();
        let active = Bytes::new(self.counts.current(Quantity::ActiveBytes));
        let region = self.region.as_ref()?;
        let size = region.reserved();
        Some(RegionReport {
            id: region.handle.id,
            size,
            free: size.saturating_sub(active + region.shelf.bytes() + self.resting_memory()),
            largest: region.largest(),
            blocks: region.index.live_blocks() - region.shelf.len(),
            pool: region.pool,
        })
    }

    pub(crate) fn stream(&self, key: BlockKey, tag: Tag) -> u32 {
        let note = tag.is_noted().then(|| self.notes.get(&key)).flatten();
        note.and_then(|note| note.own_stream).unwrap_or(tag.stream())
    }

    /// Returns the tag that a block with a note counts for.
    #[inline]
    pub(crate) fn tag(&self, block: &Block) -> TagId {
        if !Tag::from_bits(block.tag).is_noted() {
            return TagId::NONE;
        }
        self.notes.get(&block.key).map_or(TagId::NONE, |note| note.tag)
    }

    /// Returns the pool and the tag of a live block.
    pub(crate) fn labels(&self, key: BlockKey) -> Result<(PoolId, TagId), FreeError> {
        let (block, _) = self.owned(key)?;
        Ok((self.region().pool, self.tag(&block)))
    }

    fn set_tag(&mut self, key: BlockKey, tag: Tag) {
        self.region_mut().index.set_tag(key, tag.bits()).expect("the block is live");
    }

    #[inline(always)]
    fn count_placed(&mut self, block: &Block) {
        self.count_owner(block);
        self.count_use(block);
    }

    #[inline(always)]
    fn count_owner(&mut self, block: &Block) {
        let pool = Pool::of(block.size);
        self.counts.add(Quantity::Allocation, pool, 1);
        self.counts.add(Quantity::AllocatedBytes, pool, block.size.get());
    }

    /// Counts a placed block, with or without an owner.
    #[inline(always)]
    fn count_use(&mut self, block: &Block) {
        self.add_use(block);
        self.count_splits();
    }

    fn add_use(&mut self, block: &Block) {
        let pool = Pool::of(block.size);
        self.counts.add(Quantity::Active, pool, 1);
        self.counts.add(Quantity::ActiveBytes, pool, block.size.get());
        self.counts.add(Quantity::RequestedBytes, pool, block.requested.get());
    }

    fn count_memory(&mut self) {
        let reserved = self.region.as_ref().map_or(0, |region| region.reserved().get());
        self.counts.set(Quantity::ReservedBytes, reserved);
        self.count_splits();
    }

    #[inline(always)]
    fn count_splits(&mut self) {
        let Some(region) = &mut self.region else { return };
        // Otherwise, the last freed block would be looked up twice: now to be counted, and later to be merged.
        region.index.join_waiting();
        let (mut count, mut bytes) = (0, 0);
        if !region.is_idle() {
            count = (region.index.holes() + region.shelf.len()) as u64;
            let active = self.counts.current(Quantity::ActiveBytes);
            bytes = region.reserved().get().saturating_sub(active);
        }
        self.counts.set(Quantity::InactiveSplit, count);
        self.counts.set(Quantity::InactiveSplitBytes, bytes);
    }
}
