//! The address tree: free ranges in address order, with the largest range under every branch.
//!
//! A B+-tree whose pages, leaves and branches alike, are the same three arrays: *keys* in order,
//! *weights* and *links*. In a leaf an entry is a free range: where it starts, how long it is and
//! which block it belongs to. In a branch an entry is a child page: where its first range starts,
//! how long its longest range is and which page it is. So "the lowest range of at least `n`" is,
//! at every level, "the first weight that is not below `n`". While there are few ranges the whole
//! tree is one page and the search is a scan of one short array, which nothing beats.
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

/// Keys that share a cache line: a search looks at the last of each line, then at one line.
const LINE: usize = 8;

/// Unused slots hold the highest key and no weight, so that searches need not know `len`.
#[derive(Clone, Debug)]
struct Page {
    len: u32,
    /// The page that has this one as a child; the root's means nothing.
    parent: u32,
    keys: [u64; PAGE],
    weights: [u64; PAGE],
    links: [u32; PAGE],
}

impl Page {
    const EMPTY: Self =
        Self { len: 0, parent: 0, keys: [u64::MAX; PAGE], weights: [0; PAGE], links: [0; PAGE] };

    fn len(&self) -> usize {
        self.len as usize
    }

    fn entry(&self, slot: usize) -> Entry {
        Entry { start: self.keys[slot], size: self.weights[slot], link: self.links[slot] }
    }

    fn set(&mut self, slot: usize, entry: Entry) {
        self.keys[slot] = entry.start;
        self.weights[slot] = entry.size;
        self.links[slot] = entry.link;
    }

    fn insert(&mut self, slot: usize, entry: Entry) {
        let len = self.len();
        self.keys.copy_within(slot..len, slot + 1);
        self.weights.copy_within(slot..len, slot + 1);
        self.links.copy_within(slot..len, slot + 1);
        self.len += 1;
        self.set(slot, entry);
    }

    fn remove(&mut self, slot: usize) {
        let len = self.len();
        self.keys.copy_within(slot + 1..len, slot);
        self.weights.copy_within(slot + 1..len, slot);
        self.links.copy_within(slot + 1..len, slot);
        self.truncate(len - 1);
    }

    /// Keeps the first `len` entries.
    fn truncate(&mut self, len: usize) {
        self.keys[len..self.len as usize].fill(u64::MAX);
        self.weights[len..self.len as usize].fill(0);
        self.len = len as u32;
    }

    /// Appends the entries of `other` from `from` on.
    fn append(&mut self, other: &Self, from: usize) {
        let (start, end) = (self.len(), self.len() + other.len() - from);
        self.keys[start..end].copy_from_slice(&other.keys[from..other.len()]);
        self.weights[start..end].copy_from_slice(&other.weights[from..other.len()]);
        self.links[start..end].copy_from_slice(&other.links[from..other.len()]);
        self.len = end as u32;
    }

    fn longest(&self) -> u64 {
        // Four at a time, since each comparison waits for the one before it.
        let mut longest = [0; 4];
        for weights in self.weights.chunks_exact(4) {
            (0..4).for_each(|place| longest[place] = longest[place].max(weights[place]));
        }
        longest.into_iter().fold(0, u64::max)
    }

    /// How many keys are not above `key`. Without branches, and with the cache lines read side by
    /// side: a binary search would wait for one after the other.
    #[inline]
    fn rank(&self, key: u64) -> usize {
        let below = |&other: &u64| usize::from(other <= key);
        let lines: usize = self.keys.iter().skip(LINE - 1).step_by(LINE).map(below).sum();
        let line = LINE * lines.min(PAGE / LINE - 1);
        line + self.keys[line..line + LINE].iter().map(below).sum::<usize>()
    }

    /// The first slot whose weight is at least `size`.
    #[inline]
    fn first(&self, size: u64) -> Option<usize> {
        self.weights.iter().position(|&weight| weight >= size)
    }

    /// The slot of the child `page`.
    fn slot_of(&self, page: u32) -> usize {
        let slot = self.links[..self.len()].iter().position(|&link| link == page);
        slot.expect("a page is among its parent's children")
    }
}

/// A free range: `size` units from `start` on, belonging to the block `link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
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
}

impl AddressTree {
    pub(crate) fn new() -> Self {
        Self { pages: vec![Page::EMPTY], spare: Vec::new(), root: 0, height: 0 }
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
        self.page(place.page).entry(place.slot as usize)
    }

    /// The lowest range of at least `size`.
    #[inline]
    pub(crate) fn first(&self, size: u64) -> Option<Place> {
        self.descend(|page| page.first(size))
    }

