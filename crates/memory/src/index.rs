//! The free-space index: the free ranges of one address space, and the search for a range that fits a request.
//!
//! [`FreeIndex`] keeps its data outside the space, to which nothing is ever written. It builds each part when a call
//! first needs it:
//!
//! - the *live blocks*, 32 bytes each, always;
//! - the *address tree* of the free ranges, for first fit, last fit and allocation at an address; without a chain, it
//!   also finds the neighbours of a freed block;
//! - the *chain* of all blocks with the *size bins* of the free ones, for best fit; a freed block
//!   then finds its neighbours through the chain;
//! - a map from addresses to live blocks, for callers that have an address instead of a key;
//! - *quick lists* of freed blocks that are not merged yet, for callers that ask for them.
//!
//! Every operation takes O(log n) time in the number of blocks, with three exceptions. A search with an alignment above
//! the granule checks ranges that are long enough but misaligned one by one. A search of the tree for 2³¹ granules or
//! more checks all ranges of that length one by one. The first call that needs another part builds it in O(n log n).
//!
//! The same history gives the same answers everywhere. First and last fit depend only on the set of free ranges. Best
//! fit depends on the history only for ties between ranges of one size (see [`Fit::Best`]).
//!
//! ```
//! use cubeyard_memory::index::{Fit, FreeIndex};
//! use cubeyard_memory::Bytes;
//!
//! let mut space = FreeIndex::new(Bytes::mib(1), Bytes::new(128));
//! let a = space.allocate(Fit::First, Bytes::new(100), 0).unwrap();
//! let b = space.allocate(Fit::First, Bytes::new(300), 0).unwrap();
//! assert_eq!((a.offset, b.offset), (Bytes::ZERO, Bytes::new(128)));
//! space.free(a.key).unwrap();
//! assert!(space.free(a.key).is_err(), "a key is good for one free");
//! space.free(b.key).unwrap();
//! assert_eq!(space.largest(), Bytes::mib(1));
//! ```

mod bins;
mod blocks;
mod chain;
mod loners;
mod quick;
mod tree;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::Bytes;
use blocks::{Blocks, Id, NONE};
use chain::Chain;
use loners::Loners;
use quick::Quick;
pub(crate) use tree::{AddressTree, FreeRange, NOWHERE};

/// Choice among the free ranges that are long enough, and the end of the range at which the block is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The low end of the lowest range.
    First,
    /// The low end of the smallest range. Among ranges of equal size, the most recent one is taken below 8,192
    /// granules, and the lowest one from there on.
    Best,
    /// The high end of the highest range.
    Last,
}

/// Name of one live block of one [`FreeIndex`], valid until the block is freed.
///
/// The serial number distinguishes the block from every other block at the same place, earlier or later, so a stale key
/// is recognised. (The serial numbers wrap around after four billion further allocations in one space.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey(
    /// The block's id above its serial number, which is never 0. A single integer, because a processor stalls when it
    /// reads as one value what was just written as two.
    NonZeroU64,
);

#[expect(clippy::cast_possible_truncation, reason = "the number is cut into its halves")]
impl BlockKey {
    /// Returns the key of a block; serial numbers wrap around to 1.
    #[inline]
    fn new(id: Id, serial: u32) -> Self {
        let bits = u64::from(id) << 32 | u64::from(serial.max(1));
        Self(NonZeroU64::new(bits).expect("no serial number is 0"))
    }

    #[inline]
    fn id(self) -> Id {
        (self.0.get() >> 32) as Id
    }

    #[inline]
    pub(crate) fn serial(self) -> u32 {
        self.0.get() as u32
    }

    /// Returns the key as a number.
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// Converts a number from [`to_bits`](Self::to_bits) back to a key. Any number is accepted, since a key is checked
    /// when it is used.
    pub fn from_bits(bits: u64) -> Self {
        // No block has the highest id, since there are fewer blocks.
        let id = if bits as u32 == 0 { Id::MAX } else { (bits >> 32) as Id };
        Self::new(id, bits as u32)
    }
}

