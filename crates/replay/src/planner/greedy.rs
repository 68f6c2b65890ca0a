//! Greedy placement: each block at the lowest offset that is free for its whole life.

use std::cmp::Reverse;

use super::{Block, extent};

/// Places the blocks with the largest `key` first; among equals, the ones allocated first.
pub(super) fn place(blocks: &[Block], key: impl Fn(&Block) -> u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_cached_key(|&index| (Reverse(key(&blocks[index])), blocks[index].start));
    place_in(blocks, &order)
}

/// Places the blocks in every order and keeps the best result; for a handful of blocks. One order is optimal: the
/// blocks of an optimal plan, from the lowest offset up.
pub(super) fn place_in_all_orders(blocks: &[Block]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    let mut best = place_in(blocks, &order);
    let mut turns = vec![0; order.len()];
    let mut at = 1;
    // Heap's algorithm: each order results from the previous one by exchanging two blocks.
    while at < order.len() {
        if turns[at] < at {
            order.swap(at, if at % 2 == 0 { 0 } else { turns[at] });
            let offsets = place_in(blocks, &order);
            if extent(blocks, &offsets) < extent(blocks, &best) {
                best = offsets;
            }
            turns[at] += 1;
            at = 1;
        } else {
            turns[at] = 0;
            at += 1;
        }
    }
    best
}

/// Maximum number of blocks for [`place_by_search`], which tries at least 32 orders of them.
pub(super) const SEARCHED: usize = 128;
/// Maximum number of block pairs that [`place_by_search`] compares, over all orders together.
const SEARCHED_PAIRS: usize = 1 << 19;

/// Improves the order by size until the extent reaches the bound. Each step moves the topmost block to a random earlier
/// place in the order, and keeps the new order unless it is worse.
pub(super) fn place_by_search(blocks: &[Block], bound: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&index| (Reverse(blocks[index].size), blocks[index].start));
    let mut best = place_in(blocks, &order);
    let mut random: u64 = 1;
    for _ in 0..SEARCHED_PAIRS / blocks.len().pow(2).max(1) {
        if extent(blocks, &best) <= bound {
            break;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut next = order.clone();
        move_up(&mut next, top(blocks, &best), random >> 33);
        let offsets = place_in(blocks, &next);
        if extent(blocks, &offsets) <= extent(blocks, &best) {
            (order, best) = (next, offsets);
        }
    }
    best
}

/// Returns the block with the highest end.
fn top(blocks: &[Block], offsets: &[u64]) -> usize {
    let ends = blocks.iter().zip(offsets).map(|(block, offset)| offset + block.size);
    ends.enumerate().max_by_key(|&(_, end)| end).map_or(0, |(index, _)| index)
}

/// Moves an entry of the order to an earlier place; exchanges the first entry with another one.
fn move_up(order: &mut [usize], entry: usize, random: u64) {
    let place = order.iter().position(|&other| other == entry).unwrap_or(0);
    let to = |count: usize| usize::try_from(random).unwrap_or(0) % count.max(1);
    match place {
        0 => order.swap(0, to(order.len())),
        _ => order[to(place)..=place].rotate_right(1),
    }
}

fn place_in(blocks: &[Block], order: &[usize]) -> Vec<u64> {
    let mut placed = Placed::new(blocks.len());
    let mut offsets = vec![0; blocks.len()];
    let mut taken = Vec::new();
    for &index in order {
        let block = &blocks[index];
        taken.clear();
        placed.meet(block, &mut taken);
        taken.sort_unstable();
        offsets[index] = lowest_gap(&taken, block.size);
        placed.insert(block, offsets[index]);
    }
    offsets
}

/// Returns the lowest offset with `size` free bytes; `taken` are the used ranges sorted by start.
fn lowest_gap(taken: &[(u64, u64)], size: u64) -> u64 {
    let mut free_from = 0;
    for &(start, end) in taken {
        if start >= free_from + size {
            break;
        }
        free_from = free_from.max(end);
    }
    free_from
}

/// Blocks placed so far, searchable by overlap of lives.
///
/// A complete binary tree over the start times. Each node holds the latest end below it, so that a subtree of dead
/// blocks is skipped.
struct Placed {
    leaves: usize,
    latest_end: Vec<u32>,
    ranges: Vec<(u64, u64)>,
}

impl Placed {
    fn new(blocks: usize) -> Self {
        let leaves = blocks.next_power_of_two();
        Self { leaves, latest_end: vec![0; 2 * leaves], ranges: vec![(0, 0); blocks] }
    }

    fn insert(&mut self, block: &Block, offset: u64) {
        self.ranges[block.start as usize] = (offset, offset + block.size);
        let mut node = self.leaves + block.start as usize;
        while node > 0 && self.latest_end[node] < block.end {
            self.latest_end[node] = block.end;
            node /= 2;
        }
    }

    /// Adds the ranges of all placed blocks whose lives overlap the life of `block`.
    fn meet(&self, block: &Block, ranges: &mut Vec<(u64, u64)>) {
        self.descend(1, 0, self.leaves, block, ranges);
    }

    fn descend(
        &self,
        node: usize,
        from: usize,
        to: usize,
        block: &Block,
        ranges: &mut Vec<(u64, u64)>,
    ) {
        if from >= block.end as usize || self.latest_end[node] <= block.start {
            return;
        }
        if to - from == 1 {
            ranges.push(self.ranges[from]);
            return;
        }
        let middle = usize::midpoint(from, to);
        self.descend(2 * node, from, middle, block, ranges);
        self.descend(2 * node + 1, middle, to, block, ranges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_gap_is_taken_when_it_is_just_large_enough() {
        let taken = [(0, 10), (20, 30), (25, 40)];
        assert_eq!(lowest_gap(&taken, 10), 10);
        assert_eq!(lowest_gap(&taken, 11), 40);
        assert_eq!(lowest_gap(&[], 7), 0);
    }

    #[test]
    fn a_block_meets_those_that_overlap_it_in_time_and_not_those_that_touch() {
        let block = |start, end| Block { size: 1, start, end };
        let mut placed = Placed::new(4);
        placed.insert(&block(0, 2), 0);
        placed.insert(&block(1, 4), 8);
        placed.insert(&block(3, 4), 16);
        let mut met = Vec::new();
        placed.meet(&block(2, 3), &mut met);
        assert_eq!(met, [(8, 9)]);
    }
}
