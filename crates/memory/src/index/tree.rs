//! The address tree: free ranges in address order, with the size of the largest range under every branch.
//!
//! A B+-tree. Its pages, leaves and branches alike, are sorted arrays of *entries*. A leaf entry is a free range: its
//! start, its size and the block it belongs to. A branch entry is a child page: the start of its first range, the size
//! of its longest range, and the page. So "the lowest range of at least `n`" is, at every level, "the first entry with
//! a size of at least `n`". As long as there are few ranges, the whole tree is one page and the search is a scan of one
//! short array, which nothing beats.
//!
//! Pages store sizes in 31 bits, so that several are compared at once. The few longer ranges are also in a list beside
//! the tree, which is scanned by requests of such a length.
//!
//! Pages with few entries are merged, so the size of the tree follows the number of ranges.

#![expect(
    clippy::cast_possible_truncation,
    reason = "slots and page numbers are small by construction, and sizes are cut on purpose"
)]

/// Number of entries in a page. Small enough that moving half a page costs about as much as finding the position; large
/// enough that 100,000 ranges need only four levels.
const PAGE: usize = 24;
/// Threshold for merging pages: a page with fewer entries is merged with a neighbour if both fit into three quarters of
/// a page. The rest is slack, so that an insertion does not split the page again at once.
const LOW: usize = PAGE / 4;
/// Maximum size stored in a page; it stands for all ranges of this size or more.
const LONG: u64 = i32::MAX as u64;
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

#[inline]
fn short(size: u64) -> i32 {
    size.min(LONG) as i32
}

/// An entry of a page: a range with its size capped at [`LONG`], or a child.
#[derive(Clone, Copy, Debug)]
struct Item {
    start: u64,
    size: i32,
    link: u32,
}

/// The fields of the entries are in separate arrays: a search reads one of them, and compares eight sizes or four
/// starts of a cache line without a branch. Unused slots have size 0 and the highest possible start, so that searches
/// need not know the length of a page.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Page {
    len: u32,
    level: u32,
    /// Parent of this page; undefined for the root.
    parent: u32,
    slot: u32,
    sizes: [i32; PAGE],
    starts: [u64; PAGE],
    /// Children of a branch, or the blocks of a leaf's ranges; unused for a leaf in a tree without links.
    links: [u32; PAGE],
}

impl Page {
    const fn empty(level: u32) -> Self {
        let (sizes, starts, links) = ([0; PAGE], [u64::MAX; PAGE], [0; PAGE]);
        Self { len: 0, level, parent: 0, slot: 0, sizes, starts, links }
    }

    fn len(&self) -> usize {
        self.len as usize
    }

    fn item(&self, slot: usize) -> Item {
        Item { start: self.starts[slot], size: self.sizes[slot], link: self.links[slot] }
    }

    #[inline]
    fn insert(&mut self, slot: usize, item: Item, linked: bool) {
        let len = self.len();
        self.sizes.copy_within(slot..len, slot + 1);
        self.starts.copy_within(slot..len, slot + 1);
        (self.sizes[slot], self.starts[slot]) = (item.size, item.start);
        if linked {
            self.links.copy_within(slot..len, slot + 1);
            self.links[slot] = item.link;
        }
        self.len += 1;
    }

    #[inline]
    fn remove(&mut self, slot: usize, linked: bool) {
        let len = self.len();
        self.sizes.copy_within(slot + 1..len, slot);
        self.starts.copy_within(slot + 1..len, slot);
        (self.sizes[len - 1], self.starts[len - 1]) = (0, u64::MAX);
        if linked {
            self.links.copy_within(slot + 1..len, slot);
        }
        self.len -= 1;
    }

    fn truncate(&mut self, len: usize) {
        self.sizes[len..].fill(0);
        self.starts[len..].fill(u64::MAX);
        self.len = len as u32;
    }

    /// Appends the entries of `other`, starting at slot `from`.
    fn append(&mut self, other: &Self, from: usize) {
        let (start, end) = (self.len(), self.len() + other.len() - from);
        self.sizes[start..end].copy_from_slice(&other.sizes[from..other.len()]);
        self.starts[start..end].copy_from_slice(&other.starts[from..other.len()]);
        self.links[start..end].copy_from_slice(&other.links[from..other.len()]);
        self.len = end as u32;
    }

