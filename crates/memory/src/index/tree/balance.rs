//! Shape of the tree: changes carried up to the root, full pages split, short pages joined.

use super::page::{Item, LOW, PAGE, Page};
use super::{AddressTree, NOWHERE, Place};

impl AddressTree {
    /// Propagates a change in `page` to its parents: their starts if the page's start changed (`first`), and their
    /// sizes if the entry that changed from `old` to `new` was or is the longest.
    #[inline]
    pub(super) fn lift(&mut self, page: u32, first: bool, old: i32, new: i32) {
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

    /// Inserts into a full page by splitting it in half.
    #[cold]
    pub(super) fn split(&mut self, gap: Place, item: Item) {
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
    pub(super) fn remove_deep(&mut self, page: u32, old: i32) {
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
        // A search that begins at the page must find nothing in it.
        self.pages[child as usize].len = 0;
        self.spare.push(child);
        self.adopt(parent, slot);
    }
}
