//! Blocks of the KV cache, with reuse of equal prefixes.
//!
//! Every block is an allocation of the free-space index of `cubeyard_memory`. A block has users while requests hold
//! it. Blocks without users wait in a queue, the one freed first at its head; blocks that were never used come before
//! all of them. A new block is taken from the head. Until then a full block keeps its content, and a request whose
//! prompt begins with the same contents takes it instead of computing it again.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_memory::index::{Fit, FreeIndex};

use crate::error::ServeError;

/// Index of a block in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId(u32);

/// Identity of the content of a full block, which includes all tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Content of a prompt, which several requests may share: its identity, and the index of the block.
    Shared(u64, u64),
    /// Content that only one request has: the request, and the index of the block.
    Own(usize, u64),
}

/// A block that was used at least once.
#[derive(Clone, Copy, Debug)]
struct BlockState {
    content: Option<Content>,
    users: u32,
    /// Place in the queue, if the block has no users.
    turn: u64,
}

/// Pool of equally large blocks.
#[derive(Debug)]
pub struct BlockPool {
    index: FreeIndex,
    block_bytes: Bytes,
    count: u32,
    blocks: Vec<BlockState>,
    /// Blocks without users that were used before, by the time of their release.
    queue: BTreeMap<u64, BlockId>,
    /// Blocks by content. Several blocks have the same content if requests computed it at the same time.
    cached: BTreeMap<Content, Vec<BlockId>>,
    turns: u64,
}