    #[inline]
    fn longest(&self) -> i32 {
        self.sizes.iter().fold(0, |longest, &size| longest.max(size))
    }

    /// Returns the entries of at least `size` as a bitmap: bit `n + 1` for slot `n`. (With bit `n`, the compiler would
    /// handle the first and last slots one by one and emit 50 % more instructions.)
    #[inline]
    fn at_least(&self, size: i32) -> u32 {
        // In two steps, which compile to comparisons and additions of four sizes at a time.
        let fits: [i32; PAGE] = std::array::from_fn(|slot| -i32::from(self.sizes[slot] >= size));
        let bits: [i32; PAGE] = std::array::from_fn(|slot| fits[slot] & 2 << slot);
        bits.into_iter().fold(0, |all, bit| all | bit).cast_unsigned()
    }

    /// Counts the entries that start at or below `key`: first by quarters, then within one quarter. A binary search
    /// would have branches, or more dependent loads.
    #[inline]
    fn rank(&self, key: u64) -> usize {
        const QUARTER: usize = PAGE / 4;
        let below = |start: &u64| usize::from(*start <= key);
        let ends = [1, 2, 3].map(|quarter| below(&self.starts[quarter * QUARTER - 1]));
        let from = QUARTER * ends.into_iter().sum::<usize>();
        from + self.starts[from..from + QUARTER].iter().map(below).sum::<usize>()
    }
}

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

    /// Replaces the range at `place` by `entry`, which must not change the order.
    #[inline]
    pub(crate) fn replace(&mut self, place: Place, entry: FreeRange) {
        let (page, slot) = (self.page(place.page), place.slot as usize);
        self.note_long((page.starts[slot], page.sizes[slot]), (entry.start, entry.size));
        let FreeRange { start, size, link } = entry;
        self.replace_item(place, Item { start, size: short(size), link });
    }

    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        self.len -= 1;
        let linked = self.linked;
        let page = &mut self.pages[place.page as usize];
        let (start, old) = (page.starts[place.slot as usize], page.sizes[place.slot as usize]);
        page.remove(place.slot as usize, linked);
        if page.len() >= LOW || place.page == self.root {
            self.lift(place.page, place.slot == 0, old, 0);
        } else {
            self.remove_deep(place.page, old);
        }
        self.note_long((start, old), (start, 0));
    }

    /// Adds a range that is adjacent to no other.
    #[inline]
    pub(crate) fn insert(&mut self, entry: FreeRange) {
        let gap = self.gap(entry.start);
        self.insert_at(gap, entry);
    }

    /// Takes `units` from the start of the range at `place`, which has no link, and returns their start.
    #[inline]
    pub(crate) fn take_front(&mut self, place: Place, units: u64) -> u64 {
        let page = &mut self.pages[place.page as usize];
        let (start, size) =
            (&mut page.starts[place.slot as usize], &mut page.sizes[place.slot as usize]);
        let (at, old) = (*start, *size);
        if old == short(LONG) || old == short(units) {
            self.cut(place, at, units, 0);
            return at;
        }
        *start += units;
        *size -= short(units);
        let new = *size;
        self.lift(place.page, place.slot == 0, old, new);
        at
    }

    /// Cuts `units` at `at` out of the range at `place`. The remainder below keeps the link of the range; the remainder
    /// above gets `link`.
    #[inline]
    pub(crate) fn cut(&mut self, place: Place, at: u64, units: u64, link: u32) {
        let hole = self.entry(place);
        let low = FreeRange { size: at - hole.start, ..hole };
        let high = FreeRange { start: at + units, size: hole.size - low.size - units, link };
        match (low.size > 0, high.size > 0) {
            (false, false) => self.remove(place),
            (false, true) => self.replace(place, high),
            (true, false) => self.replace(place, low),
            (true, true) => {
                self.replace(place, low);
                self.insert(high);
            }
        }
    }

    /// Returns the range that results from giving `new` back, and the number of neighbours it absorbs.
    pub(crate) fn joined(&self, new: FreeRange) -> (FreeRange, usize) {
        let below = self.at_or_below(new.start).map(|place| self.entry(place));
        let below = below.filter(|below| below.end() == new.start);
        let above = self.above(new.start).filter(|above| above.start == new.end());
        let start = below.map_or(new.start, |below| below.start);
        let end = above.map_or(new.end(), FreeRange::end);
        let neighbours = usize::from(below.is_some()) + usize::from(above.is_some());
        (FreeRange { start, size: end - start, ..new }, neighbours)
    }

    /// Gives a range back, as [`give_back`](Self::give_back) does, and returns the lowest range of at least `units`
    /// afterwards. The search comes first, since it can run while `new` is still being loaded from memory. The result
    /// is the range found, unless the merged range is lower.
    #[inline]
    pub(crate) fn first_with(&mut self, new: FreeRange, near: u32, units: u64) -> Option<Place> {
        let found = self.first(units).map(|found| (found, self.start(found)));
        let joined = self.join_in(new, near);
        let whole = self.entry(joined);
        if whole.size >= units && found.is_none_or(|(_, start)| whole.start < start) {
            return Some(joined);
        }
        found.map(|(found, start)| self.again(found, start))
    }

    /// Returns the new place of a range that was at `place` before another range was given back.
    #[inline]
    fn again(&self, place: Place, start: u64) -> Place {
        let page = self.page(place.page);
        if place.slot < page.len && page.starts[place.slot as usize] == start {
            return place;
        }
        self.place_near(start, place.page)
    }

    /// Adds a range and merges it with adjacent ranges; the merged range gets the new link. The search starts at the
    /// page `near`, and is short if the range belongs there.
    #[inline]
    pub(crate) fn give_back(&mut self, new: FreeRange, near: u32) {
        self.join_in(new, near);
    }

    /// Does the work of [`give_back`](Self::give_back), and returns the place of the merged range.
    #[inline]
    fn join_in(&mut self, new: FreeRange, near: u32) -> Place {
        let gap = self.gap_near(new.start, near);
        if let Some(place) = self.join_within(gap, new) {
            return place;
        }
        let below = gap.slot.checked_sub(1).map(|slot| Place { slot, ..gap });
        let below = below.filter(|&below| self.end(below) == new.start);
        let above = self.start_above(gap) == new.start + new.size;
        match (below, above) {
            (None, false) => self.insert_at(gap, new),
            (Some(below), false) => self.join_below(below, new),
            (None, true) => self.join_above(gap, new),
            (Some(below), true) => {
                // The lower range is extended first, since removing the upper one may move it to another page.
                let above = self.entry(self.place_above(gap));
                self.join_below(below, FreeRange { size: new.size + above.size, ..new });
                self.remove(self.place_above(gap));
                self.place_near(new.start, below.page)
            }
        }
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

    /// Updates the list of long ranges for a range that changes from `old` to `new`.
    #[inline]
    fn note_long(&mut self, old: (u64, i32), new: (u64, u64)) {
        if old.1 == short(LONG) || new.1 >= LONG {
            self.change_long(old, new);
        }
    }

    #[cold]
    fn change_long(&mut self, old: (u64, i32), new: (u64, u64)) {
        let place = self.long.partition_point(|&(start, _)| start < old.0);
        match (old.1 == short(LONG), new.1 >= LONG) {
            // The range keeps its position in the order.
            (true, true) => self.long[place] = new,
            (true, false) => drop(self.long.remove(place)),
            (false, true) => self.long.insert(place, new),
            (false, false) => {}
        }
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

    /// Merges a range with its neighbours, if it has any and the change affects only the page of `gap`.
    #[inline]
    fn join_within(&mut self, gap: Place, new: FreeRange) -> Option<Place> {
        let linked = self.linked;
        let (page, slot) = (&mut self.pages[gap.page as usize], gap.slot as usize);
        if slot == 0 || slot >= page.len() || linked {
            return None;
        }
        let (low, high) = (page.sizes[slot - 1], page.sizes[slot]);
        let below = page.starts[slot - 1] + u64::from(low.unsigned_abs()) == new.start;
        let above = page.starts[slot] == new.start + new.size;
        let joined = if below { low.unsigned_abs() } else { 0 }
            + if above { high.unsigned_abs() } else { 0 };
        let size = new.size + u64::from(joined);
        if joined == 0 || size >= LONG || low == short(LONG) || below && above && page.len() <= LOW
        {
            return None;
        }
        let keep = slot - usize::from(below);
        page.sizes[keep] = short(size);
        page.starts[keep] = if below { page.starts[keep] } else { new.start };
        if below && above {
            page.remove(slot, false);
            self.len -= 1;
        }
        self.lift_grown(gap.page, short(size));
        Some(Place { page: gap.page, slot: keep as u32 })
    }

    /// Propagates to the parents that a range of `page` has grown to `size`.
    #[inline]
    fn lift_grown(&mut self, page: u32, size: i32) {
        let mut at = page;
        while at != self.root {
            let Page { parent, slot, .. } = *self.page(at);
            let longest = &mut self.pages[parent as usize].sizes[slot as usize];
            if *longest >= size {
                return;
            }
            *longest = size;
            at = parent;
        }
    }

    #[inline]
    fn join_below(&mut self, below: Place, new: FreeRange) -> Place {
        let old = self.entry(below);
        self.replace(below, FreeRange { start: old.start, size: old.size + new.size, ..new });
        below
    }

    #[inline]
    fn join_above(&mut self, gap: Place, new: FreeRange) -> Place {
        let above = self.place_above(gap);
        let size = new.size + self.entry(above).size;
        self.replace(above, FreeRange { size, ..new });
        above
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
        // A child that starts at or above the limit has nothing below it. Of the other children, only the last can hold
        // ranges on both sides, so at most one descent finds nothing.
        let page = self.page(at);
        let fits = |slot: usize| page.starts[slot] < limit && page.sizes[slot] >= size;
        (0..page.len()).rev().filter(|&slot| fits(slot)).find_map(|slot| match page.level {
            0 => Some(Place { page: at, slot: slot as u32 }),
            _ => self.descend_below(page.links[slot], limit, size),
        })
    }

    #[inline]
    fn replace_item(&mut self, place: Place, new: Item) {
        let linked = self.linked;
        let (page, slot) = (&mut self.pages[place.page as usize], place.slot as usize);
        let old = std::mem::replace(&mut page.sizes[slot], new.size);
        let start = std::mem::replace(&mut page.starts[slot], new.start);
        if linked || page.level > 0 {
            page.links[slot] = new.link;
        }
        self.lift(place.page, slot == 0 && start != new.start, old, new.size);
    }

    /// Propagates a change in `page` to its parents: their starts if the page's start changed (`first`), and their
    /// sizes if the entry that changed from `old` to `new` was or is the longest.
    #[inline]
    fn lift(&mut self, page: u32, first: bool, old: i32, new: i32) {
        let (mut at, mut first, mut old, mut new) = (page, first, old, new);
        while at != self.root {
            let page = self.page(at);
            let (parent, slot, start) = (page.parent, page.slot, page.starts[0]);
            let before = self.page(parent).sizes[slot as usize];
            debug_assert_eq!(self.page(parent).links[slot as usize], at, "a page knows its place");
            let after = if new >= before {
                new
            } else if old < before {
                before
            } else {
                page.longest()
            };
            if after == before && !first {
                return;
            }
            let page = &mut self.pages[parent as usize];
            (page.sizes[slot as usize], page.starts[slot as usize]) = (after, start);
            (at, first, old, new) = (parent, first && slot == 0, before, after);
        }
    }

    #[inline]
    fn insert_at(&mut self, gap: Place, entry: FreeRange) -> Place {
        self.len += 1;
        let FreeRange { start, size, link } = entry;
        self.note_long((start, 0), (start, size));
        let item = Item { start, size: short(size), link };
        let linked = self.linked;
        let page = &mut self.pages[gap.page as usize];
        if page.len() < PAGE {
            page.insert(gap.slot as usize, item, linked);
            self.lift(gap.page, gap.slot == 0, 0, item.size);
            gap
        } else {
            self.split(gap, item);
            self.place_near(start, gap.page)
        }
    }

    /// Inserts into a full page by splitting it in half.
    #[cold]
    fn split(&mut self, gap: Place, item: Item) {
        let middle = PAGE / 2;
        let level = self.page(gap.page).level;
        let mut right = Page::empty(level);
        right.append(self.page(gap.page), middle);
        let left = &mut self.pages[gap.page as usize];
        left.truncate(middle);
        match (gap.slot as usize).checked_sub(middle + 1) {
            None => left.insert(gap.slot as usize, item, true),
            Some(slot) => right.insert(slot + 1, item, true),
        }
        let left = Item { start: left.starts[0], size: left.longest(), link: gap.page };
        let (start, size) = (right.starts[0], right.longest());
        let right = Item { start, size, link: self.add_page(right) };
        if level > 0 {
            self.adopt(left.link, 0);
            self.adopt(right.link, 0);
        }
        self.insert_half(left, right);
    }

    /// Enters the two halves of a page into its parent; creates a parent for the root.
    fn insert_half(&mut self, left: Item, right: Item) {
        if left.link == self.root {
            self.height += 1;
            let mut root = Page::empty(self.height);
            root.insert(0, left, true);
            root.insert(1, right, true);
            self.root = self.add_page(root);
            self.adopt(self.root, 0);
            return;
        }
        let Page { parent, slot, .. } = *self.page(left.link);
        self.replace_item(Place { page: parent, slot }, left);
        let gap = Place { page: parent, slot: slot + 1 };
        if self.page(parent).len() < PAGE {
            self.pages[parent as usize].insert(gap.slot as usize, right, true);
            self.adopt(parent, gap.slot as usize);
            self.lift(parent, false, 0, right.size);
        } else {
            self.split(gap, right);
        }
    }

    /// Updates the parent slots stored in the children of `page`, starting at slot `from`.
    fn adopt(&mut self, page: u32, from: usize) {
        for slot in from..self.page(page).len() {
            let child = self.page(page).links[slot];
            let child = &mut self.pages[child as usize];
            (child.parent, child.slot) = (page, slot as u32);
        }
    }

    fn add_page(&mut self, page: Page) -> u32 {
        if let Some(spare) = self.spare.pop() {
            self.pages[spare as usize] = page;
            return spare;
        }
        if self.pages.len() == self.pages.capacity() {
            self.pages.reserve_exact(1 + self.pages.len() / 4);
        }
        self.pages.push(page);
        let page = u32::try_from(self.pages.len() - 1).unwrap_or(NOWHERE);
        assert_ne!(page, NOWHERE, "there are fewer pages than blocks");
        page
    }

    /// Repairs the pages above a page that has lost an entry of size `old` and has few entries left.
    #[cold]
    fn remove_deep(&mut self, page: u32, old: i32) {
        let (mut page, mut old) = (page, old);
        while page != self.root && self.page(page).len() < LOW {
            let Page { parent, slot, len, .. } = *self.page(page);
            if len == 0 {
                old = self.page(parent).sizes[slot as usize];
                self.drop_child(parent, slot as usize);
            } else {
                self.lift(page, true, old, 0);
                if !self.join(parent, slot as usize) {
                    return;
                }
                old = 0;
            }
            page = parent;
        }
        self.lift(page, true, old, 0);
        while self.height > 0 && self.page(self.root).len() == 1 {
            self.spare.push(self.root);
            self.root = self.page(self.root).links[0];
            self.height -= 1;
        }
    }

    /// Merges the child at `slot` of `parent` with a neighbour, and returns whether the two were small enough.
    fn join(&mut self, parent: u32, slot: usize) -> bool {
        let page = self.page(parent);
        let mut lefts =
            [slot.checked_sub(1), (slot + 1 < page.len()).then_some(slot)].into_iter().flatten();
        let small = |&left: &usize| {
            let pair = [page.links[left], page.links[left + 1]];
            pair.map(|page| self.page(page).len()).iter().sum::<usize>() <= PAGE - LOW
        };
        let Some(left) = lefts.find(small) else { return false };
        let (low, high) = (page.item(left), page.item(left + 1));
        let moved = self.page(high.link).clone();
        let from = self.page(low.link).len();
        self.pages[low.link as usize].append(&moved, 0);
        if moved.level > 0 {
            self.adopt(low.link, from);
        }
        self.pages[parent as usize].sizes[left] = low.size.max(high.size);
        self.drop_child(parent, left + 1);
        true
    }

    /// Removes the child at `slot` from `parent` and keeps the page for reuse.
    fn drop_child(&mut self, parent: u32, slot: usize) {
        let page = &mut self.pages[parent as usize];
        let child = page.links[slot];
        page.remove(slot, true);
        // A search that starts at this page must find nothing in it.
        self.pages[child as usize].len = 0;
        self.spare.push(child);
        self.adopt(parent, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simplest possible free list, as a reference.
    struct Model(Vec<(u64, u64)>);

    impl Model {
        fn give_back(&mut self, start: u64, size: u64) {
            let place = self.0.partition_point(|&(own, _)| own < start);
            self.0.insert(place, (start, size));
            if self.0.get(place + 1).is_some_and(|&(own, _)| own == start + size) {
                self.0[place].1 += self.0.remove(place + 1).1;
            }
            if place > 0 && self.0[place - 1].0 + self.0[place - 1].1 == start {
                self.0[place - 1].1 += self.0.remove(place).1;
            }
        }

        fn take_front(&mut self, place: usize, units: u64) -> u64 {
            let (start, size) = self.0[place];
            self.0[place] = (start + units, size - units);
            self.0.retain(|&(_, size)| size > 0);
            start
        }
    }

    /// Ranges below and above the size limit of a page, and starting pages that were reused or never existed, give the
    /// same results as the model.
    #[test]
    fn long_ranges_and_stale_pages_make_no_difference() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut tree, mut model) = (AddressTree::new(), Model(vec![(0, 1 << 50)]));
        tree.insert(FreeRange { start: 0, size: 1 << 50, link: 0 });
        let mut live = Vec::new();
        for step in 0..20_000_u64 {
            let target = if step / 2_500 % 2 == 0 { 1_500 } else { 20 };
            if live.len() < target && random(3) > 0 || live.is_empty() {
                let size = match random(8) {
                    0 => LONG - 2 + random(5),
                    1 => 2 * LONG - 2 + random(5),
                    _ => 1 + random(1000),
                };
                let first = model.0.iter().position(|&(_, own)| own >= size).expect("room");
                let last = model.0.iter().rposition(|&(_, own)| own >= size).expect("room");
                let place = tree.last(size).expect("room");
                assert_eq!(tree.entry(place).start, model.0[last].0);
                let limit = model.0[last].0;
                let below = model.0[..last].iter().rfind(|&&(_, own)| own >= size);
                let found = tree.last_below(limit, size);
                assert_eq!(found.map(|entry| (entry.start, entry.size)), below.copied());
                let place = tree.first(size).expect("room");
                let at = tree.take_front(place, size);
                assert_eq!(at, model.take_front(first, size));
                live.push((at, size, place.page()));
            } else {
                let which = random(live.len() as u64) as usize;
                let (start, size, near) = live.swap_remove(which);
                let near = if random(4) == 0 { random(100) as u32 } else { near };
                let new = FreeRange { start, size, link: 0 };
                let (joined, neighbours) = tree.joined(new);
                let before = model.0.len();
                model.give_back(start, size);
                assert!(model.0.contains(&(joined.start, joined.size)));
                assert_eq!(model.0.len(), before + 1 - neighbours);
                if random(2) == 0 {
                    tree.give_back(new, near);
                } else {
                    let wanted = if random(8) == 0 { LONG - 2 + random(5) } else { random(1000) };
                    let first = model.0.iter().find(|&&(_, own)| own >= wanted).expect("room");
                    let place = tree.first_with(new, near, wanted).expect("room");
                    assert_eq!(tree.entry(place).start, first.0);
                }
            }
            if step % 500 == 0 {
                let ranges: Vec<_> = tree.iter().map(|entry| (entry.start, entry.size)).collect();
                assert_eq!(ranges, model.0);
            }
            assert_eq!(tree.len(), model.0.len());
            assert_eq!(Some(tree.longest()), model.0.iter().map(|&(_, size)| size).max());
        }
    }
}
