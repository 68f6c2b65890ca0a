//! Quick lists: recently freed blocks by exact size, not yet merged with their neighbours.
//!
//! Programs on accelerators repeatedly free a tensor and allocate one of the same size. A block on a quick list is
//! allocated again unchanged, so such a pair of calls is cheap. Until then it cannot serve other sizes. All lists are
//! therefore merged before the space counts as full, or is filled further up.
//!
//! To the chain and the tree, a block on a list looks live; its serial number is 0, which no live block has.

#![expect(clippy::cast_possible_truncation, reason = "a place is below the number of lists")]

use super::blocks::{Blocks, Id, NONE};

/// Number of lists, a power of two; two sizes that share a list evict each other.
const LISTS: usize = 256;
/// Maximum number of blocks on all lists together.
pub(super) const MOST: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct Quick {
    /// A size in units, and the most recent block of that size; blocks are linked by their tags. Allocated with the
    /// first block.
    lists: Option<Box<[(u64, Id); LISTS]>>,
    len: usize,
}

impl Quick {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts a block on the list of its size, and returns the list that it evicted.
    #[inline]
    pub(super) fn push(&mut self, blocks: &mut Blocks, id: Id, units: u64) -> Id {
        let lists = self.lists.get_or_insert_with(|| Box::new([(0, NONE); LISTS]));
        let list = &mut lists[place(units)];
        let evicted = if list.0 == units { NONE } else { std::mem::replace(&mut list.1, NONE) };
        list.0 = units;
        blocks.park(id, list.1);
        list.1 = id;
        self.len += 1;
        evicted
    }

    #[inline]
    pub(super) fn pop(&mut self, blocks: &Blocks, units: u64) -> Id {
        let Some(lists) = &mut self.lists else { return NONE };
        let list = &mut lists[place(units)];
        let id = list.1;
        if list.0 != units || id == NONE {
            return NONE;
        }
        list.1 = blocks.tag(id);
        self.len -= 1;
        id
    }

    /// Subtracts a merged block from the count, and returns the next block (`next`) of its list.
    pub(super) fn joined(&mut self, next: Id) -> Id {
        self.len -= 1;
        next
    }

    /// Empties all lists, and returns the first block of each.
    pub(super) fn take_all(&mut self) -> Vec<Id> {
        let lists = self.lists.iter_mut().flat_map(|lists| lists.iter_mut());
        let heads = lists.map(|list| std::mem::replace(&mut list.1, NONE));
        heads.filter(|&id| id != NONE).collect()
    }

    pub(super) fn longest(&self) -> u64 {
        let lists = self.lists.iter().flat_map(|lists| lists.iter());
        lists.filter(|list| list.1 != NONE).map(|list| list.0).max().unwrap_or(0)
    }
}

/// Fibonacci hashing, like the treap's priorities.
#[inline]
fn place(units: u64) -> usize {
    (units.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - LISTS.trailing_zeros())) as usize
}
