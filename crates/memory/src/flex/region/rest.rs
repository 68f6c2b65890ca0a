//! Blocks of a growable region that rest: they have addresses and no memory.

use std::collections::BTreeSet;

use super::{CommitPlan, Region, RegionState};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::flex::VirtualAddress;
use crate::flex::error::FreeError;
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey, Extent, Hole};
use crate::policy::TagId;

/// State of a block with respect to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The block has memory.
    #[default]
    Awake,
    /// The block has memory until its streams have passed; no launch may use it.
    Pausing,
    /// The block has no memory. Its call site is kept here, since histories show it as freed.
    Paused {
        /// Call site of the block's allocation; 0 if unknown.
        site: u32,
    },
}

impl RegionState {
    /// Returns the state of a live block with respect to rest.
    pub(super) fn rest_of(&self, key: BlockKey) -> Rest {
        if self.notes.is_empty() {
            return Rest::Awake;
        }
        self.notes.get(&key).map_or(Rest::Awake, |note| note.rest)
    }

    /// Returns whether a live block has no memory.
    pub(crate) fn is_paused(&self, key: BlockKey) -> bool {
        matches!(self.rest_of(key), Rest::Paused { .. })
    }

    /// Returns whether a live block is paused, or about to be.
    pub(crate) fn is_resting(&self, key: BlockKey) -> Result<bool, FreeError> {
        self.owned(key)?;
        Ok(self.rest_of(key) != Rest::Awake)
    }

    fn owned_blocks(&self) -> impl Iterator<Item = Block> {
        let parts = self.get().map(|region| region.index.extents()).unwrap_or_default();
        parts.into_iter().filter_map(|part| match part {
            Extent::Live(block) if Tag::from_bits(block.tag).is_owned() => Some(block),
            Extent::Live(_) | Extent::Free(_) => None,
        })
    }

    /// Returns the chosen blocks that have memory; the address of a block that is pinned is an error.
    pub(crate) fn pausable(
        &self,
        chosen: &dyn Fn(&Block) -> bool,
    ) -> Result<Vec<BlockKey>, VirtualAddress> {
        let mut keys = Vec::new();
        for block in self.owned_blocks().filter(|block| chosen(block)) {
            match self.notes.get(&block.key) {
                Some(note) if note.rest != Rest::Awake => {}
                Some(note) if note.pins > 0 => return Err(self.region().address(block.offset)),
                _ => keys.push(block.key),
            }
        }
        Ok(keys)
    }

    /// Returns the committed bytes of paused blocks, which share granules with other blocks.
    pub(super) fn resting_memory(&self) -> Bytes {
        let Some(granules) = self.get().and_then(|region| region.granules.as_ref()) else {
            return Bytes::ZERO;
        };
        let blocks = self.resting(&|_| true).into_iter().map(|key| self.block(key));
        let backed = blocks
            .flat_map(|block| granules.backed_in(Hole { offset: block.offset, size: block.size }));
        backed.map(|(_, size)| size).sum()
    }

    /// Returns the chosen blocks that are paused.
    pub(crate) fn resting(&self, chosen: &dyn Fn(&Block) -> bool) -> Vec<BlockKey> {
        if self.counts.paused == 0 {
            return Vec::new();
        }
        let blocks = self.owned_blocks().filter(|block| self.is_paused(block.key) && chosen(block));
        blocks.map(|block| block.key).collect()
    }

    /// Marks a block that is to be paused, and adds the streams that may access it to `streams`.
    pub(crate) fn begin_pause(&mut self, key: BlockKey, streams: &mut BTreeSet<u32>) {
        let marked = self.change_note(
            key,
            |_| true,
            |note, tag| {
                note.rest = Rest::Pausing;
                streams.insert(note.own_stream.unwrap_or(tag.stream()));
                streams.extend(&note.streams);
            },
        );
        marked.expect("a pausable block is live");
    }

    /// Returns a block that is to be paused, unless it was freed in the meantime.
    pub(crate) fn pausing(&self, key: BlockKey) -> Option<Block> {
        let (block, _) = self.owned(key).ok()?;
        (self.rest_of(key) == Rest::Pausing).then_some(block)
    }

    /// Turns a block that is to be paused into a paused one, which counts as nothing else. Its streams have passed.
    pub(crate) fn rest(&mut self, key: BlockKey, site: u32) -> Block {
        let note = self.notes.get_mut(&key).expect("a block that is to be paused has a note");
        note.rest = Rest::Paused { site };
        note.streams.clear();
        let block = self.block(key);
        self.uncount(&block);
        self.counts.paused += block.size.get();
        block
    }

