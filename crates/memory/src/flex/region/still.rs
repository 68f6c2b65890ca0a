//! Stills of a region's blocks, and blocks restored from them.

use super::{Note, RegionState};
use crate::Bytes;
use crate::flex::still::{StillBlock, StillState};
use crate::flex::tag::Tag;
use crate::index::{Block, Extent};
use crate::policy::Request;

impl RegionState {
    /// Returns all blocks in address order.
    pub(crate) fn still_blocks(&self) -> Vec<StillBlock> {
        let parts = self.get().map(|region| region.index.extents()).unwrap_or_default();
        let blocks = parts.into_iter().filter_map(|part| match part {
            Extent::Live(block) => Some(self.still_block(&block)),
            Extent::Free(_) => None,
        });
        blocks.collect()
    }

    fn still_block(&self, block: &Block) -> StillBlock {
        let tag = Tag::from_bits(block.tag);
        let note = tag.is_noted().then(|| self.notes.get(&block.key)).flatten();
        let request = Request {
            alignment: note.and_then(|note| note.alignment).unwrap_or(Bytes::new(1)),
            kind: tag.kind(),
            stream: self.stream(block.key, tag),
            pool: self.region().pool,
            ..Request::new(block.requested)
        };
        let state = match () {
            () if tag.is_owned() && self.is_paused(block.key) => StillState::Paused,
            () if self.movable(block.key).is_some() => StillState::Movable,
            () if tag.is_owned() || tag.is_coming() => StillState::Fixed,
            () => StillState::Pending,
        };
        StillBlock { offset: block.offset, request, serial: block.key.serial(), state }
    }

    /// Places blocks in an empty region. Returns the parts that must be committed: `committed`, and memory that blocks
    /// lack. Returns `None` if a block has no place.
    pub(crate) fn restore<'a>(
        &mut self,
        committed: &[(Bytes, Bytes)],
        blocks: impl Iterator<Item = &'a StillBlock>,
    ) -> Option<Vec<(Bytes, Bytes)>> {
        let mut parts = Vec::new();
        if let Some(granules) = &mut self.region_mut().granules {
            parts.extend_from_slice(committed);
            committed.iter().for_each(|&(offset, size)| granules.mark(offset, size, true));
        }
        for StillBlock { offset, request, state, .. } in blocks {
            let index = &mut self.region_mut().index;
            let (note, tag) = Note::of(request, index.granule());
            let tag = tag.leaked(true);
            let tag = if *state == StillState::Movable { tag } else { tag.fixed() };
            let block = index.allocate_at(*offset, request.size, tag.bits())?;
            if let Some(note) = note {
                self.notes.insert(block.key, note);
            }
            if *state == StillState::Paused {
                continue;
            }
            if let Some(granules) = &mut self.region_mut().granules {
                let missing = granules.missing(block.offset, block.size);
                missing.iter().for_each(|&(offset, size)| granules.mark(offset, size, true));
                parts.extend(missing);
            }
            self.count_placed(&block);
        }
        self.count_memory();
        Some(parts)
    }
}
