//! The size bins: free blocks by size, so that the smallest block that fits is found directly.
//!
//! A size falls into an *octave* (its power of two) and into one of the octave's 4,096 bins. Bitmaps mark the octaves
//! and bins in use, so finding the next one takes a few instructions.
//!
//! Below 8,192 units a bin has one size and its blocks form a list, most recent first. Best fit leaves many small
//! remainders, and a list removes any of them in constant time. From 8,192 units on, a bin is 0.02 % wide and may hold
//! several sizes. Its blocks form a treap ordered by (size, address), so that the answer is exact and the worst case
//! stays logarithmic. The treap is almost always a single block. (Fewer, wider bins would stay in the cache, but their
//! treaps cost more than that gains: 10 bits are 5 % slower on the bundled traces and 15 % slower at 100,000 blocks; 8
//! bits are 10 % slower and take twice the time.)

#![expect(
    clippy::cast_possible_truncation,
    reason = "octaves and slots are small numbers by construction"
)]

use super::blocks::{Blocks, Id, NONE};

/// Number of bits below the leading one that select the bin of a size.
const MANTISSA: u32 = 12;
const BINS: usize = 1 << MANTISSA;
/// Number of octaves: two for the sizes with one bin each, and one for every further doubling.
const OCTAVES: usize = (u64::BITS - MANTISSA + 1) as usize;
const WORDS: usize = BINS / 64;
/// First bin with several sizes; every bin below has a single size.
const LISTS: usize = 2 * BINS;

/// The bins of the sizes that share a leading bit.
#[derive(Clone, Debug)]
struct Octave {
    /// Bitmap of the bins that hold a block. It is read first, and is short enough to stay in the cache.
    used: [u64; WORDS],
    /// One block of each bin in use; undefined for the other bins.
    roots: [Id; BINS],
}

/// Free blocks by size. See the module's comment.
#[derive(Clone, Debug)]
pub(crate) struct SizeBins {
    used: u64,
    /// Bitmap of the nonzero words of an octave's `used`.
    words: [u64; OCTAVES],
    /// Octaves, allocated with their first block: each takes 17 KiB, and few spaces use them all.
    octaves: [Option<Box<Octave>>; OCTAVES],
}

/// Returns the bin of a size. Bins are numbered in the order of sizes, [`BINS`] per octave.
#[inline]
fn bin(size: u64) -> usize {
    // Branch-free: small sizes are shifted by zero, so each is its own bin. For larger sizes, the shift leaves the
    // leading one just above the mantissa, where it counts as one octave.
    let shift = (size | BINS as u64).ilog2() - MANTISSA;
    ((shift as usize) << MANTISSA) + (size >> shift) as usize
}

impl SizeBins {
    pub(crate) fn new() -> Self {
        Self { used: 0, words: [0; OCTAVES], octaves: [const { None }; OCTAVES] }
    }

    pub(crate) fn footprint(&self) -> usize {
        self.octaves.iter().flatten().count() * size_of::<Octave>()
    }

    #[inline]
    pub(crate) fn insert(&mut self, blocks: &mut Blocks, id: Id) {
        let bin = bin(blocks.hole(id));
        let Some(octave) = &mut self.octaves[bin / BINS] else {
            return self.insert_first(blocks, id);
        };
        let (word, bit) = (&mut octave.used[bin / 64 % WORDS], 1 << (bin % 64));
        let root = &mut octave.roots[bin % BINS];
        if *word & bit == 0 {
            *word |= bit;
            *root = id;
            blocks.set_sides(id, NONE, NONE);
            self.words[bin / BINS] |= 1 << (bin / 64 % WORDS);
            self.used |= 1 << (bin / BINS);
        } else if bin < LISTS {
            list::insert(blocks, root, id);
        } else {
            treap::insert(blocks, root, id);
        }
    }

    /// Adds the first block of an octave. This is a separate function, called last by `insert`, so that the common case
    /// saves no registers.
    #[cold]
    fn insert_first(&mut self, blocks: &mut Blocks, id: Id) {
        let octave = Octave { roots: [NONE; BINS], used: [0; WORDS] };
        self.octaves[bin(blocks.hole(id)) / BINS] = Some(Box::new(octave));
        self.insert(blocks, id);
    }

    /// Removes a free block, whose size must not have changed since it was added.
    #[inline]
    pub(crate) fn remove(&mut self, blocks: &mut Blocks, id: Id) {
        let bin = bin(blocks.hole(id));
        let octave = self.octaves[bin / BINS].as_mut().expect("an octave in use was made");
        let root = &mut octave.roots[bin % BINS];
        if blocks.sides(id) == (NONE, NONE) && (bin < LISTS || *root == id) {
            let word = &mut octave.used[bin / 64 % WORDS];
            *word &= !(1 << (bin % 64));
            if *word == 0 {
                self.words[bin / BINS] &= !(1 << (bin / 64 % WORDS));
                self.used &= !(u64::from(self.words[bin / BINS] == 0) << (bin / BINS));
            }
        } else if bin < LISTS {
            list::remove(blocks, root, id);
        } else {
            treap::remove(blocks, root, id);
        }
    }

