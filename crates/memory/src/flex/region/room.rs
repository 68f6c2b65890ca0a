//! Room that compaction reserves for blocks, and the blocks that move into it.

use super::{Note, RegionState, Rest};
use crate::Bytes;
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey, Extent, Fit};
use crate::policy::TagId;

/// State of a block that moves with it.
#[derive(Debug)]
pub(crate) struct Moving {
    tag: Tag,
    note: Option<Note>,
}

impl Moving {
    pub(crate) fn tag_id(&self) -> TagId {
        self.note.as_ref().map_or(TagId::NONE, |note| note.tag)
    }
}

impl RegionState {
    /// Reserves room for a block that is to move here, at the lowest place that fits, below `limit` if given. The room
    /// has no owner until the block has moved into it.
    pub(crate) fn reserve_room(
        &mut self,
        block: &Block,
        alignment: Bytes,
        limit: Option<Bytes>,
    ) -> Option<Block> {
        let region = self.region.as_mut()?;
        region.index.join_quick();
        let tag = Tag::from_bits(block.tag).without_note().coming(true);
        let (size, tag) = (block.requested, tag.bits());
        let room = region.index.allocate_aligned(Fit::First, size, alignment, tag)?;
        if !region.is_backed(&room) || limit.is_some_and(|limit| room.offset >= limit) {
            region.index.free(room.key).expect("it was taken just now");
            return None;
        }
        self.count_use(&room);
        Some(room)
    }

    /// Returns the serial number of the latest block.
    pub(crate) fn serial(&self) -> u32 {
        self.get().map_or(self.serial, |region| region.index.serial())
    }

    pub(crate) fn movable_blocks(&self) -> Vec<(Block, Bytes)> {
        let parts = self.get().map(|region| region.index.extents()).unwrap_or_default();
        let live = parts.into_iter().filter_map(|part| match part {
            Extent::Live(block) => Some(block),
            Extent::Free(_) => None,
        });
        live.filter_map(|block| Some((block, self.movable(block.key)?))).collect()
    }

    /// Returns the alignment of a block if it may be moved.
    pub(crate) fn movable(&self, key: BlockKey) -> Option<Bytes> {
        let (_, tag) = self.owned(key).ok()?;
        if tag.is_fixed() {
            return None;
        }
        let note = tag.is_noted().then(|| self.notes.get(&key)).flatten();
        let awake = |note: &Note| note.rest == Rest::Awake;
        let free = note.is_none_or(|note| note.pins == 0 && note.streams.is_empty() && awake(note));
        let alignment = note.and_then(|note| note.alignment).unwrap_or(Bytes::new(1));
        free.then_some(alignment)
    }

    /// Frees a block that moves elsewhere, and returns it with its stream and the state that moves.
    pub(crate) fn move_out(&mut self, key: BlockKey) -> (Block, u32, Moving) {
        let (_, tag) = self.owned(key).expect("a movable block is live");
        let stream = self.stream(key, tag);
        let note = self.notes.remove(&key);
        self.set_tag(key, tag.without_note());
        let freed = self.let_go(key).expect("a movable block is live");
        let (block, _) = freed.expect("a movable block is not pinned");
        (block, stream, Moving { tag, note })
    }

    pub(crate) fn move_in(&mut self, room: BlockKey, Moving { tag, note }: Moving) {
        let block = self.block(room);
        self.set_tag(room, tag);
        if let Some(note) = note {
            self.notes.insert(room, note);
        }
        self.count_owner(&block);
    }
}
