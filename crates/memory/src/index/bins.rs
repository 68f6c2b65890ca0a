//! The size bins: free blocks by size, so that the smallest one that fits is found at once.
//!
//! A size falls into an *octave* (its power of two) and there into one of 4,096 bins. Bitmaps say
//! which octaves and bins are in use, so finding the next one takes a few instructions.
//!
//! Below 4,096 units a bin has one size and its blocks are a list, the latest first: best fit
//! leaves many small remainders behind, and a list lets any of them go in constant time. Above, a
//! bin is 0.02 % wide and may hold several sizes; its blocks are a treap ordered by (size, address),
//! so that the answer is exact and the worst case stays logarithmic. Almost always the treap is a
//! single block.

#![expect(
    clippy::cast_possible_truncation,
    reason = "octaves and slots are small numbers by construction"
)]

use super::blocks::{Blocks, Id, NONE};

/// Bits of a size, below the leading one, that choose its bin.
const MANTISSA: u32 = 12;
const BINS: usize = 1 << MANTISSA;
/// Octave 0 and one for every leading bit above the mantissa's.
const OCTAVES: usize = (u64::BITS - MANTISSA + 1) as usize;
const WORDS: usize = BINS / 64;

/// The bins of the sizes that share a leading bit.
#[derive(Clone, Debug)]
struct Octave {
    roots: [Id; BINS],
    used: [u64; WORDS],
    /// Which words of `used` are not zero.
    words: u64,
}

/// Free blocks by size. See the module's comment.
#[derive(Clone, Debug)]
pub(crate) struct SizeBins {
    /// Made when their first block arrives: 17 KiB each, and few spaces see them all.
    octaves: [Option<Box<Octave>>; OCTAVES],
    /// Which octaves hold a block.
    used: u64,
}

/// Where a size belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bin {
    octave: usize,
    slot: usize,
}

impl Bin {
    /// Sizes up to 4,095 units are octave 0, one size a slot; then every octave is a doubling.
    #[inline]
    fn of(size: u64) -> Self {
        let octave = (u64::BITS - size.leading_zeros()).saturating_sub(MANTISSA);
        if octave == 0 {
            return Self { octave: 0, slot: size as usize };
        }
        let slot = (size >> (octave - 1)) as usize & (BINS - 1);
        Self { octave: octave as usize, slot }
    }
}

impl SizeBins {
    pub(crate) fn new() -> Self {
        Self { octaves: [const { None }; OCTAVES], used: 0 }
    }

    pub(crate) fn footprint(&self) -> usize {
        self.octaves.iter().flatten().count() * size_of::<Octave>()
    }

    /// Adds a free block.
    #[inline]
    pub(crate) fn insert(&mut self, blocks: &mut Blocks, id: Id) {
        let bin = Bin::of(blocks.hole(id));
        let octave = self.octave(bin.octave);
        let root = &mut octave.roots[bin.slot];
        if bin.octave == 0 && *root != NONE {
            list::insert(blocks, root, id);
        } else if *root == NONE {
            blocks.set_left(id, NONE);
            blocks.set_right(id, NONE);
            *root = id;
            octave.used[bin.slot / 64] |= 1 << (bin.slot % 64);
            octave.words |= 1 << (bin.slot / 64);
            self.used |= 1 << bin.octave;
        } else {
            treap::insert(blocks, root, id);
        }
    }

