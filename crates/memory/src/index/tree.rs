//! The address tree: free ranges in address order, with the largest range under every branch.
//!
//! A B+-tree whose pages, leaves and branches alike, are arrays of *entries* in order. In a leaf an
//! entry is a free range: where it starts, how long it is and which block it belongs to. In a branch
//! an entry is a child page: where its first range starts, how long its longest range is and which
//! page it is. So "the lowest range of at least `n`" is, at every level, "the first entry that is
//! not shorter than `n`". While there are few ranges the whole tree is one page and the search is a
//! scan of one short array, which nothing beats.
//!
//! Pages are joined when they run low, so the tree's size follows the number of ranges.

#![expect(
    clippy::cast_possible_truncation,
    reason = "slots and page numbers are small by construction"
)]

/// Entries in a page. Short enough that moving half a page costs about as much as finding the
/// place; long enough that 100,000 ranges need only five levels.
const PAGE: usize = 16;
/// A page with fewer entries than this is joined with a neighbour if both fit into three quarters
/// of a page, so that an insertion does not split them again at once.
const LOW: usize = PAGE / 4;

/// A free range: `size` units from `start` on, belonging to the block `link`. Packed, since there is
/// one for every range: 20 bytes, not 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
}

impl Entry {
    /// What unused slots hold, so that searches need not know how long a page is.
    const UNUSED: Self = Self { start: u64::MAX, size: 0, link: 0 };
}

/// The fields of an entry are side by side, not in arrays of their own: that would be fewer cache
/// lines to search, but more to change, and three moves instead of one to insert.
#[derive(Clone, Debug)]
struct Page {
    len: u32,
    /// The page that has this one as a child, and where; the root's mean nothing.
    parent: u32,
    slot: u32,
    entries: [Entry; PAGE],
}

impl Page {
    const EMPTY: Self = Self { len: 0, parent: 0, slot: 0, entries: [Entry::UNUSED; PAGE] };

    fn len(&self) -> usize {
        self.len as usize
    }

    fn start(&self) -> u64 {
        self.entries[0].start
    }

    fn insert(&mut self, slot: usize, entry: Entry) {
        let len = self.len();
        self.entries.copy_within(slot..len, slot + 1);
        self.entries[slot] = entry;
        self.len += 1;
    }

    fn remove(&mut self, slot: usize) {
        let len = self.len();
        self.entries.copy_within(slot + 1..len, slot);
        self.entries[len - 1] = Entry::UNUSED;
        self.len -= 1;
    }

    /// Keeps the first `len` entries.
    fn truncate(&mut self, len: usize) {
        self.entries[len..].fill(Entry::UNUSED);
        self.len = len as u32;
    }

    /// Appends the entries of `other` from `from` on.
    fn append(&mut self, other: &Self, from: usize) {
        let (start, end) = (self.len(), self.len() + other.len() - from);
        self.entries[start..end].copy_from_slice(&other.entries[from..other.len()]);
        self.len = end as u32;
    }

    fn longest(&self) -> u64 {
        // Four at a time, since each comparison waits for the one before it.
        let mut longest = [0; 4];
        for entries in self.entries.chunks_exact(4) {
            (0..4).for_each(|place| longest[place] = longest[place].max(entries[place].size));
        }
        longest.into_iter().fold(0, u64::max)
    }

    /// How many entries start at `key` or below: first by quarters, then within one. A search that
    /// halves the page would have branches, or more loads that wait for each other.
    #[inline]
    fn rank(&self, key: u64) -> usize {
        const QUARTER: usize = PAGE / 4;
        let below = |entry: &Entry| usize::from(entry.start <= key);
        let ends = [1, 2, 3].map(|quarter| below(&self.entries[quarter * QUARTER - 1]));
        let from = QUARTER * ends.into_iter().sum::<usize>();
        from + self.entries[from..from + QUARTER].iter().map(below).sum::<usize>()
    }
}

/// The place of a range in the tree, good until the tree changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    page: u32,
    slot: u32,
}

/// The free ranges of a space in address order. See the module's comment.
#[derive(Clone, Debug)]
pub(crate) struct AddressTree {
    pages: Vec<Page>,
    /// Pages of `pages` that are not part of the tree now.
    spare: Vec<u32>,
    root: u32,
    /// Levels above the leaves.
    height: u32,
    len: usize,
}

