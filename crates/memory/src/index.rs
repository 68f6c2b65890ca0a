//! The free-space index: which ranges of one address space are free, and the right one for a request.
//!
//! [`FreeIndex`] keeps what it knows beside the space (nothing is ever written into that), and of
//! these parts only the ones that a call has needed:
//!
//! - the *live blocks*, 32 bytes each, always;
//! - the *address tree* of the free ranges, for first fit, last fit and allocation at an address;
//!   alone, it also finds the neighbours that a freed block is joined with;
//! - the *chain* of all blocks with the *size bins* of the free ones, for best fit; a freed block
//!   then finds its neighbours through the chain;
//! - a map from addresses to live blocks, for those who hold an address rather than a key;
//! - *quick lists* of freed blocks that are not joined yet, for those who ask for them.
//!
//! Every operation takes O(log n) time in the number of blocks, but for three: a search with an
//! alignment above the granule looks at the ranges that are long enough but badly placed one by
//! one; ranges of 2³¹ granules or more are looked at one by one in a search of the tree for one of
//! that length; and the first call that needs another part builds it in O(n log n).
//!
//! The same history gives the same answers everywhere. First and last fit depend on the set of free
//! ranges alone; best fit depends on history only between ranges of one size (see [`Fit::Best`]).
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
mod quick;
mod tree;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::Bytes;
use bins::SizeBins;
use blocks::{Blocks, Id, NONE};
use quick::Quick;
pub(crate) use tree::{AddressTree, Entry, NOWHERE};

/// Which of the free ranges that are long enough a block is put into, and at which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The low end of the lowest range.
    First,
    /// The low end of the smallest range. Of several that are equal, the one that came to be last
    /// is taken below 8,192 granules, and the lowest one above that.
    Best,
    /// The high end of the highest range.
    Last,
}

/// Names one live block of one [`FreeIndex`], until that block is freed.
///
/// The serial number tells it from every other block that has had or will have the same place, so a
/// key that outlives its block is recognised (after four billion further allocations in one space
/// the numbers start again).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    id: u32,
    /// Never 0, so that an `Option` of a key is no longer than a key.
    serial: NonZeroU32,
}

impl BlockKey {
    /// The key as a number.
    pub const fn to_bits(self) -> u64 {
        (self.id as u64) << 32 | self.serial.get() as u64
    }

    /// The key that a number stands for, whoever made it up: it is checked when it is used.
    pub const fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the number is cut into its halves")]
        let (id, serial) = ((bits >> 32) as u32, bits as u32);
        match NonZeroU32::new(serial) {
            Some(serial) => Self { id, serial },
            // Nobody's number, and so is this: there are fewer blocks.
            None => Self { id: u32::MAX, serial: NonZeroU32::MIN },
        }
    }
}

/// A live block: where it is, how long it is, what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its name.
    pub key: BlockKey,
    /// Where it starts.
    pub offset: Bytes,
    /// How long it is: `requested`, rounded up to the granule.
    pub size: Bytes,
    /// How many bytes were asked for.
    pub requested: Bytes,
    /// Whatever its owner wanted to be remembered with it.
    pub tag: u32,
}

/// A free range of a [`FreeIndex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Where it starts.
    pub offset: Bytes,
    /// How long it is.
    pub size: Bytes,
}

/// A part of a space, in [`FreeIndex::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In use.
    Live(Block),
    /// Free.
    Free(Hole),
}

impl Part {
    /// Where it starts.
    pub fn offset(&self) -> Bytes {
        match self {
            Self::Live(block) => block.offset,
            Self::Free(hole) => hole.offset,
        }
    }
}

/// The key names no live block: it was freed already, or belongs to another space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the block was freed before, or is not of this space; nothing was changed")]
pub struct StaleBlock;

/// A range that was freed and is not in the tree yet.
///
/// What a block was is rarely in the cache when it is freed, and nothing can be joined before it is
/// known. So the range waits for the next call. If that is a first fit, it searches the tree meanwhile
/// and has the range joined after that; any other call has it joined first, or counts it in.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    range: Entry,
    /// Where in the tree to begin to search for its place.
    near: u32,
}

