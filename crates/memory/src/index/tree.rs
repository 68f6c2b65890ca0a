//! The address tree: free ranges in address order, with the largest range under every branch.
//!
//! A B+-tree whose pages, leaves and branches alike, are arrays of *entries* in order. In a leaf an
//! entry is a free range: where it starts, how long it is and which block it belongs to. In a branch
//! an entry is a child page: where its first range starts, how long its longest range is and which
//! page it is. So "the lowest range of at least `n`" is, at every level, "the first entry that is
//! not shorter than `n`". While there are few ranges the whole tree is one page and the search is a
//! scan of one short array, which nothing beats.
//!
//! Pages have sizes of 31 bits, so that several are compared at once. The few ranges that are longer
//! than that are in a list beside the tree as well, which a request of such a length looks through.
//!
//! Pages are joined when they run low, so the tree's size follows the number of ranges.

#![expect(
    clippy::cast_possible_truncation,
    reason = "slots and page numbers are small by construction, and sizes are cut on purpose"
)]

mod balance;
mod join;
mod page;
#[cfg(test)]
mod tests;
mod update;

use page::{LONG, Page, short};

/// Null page: the search has no starting page.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A free range: `size` units at `start`, belonging to the block `link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeRange {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
}

impl FreeRange {
    pub(crate) fn end(self) -> u64 {
        self.start + self.size
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}

/// Position of a range: a leaf, and a slot of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    page: u32,
    slot: u32,
}

impl Place {
    /// Returns the page, at which [`give_back`](AddressTree::give_back) may start its search.
    pub(crate) fn page(self) -> u32 {
        self.page
    }
}

/// The free ranges of a space in address order. See the module's comment.
#[derive(Clone, Debug)]
pub(crate) struct AddressTree {
    pages: Vec<Page>,
    /// Pages of `pages` that are not part of the tree at present.
    spare: Vec<u32>,
    root: u32,
    height: u32,
    len: usize,
    /// Whether the ranges have links; if not, all links are 0.
    linked: bool,
    /// Start and size of the ranges of [`LONG`] units or more, in address order.
    long: Vec<(u64, u64)>,
}

impl AddressTree {
    pub(crate) fn new() -> Self {
        let (pages, long) = (vec![Page::empty(0)], Vec::new());
        Self { pages, spare: Vec::new(), root: 0, height: 0, len: 0, linked: false, long }
    }