impl AddressTree {
    pub(crate) fn new() -> Self {
        Self { pages: vec![Page::EMPTY], spare: Vec::new(), root: 0, height: 0, len: 0 }
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the tree occupies.
    pub(crate) fn footprint(&self) -> usize {
        self.pages.capacity() * size_of::<Page>() + self.spare.capacity() * size_of::<u32>()
    }

    /// The size of the longest range, 0 where there is none.
    pub(crate) fn longest(&self) -> u64 {
        self.page(self.root).longest()
    }

    /// The range at `place`.
    #[inline]
    pub(crate) fn entry(&self, place: Place) -> Entry {
        self.page(place.page).entries[place.slot as usize]
    }

    /// The lowest range of at least `size`.
    #[inline]
    pub(crate) fn first(&self, size: u64) -> Option<Place> {
        self.descend(|page| page.entries.iter().position(|entry| entry.size >= size))
    }

    /// The highest range of at least `size`.
    #[inline]
    pub(crate) fn last(&self, size: u64) -> Option<Place> {
        self.descend(|page| page.entries.iter().rposition(|entry| entry.size >= size))
    }

    /// The range that starts at `start`.
    ///
    /// # Panics
    /// If there is none: the blocks and the tree would disagree about what is free.
    #[inline]
    pub(crate) fn exactly(&self, start: u64) -> Place {
        let place = self.at_or_below(start).filter(|&place| self.entry(place).start == start);
        place.expect("a free range is in the tree")
    }

    /// The last range that starts at `key` or below.
    #[inline]
    pub(crate) fn at_or_below(&self, key: u64) -> Option<Place> {
        self.descend(|page| page.rank(key).checked_sub(1))
    }

    /// The first range that starts above `key`.
    pub(crate) fn above(&self, key: u64) -> Option<Entry> {
        let gap = self.gap(key);
        (self.start_above(gap) != u64::MAX).then(|| self.entry(self.place_above(gap)))
    }

    /// The lowest range of at least `size` that satisfies `fits`; ranges that are long enough but
    /// do not satisfy it are looked at one by one.
    pub(crate) fn first_where(&self, size: u64, fits: impl Fn(Entry) -> bool) -> Option<Entry> {
        self.search(self.root, self.height, size, false, &fits)
    }

    /// The highest range of at least `size` that satisfies `fits`.
    pub(crate) fn last_where(&self, size: u64, fits: impl Fn(Entry) -> bool) -> Option<Entry> {
        self.search(self.root, self.height, size, true, &fits)
    }

    /// The highest range of at least `size` that starts below `limit`.
    pub(crate) fn last_below(&self, limit: u64, size: u64) -> Option<Entry> {
        self.descend_below(self.root, self.height, limit, size)
    }

    /// Replaces the range at `place` by `entry`, which keeps its place in the order.
    #[inline]
    pub(crate) fn replace(&mut self, place: Place, entry: Entry) {
        let slot = &mut self.pages[place.page as usize].entries[place.slot as usize];
        let old = std::mem::replace(slot, entry);
        let first = place.slot == 0 && old.start != entry.start;
        self.lift(place.page, first, old.size, entry.size);
    }

    /// Takes the range at `place` out.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        self.len -= 1;
        let page = &mut self.pages[place.page as usize];
        let old = page.entries[place.slot as usize].size;
        page.remove(place.slot as usize);
        if page.len() >= LOW || place.page == self.root {
            self.lift(place.page, place.slot == 0, old, 0);
        } else {
            self.remove_deep(place.page, old);
        }
    }