/// A live block of a [`FreeIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Key that names the block.
    pub key: BlockKey,
    /// Offset of the block's first byte.
    pub offset: Bytes,
    /// Length: `requested`, rounded up to the granule.
    pub size: Bytes,
    /// Number of bytes requested.
    pub requested: Bytes,
    /// Value that the owner stored with the block.
    pub tag: u32,
}

/// A free range of a [`FreeIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Offset of the range's first byte.
    pub offset: Bytes,
    /// Length in bytes.
    pub size: Bytes,
}

/// A part of a space, in [`FreeIndex::extents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A live block.
    Live(Block),
    /// A free range.
    Free(Hole),
}

impl Extent {
    /// Returns the offset of the extent's first byte.
    pub fn offset(&self) -> Bytes {
        match self {
            Self::Live(block) => block.offset,
            Self::Free(hole) => hole.offset,
        }
    }
}

/// The key names no live block: the block was already freed, or belongs to another space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block was freed before, or belongs to another space; nothing was changed")]
pub struct StaleBlock;

/// The free ranges of a space, in the form needed by the calls so far.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for a space, and it is used in place")]
enum Ranges {
    /// By address in a tree; the blocks are in no order.
    Loners(Loners),
    /// By size in bins; the blocks form a chain in address order.
    Chain(Chain),
}

/// The blocks of one address space and the free ranges between them. See the [module](self).
#[derive(Clone, Debug)]
pub struct FreeIndex {
    blocks: Blocks,
    ranges: Ranges,
    /// Live blocks by start, built when a call first needs them.
    addresses: Option<BTreeMap<u64, Id>>,
    /// Freed blocks that are not merged yet.
    quick: Quick,
    /// Size of a unit as a power of two: `1 << shift` bytes. All the parts above count in units.
    shift: u32,
    free: u64,
    live: usize,
    serial: u32,
}

impl FreeIndex {
    /// Creates a space of `capacity` bytes, all free. Starts and sizes of blocks are multiples of `granule`. The
    /// capacity is rounded down to the granule.
    ///
    /// # Panics
    /// If `granule` is not a power of two.
    pub fn new(capacity: Bytes, granule: Bytes) -> Self {
        assert!(granule.get().is_power_of_two(), "a granule is a power of two, not {granule}");
        let mut index = Self {
            blocks: Blocks::new(),
            ranges: Ranges::Loners(Loners::new()),
            addresses: None,
            quick: Quick::default(),
            shift: granule.get().trailing_zeros(),
            free: 0,
            live: 0,
            serial: 0,
        };
        index.grow(capacity);
        index
    }

    /// Creates a space like [`new`](Self::new), with serial numbers of blocks that continue after `serial`. In a space
    /// that replaces another one, no key of the old space is valid.
    pub fn with_serial(capacity: Bytes, granule: Bytes, serial: u32) -> Self {
        Self { serial, ..Self::new(capacity, granule) }
    }

    /// Returns the serial number of the most recent block.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Returns the number of free ranges; each block on a quick list counts as one.
    pub fn holes(&self) -> usize {
        match &self.ranges {
            Ranges::Loners(loners) => loners.len() + self.quick.len(),
            Ranges::Chain(_) => self.blocks.len() - self.live,
        }
    }

    /// Returns the length of the space.
    pub fn capacity(&self) -> Bytes {
        self.bytes(self.blocks.end())
    }

    /// Returns the granule that sizes and offsets are multiples of.
    pub fn granule(&self) -> Bytes {
        Bytes::new(1 << self.shift)
    }

    /// Returns the number of free bytes.
    pub fn free_bytes(&self) -> Bytes {
        self.bytes(self.free)
    }

    /// Returns the number of live blocks.
    pub fn live_blocks(&self) -> usize {
        self.live
    }

    /// Returns the length of the longest free range, which is the longest block that can be allocated.
    pub fn largest(&self) -> Bytes {
        let units = match &self.ranges {
            Ranges::Loners(loners) => loners.longest(),
            Ranges::Chain(chain) => chain.longest(&self.blocks),
        };
        self.bytes(units.max(self.quick.longest()))
    }

