//! A page of the tree: entries in order, and the searches within it.

/// Number of entries in a page. Small enough that moving half a page costs about as much as finding the position; large
/// enough that 100,000 ranges need only four levels.
pub(super) const PAGE: usize = 24;
/// Threshold for merging pages: a page with fewer entries is merged with a neighbour if both fit into three quarters of
/// a page. The rest is slack, so that an insertion does not split the page again at once.
pub(super) const LOW: usize = PAGE / 4;
/// Maximum size stored in a page; it stands for all ranges of this size or more.
pub(super) const LONG: u64 = i32::MAX as u64;

/// Returns a size as pages hold it.
#[inline]
pub(super) fn short(size: u64) -> i32 {
    size.min(LONG) as i32
}

/// An entry of a page: a range with its size capped at [`LONG`], or a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) start: u64,
    pub(super) size: i32,
    pub(super) link: u32,
}

/// The fields of the entries are in separate arrays: a search reads one of them, and compares eight sizes or four
/// starts of a cache line without a branch. Unused slots have size 0 and the highest possible start, so that searches
/// need not know the length of a page.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Page {
    pub(super) len: u32,
    pub(super) level: u32,
    /// Parent of this page; undefined for the root.
    pub(super) parent: u32,
    pub(super) slot: u32,
    pub(super) sizes: [i32; PAGE],
    pub(super) starts: [u64; PAGE],
    /// Children of a branch, or the blocks of a leaf's ranges; unused for a leaf in a tree without links.
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

    /// Appends the entries of `other`, starting at slot `from`.
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

    /// Returns the entries of at least `size` as a bitmap: bit `n + 1` for slot `n`. (With bit `n`, the compiler would
    /// handle the first and last slots one by one and emit 50 % more instructions.)
    #[inline]
    pub(super) fn at_least(&self, size: i32) -> u32 {
        // In two steps, which become comparisons and additions of four sizes at a time.
        let fits: [i32; PAGE] = std::array::from_fn(|slot| -i32::from(self.sizes[slot] >= size));
        let bits: [i32; PAGE] = std::array::from_fn(|slot| fits[slot] & 2 << slot);
        bits.into_iter().fold(0, |all, bit| all | bit).cast_unsigned()
    }

    /// Counts the entries that start at or below `key`: first by quarters, then within one quarter. A binary search
    /// would have branches, or more dependent loads.
    #[inline]
    pub(super) fn rank(&self, key: u64) -> usize {
        const QUARTER: usize = PAGE / 4;
        let below = |start: &u64| usize::from(*start <= key);
        let ends = [1, 2, 3].map(|quarter| below(&self.starts[quarter * QUARTER - 1]));
        let from = QUARTER * ends.into_iter().sum::<usize>();
        from + self.starts[from..from + QUARTER].iter().map(below).sum::<usize>()
    }
}