    /// Adds a range, which touches no other.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry) {
        let gap = self.gap(entry.start);
        self.insert_at(gap, entry);
    }

    /// Takes `units` from `at` on out of the range at `place`. What is left below keeps the link of
    /// the range, what is left above gets `link`.
    #[inline]
    pub(crate) fn cut(&mut self, place: Place, at: u64, units: u64, link: u32) {
        let hole = self.entry(place);
        let low = Entry { size: at - hole.start, ..hole };
        let high = Entry { start: at + units, size: hole.size - low.size - units, link };
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

    /// Adds a range and joins it with the ranges that it touches; all of it gets the new link.
    pub(crate) fn give_back(&mut self, new: Entry) {
        let gap = self.gap(new.start);
        let below = gap.slot.checked_sub(1).map(|slot| Place { slot, ..gap });
        let below = below.filter(|&below| self.end(below) == new.start);
        let above = self.start_above(gap) == new.start + new.size;
        match (below, above) {
            (None, false) => self.insert_at(gap, new),
            (Some(below), false) => self.join_below(below, new),
            (None, true) => self.join_above(gap, new),
            (Some(below), true) => {
                // The lower range grows first: removing the upper one may move it to another page.
                let above = self.entry(self.place_above(gap));
                self.join_below(below, Entry { size: new.size + above.size, ..new });
                self.remove(self.place_above(gap));
            }
        }
    }

    /// All ranges in address order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
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

    /// Walks from the root to a leaf; `step` chooses the slot in each page.
    #[inline]
    fn descend(&self, step: impl Fn(&Page) -> Option<usize>) -> Option<Place> {
        let mut at = self.root;
        for _ in 0..self.height {
            let page = self.page(at);
            at = page.entries[step(page)?].link;
        }
        Some(Place { page: at, slot: step(self.page(at))? as u32 })
    }

    /// Where a range that starts just above `key` belongs.
    #[inline]
    fn gap(&self, key: u64) -> Place {
        let mut at = self.root;
        for _ in 0..self.height {
            let page = self.page(at);
            at = page.entries[page.rank(key).saturating_sub(1)].link;
        }
        Place { page: at, slot: self.page(at).rank(key) as u32 }
    }

    /// Where the range at `place` ends.
    #[inline]
    fn end(&self, place: Place) -> u64 {
        let entry = self.entry(place);
        entry.start + entry.size
    }

    /// Where the range after `gap` starts; where there is none, at the end of all addresses.
    #[inline]
    fn start_above(&self, gap: Place) -> u64 {
        let page = self.page(gap.page);
        if gap.slot < page.len {
            page.entries[gap.slot as usize].start
        } else {
            self.next_leaf(gap.page)
        }
    }

    /// Where the first range of the leaf after `page` starts.
    fn next_leaf(&self, page: u32) -> u64 {
        let mut at = page;
        while at != self.root {
            let Page { parent, slot, .. } = *self.page(at);
            if slot + 1 < self.page(parent).len {
                return self.page(parent).entries[slot as usize + 1].start;
            }
            at = parent;
        }
        u64::MAX
    }

    /// The place of the range after `gap`, which there is.
    #[inline]
    fn place_above(&self, gap: Place) -> Place {
        if gap.slot < self.page(gap.page).len {
            gap
        } else {
            self.exactly(self.next_leaf(gap.page))
        }
    }

    #[inline]
    fn join_below(&mut self, below: Place, new: Entry) {
        let old = self.entry(below);
        self.replace(below, Entry { start: old.start, size: old.size + new.size, ..new });
    }

    #[inline]
    fn join_above(&mut self, gap: Place, new: Entry) {
        let above = self.place_above(gap);
        let size = new.size + self.entry(above).size;
        self.replace(above, Entry { size, ..new });
    }

    fn search(
        &self,
        page: u32,
        levels: u32,
        size: u64,
        from_top: bool,
        fits: &impl Fn(Entry) -> bool,
    ) -> Option<Entry> {
        let page = self.page(page);
        (0..page.len())
            .map(|step| page.entries[if from_top { page.len() - 1 - step } else { step }])
            .filter(|entry| entry.size >= size)
            .find_map(|entry| match levels {
                0 => fits(entry).then_some(entry),
                _ => self.search(entry.link, levels - 1, size, from_top, fits),
            })
    }

    fn descend_below(&self, page: u32, levels: u32, limit: u64, size: u64) -> Option<Entry> {
        // A child that starts at or above the limit has nothing below it. Only the last of the
        // others can hold ranges on both sides, so no more than one descent is in vain.
        let page = self.page(page);
        let entries = page.entries[..page.len()].iter().rev();
        entries.filter(|entry| entry.start < limit && entry.size >= size).find_map(|entry| {
            match levels {
                0 => Some(*entry),
                _ => self.descend_below(entry.link, levels - 1, limit, size),
            }
        })
    }

    /// Carries a change in `page` up: its parents' starts if its own changed (`first`), and their
    /// sizes where the entry that went from `old` to `new` was or is the longest.
    #[inline]
    fn lift(&mut self, page: u32, first: bool, old: u64, new: u64) {
        let (mut at, mut first, mut old, mut new) = (page, first, old, new);
        while at != self.root {
            let page = self.page(at);
            let (parent, slot, start) = (page.parent, page.slot, page.start());
            let Entry { size: before, link, .. } = self.page(parent).entries[slot as usize];
            debug_assert_eq!(link, at, "a page knows its place");
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
            self.pages[parent as usize].entries[slot as usize] = Entry { start, size: after, link };
            (at, first, old, new) = (parent, first && slot == 0, before, after);
        }
    }

    #[inline]
    fn insert_at(&mut self, gap: Place, entry: Entry) {
        self.len += 1;
        let page = &mut self.pages[gap.page as usize];
        if page.len() < PAGE {
            page.insert(gap.slot as usize, entry);
            self.lift(gap.page, gap.slot == 0, 0, entry.size);
        } else {
            self.split(gap, entry, 0);
        }
    }

    /// Inserts into a full page, `level` levels above the leaves, by cutting it in half.
    fn split(&mut self, gap: Place, entry: Entry, level: u32) {
        let middle = PAGE / 2;
        let mut right = Page::EMPTY;
        right.append(self.page(gap.page), middle);
        let left = &mut self.pages[gap.page as usize];
        left.truncate(middle);
        match (gap.slot as usize).checked_sub(middle + 1) {
            None => left.insert(gap.slot as usize, entry),
            Some(slot) => right.insert(slot + 1, entry),
        }
        let left = Entry { start: left.start(), size: left.longest(), link: gap.page };
        let (start, size) = (right.start(), right.longest());
        let right = Entry { start, size, link: self.add_page(right) };
        if level > 0 {
            self.adopt(left.link, 0);
            self.adopt(right.link, 0);
        }
        self.insert_half(left, right, level);
    }

    /// Enters the two halves of a page into its parent, which makes one where there was none.
    fn insert_half(&mut self, left: Entry, right: Entry, level: u32) {
        if left.link == self.root {
            let mut root = Page::EMPTY;
            root.insert(0, left);
            root.insert(1, right);
            self.root = self.add_page(root);
            self.height += 1;
            self.adopt(self.root, 0);
            return;
        }
        let Page { parent, slot, .. } = *self.page(left.link);
        self.replace(Place { page: parent, slot }, left);
        let gap = Place { page: parent, slot: slot + 1 };
        if self.page(parent).len() < PAGE {
            self.pages[parent as usize].insert(gap.slot as usize, right);
            self.adopt(parent, gap.slot as usize);
            self.lift(parent, false, 0, right.size);
        } else {
            self.split(gap, right, level + 1);
        }
    }

    /// Tells the children of `page` from slot `from` on where they are.
    fn adopt(&mut self, page: u32, from: usize) {
        for slot in from..self.page(page).len() {
            let child = self.page(page).entries[slot].link;
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
        u32::try_from(self.pages.len() - 1).expect("there are fewer pages than blocks")
    }

    /// Puts things right above a page that has lost an entry of size `old` and runs low.
    fn remove_deep(&mut self, page: u32, old: u64) {
        let (mut page, mut old, mut level) = (page, old, 0);
        while page != self.root && self.page(page).len() < LOW {
            let Page { parent, slot, len, .. } = *self.page(page);
            if len == 0 {
                old = self.page(parent).entries[slot as usize].size;
                self.drop_child(parent, slot as usize);
            } else {
                self.lift(page, true, old, 0);
                if !self.join(parent, slot as usize, level) {
                    return;
                }
                old = 0;
            }
            (page, level) = (parent, level + 1);
        }
        self.lift(page, true, old, 0);
        while self.height > 0 && self.page(self.root).len() == 1 {
            self.spare.push(self.root);
            self.root = self.page(self.root).entries[0].link;
            self.height -= 1;
        }
    }

    /// Joins the child at `slot` of `parent`, `level` levels above the leaves, with a neighbour if
    /// the two are small enough, and says whether they were.
    fn join(&mut self, parent: u32, slot: usize, level: u32) -> bool {
        let page = self.page(parent);
        let mut lefts =
            [slot.checked_sub(1), (slot + 1 < page.len()).then_some(slot)].into_iter().flatten();
        let small = |&left: &usize| {
            let pair = [page.entries[left].link, page.entries[left + 1].link];
            pair.map(|page| self.page(page).len()).iter().sum::<usize>() <= PAGE - LOW
        };
        let Some(left) = lefts.find(small) else { return false };
        let (low, high) = (page.entries[left], page.entries[left + 1]);
        let moved = self.page(high.link).clone();
        let from = self.page(low.link).len();
        self.pages[low.link as usize].append(&moved, 0);
        if level > 0 {
            self.adopt(low.link, from);
        }
        self.pages[parent as usize].entries[left].size = low.size.max(high.size);
        self.drop_child(parent, left + 1);
        true
    }

    /// Takes the child at `slot` out of `parent` and keeps the page for later.
    fn drop_child(&mut self, parent: u32, slot: usize) {
        let page = &mut self.pages[parent as usize];
        self.spare.push(page.entries[slot].link);
        page.remove(slot);
        self.adopt(parent, slot);
    }
}