    /// Returns the host memory that the index occupies, in bytes.
    pub fn footprint(&self) -> usize {
        // A B-tree node holds 6 to 11 entries of 12 bytes and a small header.
        let addresses = self.addresses.as_ref().map_or(0, |map| map.len() * 24);
        let ranges = match &self.ranges {
            Ranges::Loners(loners) => loners.footprint(),
            Ranges::Chain(chain) => chain.footprint(),
        };
        size_of::<Self>() + self.blocks.footprint() + ranges + addresses
    }

    /// Allocates a block of at least `size` bytes; returns `None` if no free range is long enough.
    ///
    /// The size of the block is `size` rounded up to the granule, and at least one granule. `tag` is stored with it.
    #[inline]
    pub fn allocate(&mut self, fit: Fit, size: Bytes, tag: u32) -> Option<Block> {
        let units = self.units_up(size)?;
        let (id, at) = match fit {
            Fit::Best => self.take_best(units),
            Fit::First | Fit::Last => self.take_in_order(fit, units),
        };
        (id != NONE).then(|| self.settle(id, at, units, size, tag))
    }

    /// Allocates the most recent block of exactly this size that [`free_quick`](Self::free_quick) has freed; if there
    /// is none, allocates by best fit. The quick lists are merged before best fit takes from the range at the end of
    /// the space or fails.
    #[inline]
    pub fn allocate_quick(&mut self, size: Bytes, tag: u32) -> Option<Block> {
        let units = self.units_up(size)?;
        let mut id = self.quick.pop(&self.blocks, units);
        let mut at = self.blocks.start(id);
        if id == NONE {
            (id, at) = self.take_behind_quick(units);
        }
        (id != NONE).then(|| self.settle(id, at, units, size, tag))
    }

    /// Frees a block for [`allocate_quick`](Self::allocate_quick) to allocate again unchanged. The block is merged with
    /// adjacent free ranges later. Returns the block as it was.
    #[inline]
    pub fn free_quick(&mut self, key: BlockKey) -> Result<Block, StaleBlock> {
        let block = self.get(key).ok_or(StaleBlock)?;
        self.free_block_quick(&block);
        Ok(block)
    }

    /// Frees a live block, as returned by [`get`](Self::get), like [`free_quick`](Self::free_quick).
    #[inline]
    pub(crate) fn free_block_quick(&mut self, block: &Block) {
        debug_assert!(self.get(block.key).is_some(), "a live block is freed");
        self.retire(block);
        let units = block.size.get() >> self.shift;
        let evicted = self.quick.push(&mut self.blocks, block.key.id(), units);
        if evicted != NONE {
            self.join_list(evicted);
        } else if self.quick.len() > quick::MOST {
            self.join_quick();
        }
    }

    /// Merges all blocks on quick lists with adjacent free ranges.
    pub fn join_quick(&mut self) {
        self.quick.take_all().into_iter().for_each(|list| self.join_list(list));
    }

    /// Allocates like [`allocate`](Self::allocate), with a start that is a multiple of `alignment`.
    ///
    /// First and last fit choose the lowest and the highest range that can hold the aligned block; best fit chooses the
    /// smallest such range. Returns `None` if no range fits or the alignment is not a power of two.
    #[inline]
    pub fn allocate_aligned(
        &mut self,
        fit: Fit,
        size: Bytes,
        alignment: Bytes,
        tag: u32,
    ) -> Option<Block> {
        if alignment <= self.granule() {
            return self.allocate(fit, size, tag);
        }
        self.allocate_aligned_in(fit, size, alignment, tag)
    }

    /// Allocates with an alignment above the granule.
    #[cold]
    fn allocate_aligned_in(
        &mut self,
        fit: Fit,
        size: Bytes,
        alignment: Bytes,
        tag: u32,
    ) -> Option<Block> {
        let units = self.units_up(size)?;
        let hole = self.search(fit, units, alignment)?;
        let at = align(fit, hole, units, alignment.get() >> self.shift)?;
        let id = self.carve(hole, at, units);
        Some(self.settle(id, at, units, size, tag))
    }