/// The blocks of one address space and the free ranges between them. See the [module](self).
#[derive(Clone, Debug)]
pub struct FreeIndex {
    blocks: Blocks,
    /// The free ranges in address order; always there while `bins` is not.
    tree: Option<AddressTree>,
    /// The free ranges by size. While it is there, `blocks` is a chain and the links of the tree are
    /// blocks; before, `blocks` holds loners and the links mean nothing.
    bins: Option<SizeBins>,
    addresses: Option<BTreeMap<u64, Id>>,
    /// Freed blocks that are not joined yet.
    quick: Option<Quick>,
    /// The range that was freed last; never while there are bins.
    waiting: Option<Waiting>,
    /// A unit is `1 << shift` bytes; all the parts above count in units.
    shift: u32,
    free: u64,
    live: usize,
    serial: u32,
}

impl FreeIndex {
    /// A space of `capacity` bytes, all free, whose blocks start at and extend over multiples of
    /// `granule`. A capacity that is no multiple loses its odd end.
    ///
    /// # Panics
    /// If `granule` is not a power of two.
    pub fn new(capacity: Bytes, granule: Bytes) -> Self {
        assert!(granule.get().is_power_of_two(), "a granule is a power of two, not {granule}");
        let mut index = Self {
            blocks: Blocks::new(),
            tree: Some(AddressTree::new()),
            bins: None,
            addresses: None,
            quick: None,
            waiting: None,
            shift: granule.get().trailing_zeros(),
            free: 0,
            live: 0,
            serial: 0,
        };
        index.grow(capacity);
        index
    }

    /// Like [`new`](Self::new), with the serial numbers of blocks following on `serial`: a space that
    /// takes another one's place then never has a block with a key of that one's.
    pub fn with_serial(capacity: Bytes, granule: Bytes, serial: u32) -> Self {
        Self { serial, ..Self::new(capacity, granule) }
    }

    /// The serial number of the latest block.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// How many free ranges there are; each block on a quick list is one.
    pub fn holes(&self) -> usize {
        match &self.tree {
            Some(tree) => {
                let waiting = self.waiting_joined().map(|(_, neighbours)| neighbours);
                tree.len() + self.quick_blocks() + usize::from(waiting.is_some())
                    - waiting.unwrap_or(0)
            }
            None => self.blocks.len() - self.live,
        }
    }

    /// How long the space is.
    pub fn capacity(&self) -> Bytes {
        self.bytes(self.blocks.end())
    }

    /// The granule that sizes and offsets are multiples of.
    pub fn granule(&self) -> Bytes {
        Bytes::new(1 << self.shift)
    }

    /// How much of the space is free.
    pub fn free_bytes(&self) -> Bytes {
        self.bytes(self.free)
    }

    /// How many blocks are live.
    pub fn live_blocks(&self) -> usize {
        self.live
    }

    /// The longest free range, which is the longest block that could be allocated now.
    pub fn largest(&self) -> Bytes {
        let units = match (&self.tree, &self.bins) {
            (Some(tree), _) => tree.longest(),
            (None, Some(bins)) => bins.longest(&self.blocks),
            (None, None) => unreachable!("there is a tree while there are no bins"),
        };
        let waiting = self.waiting_joined().map_or(0, |(joined, _)| joined.size);
        self.bytes(units.max(waiting).max(self.quick.as_ref().map_or(0, Quick::longest)))
    }

    /// Host memory that the index occupies.
    pub fn footprint(&self) -> usize {
        // A B-tree's nodes are 6 to 11 entries of 12 bytes with a small head.
        let addresses = self.addresses.as_ref().map_or(0, |map| map.len() * 24);
        let tree = self.tree.as_ref().map_or(0, AddressTree::footprint);
        let bins = self.bins.as_ref().map_or(0, SizeBins::footprint);
        size_of::<Self>() + self.blocks.footprint() + tree + bins + addresses
    }