impl BlockPool {
    /// Creates a pool of `count` blocks of `block_bytes` each.
    pub fn new(count: u64, block_bytes: Bytes) -> Result<Self, ServeError> {
        let expected = || format!("a number of blocks from 1 to {}", u32::MAX);
        let few = u32::try_from(count).ok().filter(|count| *count > 0);
        let few = few.ok_or_else(|| ServeError::value("kv-blocks", count, expected()))?;
        let capacity = count.checked_mul(block_bytes.get()).filter(|bytes| *bytes > 0);
        let capacity = capacity.ok_or_else(|| {
            ServeError::value("block bytes", block_bytes.get(), "a positive number below 2^32")
        })?;
        Ok(Self {
            index: FreeIndex::new(Bytes::new(capacity), granule(block_bytes)),
            block_bytes,
            count: few,
            blocks: Vec::new(),
            queue: BTreeMap::new(),
            cached: BTreeMap::new(),
            turns: 0,
        })
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> u64 {
        u64::from(self.count)
    }

    /// Returns the number of blocks without users.
    pub fn free(&self) -> u64 {
        self.count() - self.blocks.len() as u64 + self.queue.len() as u64
    }

    /// Returns the number of blocks that requests hold.
    pub fn used(&self) -> u64 {
        self.count() - self.free()
    }

    /// Returns the bytes that the allocator has handed out, for all blocks that were ever used.
    pub fn allocated(&self) -> Bytes {
        Bytes::new(self.index.capacity().get() - self.index.free_bytes().get())
    }

    /// Returns the cached blocks of a prompt, from its beginning up to the first content that is not cached.
    pub fn find(&self, contents: impl Iterator<Item = Content>) -> Vec<BlockId> {
        contents.map_while(|content| Some(*self.cached.get(&content)?.first()?)).collect()
    }

    /// Returns how many of some blocks have no users.
    pub fn idle(&self, blocks: &[BlockId]) -> u64 {
        blocks.iter().filter(|block| self.state(**block).users == 0).count() as u64
    }

    /// Adds a user to blocks that were found.
    pub fn share(&mut self, blocks: &[BlockId]) {
        for &block in blocks {
            let state = self.state_mut(block);
            state.users += 1;
            let (users, turn) = (state.users, state.turn);
            if users == 1 {
                self.queue.remove(&turn);
            }
        }
    }

    /// Takes a block from the head of the queue, which loses its content; `None` if all blocks have users.
    pub fn take(&mut self) -> Option<BlockId> {
        if self.blocks.len() < self.count as usize {
            // The capacity is a multiple of the blocks' size, and no block is returned, so the allocation fits.
            self.index.allocate(Fit::First, self.block_bytes, 0)?;
            let id = BlockId(u32::try_from(self.blocks.len()).ok()?);
            self.blocks.push(BlockState { content: None, users: 1, turn: 0 });
            return Some(id);
        }
        let (_, id) = self.queue.pop_first()?;
        self.forget(id);
        self.state_mut(id).users = 1;
        Some(id)
    }

    /// Gives a block a content, which later requests find.
    pub fn keep(&mut self, block: BlockId, content: Content) {
        if self.state(block).content.is_none() {
            self.state_mut(block).content = Some(content);
            self.cached.entry(content).or_default().push(block);
        }
    }

    /// Removes the content of a block.
    pub fn forget(&mut self, block: BlockId) {
        let Some(content) = self.state_mut(block).content.take() else { return };
        if let Some(same) = self.cached.get_mut(&content) {
            same.retain(|other| *other != block);
            if same.is_empty() {
                self.cached.remove(&content);
            }
        }
    }

    /// Removes a user from the blocks of a request. The last block enters the queue first, so that a prefix is lost from
    /// its end.
    pub fn release(&mut self, blocks: &[BlockId]) {
        for &block in blocks.iter().rev() {
            let turn = self.turns;
            let state = self.state_mut(block);
            state.users -= 1;
            if state.users == 0 {
                state.turn = turn;
                self.turns += 1;
                self.queue.insert(turn, block);
            }
        }
    }

    fn state(&self, block: BlockId) -> &BlockState {
        &self.blocks[block.0 as usize]
    }

    fn state_mut(&mut self, block: BlockId) -> &mut BlockState {
        &mut self.blocks[block.0 as usize]
    }
}

/// Returns the largest power of two that divides a number of bytes.
fn granule(bytes: Bytes) -> Bytes {
    Bytes::new(1 << bytes.get().trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(count: u64) -> BlockPool {
        BlockPool::new(count, Bytes::kib(64)).unwrap()
    }

    #[test]
    fn the_block_freed_first_is_taken_first_and_a_prefix_is_lost_from_its_end() {
        let mut pool = pool(3);
        let held: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
        assert_eq!((pool.take(), pool.free(), pool.allocated()), (None, 0, Bytes::kib(192)));
        let contents = |count| (0..count).map(|index| Content::Shared(7, index));
        for (block, content) in held.iter().zip(contents(3)) {
            pool.keep(*block, content);
        }
        pool.release(&held);
        assert_eq!(pool.find(contents(3)), held);
        assert_eq!(pool.take(), Some(held[2]));
        assert_eq!(pool.find(contents(3)), held[..2]);
    }

    #[test]
    fn a_shared_block_is_free_when_its_last_user_has_left() {
        let mut pool = pool(2);
        let block = [pool.take().unwrap()];
        pool.keep(block[0], Content::Own(0, 0));
        assert_eq!(pool.idle(&block), 0);
        pool.share(&block);
        pool.release(&block);
        assert_eq!((pool.free(), pool.used()), (1, 1));
        pool.release(&block);
        assert_eq!((pool.free(), pool.idle(&block)), (2, 1));
        pool.share(&block);
        assert_eq!((pool.free(), pool.idle(&block)), (1, 0));
    }

    #[test]
    fn of_two_blocks_with_one_content_the_second_remains_when_the_first_is_taken() {
        let mut pool = pool(2);
        let [first, second] = [(); 2].map(|()| pool.take().unwrap());
        let content = Content::Shared(1, 0);
        pool.keep(first, content);
        pool.keep(second, content);
        pool.release(&[first]);
        assert_eq!(pool.find([content].into_iter()), [first]);
        assert_eq!(pool.take(), Some(first));
        assert_eq!(pool.find([content].into_iter()), [second]);
    }

    #[test]
    fn a_pool_without_blocks_is_an_error() {
        let error = BlockPool::new(0, Bytes::kib(1)).unwrap_err().to_string();
        assert_eq!(error, "kv-blocks=0: expected a number of blocks from 1 to 4294967295");
    }
}
