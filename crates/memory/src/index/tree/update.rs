//! Insertion, removal and replacement of ranges.

use super::page::{Item, LONG, LOW, PAGE, short};
use super::{AddressTree, FreeRange, Place};

impl AddressTree {
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
            // It keeps its place in the order.
            (true, true) => self.long[place] = new,
            (true, false) => drop(self.long.remove(place)),
            (false, true) => self.long.insert(place, new),
            (false, false) => {}
        }
    }

    #[inline]
    pub(super) fn replace_item(&mut self, place: Place, new: Item) {
        let linked = self.linked;
        let (page, slot) = (&mut self.pages[place.page as usize], place.slot as usize);
        let old = std::mem::replace(&mut page.sizes[slot], new.size);
        let start = std::mem::replace(&mut page.starts[slot], new.start);
        if linked || page.level > 0 {
            page.links[slot] = new.link;
        }
        self.lift(place.page, slot == 0 && start != new.start, old, new.size);
    }

    #[inline]
    pub(super) fn insert_at(&mut self, gap: Place, entry: FreeRange) -> Place {
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
}
