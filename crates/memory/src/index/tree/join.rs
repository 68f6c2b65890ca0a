//! Ranges that are given back, and joined with the ranges that they touch.

use super::page::{LONG, LOW, Page, short};
use super::{AddressTree, FreeRange, Place};

impl AddressTree {
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
                // The lower range grows first: removing the upper one may move it to another page.
                let above = self.entry(self.place_above(gap));
                self.join_below(below, FreeRange { size: new.size + above.size, ..new });
                self.remove(self.place_above(gap));
                self.place_near(new.start, below.page)
            }
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
}