    /// Returns the smallest block of at least `size`. Among equal sizes, it is the most recent block below 8,192 units
    /// and the lowest block from there on.
    #[inline]
    pub(crate) fn best(&self, blocks: &Blocks, size: u64) -> Option<Id> {
        self.at_least(blocks, (size, 0))
    }

    /// Returns the next block after `id` in the preference order of best fit.
    pub(crate) fn after(&self, blocks: &Blocks, id: Id) -> Option<Id> {
        let size = blocks.hole(id);
        if bin(size) >= LISTS {
            return self.at_least(blocks, (size, blocks.start(id) + 1));
        }
        let (_, next) = blocks.sides(id);
        if next == NONE { self.at_least(blocks, (size + 1, 0)) } else { Some(next) }
    }

    /// Returns the size of the largest block, or 0 if there is none.
    pub(crate) fn longest(&self, blocks: &Blocks) -> u64 {
        let Some(octave) = self.used.checked_ilog2() else { return 0 };
        let words = self.words[octave as usize];
        let bin = octave as usize * BINS + words.ilog2() as usize * 64;
        let bin = bin + self.word(bin).ilog2() as usize;
        // In a list any block will do, since all have the same size.
        blocks.hole(treap::last(blocks, self.root(bin)))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a part of the path of every best fit")]
    fn at_least(&self, blocks: &Blocks, key: (u64, u64)) -> Option<Id> {
        let own = bin(key.0);
        if own < LISTS {
            return self.first_from(blocks, own);
        }
        if self.word(own) >> (own % 64) & 1 != 0 {
            let found = treap::at_least(blocks, self.root(own), key);
            if found != NONE {
                return Some(found);
            }
        }
        self.first_from(blocks, own + 1)
    }

    /// Returns the preferred block of the first bin in use at or after `from`.
    #[inline]
    fn first_from(&self, blocks: &Blocks, from: usize) -> Option<Id> {
        // The head of a list has no left neighbour either.
        self.next_bin(from).map(|bin| treap::first(blocks, self.root(bin)))
    }

    /// Returns the first bin in use at or after `from`: in the same word, in the same octave, or above.
    #[inline]
    fn next_bin(&self, from: usize) -> Option<usize> {
        let bits = self.word(from) & u64::MAX << (from % 64);
        if bits != 0 {
            return Some(from / 64 * 64 + bits.trailing_zeros() as usize);
        }
        let octave = from / BINS;
        let above = self.words.get(octave)? & u64::MAX << (from / 64 % WORDS) << 1;
        if above != 0 {
            return Some(self.first_bin(octave, above));
        }
        let above = self.used & u64::MAX << octave << 1;
        let octave = above.trailing_zeros() as usize;
        (above != 0).then(|| self.first_bin(octave, self.words[octave]))
    }

    /// Returns the first bin in use of an octave, among the words in the bitmap `words`.
    #[inline]
    fn first_bin(&self, octave: usize, words: u64) -> usize {
        let bin = octave * BINS + words.trailing_zeros() as usize * 64;
        bin + self.word(bin).trailing_zeros() as usize
    }

    #[inline]
    fn word(&self, bin: usize) -> u64 {
        let octave = self.octaves.get(bin / BINS).and_then(Option::as_ref);
        octave.map_or(0, |octave| octave.used[bin / 64 % WORDS])
    }

    #[inline]
    fn root(&self, bin: usize) -> Id {
        let octave = self.octaves[bin / BINS].as_ref().expect("an octave in use was made");
        octave.roots[bin % BINS]
    }
}

/// A list of blocks, most recent first: `left` is the previous block, `right` the next.
mod list {
    use super::{Blocks, Id, NONE};

    pub(super) fn insert(blocks: &mut Blocks, root: &mut Id, id: Id) {
        blocks.set_sides(id, NONE, *root);
        blocks.set_left(*root, id);
        *root = id;
    }

    pub(super) fn remove(blocks: &mut Blocks, root: &mut Id, id: Id) {
        let (before, after) = blocks.sides(id);
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

/// A treap: a binary search tree over (size, address) that is also a heap over a hash of the address. The hash keeps it
/// shallow for any order of insertions. Children are the `left` and `right` of the blocks.
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
        blocks.set_sides(id, low, high);
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

    /// Splits a tree into the blocks below `wanted` and the blocks above it.
    fn split(blocks: &mut Blocks, tree: Id, wanted: (u64, u64)) -> (Id, Id) {
        let (mut low, mut high) = (NONE, NONE);
        // Block under which the next part of each side hangs; `None` at the start.
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

    /// Joins two trees; all blocks of `low` are below all blocks of `high`.
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
    fn bins_are_exact_below_8192_and_never_out_of_order() {
        assert_eq!([1, 4095, 4096, 8191].map(bin), [1, 4095, 4096, 8191]);
        assert_eq!([8192, 8193, 8194].map(bin), [8192, 8192, 8193]);
        assert_eq!([16383, 16384].map(bin), [3 * BINS - 1, 3 * BINS]);
        let near = |bit: u32| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1];
        let sizes: std::collections::BTreeSet<u64> = (1..64).flat_map(near).collect();
        let bins: Vec<_> = sizes.into_iter().map(bin).collect();
        assert!(bins.is_sorted(), "a larger size is never in a lower bin");
        assert_eq!(bin(u64::MAX), OCTAVES * BINS - 1);
    }
}
