//! Live blocks in no order, with the free ranges in an address tree, as needed by first and last fit.

use super::blocks::{Blocks, Id, NONE};
use super::tree::{AddressTree, FreeRange, NOWHERE};

/// A freed range that is not in the tree yet.
///
/// A block is rarely in the cache when it is freed, and merging has to wait for the cache. So the range stays pending
/// until the next call. If that call is a first fit, it searches the tree first and merges the range afterwards; any
/// other call merges the range first, or takes it into account.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    range: FreeRange,
    /// Page of the tree at which the search for the range's position starts.
    near: u32,
}

/// The free ranges of a space whose live blocks are in no order.
#[derive(Clone, Debug)]
pub(super) struct Loners {
    tree: AddressTree,
    waiting: Option<Waiting>,
}

impl Loners {
    pub(super) fn new() -> Self {
        Self { tree: AddressTree::new(), waiting: None }
    }

    pub(super) fn len(&self) -> usize {
        let waiting = self.waiting_joined().map(|(_, neighbours)| neighbours);
        self.tree.len() + usize::from(waiting.is_some()) - waiting.unwrap_or(0)
    }

    pub(super) fn longest(&self) -> u64 {
        self.tree.longest().max(self.waiting_joined().map_or(0, |(joined, _)| joined.size))
    }

    pub(super) fn footprint(&self) -> usize {
        self.tree.footprint()
    }

    pub(super) fn ranges(&self) -> Vec<FreeRange> {
        let waiting = self.waiting_joined().map(|(joined, _)| joined);
        let apart = |range: &FreeRange| !waiting.is_some_and(|joined| joined.contains(*range));
        self.tree.iter().filter(apart).chain(waiting).collect()
    }

    /// Returns the tree, with the pending range merged.
    #[inline]
    pub(super) fn tree(&mut self) -> &AddressTree {
        self.join_waiting();
        &self.tree
    }

    #[inline]
    pub(super) fn join_waiting(&mut self) {
        if let Some(Waiting { range, near }) = self.waiting.take() {
            self.tree.give_back(range, near);
        }
    }

    /// Returns the pending range after merging, and the number of neighbours it absorbs.
    fn waiting_joined(&self) -> Option<(FreeRange, usize)> {
        Some(self.tree.joined(self.waiting?.range))
    }

    /// Adds a free range that never held a block.
    pub(super) fn add(&mut self, start: u64, units: u64) {
        self.join_waiting();
        self.tree.give_back(FreeRange { start, size: units, link: 0 }, NOWHERE);
    }

    #[inline]
    pub(super) fn free(&mut self, blocks: &mut Blocks, id: Id, start: u64, units: u64) {
        let (range, near) = (FreeRange { start, size: units, link: 0 }, blocks.near(id));
        blocks.remove_loner(id);
        self.join_waiting();
        self.waiting = Some(Waiting { range, near });
    }

    /// Allocates `units` by first fit. Returns the new block, or [`NONE`], and its start.
    #[inline]
    pub(super) fn take_first(&mut self, blocks: &mut Blocks, units: u64) -> (Id, u64) {
        let place = match self.waiting.take() {
            Some(Waiting { range, near }) => self.tree.first_with(range, near, units),
            None => self.tree.first(units),
        };
        let Some(place) = place else { return (NONE, 0) };
        let at = self.tree.take_front(place, units);
        (blocks.add_loner(at, place.page()), at)
    }

    /// Allocates `units` by last fit, like [`take_first`](Self::take_first).
    pub(super) fn take_last(&mut self, blocks: &mut Blocks, units: u64) -> (Id, u64) {
        let Some(place) = self.tree().last(units) else { return (NONE, 0) };
        let at = self.tree.entry(place).end() - units;
        self.tree.cut(place, at, units, 0);
        (blocks.add_loner(at, place.page()), at)
    }

    /// Turns `units` at `at`, within the free range `hole`, into a block.
    pub(super) fn carve(
        &mut self,
        blocks: &mut Blocks,
        hole: FreeRange,
        at: u64,
        units: u64,
    ) -> Id {
        self.tree.cut(self.tree.exactly(hole.start), at, units, 0);
        blocks.add_loner(at, NOWHERE)
    }
}
