//! Replay placement: in the order of the history, next to blocks that die at about the same time.

use std::collections::BTreeMap;

use super::{Block, by_start};

/// End of the life of a wall, after every block.
const NEVER: u32 = u32::MAX;

/// Replays the history below a wall at offset `wall`; blocks without room there go above it.
///
/// A block goes to the end of the hole whose neighbour's remaining life is nearest to its own, in half octaves; among
/// equals into the smallest hole, then the lowest. Blocks that die together leave one hole, and long-lived blocks
/// gather at the two walls.
pub(super) fn place(blocks: &[Block], wall: u64) -> Vec<u64> {
    let mut space = Space::new(wall);
    let mut offsets = vec![0; blocks.len()];
    let mut deaths: Vec<Vec<usize>> = vec![Vec::new(); blocks.len() + 1];
    for (now, index) in by_start(blocks).into_iter().enumerate() {
        for dead in std::mem::take(&mut deaths[now]) {
            space.free(offsets[dead], blocks[dead].size);
        }
        offsets[index] = space.allocate(&blocks[index]);
        deaths[blocks[index].end as usize].push(index);
    }
    offsets
}

/// Free range, with the ends of life of its neighbours (blocks or walls).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    start: u64,
    end: u64,
    left_dies: u32,
    right_dies: u32,
}

/// Holes by offset, and the end of life of each live block by offset.
struct Space {
    wall: u64,
    holes: Vec<Hole>,
    live: BTreeMap<u64, u32>,
}

impl Space {
    fn new(wall: u64) -> Self {
        let below = Hole { start: 0, end: wall, left_dies: NEVER, right_dies: NEVER };
        let above = Hole { start: wall, end: u64::MAX, left_dies: NEVER, right_dies: NEVER };
        let holes = [below, above].into_iter().filter(|hole| hole.start < hole.end).collect();
        Self { wall, holes, live: BTreeMap::new() }
    }

    fn allocate(&mut self, block: &Block) -> u64 {
        let (index, at_right) = self.choose(block);
        let hole = &mut self.holes[index];
        let offset = if at_right { hole.end - block.size } else { hole.start };
        if at_right {
            (hole.end, hole.right_dies) = (offset, block.end);
        } else {
            (hole.start, hole.left_dies) = (offset + block.size, block.end);
        }
        if hole.start == hole.end {
            self.holes.remove(index);
        }
        self.live.insert(offset, block.end);
        offset
    }

    /// Returns the best hole, and whether to use its right end.
    fn choose(&self, block: &Block) -> (usize, bool) {
        let own = half_octave(block.life());
        let mut best: Option<((bool, u32, u64), usize, bool)> = None;
        for (index, hole) in self.holes.iter().enumerate() {
            let size = hole.end - hole.start;
            if size < block.size {
                continue;
            }
            let above = hole.start >= self.wall;
            for (at_right, dies) in [(false, hole.left_dies), (true, hole.right_dies)] {
                if at_right && hole.end == u64::MAX {
                    continue;
                }
                let apart = own.abs_diff(half_octave(dies - block.start));
                let cost = (above, apart, size);
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, index, at_right));
                }
            }
        }
        let (_, index, at_right) = best.expect("the hole above the wall holds any block");
        (index, at_right)
    }

    /// Returns the end of life of the last block below `offset`.
    fn last_below(&self, offset: u64) -> u32 {
        self.live.range(..offset).next_back().map_or(NEVER, |(_, &dies)| dies)
    }

    fn free(&mut self, start: u64, size: u64) {
        let mut hole = Hole { start, end: start + size, left_dies: NEVER, right_dies: NEVER };
        self.live.remove(&start);
        let mut next = self.holes.partition_point(|other| other.start < start);
        if hole.end != self.wall {
            match self.holes.get(next) {
                Some(right) if right.start == hole.end => {
                    (hole.end, hole.right_dies) = (right.end, right.right_dies);
                    self.holes.remove(next);
                }
                _ => hole.right_dies = self.live.get(&hole.end).copied().unwrap_or(NEVER),
            }
        }
        if start != self.wall {
            match next.checked_sub(1).map(|left| self.holes[left]) {
                Some(left) if left.end == start => {
                    (hole.start, hole.left_dies) = (left.start, left.left_dies);
                    next -= 1;
                    self.holes.remove(next);
                }
                _ => hole.left_dies = self.last_below(start),
            }
        }
        self.holes.insert(next, hole);
    }
}

/// Returns the half octave of a time: 0, 1, 2–3, 4–5, 6–7, 8–11, …
fn half_octave(time: u32) -> u32 {
    match time.checked_ilog2() {
        None => 0,
        Some(0) => 1,
        Some(octave) => 2 * octave + (time >> (octave - 1) & 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_octaves_split_each_doubling_in_two() {
        let classes: Vec<_> = (0..12).map(half_octave).collect();
        assert_eq!(classes, [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6]);
        assert_eq!(half_octave(u32::MAX), 63);
    }

    #[test]
    fn freeing_between_two_holes_joins_them_and_keeps_what_is_known_of_their_far_sides() {
        let mut space = Space::new(30);
        let block = |size, end| Block { size, start: 0, end };
        for end in [5, 6, 7] {
            space.allocate(&block(10, end));
        }
        assert_eq!(space.holes.len(), 1, "all below the wall is used");
        let offsets: Vec<_> = space.live.keys().copied().collect();
        assert_eq!(offsets, [0, 10, 20]);
        space.free(0, 10);
        space.free(20, 10);
        space.free(10, 10);
        assert_eq!(space.holes[0], Hole { start: 0, end: 30, left_dies: NEVER, right_dies: NEVER });
        assert_eq!(space.holes[1].start, 30, "nothing joins across the wall");
    }

    #[test]
    fn a_block_is_placed_beside_the_one_that_dies_with_it() {
        let mut space = Space::new(100);
        space.holes[0] = Hole { start: 10, end: 90, left_dies: 9000, right_dies: 40 };
        let block = |end| Block { size: 10, start: 0, end };
        assert_eq!(space.allocate(&block(41)), 80);
        assert_eq!(space.allocate(&block(8000)), 10);
    }
}
