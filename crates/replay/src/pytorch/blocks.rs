//! Segments of addresses divided into blocks, with search orders.
//!
//! A block is used, free or unmapped. Adjacent blocks of a segment are never both free or both unmapped. Three
//! operations keep this invariant: [`take`](Blocks::take) makes a block used, [`cut`](Blocks::cut) divides a used
//! block, and [`settle`](Blocks::settle) makes a used block free or unmapped and joins it with neighbours of the same
//! state.

use std::collections::BTreeSet;
use std::ops::Index;

use super::Pool;
use cubeyard_units::Bytes;

/// Index of a block in [`Blocks`]; reused after the block is joined to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockId(u32);

impl BlockId {
    /// Returns the block of a token, if the token is in range.
    pub(super) fn from_token(token: u64) -> Option<Self> {
        u32::try_from(token).ok().map(Self)
    }

    pub(super) fn token(self) -> u64 {
        u64::from(self.0)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Allocated, or being changed.
    Used,
    /// Mapped and available.
    Free,
    /// Addresses without memory.
    Unmapped,
}

/// Address range within one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) pool: Pool,
    /// Start of the block's segment.
    pub(super) segment: Bytes,
    pub(super) address: Bytes,
    pub(super) size: Bytes,
    pub(super) state: State,
    pub(super) previous: Option<BlockId>,
    pub(super) next: Option<BlockId>,
}

impl Block {
    pub(super) fn is_whole_segment(&self) -> bool {
        self.previous.is_none() && self.next.is_none()
    }
}

#[derive(Debug, Default)]
pub(super) struct Blocks {
    slots: Vec<Block>,
    vacant: Vec<BlockId>,
    /// Free blocks in best-fit order: smallest first, then lowest address first.
    free: BTreeSet<(Pool, Bytes, Bytes, BlockId)>,
    /// Unmapped blocks in address order.
    unmapped: BTreeSet<(Pool, Bytes, BlockId)>,
}

impl Index<BlockId> for Blocks {
    type Output = Block;

    fn index(&self, id: BlockId) -> &Block {
        &self.slots[id.index()]
    }
}

impl Blocks {
    /// Adds a segment that consists of one free or unmapped block.
    pub(super) fn add_segment(
        &mut self,
        pool: Pool,
        start: Bytes,
        size: Bytes,
        state: State,
    ) -> BlockId {
        let (segment, address, previous, next) = (start, start, None, None);
        let used = State::Used;
        let id = self.insert(Block { pool, segment, address, size, state: used, previous, next });
        self.settle(id, state);
        id
    }

    /// Removes a segment that consists of a single used block.
    pub(super) fn remove_segment(&mut self, id: BlockId) {
        debug_assert!(self[id].is_whole_segment() && self[id].state == State::Used);
        self.vacant.push(id);
    }

    /// Returns the free blocks of a pool with at least `size` bytes, best fit first.
    pub(super) fn free_from(&self, pool: Pool, size: Bytes) -> impl Iterator<Item = BlockId> {
        let start = (pool, size, Bytes::ZERO, BlockId(0));
        self.free.range(start..).take_while(move |entry| entry.0 == pool).map(|entry| entry.3)
    }

    pub(super) fn all_free(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter().map(|entry| entry.3)
    }

    /// Returns the unmapped blocks of a pool, lowest first.
    pub(super) fn unmapped(&self, pool: Pool) -> impl Iterator<Item = BlockId> {
        let start = (pool, Bytes::ZERO, BlockId(0));
        self.unmapped.range(start..).take_while(move |entry| entry.0 == pool).map(|entry| entry.2)
    }

    /// Makes a free or unmapped block used.
    pub(super) fn take(&mut self, id: BlockId) {
        let Block { pool, address, size, state, .. } = self[id];
        let was_listed = match state {
            State::Free => self.free.remove(&(pool, size, address, id)),
            State::Unmapped => self.unmapped.remove(&(pool, address, id)),
            State::Used => false,
        };
        assert!(
            was_listed,
            "only a free or unmapped block can be taken, and each of them is listed"
        );
        self.slots[id.index()].state = State::Used;
    }

    /// Cuts a used block after `size` bytes and returns the rest, which is used too.
    pub(super) fn cut(&mut self, id: BlockId, size: Bytes) -> BlockId {
        let block = self[id];
        debug_assert!(block.state == State::Used && !size.is_zero() && size < block.size);
        let (address, rest) = (block.address + size, block.size - size);
        let rest = self.insert(Block { address, size: rest, previous: Some(id), ..block });
        if let Some(next) = block.next {
            self.slots[next.index()].previous = Some(rest);
        }
        let front = &mut self.slots[id.index()];
        (front.size, front.next) = (size, Some(rest));
        rest
    }

    /// Makes a used block free or unmapped, and joins it with its neighbours of that state.
    ///
    /// The joined block keeps the index `id`.
    pub(super) fn settle(&mut self, id: BlockId, state: State) {
        assert_eq!(self[id].state, State::Used, "a block is given back once");
        self.join_next(id, state);
        self.join_previous(id, state);
        self.slots[id.index()].state = state;
        let Block { pool, address, size, .. } = self[id];
        match state {
            State::Free => self.free.insert((pool, size, address, id)),
            State::Unmapped => self.unmapped.insert((pool, address, id)),
            State::Used => unreachable!("a block settles as free or unmapped"),
        };
    }

    fn join_next(&mut self, id: BlockId, state: State) {
        let Some(gone) = self[id].next.filter(|&next| self[next].state == state) else { return };
        self.take(gone);
        let Block { size, next, .. } = self[gone];
        let block = &mut self.slots[id.index()];
        block.size += size;
        block.next = next;
        if let Some(next) = next {
            self.slots[next.index()].previous = Some(id);
        }
        self.vacant.push(gone);
    }

    fn join_previous(&mut self, id: BlockId, state: State) {
        let Some(gone) = self[id].previous.filter(|&it| self[it].state == state) else { return };
        self.take(gone);
        let Block { address, size, previous, .. } = self[gone];
        let block = &mut self.slots[id.index()];
        block.address = address;
        block.size += size;
        block.previous = previous;
        if let Some(previous) = previous {
            self.slots[previous.index()].next = Some(id);
        }
        self.vacant.push(gone);
    }

    fn insert(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self.slots[id.index()] = block;
            return id;
        }
        let id = BlockId(
            u32::try_from(self.slots.len()).expect("a trace has fewer than 2^32 live blocks"),
        );
        self.slots.push(block);
        id
    }
}
