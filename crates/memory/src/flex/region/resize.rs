//! Blocks that grow into the range behind them, and blocks that give up their end.

use super::{RegionState, Rest};
use crate::Bytes;
use crate::flex::error::FreeError;
use crate::flex::resize::error::ResizeError;
use crate::flex::stream::{Epoch, Freed};
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey};
use crate::stats::{Pool, Quantity};

/// A range that was taken behind a block for its growth. It has no owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(crate) key: BlockKey,
    /// Stream of the block.
    pub(crate) stream: u32,
    /// Whether the range already has memory.
    pub(crate) backed: bool,
}

/// A block that was cut down.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) now: Block,
    /// Range that the block has given up, and the streams that use it besides the block's own.
    pub(crate) rest: Option<(Block, Vec<u32>)>,
}

/// Outcome of a growth for which a range was taken.
#[derive(Debug)]
pub(crate) enum Grown {
    /// The block has its new size.
    Done(Block),
    /// The block was moved, freed or resized in the meantime; the range is free again.
    Changed,
    /// The range lacks memory, and is free again.
    NoMemory,
}

impl RegionState {
    /// Returns a live block whose tag is `usable`, and its stream.
    pub(crate) fn usable(
        &self,
        key: BlockKey,
        usable: fn(Tag) -> bool,
    ) -> Result<(Block, u32), FreeError> {
        let (block, tag) = self.owned(key)?;
        if usable(tag) { Ok((block, self.stream(key, tag))) } else { Err(FreeError::Stale) }
    }

    /// Takes the range by which a block is too short for `size` bytes, if the block's stream may take all of it.
    pub(crate) fn take_tail(&mut self, block: &Block, size: Bytes) -> Result<Tail, ResizeError> {
        let stream = self.stream(block.key, Tag::from_bits(block.tag));
        let region = self.region_mut();
        region.index.join_quick();
        let at = block.offset + block.size;
        let needed = size - block.size;
        let length = needed.align_up(region.index.granule()).unwrap_or(Bytes::MAX);
        let available = region.reach(stream, at, length);
        if available < length {
            let obstacle = region.obstacle(at + available);
            return Err(ResizeError::NoRoom { needed, available, obstacle });
        }
        let tail = region.take_behind(stream, at, length);
        let backed = region.is_backed(&tail);
        Ok(Tail { key: tail.key, stream, backed })
    }

    /// Adds a range that was taken for the growth of `block`, after `committed` was committed. If that is impossible or
    /// not wanted (`None`), the range is freed; `free` returns when.
    pub(crate) fn finish_growth(
        &mut self,
        block: &Block,
        tail: &Tail,
        committed: Option<&[(Bytes, Bytes)]>,
        size: Bytes,
        free: impl FnOnce() -> Freed,
    ) -> Grown {
        self.mark_committed(committed.unwrap_or_default());
        let range = self.block(tail.key);
        let now = self.owned(block.key).ok().filter(|(now, _)| now.size == block.size);
        let now = now.filter(|_| self.rest_of(block.key) == Rest::Awake);
        let region = self.region_mut();
        let grown = match now {
            None => Grown::Changed,
            Some(_) if committed.is_none() || !region.is_backed(&range) => Grown::NoMemory,
            Some(_) => {
                region.own_parts.remove(&tail.key);
                region.index.fuse(block.key, tail.key);
                Grown::Done(region.index.set_requested(block.key, size))
            }
        };
        if let Grown::Done(now) = &grown {
            self.uncount(block);
            self.count_owner(now);
            self.add_use(now);
        } else {
            region.free_placed(&range, &free(), tail.stream);
        }
        self.count_memory();
        grown
    }

    /// Cuts a block down to `size` bytes. A pinned block gives up nothing.
    pub(crate) fn cut(&mut self, block: &Block, size: Bytes) -> Result<Cut, ResizeError> {
        let (pinned, others) = match self.notes.get(&block.key) {
            Some(note) => (note.pins > 0, note.streams.clone()),
            None => (false, Vec::new()),
        };
        let address = self.region().address(block.offset);
        let region = self.region_mut();
        let low = size.align_up(region.index.granule()).unwrap_or(block.size);
        if low == block.size {
            let now = region.index.set_requested(block.key, size);
            return Ok(Cut { now, rest: None });
        }
        if pinned {
            return Err(ResizeError::Pinned { address });
        }
        let rest = region.index.split(block.key, low);
        // Its requested bytes are the block's, so that the sum does not rise.
        let rest = region.index.set_requested(rest.key, block.requested - low);
        let tag = Tag::from_bits(block.tag).without_note().leaked(false);
        self.set_tag(rest.key, tag);
        let now = self.region_mut().index.set_requested(block.key, size);
        let rest = Block { tag: tag.bits(), ..rest };
        Ok(Cut { now, rest: Some((rest, others)) })
    }

    /// Counts a block that was cut down to `now`; `rest` is the range that it has given up, if other streams use it.
    pub(crate) fn count_cut(&mut self, before: &Block, now: &Block, rest: Option<&Block>) {
        self.uncount(before);
        if let Some(rest) = rest {
            self.count_owner(rest);
            self.uncount_owner(rest);
            self.add_use(rest);
        }
        self.count_owner(now);
        self.add_use(now);
        self.count_memory();
    }

    /// Frees the range that a block has given up: for all streams, or for its own stream in the given period.
    pub(crate) fn free_rest(&mut self, rest: &Block, own: Option<(u32, Epoch)>) {
        let region = self.region_mut();
        match own {
            Some((stream, epoch)) => region.shelve(rest, stream, epoch),
            None => region.strategy.free(&mut region.index, rest),
        }
        self.count_memory();
    }

    pub(super) fn uncount(&mut self, block: &Block) {
        self.uncount_owner(block);
        let pool = Pool::of(block.size);
        self.counts.take(Quantity::Active, pool, 1);
        self.counts.take(Quantity::ActiveBytes, pool, block.size.get());
        self.counts.take(Quantity::RequestedBytes, pool, block.requested.get());
    }

    fn uncount_owner(&mut self, block: &Block) {
        let pool = Pool::of(block.size);
        self.counts.take(Quantity::Allocation, pool, 1);
        self.counts.take(Quantity::AllocatedBytes, pool, block.size.get());
    }
}