    /// Takes a block of at least `size` bytes, or nothing where no free range is long enough.
    ///
    /// The block is `size` rounded up to the granule, and at least one granule. `tag` is kept with it.
    #[inline]
    pub fn allocate(&mut self, fit: Fit, size: Bytes, tag: u32) -> Option<Block> {
        let units = self.units_up(size)?;
        let (id, at) = match fit {
            Fit::Best => self.take_best(units),
            Fit::First | Fit::Last => self.take_in_order(fit, units),
        };
        (id != NONE).then(|| self.settle(id, at, units, size, tag))
    }

    /// Takes the latest block of just this size that [`free_quick`](Self::free_quick) has taken back,
    /// or else by best fit. Before that takes from the range at the end of the space, or finds
    /// nothing, the quick lists are joined.
    #[inline]
    pub fn allocate_quick(&mut self, size: Bytes, tag: u32) -> Option<Block> {
        let units = self.units_up(size)?;
        let quick = self.quick.get_or_insert_with(Quick::new);
        let mut id = quick.pop(&self.blocks, units);
        let mut at = self.blocks.start(id);
        if id == NONE {
            (id, at) = self.take_behind_quick(units);
        }
        (id != NONE).then(|| self.settle(id, at, units, size, tag))
    }

    /// Gives a block back for [`allocate_quick`](Self::allocate_quick) to hand out again as it is;
    /// it is joined with the free ranges beside it later. Returns what it was.
    #[inline]
    pub fn free_quick(&mut self, key: BlockKey) -> Result<Block, StaleBlock> {
        let block = self.get(key).ok_or(StaleBlock)?;
        if let Some(addresses) = &mut self.addresses {
            addresses.remove(&self.blocks.start(key.id));
        }
        let units = block.size.get() >> self.shift;
        self.live -= 1;
        self.free += units;
        let quick = self.quick.get_or_insert_with(Quick::new);
        let evicted = quick.push(&mut self.blocks, key.id, units);
        if evicted != NONE {
            self.join_list(evicted);
        } else if self.quick_blocks() > quick::MOST {
            self.join_quick();
        }
        Ok(block)
    }

    /// Joins all blocks on quick lists with the free ranges beside them.
    pub fn join_quick(&mut self) {
        let lists = self.quick.as_mut().map(Quick::take_all).unwrap_or_default();
        lists.into_iter().for_each(|list| self.join_list(list));
    }