    /// Takes a free block out; it still has the size with which it came in.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &mut Blocks, id: Id) {
        let bin = Bin::of(blocks.hole(id));
        let octave = self.octave(bin.octave);
        let root = &mut octave.roots[bin.slot];
        if bin.octave == 0 {
            list::remove(blocks, root, id);
        } else if *root == id && blocks.left(id) == NONE && blocks.right(id) == NONE {
            // Nearly every bin of these has a single block.
            *root = NONE;
        } else {
            treap::remove(blocks, root, id);
        }
        if *root == NONE {
            octave.used[bin.slot / 64] &= !(1 << (bin.slot % 64));
            if octave.used[bin.slot / 64] == 0 {
                octave.words &= !(1 << (bin.slot / 64));
                self.used &= !(u64::from(octave.words == 0) << bin.octave);
            }
        }
    }

    /// Gives a free block new edges.
    #[inline]
    pub(crate) fn reshape(&mut self, blocks: &mut Blocks, id: Id, start: u64, size: u64) {
        let bin = Bin::of(size);
        let alone = blocks.left(id) == NONE && blocks.right(id) == NONE;
        // Alone in a bin of several sizes, a block may change without moving; a list is in the order
        // of arrival, which a change renews.
        if bin.octave > 0
            && alone
            && bin == Bin::of(blocks.hole(id))
            && self.octave(bin.octave).roots[bin.slot] == id
        {
            blocks.reshape(id, start, size);
        } else {
            self.remove(blocks, id);
            blocks.reshape(id, start, size);
            self.insert(blocks, id);
        }
    }

    /// The smallest block of at least `size`; of equal ones the latest below 4,096 units and the
    /// lowest above.
    #[inline]
    pub(crate) fn best(&self, blocks: &Blocks, size: u64) -> Option<Id> {
        self.at_least(blocks, (size, 0))
    }

    /// The block that follows the free block `id` in the order in which best fit prefers them.
    pub(crate) fn after(&self, blocks: &Blocks, id: Id) -> Option<Id> {
        let size = blocks.hole(id);
        if Bin::of(size).octave > 0 {
            return self.at_least(blocks, (size, blocks.start(id) + 1));
        }
        let next = blocks.right(id);
        if next == NONE { self.at_least(blocks, (size + 1, 0)) } else { Some(next) }
    }

    /// The size of the largest block, 0 where there is none.
    pub(crate) fn longest(&self, blocks: &Blocks) -> u64 {
        let Some(octave) = self.used.checked_ilog2() else { return 0 };
        let octave = self.octaves[octave as usize].as_ref().expect("an octave in use was made");
        let word = octave.words.ilog2() as usize;
        let slot = word * 64 + octave.used[word].ilog2() as usize;
        // In octave 0 any block of the slot will do, since they have one size.
        blocks.hole(treap::last(blocks, octave.roots[slot]))
    }

    #[inline]
    fn at_least(&self, blocks: &Blocks, key: (u64, u64)) -> Option<Id> {
        let bin = Bin::of(key.0);
        if let Some(octave) = &self.octaves[bin.octave] {
            let own = octave.roots[bin.slot];
            // All blocks of a bin of octave 0 have its size, and the first of the list is preferred.
            let own = if bin.octave == 0 || own == NONE {
                own
            } else {
                treap::at_least(blocks, own, key)
            };
            if own != NONE {
                return Some(own);
            }
            if let Some(slot) = octave.next_slot(bin.slot + 1) {
                return Some(first(blocks, bin.octave, octave.roots[slot]));
            }
        }
        let above = self.used & u64::MAX.checked_shl(bin.octave as u32 + 1).unwrap_or(0);
        let above = above.checked_trailing_zeros()? as usize;
        let octave = self.octaves[above].as_ref().expect("an octave in use was made");
        let slot = octave.next_slot(0).expect("an octave in use has a block");
        Some(first(blocks, above, octave.roots[slot]))
    }

    #[inline]
    fn octave(&mut self, octave: usize) -> &mut Octave {
        self.octaves[octave].get_or_insert_with(|| Box::new(Octave::EMPTY))
    }
}

impl Octave {
    const EMPTY: Self = Self { roots: [NONE; BINS], used: [0; WORDS], words: 0 };

    /// The first slot in use from `from` on.
    #[inline]
    fn next_slot(&self, from: usize) -> Option<usize> {
        if from >= BINS {
            return None;
        }
        let word = from / 64;
        let own = self.used[word] & (u64::MAX << (from % 64));
        if own != 0 {
            return Some(word * 64 + own.trailing_zeros() as usize);
        }
        let above = self.words & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
        let word = above.checked_trailing_zeros()? as usize;
        Some(word * 64 + self.used[word].trailing_zeros() as usize)
    }
}

/// The preferred block of a bin that is not empty.
fn first(blocks: &Blocks, octave: usize, root: Id) -> Id {
    if octave == 0 { root } else { treap::first(blocks, root) }
}

trait TrailingZeros {
    fn checked_trailing_zeros(self) -> Option<u32>;
}

impl TrailingZeros for u64 {
    fn checked_trailing_zeros(self) -> Option<u32> {
        (self != 0).then(|| self.trailing_zeros())
    }
}

/// A list of blocks, the latest first: `left` is the one before, `right` the one after.
mod list {
    use super::{Blocks, Id, NONE};

    pub(super) fn insert(blocks: &mut Blocks, root: &mut Id, id: Id) {
        blocks.set_left(id, NONE);
        blocks.set_right(id, *root);
        blocks.set_left(*root, id);
        *root = id;
    }

    pub(super) fn remove(blocks: &mut Blocks, root: &mut Id, id: Id) {
        let (before, after) = (blocks.left(id), blocks.right(id));
        if before == NONE {
            *root = after;
        } else {
            blocks.set_right(before, after);
        }
        if after != NONE {
            blocks.set_left(after, before);
        }
    }
}

/// A binary search tree over (size, address) that is a heap over a hash of the address, which keeps
/// it shallow whatever the order of insertions. Children are the `left` and `right` of the blocks.
mod treap {
    use super::{Blocks, Id, NONE};

    fn key(blocks: &Blocks, id: Id) -> (u64, u64) {
        (blocks.hole(id), blocks.start(id))
    }

