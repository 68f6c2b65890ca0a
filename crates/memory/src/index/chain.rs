//! All blocks as a chain in address order, with the free ones in size bins, as needed by best fit.

use super::Fit;
use super::bins::SizeBins;
use super::blocks::{Blocks, Id, NONE};
use super::tree::{AddressTree, FreeRange, NOWHERE};

/// The free blocks of a space whose blocks form a chain.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) bins: SizeBins,
    /// The free ranges by address, built when a call first needs them; their links are blocks of the chain.
    tree: Option<AddressTree>,
}

impl Chain {
    /// Turns the loners of `blocks` and the free ranges of a tree into a chain.
    #[cold]
    pub(super) fn new(blocks: &mut Blocks, tree: &AddressTree) -> Self {
        let mut live: Vec<_> = blocks.live().collect();
        live.sort_unstable_by_key(|&id| blocks.start(id));
        let mut live = live.into_iter().peekable();
        let mut free = Vec::new();
        for hole in tree.iter() {
            while let Some(id) = live.next_if(|&id| blocks.start(id) < hole.start) {
                blocks.append(id);
            }
            let id = blocks.insert_before(NONE, hole.start);
            blocks.vacate(id, hole.start, hole.size);
            free.push(id);
        }
        live.for_each(|id| blocks.append(id));
        let mut bins = SizeBins::new();
        // From the top down, so that among equal ranges the lowest counts as the most recent.
        free.into_iter().rev().for_each(|id| bins.insert(blocks, id));
        Self { bins, tree: None }
    }

    pub(super) fn longest(&self, blocks: &Blocks) -> u64 {
        self.bins.longest(blocks)
    }

    pub(super) fn footprint(&self) -> usize {
        self.bins.footprint() + self.tree.as_ref().map_or(0, AddressTree::footprint)
    }

    #[inline]
    pub(super) fn tree(&mut self, blocks: &Blocks) -> &AddressTree {
        self.tree.get_or_insert_with(|| {
            let mut tree = AddressTree::linked();
            ranges(blocks).for_each(|range| tree.insert(range));
            tree
        })
    }

    /// Returns the smallest range of at least `units` that satisfies `fits`.
    pub(super) fn best_where(
        &self,
        blocks: &Blocks,
        units: u64,
        fits: impl Fn(FreeRange) -> bool,
    ) -> Option<FreeRange> {
        let best = self.bins.best(blocks, units);
        std::iter::successors(best, |&id| self.bins.after(blocks, id))
            .map(|id| range(blocks, id))
            .find(|&range| fits(range))
    }

    /// Allocates `units` by best fit. Returns the new block, or [`NONE`], and its start.
    #[inline]
    pub(super) fn take_best(&mut self, blocks: &mut Blocks, units: u64) -> (Id, u64) {
        let Some(hole) = self.bins.best(blocks, units) else { return (NONE, 0) };
        let at = blocks.start(hole);
        let id = self.split_low(blocks, hole, at, units);
        if let Some(tree) = &mut self.tree {
            tree.cut(tree.exactly(at), at, units, hole);
        }
        (id, at)
    }

    /// Allocates `units` by first or last fit, like [`take_best`](Self::take_best).
    pub(super) fn take_in_order(&mut self, blocks: &mut Blocks, fit: Fit, units: u64) -> (Id, u64) {
        let tree = self.tree(blocks);
        let place = if fit == Fit::First { tree.first(units) } else { tree.last(units) };
        let Some(place) = place else { return (NONE, 0) };
        let hole = tree.entry(place);
        let at = if fit == Fit::First { hole.start } else { hole.end() - units };
        (self.carve(blocks, hole, at, units), at)
    }

    /// Turns `units` at `at`, within the free range `hole`, into a block.
    pub(super) fn carve(
        &mut self,
        blocks: &mut Blocks,
        hole: FreeRange,
        at: u64,
        units: u64,
    ) -> Id {
        let id = self.split(blocks, hole, at, units);
        if let Some(tree) = &mut self.tree {
            // The remainder above the new block is the next block of the chain.
            tree.cut(tree.exactly(hole.start), at, units, blocks.next(id));
        }
        id
    }

    #[inline]
    pub(super) fn free(&mut self, blocks: &mut Blocks, id: Id, start: u64, units: u64) {
        let link = self.release(blocks, id, start, units);
        if let Some(tree) = &mut self.tree {
            tree.give_back(FreeRange { start, size: units, link }, NOWHERE);
        }
    }

    /// Cuts `units` at `at` out of a free block and returns them as a block.
    fn split(&mut self, blocks: &mut Blocks, hole: FreeRange, at: u64, units: u64) -> Id {
        let low = at - hole.start;
        if low == 0 {
            return self.split_low(blocks, hole.link, at, units);
        }
        let high = blocks.insert_before(blocks.next(hole.link), at);
        self.bins.remove(blocks, hole.link);
        blocks.vacate(hole.link, hole.start, low);
        self.bins.insert(blocks, hole.link);
        blocks.vacate(high, at, hole.size - low);
        self.bins.insert(blocks, high);
        self.split_low(blocks, high, at, units)
    }

    /// Cuts the first `units` off the free block `hole`, which starts at `at`.
    #[inline]
    fn split_low(&mut self, blocks: &mut Blocks, hole: Id, at: u64, units: u64) -> Id {
        self.bins.remove(blocks, hole);
        let rest = blocks.hole(hole) - units;
        if rest == 0 {
            return hole;
        }
        let id = blocks.insert_before(hole, at);
        blocks.vacate(hole, at + units, rest);
        self.bins.insert(blocks, hole);
        id
    }

    /// Frees a block, merges it with its free neighbours, and returns the merged block.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "its only caller, `free`, is on the path of every free"
    )]
    fn release(&mut self, blocks: &mut Blocks, id: Id, start: u64, units: u64) -> Id {
        let (prev, next) = (blocks.prev(id), blocks.next(id));
        let (mut hole, mut start, mut size) = (id, start, units);
        if blocks.is_free(prev) {
            self.bins.remove(blocks, prev);
            (start, size) = (blocks.start(prev), blocks.hole(prev) + size);
            blocks.remove(id);
            hole = prev;
        }
        if blocks.is_free(next) {
            self.bins.remove(blocks, next);
            size += blocks.hole(next);
            // The ids of the neighbours are kept if possible, since their own neighbours refer to them.
            let gone = if hole == id { id } else { next };
            blocks.remove(gone);
            hole = if hole == id { next } else { hole };
        }
        blocks.vacate(hole, start, size);
        self.bins.insert(blocks, hole);
        hole
    }
}

pub(super) fn ranges(blocks: &Blocks) -> impl Iterator<Item = FreeRange> + '_ {
    blocks.iter().filter(|&id| blocks.is_free(id)).map(|id| range(blocks, id))
}

pub(super) fn range(blocks: &Blocks, id: Id) -> FreeRange {
    FreeRange { start: blocks.start(id), size: blocks.hole(id), link: id }
}