    /// Marks the granules under paused blocks as decommitted, unless a block with memory shares them. Returns the
    /// granules, or `None` if the blocks and the region are gone.
    pub(crate) fn release_resting(
        &mut self,
        keys: &[BlockKey],
    ) -> Option<(RegionHandle, Vec<(Bytes, Bytes)>)> {
        self.region.as_mut()?.index.join_quick();
        if keys.is_empty() {
            self.count_memory();
            return Some((self.region().handle.duplicate(), Vec::new()));
        }
        let runs = self.extents().into_iter().filter_map(|part| match part {
            Extent::Free(run) => Some(run),
            Extent::Live(_) => None,
        });
        let runs: Vec<_> = runs.collect();
        let live = keys.iter().filter(|&&key| self.is_paused(key));
        let blocks: Vec<_> = live.map(|&key| self.block(key)).collect();
        let region = self.region.as_mut()?;
        let parts = region.release_under(&blocks, &runs);
        let handle = region.handle.duplicate();
        self.count_memory();
        Some((handle, parts))
    }

    /// Returns the blocks with memory and the ranges between them, in address order. Paused blocks and free ranges that
    /// touch are one range.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let parts = self.get().map(|region| region.index.extents()).unwrap_or_default();
        if self.counts.paused == 0 {
            return parts;
        }
        let mut merged: Vec<Extent> = Vec::new();
        for part in parts {
            let hole = match part {
                Extent::Live(block) if self.is_paused(block.key) => {
                    Hole { offset: block.offset, size: block.size }
                }
                Extent::Free(hole) => hole,
                Extent::Live(_) => {
                    merged.push(part);
                    continue;
                }
            };
            match merged.last_mut() {
                Some(Extent::Free(run)) => run.size += hole.size,
                _ => merged.push(Extent::Free(hole)),
            }
        }
        merged
    }

    /// Frees a block that is paused and not pinned; no stream may access it. Returns its size and its tag.
    pub(crate) fn free_paused(
        &mut self,
        key: BlockKey,
    ) -> Result<Option<(Bytes, TagId)>, FreeError> {
        let (block, _) = self.owned(key)?;
        let pinned = self.notes.get(&key).is_some_and(|note| note.pins > 0);
        if pinned || !self.is_paused(key) {
            return Ok(None);
        }
        let tag = self.tag(&block);
        self.notes.remove(&key);
        self.counts.paused -= block.size.get();
        let region = self.region_mut();
        region.strategy.free(&mut region.index, &block);
        self.count_memory();
        Ok(Some((block.size, tag)))
    }

    /// Plans the commit for paused blocks, as [`plan_commit`](Self::plan_commit) does for one block.
    pub(crate) fn plan_resume(&mut self, keys: &[BlockKey], recycle: bool) -> CommitPlan {
        let live: Vec<_> = keys.iter().filter_map(|&key| self.owned(key).ok()).collect();
        let region = self.region_mut();
        let granules = region.granules.as_mut().expect("only growable regions have paused blocks");
        let mut missing: Vec<(Bytes, Bytes)> = Vec::new();
        for (block, _) in live {
            for (offset, size) in granules.missing(block.offset, block.size) {
                // Two blocks may share a granule.
                granules.mark(offset, size, true);
                match missing.last_mut() {
                    Some((start, length)) if *start + *length == offset => *length += size,
                    _ => missing.push((offset, size)),
                }
            }
        }
        missing.iter().for_each(|&(offset, size)| granules.mark(offset, size, false));
        let wanted: Bytes = missing.iter().map(|&(_, size)| size).sum();
        let idle = if recycle { region.take_idle(wanted) } else { Vec::new() };
        let handle = region.handle.duplicate();
        self.count_memory();
        CommitPlan { handle, missing, idle }
    }

    /// Marks parts as committed.
    pub(crate) fn mark_committed(&mut self, parts: &[(Bytes, Bytes)]) {
        if let Some(granules) = &mut self.region_mut().granules {
            parts.iter().for_each(|&(offset, size)| granules.mark(offset, size, true));
        }
        self.count_memory();
    }

    /// Ends the rest of a block that has memory again. Returns the block and its call site, unless it was freed in the
    /// meantime.
    pub(crate) fn wake(&mut self, key: BlockKey) -> Option<(Block, u32)> {
        let (block, _) = self.owned(key).ok()?;
        let Rest::Paused { site } = self.rest_of(key) else { return None };
        self.change_note(key, |_| true, |note, _| note.rest = Rest::Awake).ok()?;
        self.counts.paused -= block.size.get();
        self.count_placed(&block);
        Some((block, site))
    }
}

impl Region {
    /// Marks the committed granules under `blocks` as decommitted that lie entirely in one of `runs`, and returns them.
    fn release_under(&mut self, blocks: &[Block], runs: &[Hole]) -> Vec<(Bytes, Bytes)> {
        let Some(granules) = &mut self.granules else { return Vec::new() };
        let mut released = Vec::new();
        for block in blocks {
            let run = runs.partition_point(|run| run.offset <= block.offset);
            let run = runs[run.checked_sub(1).expect("a paused block lies in a run")];
            for (offset, size) in granules.idle_under(block.offset, block.size, run) {
                granules.mark(offset, size, false);
                released.push((offset, size));
            }
        }
        released
    }
}