    pub(crate) fn linked() -> Self {
        Self { linked: true, ..Self::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn footprint(&self) -> usize {
        self.pages.capacity() * size_of::<Page>()
            + self.spare.capacity() * size_of::<u32>()
            + self.long.capacity() * size_of::<(u64, u64)>()
    }

    pub(crate) fn longest(&self) -> u64 {
        let long = self.long.iter().map(|&(_, size)| size).max();
        long.unwrap_or_else(|| self.page(self.root).longest().unsigned_abs().into())
    }

    #[inline]
    pub(crate) fn entry(&self, place: Place) -> FreeRange {
        let (page, slot) = (self.page(place.page), place.slot as usize);
        let start = page.starts[slot];
        let link = if self.linked { page.links[slot] } else { 0 };
        FreeRange { start, size: self.size(start, page.sizes[slot]), link }
    }

    /// Returns the lowest range of at least `size`.
    #[inline]
    pub(crate) fn first(&self, size: u64) -> Option<Place> {
        if size >= LONG {
            let found = self.long.iter().find(|&&(_, own)| own >= size);
            return found.map(|&(start, _)| self.exactly(start));
        }
        self.descend(|page| {
            let bits = page.at_least(short(size));
            (bits != 0).then(|| bits.trailing_zeros() as usize - 1)
        })
    }

    /// Returns the highest range of at least `size`.
    #[inline]
    pub(crate) fn last(&self, size: u64) -> Option<Place> {
        if size >= LONG {
            let found = self.long.iter().rfind(|&&(_, own)| own >= size);
            return found.map(|&(start, _)| self.exactly(start));
        }
        self.descend(|page| page.at_least(short(size)).checked_ilog2().map(|bit| bit as usize - 1))
    }

    /// Returns the range that starts at `start`.
    ///
    /// # Panics
    /// If there is none: the blocks and the tree would disagree about the free ranges.
    #[inline]
    pub(crate) fn exactly(&self, start: u64) -> Place {
        let place = self.at_or_below(start).filter(|&place| self.start(place) == start);
        place.expect("a free range is in the tree")
    }

    #[inline]
    pub(crate) fn at_or_below(&self, key: u64) -> Option<Place> {
        self.descend(|page| page.rank(key).checked_sub(1))
    }

    pub(crate) fn above(&self, key: u64) -> Option<FreeRange> {
        let gap = self.gap(key);
        (self.start_above(gap) != u64::MAX).then(|| self.entry(self.place_above(gap)))
    }

    /// Returns the lowest range of at least `size` that satisfies `fits`. Ranges that are long enough but do not
    /// satisfy it are checked one by one.
    pub(crate) fn first_where(
        &self,
        size: u64,
        fits: impl Fn(FreeRange) -> bool,
    ) -> Option<FreeRange> {
        self.search(self.root, size, false, &fits)
    }

    /// Returns the highest range of at least `size` that satisfies `fits`.
    pub(crate) fn last_where(
        &self,
        size: u64,
        fits: impl Fn(FreeRange) -> bool,
    ) -> Option<FreeRange> {
        self.search(self.root, size, true, &fits)
    }

    /// Returns the highest range of at least `size` that starts below `limit`.
    pub(crate) fn last_below(&self, limit: u64, size: u64) -> Option<FreeRange> {
        if size >= LONG {
            let fits = |&&(start, own): &&(u64, u64)| start < limit && own >= size;
            let found = self.long.iter().rfind(fits);
            return found.map(|&(start, _)| self.entry(self.exactly(start)));
        }
        self.descend_below(self.root, limit, short(size)).map(|place| self.entry(place))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = FreeRange> + '_ {
        let mut next = self.at_or_below(0).map(|place| self.entry(place)).or_else(|| self.above(0));
        std::iter::from_fn(move || {
            let entry = next?;
            next = self.above(entry.start);
            Some(entry)
        })
    }

    #[inline]
    fn page(&self, page: u32) -> &Page {
        &self.pages[page as usize]
    }

    /// Returns the full size of the range at `start`, given its size in the page.
    #[inline]
    fn size(&self, start: u64, size: i32) -> u64 {
        if size < short(LONG) {
            return size.unsigned_abs().into();
        }
        self.long[self.long.partition_point(|&(own, _)| own < start)].1
    }

    /// Walks from the root to a leaf; `step` chooses the slot in each page.
    #[inline]
    fn descend(&self, step: impl Fn(&Page) -> Option<usize>) -> Option<Place> {
        let mut at = self.root;
        for _ in 0..self.height {
            let page = self.page(at);
            at = page.links[step(page)?];
        }
        Some(Place { page: at, slot: step(self.page(at))? as u32 })
    }

    /// Returns the place for a range that starts just above `key`.
    #[inline]
    fn gap(&self, key: u64) -> Place {
        let mut at = self.root;
        for _ in 0..self.height {
            let page = self.page(at);
            at = page.links[page.rank(key).saturating_sub(1)];
        }
        Place { page: at, slot: self.page(at).rank(key) as u32 }
    }

    /// Searches like [`gap`](Self::gap), first in the leaf `near` and the leaf above it. A key between two entries of a
    /// page belongs to that page, even if the page was reused after it was recorded.
    #[inline]
    fn gap_near(&self, key: u64, near: u32) -> Place {
        let inside = |page: &Page| {
            let rank = page.rank(key);
            (rank > 0 && rank < page.len()).then_some(rank)
        };
        if let Some(page) = self.pages.get(near as usize).filter(|page| page.level == 0) {
            if let Some(slot) = inside(page) {
                return Place { page: near, slot: slot as u32 };
            }
            let branch = self.page(page.parent);
            if branch.level == 1
                && let Some(above) = inside(branch)
            {
                let page = branch.links[above - 1];
                return Place { page, slot: self.page(page).rank(key) as u32 };
            }
        }
        self.gap(key)
    }

    /// Returns the last range that starts at or below `key`; it must exist. Searches like [`gap_near`](Self::gap_near).
    fn place_near(&self, key: u64, near: u32) -> Place {
        let gap = self.gap_near(key, near);
        Place { slot: gap.slot - 1, ..gap }
    }

    #[inline]
    fn start(&self, place: Place) -> u64 {
        self.page(place.page).starts[place.slot as usize]
    }

    #[inline]
    fn end(&self, place: Place) -> u64 {
        let page = self.page(place.page);
        let start = page.starts[place.slot as usize];
        start + self.size(start, page.sizes[place.slot as usize])
    }

    /// Returns the start of the range after `gap`, or `u64::MAX` if there is none.
    #[inline]
    fn start_above(&self, gap: Place) -> u64 {
        if gap.slot < self.page(gap.page).len { self.start(gap) } else { self.next_leaf(gap.page) }
    }

    /// Returns the start of the first range of the leaf after `page`, or `u64::MAX` if there is none.
    fn next_leaf(&self, page: u32) -> u64 {
        let mut at = page;
        while at != self.root {
            let Page { parent, slot, .. } = *self.page(at);
            if slot + 1 < self.page(parent).len {
                return self.page(parent).starts[slot as usize + 1];
            }
            at = parent;
        }
        u64::MAX
    }

    /// Returns the place of the range after `gap`; it must exist.
    #[inline]
    fn place_above(&self, gap: Place) -> Place {
        if gap.slot < self.page(gap.page).len {
            gap
        } else {
            self.exactly(self.next_leaf(gap.page))
        }
    }

    fn search(
        &self,
        at: u32,
        size: u64,
        from_top: bool,
        fits: &impl Fn(FreeRange) -> bool,
    ) -> Option<FreeRange> {
        let page = self.page(at);
        let slots = (0..page.len).map(|step| if from_top { page.len - 1 - step } else { step });
        slots.filter(|&slot| page.sizes[slot as usize] >= short(size)).find_map(|slot| {
            if page.level > 0 {
                return self.search(page.links[slot as usize], size, from_top, fits);
            }
            let entry = self.entry(Place { page: at, slot });
            (entry.size >= size && fits(entry)).then_some(entry)
        })
    }

    fn descend_below(&self, at: u32, limit: u64, size: i32) -> Option<Place> {
        // A child that starts at or above the limit has nothing below it. Only the last of the
        // others can hold ranges on both sides, so no more than one descent is in vain.
        let page = self.page(at);
        let fits = |slot: usize| page.starts[slot] < limit && page.sizes[slot] >= size;
        (0..page.len()).rev().filter(|&slot| fits(slot)).find_map(|slot| match page.level {
            0 => Some(Place { page: at, slot: slot as u32 }),
            _ => self.descend_below(page.links[slot], limit, size),
        })
    }
}