    /// Allocates the block `offset .. offset + size`. Returns `None` if part of it is in use or outside the space, or
    /// if `offset` is not a multiple of the granule.
    pub fn allocate_at(&mut self, offset: Bytes, size: Bytes, tag: u32) -> Option<Block> {
        let units = self.units_up(size)?;
        let at = offset.get() >> self.shift;
        let tree = self.tree();
        let hole = tree.entry(tree.at_or_below(at)?);
        let room = hole.end().checked_sub(at)?;
        if units > room || !offset.is_aligned(self.granule()) {
            return None;
        }
        let id = self.carve(hole, at, units);
        Some(self.settle(id, at, units, size, tag))
    }

    /// Returns the range that [`allocate_aligned`](Self::allocate_aligned) would use, without allocating.
    pub fn find(&mut self, fit: Fit, size: Bytes, alignment: Bytes) -> Option<Hole> {
        let units = self.units_up(size)?;
        self.search(fit, units, alignment).map(|hole| self.hole(hole))
    }

    /// Returns the free range that contains `offset`.
    pub fn hole_at(&mut self, offset: Bytes) -> Option<Hole> {
        let at = offset.get() >> self.shift;
        let tree = self.tree();
        let hole = tree.entry(tree.at_or_below(at)?);
        (at < hole.end()).then(|| self.hole(hole))
    }

    /// Returns the free range that ends where a live block starts.
    pub(crate) fn hole_below_block(&mut self, key: BlockKey) -> Option<Hole> {
        if matches!(self.ranges, Ranges::Chain(_)) {
            let below = self.blocks.prev(key.id());
            return self
                .blocks
                .is_free(below)
                .then(|| self.hole(chain::range(&self.blocks, below)));
        }
        let below = self.bytes(self.blocks.start(key.id()).checked_sub(1)?);
        self.hole_at(below)
    }

    /// Returns the free range that starts where a live block ends.
    pub(crate) fn hole_above_block(&mut self, key: BlockKey) -> Option<Hole> {
        if matches!(self.ranges, Ranges::Chain(_)) {
            let above = self.blocks.next(key.id());
            return self
                .blocks
                .is_free(above)
                .then(|| self.hole(chain::range(&self.blocks, above)));
        }
        let above = self.bytes(self.blocks.start(key.id()) + self.size(key.id()));
        self.hole_at(above)
    }

    /// Returns the highest free range of at least `size` bytes that starts below `limit`.
    pub fn hole_below(&mut self, limit: Bytes, size: Bytes) -> Option<Hole> {
        let units = self.units_up(size)?;
        let limit = limit.get().div_ceil(1 << self.shift);
        self.tree().last_below(limit, units).map(|hole| self.hole(hole))
    }

    /// Frees a block and merges it with adjacent free ranges. Returns the block as it was.
    #[inline]
    pub fn free(&mut self, key: BlockKey) -> Result<Block, StaleBlock> {
        let block = self.get(key).ok_or(StaleBlock)?;
        self.free_block(&block);
        Ok(block)
    }

    /// Frees a live block, as returned by [`get`](Self::get).
    #[inline]
    pub(crate) fn free_block(&mut self, block: &Block) {
        debug_assert!(self.get(block.key).is_some(), "a live block is freed");
        self.retire(block);
        let (start, units) = (block.offset.get() >> self.shift, block.size.get() >> self.shift);
        self.join(block.key.id(), start, units);
    }

    /// Returns the live block that a key names.
    #[inline]
    pub fn get(&self, key: BlockKey) -> Option<Block> {
        // The end of the space and blocks on quick lists have the serial number 0, which no key has.
        let id = key.id();
        let live = self.blocks.is_live(id) && self.blocks.serial(id) == key.serial();
        live.then(|| self.block(id))
    }