    /// The highest range of at least `size`.
    #[inline]
    pub(crate) fn last(&self, size: u64) -> Option<Place> {
        self.descend(|page| page.weights.iter().rposition(|&weight| weight >= size))
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
        let place = self.gap(key);
        self.entry_or_next(place)
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

    /// Replaces the range at `place` by `entry`, which keeps its place in the order.
    #[inline]
    pub(crate) fn replace(&mut self, place: Place, entry: Entry) {
        let page = &mut self.pages[place.page as usize];
        let old = page.entry(place.slot as usize);
        page.set(place.slot as usize, entry);
        self.lift(place.page, old.start, place.slot == 0, old.size, entry.size);
    }

    /// Takes the range at `place` out.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        let page = &mut self.pages[place.page as usize];
        let old = page.entry(place.slot as usize);
        page.remove(place.slot as usize);
        if page.len() >= LOW || place.page == self.root {
            self.lift(place.page, old.start, place.slot == 0, old.size, 0);
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
    #[inline]
    pub(crate) fn give_back(&mut self, Entry { start, size, link }: Entry) {
        let gap = self.gap(start);
        let below = gap.slot.checked_sub(1).map(|slot| Place { slot, ..gap });
        let below = below
            .map(|place| (place, self.entry(place)))
            .filter(|(_, below)| below.start + below.size == start);
        let above = self.entry_or_next(gap).filter(|above| start + size == above.start);
        match (below, above) {
            (None, None) => self.insert_at(gap, Entry { start, size, link }),
            (Some((place, below)), None) => {
                self.replace(place, Entry { start: below.start, size: below.size + size, link });
            }
            (None, Some(above)) => {
                let place = self.place_of(gap, above);
                self.replace(place, Entry { start, size: size + above.size, link });
            }
            (Some((place, below)), Some(above)) => {
                // The lower range grows first: removing the upper one may move it to another page.
                let size = below.size + size + above.size;
                self.replace(place, Entry { start: below.start, size, link });
                let place = self.place_of(gap, above);
                self.remove(place);
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
            at = page.links[step(page)?];
        }
        Some(Place { page: at, slot: step(self.page(at))? as u32 })
    }

    /// Where a range that starts just above `key` belongs.
    #[inline]
    fn gap(&self, key: u64) -> Place {
        let mut at = self.root;
        for _ in 0..self.height {
            let page = self.page(at);
            at = page.links[page.rank(key).saturating_sub(1)];
        }
        Place { page: at, slot: self.page(at).rank(key) as u32 }
    }

    /// The range at `gap`, or the first one of the next leaf where `gap` is the end of its leaf.
    #[inline]
    fn entry_or_next(&self, gap: Place) -> Option<Entry> {
        let page = self.page(gap.page);
        if (gap.slot as usize) < page.len() {
            Some(page.entry(gap.slot as usize))
        } else {
            self.next_leaf(gap.page)
        }
    }

    /// The first range of the leaf after `page`.
    fn next_leaf(&self, page: u32) -> Option<Entry> {
        let mut page = page;
        while page != self.root {
            let parent = self.page(page).parent;
            let next = self.page(parent).slot_of(page) + 1;
            if next < self.page(parent).len() {
                // A branch's key is the start of the first range under it.
                return Some(self.entry(self.exactly(self.page(parent).keys[next])));
            }
            page = parent;
        }
        None
    }

    /// The place of `entry`, which [`entry_or_next`](Self::entry_or_next) gave for `gap`.
    #[inline]
    fn place_of(&self, gap: Place, entry: Entry) -> Place {
        let page = self.page(gap.page);
        let here = (gap.slot as usize) < page.len() && page.keys[gap.slot as usize] == entry.start;
        if here { gap } else { self.exactly(entry.start) }
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
            .map(|step| page.entry(if from_top { page.len() - 1 - step } else { step }))
            .filter(|entry| entry.size >= size)
            .find_map(|entry| match levels {
                0 => fits(entry).then_some(entry),
                _ => self.search(entry.link, levels - 1, size, from_top, fits),
            })
    }

    /// Carries a change in `page` up: its parents' keys if its first entry changed, and their
    /// weights where the entry that went from `old` to `new` was or is the longest. `anchor` is a
    /// key that the parents, as they are now, look for in this page.
    #[inline]
    fn lift(&mut self, page: u32, anchor: u64, first: bool, old: u64, new: u64) {
        let (mut page, mut first, mut old, mut new) = (page, first, old, new);
        while page != self.root {
            let parent = self.page(page).parent;
            let slot = self.page(parent).rank(anchor) - 1;
            debug_assert_eq!(self.page(parent).links[slot], page, "the anchor leads to the page");
            let before = self.page(parent).weights[slot];
            let after = if new >= before {
                new
            } else if old < before {
                before
            } else {
                self.page(page).longest()
            };
            if after == before && !first {
                return;
            }
            let key = self.page(page).keys[0];
            self.pages[parent as usize].weights[slot] = after;
            self.pages[parent as usize].keys[slot] = key;
            (page, first, old, new) = (parent, first && slot == 0, before, after);
        }
    }

    #[inline]
    fn insert_at(&mut self, gap: Place, entry: Entry) {
        let page = &mut self.pages[gap.page as usize];
        if page.len() < PAGE {
            // The parents look for the lowest entry that was here; an empty root has no parents.
            let anchor = page.keys[0];
            page.insert(gap.slot as usize, entry);
            self.lift(gap.page, anchor, gap.slot == 0, 0, entry.size);
        } else {
            self.split(gap, entry, 0);
        }
    }

    /// Inserts into a full page, `level` levels above the leaves, by cutting it in half.
    fn split(&mut self, gap: Place, entry: Entry, level: u32) {
        let middle = PAGE / 2;
        let mut right = Page { parent: self.page(gap.page).parent, ..Page::EMPTY };
        right.append(self.page(gap.page), middle);
        let left = &mut self.pages[gap.page as usize];
        left.truncate(middle);
        match (gap.slot as usize).checked_sub(middle + 1) {
            None => left.insert(gap.slot as usize, entry),
            Some(slot) => right.insert(slot + 1, entry),
        }
        let halves = [&*left, &right].map(|page| (page.keys[0], page.longest()));
        let right = self.add_page(right);
        if level > 0 {
            self.adopt(gap.page);
            self.adopt(right);
        }
        let entries = [(halves[0], gap.page), (halves[1], right)]
            .map(|((start, size), link)| Entry { start, size, link });
        self.insert_half(gap.page, entries, level);
    }

    /// Enters the two halves of a page into its parent, which makes one where there was none.
    fn insert_half(&mut self, page: u32, [left, right]: [Entry; 2], level: u32) {
        if page == self.root {
            let mut root = Page::EMPTY;
            root.insert(0, left);
            root.insert(1, right);
            self.root = self.add_page(root);
            self.height += 1;
            self.adopt(self.root);
            return;
        }
        let parent = self.page(page).parent;
        let slot = self.page(parent).slot_of(page) as u32;
        self.replace(Place { page: parent, slot }, left);
        let gap = Place { page: parent, slot: slot + 1 };
        if self.page(parent).len() < PAGE {
            self.pages[parent as usize].insert(gap.slot as usize, right);
            self.lift(parent, right.start, false, 0, right.size);
        } else {
            self.split(gap, right, level + 1);
        }
    }

    /// Makes `page` the parent of its children.
    fn adopt(&mut self, page: u32) {
        for slot in 0..self.page(page).len() {
            let child = self.page(page).links[slot];
            self.pages[child as usize].parent = page;
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

    /// Puts things right above a page that has lost the entry `old` and runs low.
    fn remove_deep(&mut self, page: u32, old: Entry) {
        let (mut anchor, mut old) = (old.start, old.size);
        let (mut page, mut level) = (page, 0);
        while page != self.root && self.page(page).len() < LOW {
            let parent = self.page(page).parent;
            let slot = self.page(parent).slot_of(page);
            if self.page(page).len() == 0 {
                old = self.page(parent).weights[slot];
                self.spare.push(page);
                self.pages[parent as usize].remove(slot);
            } else {
                self.lift(page, anchor, true, old, 0);
                if !self.join(parent, slot, level) {
                    return;
                }
                (anchor, old) = (self.page(parent).keys[0], 0);
            }
            (page, level) = (parent, level + 1);
        }
        self.lift(page, anchor, true, old, 0);
        while self.height > 0 && self.page(self.root).len() == 1 {
            self.spare.push(self.root);
            self.root = self.page(self.root).links[0];
            self.height -= 1;
        }
    }

    /// Joins the child at `slot` of `parent`, `level` levels above the leaves, with a neighbour if
    /// the two are small enough, and says whether they were.
    fn join(&mut self, parent: u32, slot: usize, level: u32) -> bool {
        let page = self.page(parent);
        let mut lefts =
            [slot.checked_sub(1), (slot + 1 < page.len()).then_some(slot)].into_iter().flatten();
        let small = |left: &usize| {
            let pair = [page.links[*left], page.links[left + 1]];
            pair.map(|page| self.page(page).len()).iter().sum::<usize>() <= PAGE - LOW
        };
        let Some(left) = lefts.find(small) else { return false };
        let (low, high) = (page.links[left], page.links[left + 1]);
        let moved = self.page(high).clone();
        self.pages[low as usize].append(&moved, 0);
        if level > 0 {
            self.adopt(low);
        }
        self.spare.push(high);
        let parent = &mut self.pages[parent as usize];
        parent.weights[left] = parent.weights[left].max(parent.weights[left + 1]);
        parent.remove(left + 1);
        true
    }
}
