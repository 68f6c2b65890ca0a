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
//! - a map from addresses to live blocks, for those who hold an address rather than a key.
//!
//! Every operation takes O(log n) time in the number of blocks, but for two: a search with an
//! alignment above the granule looks at the ranges that are long enough but badly placed one by
//! one, and the first call that needs another part builds it in O(n log n).
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
mod tree;

use std::collections::BTreeMap;

use crate::Bytes;
use bins::SizeBins;
use blocks::{Blocks, Id, NONE};
use tree::Place;
pub(crate) use tree::{AddressTree, Entry};

/// Which of the free ranges that are long enough a block is put into, and at which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The low end of the lowest range.
    First,
    /// The low end of the smallest range. Of several that are equal, the one that came to be last
    /// is taken below 4,096 granules, and the lowest one above that.
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
    serial: u32,
}

impl BlockKey {
    /// The key as a number.
    pub const fn to_bits(self) -> u64 {
        (self.id as u64) << 32 | self.serial as u64
    }

    /// The key that a number stands for, whoever made it up: it is checked when it is used.
    pub const fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the number is cut into its halves")]
        Self { id: (bits >> 32) as u32, serial: bits as u32 }
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

    /// How many free ranges there are.
    pub fn holes(&self) -> usize {
        match &self.tree {
            Some(tree) => tree.len(),
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
        self.bytes(units)
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
        if fit == Fit::Best {
            let (blocks, bins) = self.bins();
            let hole = entry(blocks, bins.best(blocks, units)?);
            return Some(self.carve(hole, None, hole.start, units, size, tag));
        }
        let tree = self.tree();
        let place = if fit == Fit::First { tree.first(units) } else { tree.last(units) }?;
        let hole = tree.entry(place);
        let at = if fit == Fit::First { hole.start } else { hole.start + hole.size - units };
        Some(self.carve(hole, Some(place), at, units, size, tag))
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
        Some(self.carve(hole, None, at, units, size, tag))
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
        Some(self.carve(hole, Some(place), at, units, size, tag))
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

    /// Gives a block back and joins it with the free ranges beside it. Returns what it was.
    #[inline]
    pub fn free(&mut self, key: BlockKey) -> Result<Block, StaleBlock> {
        let block = self.get(key).ok_or(StaleBlock)?;
        if let Some(addresses) = &mut self.addresses {
            addresses.remove(&self.blocks.start(key.id));
        }
        let units = block.size.get() >> self.shift;
        self.live -= 1;
        self.free += units;
        match &mut self.tree {
            Some(tree) if self.bins.is_none() => {
                tree.give_back(self.blocks.start(key.id), units);
                self.blocks.remove_loner(key.id);
            }
            _ => self.release(key.id, units),
        }
        Ok(block)
    }

    /// What a key names, if that is still live.
    #[inline]
    pub fn get(&self, key: BlockKey) -> Option<Block> {
        let live = self.blocks.is_live(key.id) && self.blocks.serial(key.id) == key.serial;
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
            .get_or_insert_with(|| blocks.live().map(|id| (blocks.start(id), id)).collect());
        let id =
            *addresses.get(&start).filter(|_| offset.is_aligned(Bytes::new(1 << self.shift)))?;
        Some(self.block(id))
    }

    /// Adds `by` free bytes, rounded down to the granule, at the end of the space.
    pub fn grow(&mut self, by: Bytes) {
        let units = by.get() >> self.shift;
        if units == 0 {
            return;
        }
        let end = self.blocks.end();
        self.blocks.set_end(end + units);
        self.free += units;
        let last = self.blocks.last();
        match &mut self.tree {
            Some(tree) if self.bins.is_none() => tree.give_back(end, units),
            _ if self.blocks.is_free(last) => {
                self.widen(last, self.blocks.start(last), self.blocks.hole(last) + units);
            }
            _ => {
                let id = self.blocks.insert_before(NONE, end, units);
                self.enter(id);
            }
        }
    }

    /// Every block and every free range, in address order.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<_> = self.blocks.live().map(|id| Part::Live(self.block(id))).collect();
        if let Some(tree) = &self.tree {
            parts.extend(tree.iter().map(|entry| Part::Free(self.hole(entry))));
        } else {
            let free = self.blocks.iter().filter(|&id| self.blocks.is_free(id));
            parts.extend(free.map(|id| Part::Free(self.hole(entry(&self.blocks, id)))));
        }
        parts.sort_unstable_by_key(Part::offset);
        parts
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

    #[inline]
    fn block(&self, id: Id) -> Block {
        let size =
            if self.bins.is_some() { self.blocks.size(id) } else { self.blocks.loner_size(id) };
        Block {
            key: BlockKey { id, serial: self.blocks.serial(id) },
            offset: self.bytes(self.blocks.start(id)),
            size: self.bytes(size),
            requested: Bytes::new(self.blocks.requested(id)),
            tag: self.blocks.tag(id),
        }
    }

    #[inline]
    fn tree(&mut self) -> &mut AddressTree {
        let blocks = &self.blocks;
        self.tree.get_or_insert_with(|| {
            let mut tree = AddressTree::new();
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
        let mut live: Vec<_> = self.blocks.live().collect();
        live.sort_unstable_by_key(|&id| self.blocks.start(id));
        let tree = self.tree.take().expect("there is a tree while there are no bins");
        let mut live = live.into_iter().peekable();
        let mut free = Vec::new();
        for hole in tree.iter() {
            while let Some(id) = live.next_if(|&id| self.blocks.start(id) < hole.start) {
                self.blocks.append(id);
            }
            free.push(self.blocks.insert_before(NONE, hole.start, hole.size));
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

    /// Makes `units` from `at` on, within the free range `hole`, a live block. `place` is that of
    /// the range in the tree if the caller knows it.
    #[inline]
    fn carve(
        &mut self,
        hole: Entry,
        place: Option<Place>,
        at: u64,
        units: u64,
        size: Bytes,
        tag: u32,
    ) -> Block {
        self.serial = self.serial.wrapping_add(1);
        self.live += 1;
        self.free -= units;
        let live = if self.bins.is_some() {
            let live = self.split(hole, place, at, units);
            self.blocks.occupy(live, size.get(), self.serial, tag);
            live
        } else {
            self.cut(hole, place, at, units);
            self.blocks.add_loner(at, units, size.get(), self.serial, tag)
        };
        if let Some(addresses) = &mut self.addresses {
            addresses.insert(at, live);
        }
        let key = BlockKey { id: live, serial: self.serial };
        Block { key, offset: self.bytes(at), size: self.bytes(units), requested: size, tag }
    }

    /// Takes `units` from `at` on out of the tree's range `hole`.
    #[inline]
    fn cut(&mut self, hole: Entry, place: Option<Place>, at: u64, units: u64) {
        let tree = self.tree.as_mut().expect("there is a tree while there are no bins");
        let place = place.unwrap_or_else(|| tree.exactly(hole.start));
        let low = Entry { size: at - hole.start, ..hole };
        let high = Entry { start: at + units, size: hole.size - low.size - units, ..hole };
        match (low.size > 0, high.size > 0) {
            (false, false) => tree.remove(place),
            (false, true) => tree.replace(place, high),
            (true, false) => tree.replace(place, low),
            (true, true) => {
                tree.replace(place, low);
                tree.insert(high);
            }
        }
    }

    /// Cuts `units` from `at` on out of a free block of the chain and returns them as a block.
    #[inline]
    fn split(&mut self, hole: Entry, place: Option<Place>, at: u64, units: u64) -> Id {
        let id = hole.link;
        let bins = self.bins.as_mut().expect("a chain has bins");
        let place =
            self.tree.as_ref().map(|tree| place.unwrap_or_else(|| tree.exactly(hole.start)));
        let low = Entry { size: at - hole.start, ..hole };
        let high = Entry { start: at + units, size: hole.size - low.size - units, ..hole };
        if low.size == 0 && high.size == 0 {
            bins.remove(&mut self.blocks, id);
            if let (Some(tree), Some(place)) = (&mut self.tree, place) {
                tree.remove(place);
            }
            return id;
        }
        let (rest, before) = if low.size == 0 { (high, id) } else { (low, self.blocks.next(id)) };
        let live = self.blocks.insert_before(before, at, units);
        bins.reshape(&mut self.blocks, id, rest.start, rest.size);
        if let (Some(tree), Some(place)) = (&mut self.tree, place) {
            tree.replace(place, rest);
        }
        if low.size > 0 && high.size > 0 {
            let top = self.blocks.insert_before(self.blocks.next(live), high.start, high.size);
            self.enter(top);
        }
        live
    }

    /// Makes the live block `id` free and joins it with its free neighbours.
    #[inline]
    fn release(&mut self, id: Id, units: u64) {
        let (prev, next) = (self.blocks.prev(id), self.blocks.next(id));
        let start = self.blocks.start(id);
        self.blocks.vacate(id, units);
        match (self.blocks.is_free(prev), self.blocks.is_free(next)) {
            (false, false) => self.enter(id),
            (true, false) => {
                self.blocks.remove(id);
                self.widen(prev, self.blocks.start(prev), self.blocks.hole(prev) + units);
            }
            (false, true) => {
                self.blocks.remove(id);
                self.widen(next, start, units + self.blocks.hole(next));
            }
            (true, true) => {
                let size = self.blocks.hole(prev) + units + self.blocks.hole(next);
                self.leave(next);
                self.blocks.remove(id);
                self.blocks.remove(next);
                self.widen(prev, self.blocks.start(prev), size);
            }
        }
    }

    /// Enters a new free block into the structures that exist.
    fn enter(&mut self, id: Id) {
        let entry = entry(&self.blocks, id);
        if let Some(tree) = &mut self.tree {
            tree.insert(entry);
        }
        if let Some(bins) = &mut self.bins {
            bins.insert(&mut self.blocks, id);
        }
    }

    /// Takes a free block out of the structures that exist.
    fn leave(&mut self, id: Id) {
        if let Some(tree) = &mut self.tree {
            let place = tree.exactly(self.blocks.start(id));
            tree.remove(place);
        }
        if let Some(bins) = &mut self.bins {
            bins.remove(&mut self.blocks, id);
        }
    }

    /// Gives a free block new edges; none of its neighbours in address order changes.
    #[inline]
    fn widen(&mut self, id: Id, start: u64, size: u64) {
        if let Some(tree) = &mut self.tree {
            let place = tree.exactly(self.blocks.start(id));
            tree.replace(place, Entry { start, size, link: id });
        }
        let bins = self.bins.as_mut().expect("a chain has bins");
        bins.reshape(&mut self.blocks, id, start, size);
    }
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