    /// Replaces the tag of a live block.
    pub fn set_tag(&mut self, key: BlockKey, tag: u32) -> Result<(), StaleBlock> {
        self.get(key).ok_or(StaleBlock)?;
        self.blocks.set_tag(key.id(), tag);
        Ok(())
    }

    /// Changes the number of bytes requested for a live block, whose size stays the same.
    pub(crate) fn set_requested(&mut self, key: BlockKey, requested: Bytes) -> Block {
        let block = self.get(key).expect("a live block is changed");
        debug_assert_eq!(self.units_up(requested).map(|units| self.bytes(units)), Some(block.size));
        self.blocks.occupy(key.id(), requested.get(), key.serial(), block.tag);
        Block { requested, ..block }
    }

    /// Splits a live block. The first `low` bytes keep the key; the rest becomes a live block with the same tag, which
    /// is returned. `low` is a multiple of the granule and less than the block's size.
    pub(crate) fn split(&mut self, key: BlockKey, low: Bytes) -> Block {
        let block = self.get(key).expect("a live block is split");
        let (at, rest) = ((block.offset + low).get() >> self.shift, block.size - low);
        let id = match &self.ranges {
            Ranges::Loners(_) => self.blocks.add_loner(at, NOWHERE),
            Ranges::Chain(_) => self.blocks.insert_before(self.blocks.next(key.id()), at),
        };
        self.blocks.occupy(key.id(), low.get(), key.serial(), block.tag);
        // The rest was never free, unlike the range of a new block.
        self.free += rest.get() >> self.shift;
        self.settle(id, at, rest.get() >> self.shift, rest, block.tag)
    }

    /// Merges two adjacent live blocks into the lower one, which keeps its key and tag.
    pub(crate) fn fuse(&mut self, low: BlockKey, high: BlockKey) {
        let (below, above) = (self.get(low), self.get(high));
        let (below, above) = below.zip(above).expect("live blocks are fused");
        debug_assert_eq!(below.offset + below.size, above.offset, "the blocks are adjacent");
        self.retire(&above);
        self.free -= above.size.get() >> self.shift;
        match &self.ranges {
            Ranges::Loners(_) => self.blocks.remove_loner(high.id()),
            Ranges::Chain(_) => self.blocks.remove(high.id()),
        }
        let size = (below.size + above.size).get();
        self.blocks.occupy(low.id(), size, low.serial(), below.tag);
    }

    /// Gives a live block to another owner: it gets a new key, requested size and tag. The size of the block is
    /// `requested` rounded up to the granule.
    pub(crate) fn reassign(&mut self, key: BlockKey, requested: Bytes, tag: u32) -> Block {
        let Block { offset, size, .. } = self.get(key).expect("a live block is reassigned");
        debug_assert_eq!(self.units_up(requested).map(|units| self.bytes(units)), Some(size));
        self.live -= 1;
        let units = size.get() >> self.shift;
        self.free += units;
        self.settle(key.id(), offset.get() >> self.shift, units, requested, tag)
    }

    /// Returns the live block that starts at `offset`.
    pub fn block_at(&mut self, offset: Bytes) -> Option<Block> {
        let start = offset.get() >> self.shift;
        let blocks = &self.blocks;
        let addresses = self
            .addresses
            .get_or_insert_with(|| owned(blocks).map(|id| (blocks.start(id), id)).collect());
        let id =
            *addresses.get(&start).filter(|_| offset.is_aligned(Bytes::new(1 << self.shift)))?;
        Some(self.block(id))
    }

    /// Adds `by` free bytes, rounded down to the granule, at the end of the space. The growth stops at the maximum
    /// length of a space, which is 2⁶³ − 1 granules and 2⁶⁴ bytes.
    pub fn grow(&mut self, by: Bytes) {
        let end = self.blocks.end();
        let most = (u64::MAX >> self.shift).min(u64::MAX >> 1);
        let units = (by.get() >> self.shift).min(most - end);
        if units == 0 {
            return;
        }
        self.blocks.set_end(end + units);
        self.free += units;
        match &mut self.ranges {
            Ranges::Loners(loners) => loners.add(end, units),
            Ranges::Chain(chain) => {
                let id = self.blocks.insert_before(NONE, end);
                chain.free(&mut self.blocks, id, end, units);
            }
        }
    }