    /// Like [`allocate`](Self::allocate), with the block's start a multiple of `alignment`.
    ///
    /// First and last fit choose the lowest and the highest range that can hold the block once it
    /// is aligned, best fit the smallest such range. An alignment that is no power of two, like one
    /// that nothing satisfies, gives nothing.
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
        let units = self.units_up(size)?;
        let hole = self.search(fit, units, alignment)?;
        let at = align(fit, hole, units, alignment.get() >> self.shift)?;
        let id = self.carve(hole, at, units);
        Some(self.settle(id, at, units, size, tag))
    }

    /// Takes the block `offset .. offset + size`, or nothing where part of that is in use or outside
    /// or where `offset` is no multiple of the granule.
    pub fn allocate_at(&mut self, offset: Bytes, size: Bytes, tag: u32) -> Option<Block> {
        let units = self.units_up(size)?;
        let at = offset.get() >> self.shift;
        let tree = self.tree();
        let place = tree.at_or_below(at)?;
        let hole = tree.entry(place);
        let room = (hole.start + hole.size).checked_sub(at)?;
        if units > room || !offset.is_aligned(self.granule()) {
            return None;
        }
        let id = self.carve(hole, at, units);
        Some(self.settle(id, at, units, size, tag))
    }

    /// The range that [`allocate_aligned`](Self::allocate_aligned) would use, without using it.
    pub fn find(&mut self, fit: Fit, size: Bytes, alignment: Bytes) -> Option<Hole> {
        let units = self.units_up(size)?;
        self.search(fit, units, alignment).map(|hole| self.hole(hole))
    }

    /// The free range that `offset` lies in.
    pub fn hole_at(&mut self, offset: Bytes) -> Option<Hole> {
        let at = offset.get() >> self.shift;
        let tree = self.tree();
        let hole = tree.entry(tree.at_or_below(at)?);
        (at < hole.start + hole.size).then(|| self.hole(hole))
    }

    /// The highest free range of at least `size` bytes that starts below `limit`.
    pub fn hole_below(&mut self, limit: Bytes, size: Bytes) -> Option<Hole> {
        let units = self.units_up(size)?;
        let limit = limit.get().div_ceil(1 << self.shift);
        self.tree().last_below(limit, units).map(|hole| self.hole(hole))
    }

    /// Gives a block back and joins it with the free ranges beside it. Returns what it was.
    #[inline]
    pub fn free(&mut self, key: BlockKey) -> Result<Block, StaleBlock> {
        let block = self.get(key).ok_or(StaleBlock)?;
        if let Some(addresses) = &mut self.addresses {
            addresses.remove(&self.blocks.start(key.id));
        }
        let (start, units) = (block.offset.get() >> self.shift, block.size.get() >> self.shift);
        self.live -= 1;
        self.free += units;
        self.join(key.id, start, units);
        Ok(block)
    }

    /// What a key names, if that is still live.
    #[inline]
    pub fn get(&self, key: BlockKey) -> Option<Block> {
        // The end of the space and blocks on quick lists have the serial number 0, which no key has.
        let live = self.blocks.is_live(key.id) && self.blocks.serial(key.id) == key.serial.get();
        live.then(|| self.block(key.id))
    }

    /// Replaces the tag of a live block.
    pub fn set_tag(&mut self, key: BlockKey, tag: u32) -> Result<(), StaleBlock> {
        self.get(key).ok_or(StaleBlock)?;
        self.blocks.set_tag(key.id, tag);
        Ok(())
    }

    /// The live block that starts at `offset`.
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

    /// Adds `by` free bytes, rounded down to the granule, at the end of the space; as much as fits a
    /// space, which is at most 2⁶³ − 1 granules and 2⁶⁴ bytes.
    pub fn grow(&mut self, by: Bytes) {
        let end = self.blocks.end();
        let most = (u64::MAX >> self.shift).min(u64::MAX >> 1);
        let units = (by.get() >> self.shift).min(most - end);
        if units == 0 {
            return;
        }
        self.blocks.set_end(end + units);
        self.free += units;
        let link = if self.bins.is_some() {
            let id = self.blocks.insert_before(NONE, end);
            self.release(id, end, units)
        } else {
            0
        };
        self.join_waiting();
        if let Some(tree) = &mut self.tree {
            tree.give_back(Entry { start: end, size: units, link }, NOWHERE);
        }
    }

    /// Every block and every free range, in address order.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<_> = owned(&self.blocks).map(|id| Part::Live(self.block(id))).collect();
        let quick = self.blocks.live().filter(|&id| self.blocks.serial(id) == 0);
        parts.extend(
            quick
                .map(|id| self.block(id))
                .map(|block| Part::Free(Hole { offset: block.offset, size: block.size })),
        );
        if let Some(tree) = &self.tree {
            let waiting = self.waiting_joined().map(|(joined, _)| joined);
            let apart = |hole: &Entry| !waiting.is_some_and(|joined| joined.contains(*hole));
            let holes = tree.iter().filter(apart).chain(waiting);
            parts.extend(holes.map(|hole| Part::Free(self.hole(hole))));
        } else {
            let free = self.blocks.iter().filter(|&id| self.blocks.is_free(id));
            parts.extend(free.map(|id| Part::Free(self.hole(entry(&self.blocks, id)))));
        }
        parts.sort_unstable_by_key(Part::offset);
        parts
    }

    /// How many blocks are on quick lists.
    fn quick_blocks(&self) -> usize {
        self.quick.as_ref().map_or(0, Quick::len)
    }

    /// Joins the blocks of a quick list, from `first` on.
    #[cold]
    fn join_list(&mut self, first: Id) {
        let mut id = first;
        while id != NONE {
            let units = self.size(id);
            let (start, next) = (self.blocks.start(id), self.blocks.tag(id));
            self.join(id, start, units);
            id = self.quick.as_mut().map_or(NONE, |quick| quick.joined(next));
        }
    }

    /// Best fit for what is on no quick list.
    #[cold]
    fn take_behind_quick(&mut self, units: u64) -> (Id, u64) {
        let (blocks, bins) = self.bins();
        let best = bins.best(blocks, units);
        let last_resort = best.is_none_or(|hole| blocks.next(hole) == NONE);
        if last_resort && self.quick_blocks() > 0 {
            self.join_quick();
        }
        self.take_best(units)
    }

    /// Makes a block that is nobody's free, and joins it with its free neighbours.
    #[inline]
    fn join(&mut self, id: Id, start: u64, units: u64) {
        if self.bins.is_none() {
            let (range, near) = (Entry { start, size: units, link: 0 }, self.blocks.near(id));
            self.blocks.remove_loner(id);
            self.join_waiting();
            self.waiting = Some(Waiting { range, near });
            return;
        }
        let link = self.release(id, start, units);
        if let Some(tree) = &mut self.tree {
            tree.give_back(Entry { start, size: units, link }, NOWHERE);
        }
    }

    /// Enters the range that was freed last into the tree.
    #[inline]
    pub(crate) fn join_waiting(&mut self) {
        if let (Some(Waiting { range, near }), Some(tree)) = (self.waiting.take(), &mut self.tree) {
            tree.give_back(range, near);
        }
    }

    /// What the waiting range will be once it is joined, and with how many others.
    fn waiting_joined(&self) -> Option<(Entry, usize)> {
        Some(self.tree.as_ref()?.joined(self.waiting?.range))
    }

    fn bytes(&self, units: u64) -> Bytes {
        Bytes::new(units << self.shift)
    }

    /// Bytes as units, rounded up, at least one; nothing where a space cannot be that long.
    #[inline]
    fn units_up(&self, size: Bytes) -> Option<u64> {
        let last = (1_u64 << self.shift) - 1;
        Some((size.get().checked_add(last)? >> self.shift).max(1))
    }

    fn hole(&self, entry: Entry) -> Hole {
        Hole { offset: self.bytes(entry.start), size: self.bytes(entry.size) }
    }

    /// The size of a live block.
    #[inline]
    fn size(&self, id: Id) -> u64 {
        if self.bins.is_some() {
            return self.blocks.size(id);
        }
        // As when it was allocated, when the sum did not overflow.
        let last = (1_u64 << self.shift) - 1;
        (self.blocks.requested(id).wrapping_add(last) >> self.shift).max(1)
    }

    #[inline]
    fn block(&self, id: Id) -> Block {
        let size = self.size(id);
        Block {
            key: BlockKey { id, serial: numbered(self.blocks.serial(id)) },
            offset: self.bytes(self.blocks.start(id)),
            size: self.bytes(size),
            requested: Bytes::new(self.blocks.requested(id)),
            tag: self.blocks.tag(id),
        }
    }

    #[inline]
    fn tree(&mut self) -> &mut AddressTree {
        self.join_waiting();
        let blocks = &self.blocks;
        self.tree.get_or_insert_with(|| {
            let mut tree = AddressTree::linked();
            for id in blocks.iter().filter(|&id| blocks.is_free(id)) {
                tree.insert(entry(blocks, id));
            }
            tree
        })
    }

    #[inline]
    fn bins(&mut self) -> (&Blocks, &SizeBins) {
        if self.bins.is_none() {
            self.chain_up();
        }
        (&self.blocks, self.bins.as_ref().expect("they were made just now"))
    }

    /// Turns the loners and the free ranges of the tree into a chain, and fills the bins. The tree
    /// goes; a call that needs it again has it rebuilt with the blocks of the chain.
    #[cold]
    fn chain_up(&mut self) {
        self.join_waiting();
        let mut live: Vec<_> = self.blocks.live().collect();
        live.sort_unstable_by_key(|&id| self.blocks.start(id));
        let tree = self.tree.take().expect("there is a tree while there are no bins");
        let mut live = live.into_iter().peekable();
        let mut free = Vec::new();
        for hole in tree.iter() {
            while let Some(id) = live.next_if(|&id| self.blocks.start(id) < hole.start) {
                self.blocks.append(id);
            }
            let id = self.blocks.insert_before(NONE, hole.start);
            self.blocks.vacate(id, hole.start, hole.size);
            free.push(id);
        }
        live.for_each(|id| self.blocks.append(id));
        let mut bins = SizeBins::new();
        // From the top down, so that of equal ranges the lowest counts as the latest.
        free.into_iter().rev().for_each(|id| bins.insert(&mut self.blocks, id));
        self.bins = Some(bins);
    }

    /// The free range for `units` at a multiple of `alignment` bytes.
    fn search(&mut self, fit: Fit, units: u64, alignment: Bytes) -> Option<Entry> {
        if !alignment.get().is_power_of_two() {
            return None;
        }
        let alignment = alignment.get() >> self.shift;
        let fits = |entry: Entry| align(fit, entry, units, alignment).is_some();
        match fit {
            Fit::First => self.tree().first_where(units, fits),
            Fit::Last => self.tree().last_where(units, fits),
            Fit::Best => {
                let (blocks, bins) = self.bins();
                std::iter::successors(bins.best(blocks, units), |&id| bins.after(blocks, id))
                    .map(|id| entry(blocks, id))
                    .find(|&entry| fits(entry))
            }
        }
    }

    /// Takes `units` by best fit: the new block, or none, and where it starts. (A pair that fits
    /// two registers, unlike a `Block`, which [`settle`](Self::settle) makes in the caller.)
    fn take_best(&mut self, units: u64) -> (Id, u64) {
        let (blocks, bins) = self.bins();
        let Some(hole) = bins.best(blocks, units) else { return (NONE, 0) };
        let at = blocks.start(hole);
        let id = self.split_low(hole, at, units);
        if let Some(tree) = &mut self.tree {
            tree.cut(tree.exactly(at), at, units, hole);
        }
        (id, at)
    }

    /// Takes `units` by first or last fit, like [`take_best`](Self::take_best).
    fn take_in_order(&mut self, fit: Fit, units: u64) -> (Id, u64) {
        if fit == Fit::First
            && self.bins.is_none()
            && let Some(tree) = &mut self.tree
        {
            let place = match self.waiting.take() {
                Some(Waiting { range, near }) => tree.first_with(range, near, units),
                None => tree.first(units),
            };
            let Some(place) = place else { return (NONE, 0) };
            let at = tree.take_front(place, units);
            return (self.blocks.add_loner(at, place.page()), at);
        }
        let tree = self.tree();
        let place = if fit == Fit::First { tree.first(units) } else { tree.last(units) };
        let Some(place) = place else { return (NONE, 0) };
        let hole = tree.entry(place);
        let at = if fit == Fit::First { hole.start } else { hole.start + hole.size - units };
        if self.bins.is_some() {
            return (self.carve(hole, at, units), at);
        }
        self.tree().cut(place, at, units, 0);
        (self.blocks.add_loner(at, place.page()), at)
    }

    /// Makes `units` from `at` on, within the free range `hole`, a block.
    fn carve(&mut self, hole: Entry, at: u64, units: u64) -> Id {
        let id = if self.bins.is_some() {
            self.split(hole, at, units)
        } else {
            self.blocks.add_loner(at, NOWHERE)
        };
        if let Some(tree) = &mut self.tree {
            // In a chain, what is left above the new block is the next one.
            tree.cut(tree.exactly(hole.start), at, units, self.blocks.next(id));
        }
        id
    }

    /// Hands a block over to its owner.
    #[inline]
    fn settle(&mut self, id: Id, at: u64, units: u64, size: Bytes, tag: u32) -> Block {
        let key = BlockKey { id, serial: numbered(self.serial.wrapping_add(1)) };
        self.serial = key.serial.get();
        self.live += 1;
        self.free -= units;
        self.blocks.occupy(id, size.get(), self.serial, tag);
        if let Some(addresses) = &mut self.addresses {
            addresses.insert(at, id);
        }
        Block { key, offset: self.bytes(at), size: self.bytes(units), requested: size, tag }
    }

    /// Cuts `units` from `at` on out of a free block of the chain and returns them as a block.
    fn split(&mut self, hole: Entry, at: u64, units: u64) -> Id {
        let low = at - hole.start;
        if low == 0 {
            return self.split_low(hole.link, at, units);
        }
        let high = self.blocks.insert_before(self.blocks.next(hole.link), at);
        let bins = self.bins.as_mut().expect("a chain has bins");
        bins.remove(&mut self.blocks, hole.link);
        self.blocks.vacate(hole.link, hole.start, low);
        bins.insert(&mut self.blocks, hole.link);
        self.blocks.vacate(high, at, hole.size - low);
        bins.insert(&mut self.blocks, high);
        self.split_low(high, at, units)
    }

    /// Cuts the first `units` off the free block `hole` of the chain, which starts at `at`.
    #[inline]
    fn split_low(&mut self, hole: Id, at: u64, units: u64) -> Id {
        let bins = self.bins.as_mut().expect("a chain has bins");
        bins.remove(&mut self.blocks, hole);
        let rest = self.blocks.hole(hole) - units;
        if rest == 0 {
            return hole;
        }
        let id = self.blocks.insert_before(hole, at);
        self.blocks.vacate(hole, at + units, rest);
        bins.insert(&mut self.blocks, hole);
        id
    }

    /// Makes a block of the chain free, joins it with its free neighbours, and returns the block
    /// that they have become.
    #[inline]
    fn release(&mut self, id: Id, start: u64, units: u64) -> Id {
        let bins = self.bins.as_mut().expect("a chain has bins");
        let (prev, next) = (self.blocks.prev(id), self.blocks.next(id));
        let (mut hole, mut start, mut size) = (id, start, units);
        if self.blocks.is_free(prev) {
            bins.remove(&mut self.blocks, prev);
            (start, size) = (self.blocks.start(prev), self.blocks.hole(prev) + size);
            self.blocks.remove(id);
            hole = prev;
        }
        if self.blocks.is_free(next) {
            bins.remove(&mut self.blocks, next);
            size += self.blocks.hole(next);
            // The numbers of the neighbours stay, where they can: their own neighbours know them.
            let gone = if hole == id { id } else { next };
            self.blocks.remove(gone);
            hole = if hole == id { next } else { hole };
        }
        self.blocks.vacate(hole, start, size);
        bins.insert(&mut self.blocks, hole);
        hole
    }
}

/// A serial number, which follows on the last one with 1.
#[inline]
fn numbered(serial: u32) -> NonZeroU32 {
    NonZeroU32::new(serial).unwrap_or(NonZeroU32::MIN)
}

/// The blocks that have an owner.
fn owned(blocks: &Blocks) -> impl Iterator<Item = Id> + '_ {
    blocks.live().filter(|&id| blocks.serial(id) != 0)
}

/// The free block `id` of a chain.
fn entry(blocks: &Blocks, id: Id) -> Entry {
    Entry { start: blocks.start(id), size: blocks.hole(id), link: id }
}

/// Where a block of `units` goes in a free range: an aligned start at the end that `fit` asks for.
/// The alignment is in units; one below a unit was shifted to zero.
fn align(fit: Fit, hole: Entry, units: u64, alignment: u64) -> Option<u64> {
    let mask = alignment.max(1) - 1;
    let end = hole.start + hole.size;
    let at = match fit {
        Fit::First | Fit::Best => hole.start.checked_add(mask)? & !mask,
        Fit::Last => end.checked_sub(units)? & !mask,
    };
    (at >= hole.start && at.checked_add(units)? <= end).then_some(at)
}
