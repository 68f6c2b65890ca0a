//! Memory of a growable region, which is committed and decommitted in granules.

use super::{Note, Region, RegionState};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::flex::stream::Freed;
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey, Extent};
use crate::policy::Request;

/// The device calls that provide the memory of a block. Parts are offsets and sizes.
#[derive(Debug)]
pub(crate) struct CommitPlan {
    pub(crate) handle: RegionHandle,
    pub(crate) missing: Vec<(Bytes, Bytes)>,
    /// Parts to decommit first; they already count as decommitted.
    pub(crate) idle: Vec<(Bytes, Bytes)>,
}

impl RegionState {
    /// Places a request where the region already has memory, whatever the strategy prefers. Takes O(n) time in the
    /// number of blocks of a growable region.
    pub(crate) fn place_backed(&mut self, request: &Request) -> Option<Block> {
        if let Some(block) = self.place_shelved(request).or_else(|| self.place_run(request)) {
            return Some(block);
        }
        let region = self.region.as_mut()?;
        region.index.join_quick();
        if region.granules.is_none() {
            let placed = self.place(request)?;
            return Some(self.block(placed.key));
        }
        let offset = region.backed_place(request)?;
        let (note, tag) = Note::of(request, region.index.granule());
        let block = region.index.allocate_at(offset, request.size, tag.bits())?;
        self.enter_placed(&block, note);
        Some(block)
    }

    /// Plans the commit for a block. With `recycle`, idle granules elsewhere are decommitted for it. They count as
    /// decommitted at once, so that no other request relies on them.
    pub(crate) fn plan_commit(&mut self, key: BlockKey, recycle: bool) -> CommitPlan {
        let block = self.block(key);
        let region = self.region_mut();
        let granules = region.granules.as_ref().expect("only growable regions commit");
        let missing = granules.missing(block.offset, block.size);
        let wanted: Bytes = missing.iter().map(|&(_, size)| size).sum();
        let idle = if recycle { region.take_idle(wanted) } else { Vec::new() };
        let handle = region.handle.duplicate();
        self.count_memory();
        CommitPlan { handle, missing, idle }
    }

    /// Completes a block after `committed` was committed. If memory is still missing, the block is removed and `None`
    /// returned; `free` returns when its range is free.
    pub(crate) fn finish_commit(
        &mut self,
        key: BlockKey,
        committed: &[(Bytes, Bytes)],
        free: impl FnOnce(u32) -> Freed,
    ) -> Option<Block> {
        let block = self.block(key);
        let region = self.region_mut();
        let granules = region.granules.as_mut().expect("only growable regions commit");
        committed.iter().for_each(|&(offset, size)| granules.mark(offset, size, true));
        if region.is_backed(&block) {
            region.own_parts.remove(&key);
            self.set_tag(key, Tag::from_bits(block.tag).coming(false));
            self.count_memory();
            self.count_placed(&block);
            return Some(block);
        }
        let stream = self.stream(key, Tag::from_bits(block.tag));
        self.region_mut().free_placed(&block, &free(stream), stream);
        self.notes.remove(&key);
        self.count_memory();
        None
    }

    pub(crate) fn shrink(&mut self) -> Option<(RegionHandle, Vec<(Bytes, Bytes)>)> {
        let region = self.region.as_mut().filter(|region| region.is_growable())?;
        let mut idle = region.take_idle(Bytes::MAX);
        let (handle, resting) = self.release_resting(&self.resting(&|_| true))?;
        idle.extend(resting);
        Some((handle, idle))
    }
}

impl Region {
    fn backed_place(&self, request: &Request) -> Option<Bytes> {
        let granules = self.granules.as_ref()?;
        let size = request.size.align_up(self.index.granule())?;
        let fits = |(start, length): (Bytes, Bytes)| {
            let at = start.align_up(request.alignment.max(self.index.granule()))?;
            (at.checked_add(size)? <= start + length).then_some(at)
        };
        self.index.extents().into_iter().find_map(|part| match part {
            Extent::Free(hole) => granules.backed_in(hole).into_iter().find_map(fits),
            Extent::Live(_) => None,
        })
    }

    /// Marks committed granules that lie entirely in free ranges as decommitted, from the highest down, until they add
    /// up to `wanted` bytes. Returns these granules.
    pub(super) fn take_idle(&mut self, wanted: Bytes) -> Vec<(Bytes, Bytes)> {
        self.index.join_quick();
        let Some(granules) = &mut self.granules else { return Vec::new() };
        let mut taken = Vec::new();
        let (mut left, mut limit) = (wanted, self.handle.size);
        while let Some(hole) = self.index.hole_below(limit, granules.size()) {
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
}