    fn priority(blocks: &Blocks, id: Id) -> u64 {
        // Fibonacci hashing: consecutive addresses are spread over the whole range.
        blocks.start(id).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    pub(super) fn first(blocks: &Blocks, root: Id) -> Id {
        let mut id = root;
        while blocks.left(id) != NONE {
            id = blocks.left(id);
        }
        id
    }

    pub(super) fn last(blocks: &Blocks, root: Id) -> Id {
        let mut id = root;
        while blocks.right(id) != NONE {
            id = blocks.right(id);
        }
        id
    }

    pub(super) fn at_least(blocks: &Blocks, root: Id, wanted: (u64, u64)) -> Id {
        let (mut id, mut answer) = (root, NONE);
        while id != NONE {
            if key(blocks, id) >= wanted {
                answer = id;
                id = blocks.left(id);
            } else {
                id = blocks.right(id);
            }
        }
        answer
    }

    pub(super) fn insert(blocks: &mut Blocks, root: &mut Id, id: Id) {
        let (wanted, urgency) = (key(blocks, id), priority(blocks, id));
        let (mut parent, mut at) = (None, *root);
        while at != NONE && priority(blocks, at) >= urgency {
            let left = wanted < key(blocks, at);
            parent = Some((at, left));
            at = if left { blocks.left(at) } else { blocks.right(at) };
        }
        let (low, high) = split(blocks, at, wanted);
        blocks.set_left(id, low);
        blocks.set_right(id, high);
        attach(blocks, root, parent, id);
    }

    pub(super) fn remove(blocks: &mut Blocks, root: &mut Id, id: Id) {
        let wanted = key(blocks, id);
        let (mut parent, mut at) = (None, *root);
        while at != id {
            assert_ne!(at, NONE, "a free block is in the bin of its size");
            let left = wanted < key(blocks, at);
            parent = Some((at, left));
            at = if left { blocks.left(at) } else { blocks.right(at) };
        }
        let joined = join(blocks, blocks.left(id), blocks.right(id));
        attach(blocks, root, parent, joined);
    }

    fn attach(blocks: &mut Blocks, root: &mut Id, parent: Option<(Id, bool)>, id: Id) {
        match parent {
            None => *root = id,
            Some((parent, true)) => blocks.set_left(parent, id),
            Some((parent, false)) => blocks.set_right(parent, id),
        }
    }

    /// Cuts a tree into the blocks below `wanted` and those above it.
    fn split(blocks: &mut Blocks, tree: Id, wanted: (u64, u64)) -> (Id, Id) {
        let (mut low, mut high) = (NONE, NONE);
        // Where the next part of each side hangs: nowhere yet, or under this block.
        let (mut under_low, mut under_high) = (None, None);
        let mut at = tree;
        while at != NONE {
            if key(blocks, at) < wanted {
                attach(blocks, &mut low, under_low, at);
                under_low = Some((at, false));
                at = blocks.right(at);
            } else {
                attach(blocks, &mut high, under_high, at);
                under_high = Some((at, true));
                at = blocks.left(at);
            }
        }
        attach(blocks, &mut low, under_low, NONE);
        attach(blocks, &mut high, under_high, NONE);
        (low, high)
    }

    /// One tree of two, all of `low` being below all of `high`.
    fn join(blocks: &mut Blocks, low: Id, high: Id) -> Id {
        let (mut root, mut parent) = (NONE, None);
        let (mut low, mut high) = (low, high);
        while low != NONE && high != NONE {
            if priority(blocks, low) >= priority(blocks, high) {
                attach(blocks, &mut root, parent, low);
                parent = Some((low, false));
                low = blocks.right(low);
            } else {
                attach(blocks, &mut root, parent, high);
                parent = Some((high, true));
                high = blocks.left(high);
            }
        }
        attach(blocks, &mut root, parent, if low == NONE { high } else { low });
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_exact_below_4096_and_never_out_of_order() {
        assert_eq!(Bin::of(4095), Bin { octave: 0, slot: 4095 });
        assert_eq!(Bin::of(4096), Bin { octave: 1, slot: 0 });
        assert_eq!(Bin::of(8191), Bin { octave: 1, slot: 4095 });
        assert_eq!(Bin::of(8192), Bin { octave: 2, slot: 0 });
        assert_eq!(Bin::of(8194), Bin { octave: 2, slot: 1 });
        let near = |bit: u32| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1];
        let sizes: std::collections::BTreeSet<u64> = (1..64).flat_map(near).collect();
        let bins: Vec<_> = sizes.into_iter().map(Bin::of).collect();
        assert!(bins.is_sorted(), "a larger size is never in a lower bin");
        assert_eq!(Bin::of(u64::MAX), Bin { octave: 52, slot: 4095 });
    }
}
