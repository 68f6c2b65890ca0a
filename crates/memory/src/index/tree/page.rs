//! A page of the tree: entries in order, and the searches within it.

/// Entries in a page. Short enough that moving half a page costs about as much as finding the
/// place; long enough that 100,000 ranges need only four levels.
pub(super) const PAGE: usize = 24;
/// A page with fewer entries than this is joined with a neighbour if both fit into three quarters
/// of a page, so that an insertion does not split them again at once.
pub(super) const LOW: usize = PAGE / 4;
/// Size in a page of all ranges that are this long or longer.
pub(super) const LONG: u64 = i32::MAX as u64;

/// Returns a size as pages hold it.
#[inline]
pub(super) fn short(size: u64) -> i32 {
    size.min(LONG) as i32
}

/// An entry of a page: a range with its size cut to what pages hold, or a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) start: u64,
    pub(super) size: i32,
    pub(super) link: u32,
}

/// The fields of the entries are in arrays of their own: a search reads one of them, and eight
/// sizes or four starts of a line of the cache are compared without a branch. Unused slots have
/// the size 0 and start at the end of all addresses, so that searches need not know how long a
/// page is.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Page {
    pub(super) len: u32,
    pub(super) level: u32,
    /// The page that has this one as a child, and where; the root's mean nothing.
    pub(super) parent: u32,
    pub(super) slot: u32,
    pub(super) sizes: [i32; PAGE],
    pub(super) starts: [u64; PAGE],
    /// Children, or the blocks of the ranges; of a leaf in a tree without links, nothing.
    pub(super) links: [u32; PAGE],
}

impl Page {
    pub(super) const fn empty(level: u32) -> Self {
        let (sizes, starts, links) = ([0; PAGE], [u64::MAX; PAGE], [0; PAGE]);
        Self { len: 0, level, parent: 0, slot: 0, sizes, starts, links }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn item(&self, slot: usize) -> Item {
        Item { start: self.starts[slot], size: self.sizes[slot], link: self.links[slot] }
    }

    #[inline]
    pub(super) fn insert(&mut self, slot: usize, item: Item, linked: bool) {
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
    pub(super) fn remove(&mut self, slot: usize, linked: bool) {
        let len = self.len();
        self.sizes.copy_within(slot + 1..len, slot);
        self.starts.copy_within(slot + 1..len, slot);
        (self.sizes[len - 1], self.starts[len - 1]) = (0, u64::MAX);
        if linked {
            self.links.copy_within(slot + 1..len, slot);
        }
        self.len -= 1;
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.sizes[len..].fill(0);
        self.starts[len..].fill(u64::MAX);
        self.len = len as u32;
    }

    /// Appends the entries of `other` from `from` on.
    pub(super) fn append(&mut self, other: &Self, from: usize) {
        let (start, end) = (self.len(), self.len() + other.len() - from);
        self.sizes[start..end].copy_from_slice(&other.sizes[from..other.len()]);
        self.starts[start..end].copy_from_slice(&other.starts[from..other.len()]);
        self.links[start..end].copy_from_slice(&other.links[from..other.len()]);
        self.len = end as u32;
    }

    #[inline]
    pub(super) fn longest(&self) -> i32 {
        self.sizes.iter().fold(0, |longest, &size| longest.max(size))
    }

    /// Returns the entries of at least `size` as bits: bit `n + 1` for slot `n`. (Were it bit `n`, the compiler
    /// would take the first and the last slots one by one, and need half as many instructions more.)
    #[inline]
    pub(super) fn at_least(&self, size: i32) -> u32 {
        // In two steps, which become comparisons and additions of four sizes at a time.
        let fits: [i32; PAGE] = std::array::from_fn(|slot| -i32::from(self.sizes[slot] >= size));
        let bits: [i32; PAGE] = std::array::from_fn(|slot| fits[slot] & 2 << slot);
        bits.into_iter().fold(0, |all, bit| all | bit).cast_unsigned()
    }

    /// Counts the entries that start at `key` or below: first by quarters, then within one. A search
    /// that halves the page would have branches, or more loads that wait for each other.
    #[inline]
    pub(super) fn rank(&self, key: u64) -> usize {
        const QUARTER: usize = PAGE / 4;
        let below = |start: &u64| usize::from(*start <= key);
        let ends = [1, 2, 3].map(|quarter| below(&self.starts[quarter * QUARTER - 1]));
        let from = QUARTER * ends.into_iter().sum::<usize>();
        from + self.starts[from..from + QUARTER].iter().map(below).sum::<usize>()
    }
}