    /// Returns every block and every free range, in address order.
    pub fn extents(&self) -> Vec<Extent> {
        let mut extents: Vec<_> =
            owned(&self.blocks).map(|id| Extent::Live(self.block(id))).collect();
        let quick = self.blocks.live().filter(|&id| self.blocks.serial(id) == 0);
        extents.extend(
            quick
                .map(|id| self.block(id))
                .map(|block| Extent::Free(Hole { offset: block.offset, size: block.size })),
        );
        let ranges = match &self.ranges {
            Ranges::Loners(loners) => loners.ranges(),
            Ranges::Chain(_) => chain::ranges(&self.blocks).collect(),
        };
        extents.extend(ranges.into_iter().map(|range| Extent::Free(self.hole(range))));
        extents.sort_unstable_by_key(Extent::offset);
        extents
    }

    /// Merges the most recently freed range into the tree.
    #[inline]
    pub(crate) fn join_waiting(&mut self) {
        if let Ranges::Loners(loners) = &mut self.ranges {
            loners.join_waiting();
        }
    }

    /// Detaches a live block from its owner; its range is not free yet.
    #[inline]
    fn retire(&mut self, block: &Block) {
        if let Some(addresses) = &mut self.addresses {
            addresses.remove(&self.blocks.start(block.key.id()));
        }
        self.live -= 1;
        self.free += block.size.get() >> self.shift;
    }

    /// Merges the blocks of a quick list, starting at `first`.
    #[cold]
    fn join_list(&mut self, first: Id) {
        let mut id = first;
        while id != NONE {
            let units = self.size(id);
            let (start, next) = (self.blocks.start(id), self.blocks.tag(id));
            self.join(id, start, units);
            id = self.quick.joined(next);
        }
    }

    /// Allocates `units` by best fit, when no quick list has a block of that size.
    #[cold]
    fn take_behind_quick(&mut self, units: u64) -> (Id, u64) {
        let (blocks, chain) = self.chain();
        let best = chain.bins.best(blocks, units);
        let last_resort = best.is_none_or(|hole| blocks.next(hole) == NONE);
        if last_resort && self.quick.len() > 0 {
            self.join_quick();
        }
        self.take_best(units)
    }

    /// Frees a block without an owner, and merges it with its free neighbours.
    #[inline]
    fn join(&mut self, id: Id, start: u64, units: u64) {
        match &mut self.ranges {
            Ranges::Loners(loners) => loners.free(&mut self.blocks, id, start, units),
            Ranges::Chain(chain) => chain.free(&mut self.blocks, id, start, units),
        }
    }

    fn bytes(&self, units: u64) -> Bytes {
        Bytes::new(units << self.shift)
    }

    /// Converts bytes to units, rounded up, at least one; returns `None` if no space can be that long.
    #[inline]
    fn units_up(&self, size: Bytes) -> Option<u64> {
        let last = (1_u64 << self.shift) - 1;
        Some((size.get().checked_add(last)? >> self.shift).max(1))
    }

    fn hole(&self, range: FreeRange) -> Hole {
        Hole { offset: self.bytes(range.start), size: self.bytes(range.size) }
    }

    /// Returns the size of a live block.
    #[inline]
    fn size(&self, id: Id) -> u64 {
        if matches!(self.ranges, Ranges::Chain(_)) {
            return self.blocks.size(id);
        }
        // The same rounding as at allocation, where the sum did not overflow.
        let last = (1_u64 << self.shift) - 1;
        (self.blocks.requested(id).wrapping_add(last) >> self.shift).max(1)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a block is passed in memory otherwise")]
    fn block(&self, id: Id) -> Block {
        let size = self.size(id);
        Block {
            key: BlockKey::new(id, self.blocks.serial(id)),
            offset: self.bytes(self.blocks.start(id)),
            size: self.bytes(size),
            requested: Bytes::new(self.blocks.requested(id)),
            tag: self.blocks.tag(id),
        }
    }

    #[inline]
    fn tree(&mut self) -> &AddressTree {
        match &mut self.ranges {
            Ranges::Loners(loners) => loners.tree(),
            Ranges::Chain(chain) => chain.tree(&self.blocks),
        }
    }

    /// Returns the chain; builds it from the loners if there is none.
    #[inline]
    fn chain(&mut self) -> (&mut Blocks, &mut Chain) {
        if let Ranges::Loners(loners) = &mut self.ranges {
            self.ranges = Ranges::Chain(Chain::new(&mut self.blocks, loners.tree()));
        }
        let Ranges::Chain(chain) = &mut self.ranges else { unreachable!("it was built just now") };
        (&mut self.blocks, chain)
    }

    /// Returns the free range for `units` at a multiple of `alignment` bytes.
    fn search(&mut self, fit: Fit, units: u64, alignment: Bytes) -> Option<FreeRange> {
        if !alignment.get().is_power_of_two() {
            return None;
        }
        let alignment = alignment.get() >> self.shift;
        let fits = |range: FreeRange| align(fit, range, units, alignment).is_some();
        match fit {
            Fit::First => self.tree().first_where(units, fits),
            Fit::Last => self.tree().last_where(units, fits),
            Fit::Best => {
                let (blocks, chain) = self.chain();
                chain.best_where(blocks, units, fits)
            }
        }
    }

    /// Allocates `units` by best fit. Returns the new block, or [`NONE`], and its start. (A pair fits in two registers,
    /// unlike a `Block`, which [`settle`](Self::settle) builds in the caller.)
    fn take_best(&mut self, units: u64) -> (Id, u64) {
        let (blocks, chain) = self.chain();
        chain.take_best(blocks, units)
    }

    /// Allocates `units` by first or last fit, like [`take_best`](Self::take_best).
    fn take_in_order(&mut self, fit: Fit, units: u64) -> (Id, u64) {
        match &mut self.ranges {
            Ranges::Loners(loners) if fit == Fit::First => {
                loners.take_first(&mut self.blocks, units)
            }
            Ranges::Loners(loners) => loners.take_last(&mut self.blocks, units),
            Ranges::Chain(chain) => chain.take_in_order(&mut self.blocks, fit, units),
        }
    }

    /// Turns `units` at `at`, within the free range `hole`, into a block.
    fn carve(&mut self, hole: FreeRange, at: u64, units: u64) -> Id {
        match &mut self.ranges {
            Ranges::Loners(loners) => loners.carve(&mut self.blocks, hole, at, units),
            Ranges::Chain(chain) => chain.carve(&mut self.blocks, hole, at, units),
        }
    }

    /// Hands a block over to its owner.
    #[inline]
    fn settle(&mut self, id: Id, at: u64, units: u64, size: Bytes, tag: u32) -> Block {
        let key = BlockKey::new(id, self.serial.wrapping_add(1));
        self.serial = key.serial();
        self.live += 1;
        self.free -= units;
        self.blocks.occupy(id, size.get(), self.serial, tag);
        if let Some(addresses) = &mut self.addresses {
            addresses.insert(at, id);
        }
        Block { key, offset: self.bytes(at), size: self.bytes(units), requested: size, tag }
    }
}

/// Returns the blocks that have an owner.
fn owned(blocks: &Blocks) -> impl Iterator<Item = Id> + '_ {
    blocks.live().filter(|&id| blocks.serial(id) != 0)
}

/// Returns the aligned start of a block of `units`, at the end of the free range that `fit` selects. The alignment is
/// in units; an alignment below one unit was shifted to zero.
fn align(fit: Fit, hole: FreeRange, units: u64, alignment: u64) -> Option<u64> {
    let mask = alignment.max(1) - 1;
    let at = match fit {
        Fit::First | Fit::Best => hole.start.checked_add(mask)? & !mask,
        Fit::Last => hole.end().checked_sub(units)? & !mask,
    };
    (at >= hole.start && at.checked_add(units)? <= hole.end()).then_some(at)
}
