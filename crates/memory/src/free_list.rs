//! `FreeList`: the free ranges of one small address space, taken by first fit (ADR-0048 D1).
//!
//! It gives the same answers as the seed's sorted list that is searched from the front, in O(log n)
//! instead of O(n). Sizes are exact to the byte, and a caller frees by offset and size.
//!
//! How much of a free is verified is chosen once, by [`Checking`]. What costs nothing to see (no bytes
//! at all, a range outside the space) is refused either way.
//!
//! ```
//! use cubeyard_memory::free_list::{Checking, FreeError, FreeList};
//! use cubeyard_memory::Bytes;
//!
//! let mut list = FreeList::new(Bytes::new(1000), Checking::Checked);
//! let first = list.allocate(Bytes::new(100))?;
//! let second = list.allocate(Bytes::new(200))?;
//! assert_eq!((first, second), (Bytes::ZERO, Bytes::new(100)));
//!
//! list.free(first, Bytes::new(100)).unwrap();
//! assert!(matches!(list.free(first, Bytes::new(100)), Err(FreeError::NotAllocated { .. })));
//! assert_eq!((list.used(), list.largest()), (Bytes::new(200), Bytes::new(700)));
//! # Ok::<(), cubeyard_memory::free_list::AllocateError>(())
//! ```

mod errors;

pub(crate) use errors::Exact;
pub use errors::{AllocateError, FreeError, Shortage, ShortageKind};

use std::collections::BTreeMap;

use crate::Bytes;
use crate::index::{AddressTree, Entry, Hole, NOWHERE};

/// Whether a free is held against what was allocated.
///
/// This library reads no environment: whoever makes a list chooses. `Checked` is for addresses that
/// come from outside, and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checking {
    /// The caller is believed (ADR-0048 D2), so part of an allocation may be freed, or several at
    /// once. Freeing what is free already is a bug of the caller: a panic at once in debug builds;
    /// in release builds the same bytes may be handed out twice, or a later call may panic.
    #[default]
    Trusted,
    /// Live ranges are remembered. A free must name one of them exactly, else it is refused and
    /// nothing changes. Costs O(log n) and an entry in a map for each live range. A range that was
    /// freed and handed out again at the same place and size cannot be told from the first one.
    Checked,
}

/// The free ranges of one address space. See the [module](self).
#[derive(Clone, Debug)]
pub struct FreeList {
    free: AddressTree,
    /// Sizes of live ranges by offset, in checked mode.
    live: Option<BTreeMap<u64, u64>>,
    capacity: u64,
    used: u64,
}

impl FreeList {
    /// A space of `capacity` bytes, which is one free range.
    pub fn new(capacity: Bytes, checking: Checking) -> Self {
        let mut free = AddressTree::new();
        if !capacity.is_zero() {
            free.insert(Entry { start: 0, size: capacity.get(), link: 0 });
        }
        let live = (checking == Checking::Checked).then(BTreeMap::new);
        Self { free, live, capacity: capacity.get(), used: 0 }
    }

    /// How long the space is.
    pub fn capacity(&self) -> Bytes {
        Bytes::new(self.capacity)
    }

    /// How much of it is allocated.
    pub fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    /// How much of it is free, in however many ranges.
    pub fn free_bytes(&self) -> Bytes {
        Bytes::new(self.capacity - self.used)
    }

    /// The longest free range, which is the most that can be allocated at once.
    pub fn largest(&self) -> Bytes {
        Bytes::new(self.free.longest())
    }

    /// How frees are treated.
    pub fn checking(&self) -> Checking {
        if self.live.is_some() { Checking::Checked } else { Checking::Trusted }
    }

    /// The free ranges in address order. No two of them touch.
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        let hole =
            |entry: Entry| Hole { offset: Bytes::new(entry.start), size: Bytes::new(entry.size) };
        self.free.iter().map(hole)
    }

    /// Takes `size` bytes from the front of the lowest free range that is long enough, and says at
    /// which offset they start. All of `size` or nothing (D6).
    pub fn allocate(&mut self, size: Bytes) -> Result<Bytes, AllocateError> {
        if size.is_zero() {
            return Err(AllocateError::ZeroBytes);
        }
        let Some(place) = self.free.first(size.get()) else {
            return Err(AllocateError::NoRoom(self.shortage(size)));
        };
        let hole = self.free.entry(place);
        match hole.size - size.get() {
            0 => self.free.remove(place),
            rest => {
                let start = hole.start + size.get();
                self.free.replace(place, Entry { start, size: rest, ..hole });
            }
        }
        self.used += size.get();
        if let Some(live) = &mut self.live {
            live.insert(hole.start, size.get());
        }
        Ok(Bytes::new(hole.start))
    }

    /// Gives `offset .. offset + size` back and joins it with the free ranges that it touches.
    ///
    /// A refused free changes nothing.
    pub fn free(&mut self, offset: Bytes, size: Bytes) -> Result<(), FreeError> {
        let end = self.end_of(offset, size)?;
        if let Some(live) = &mut self.live {
            let exact = live.get(&offset.get()) == Some(&size.get());
            if !exact {
                return Err(mismatch(live, offset, size, end));
            }
            live.remove(&offset.get());
        }
        debug_assert!(self.is_used(offset.get(), end), "a free range was freed again");
        self.free.give_back(Entry { start: offset.get(), size: size.get(), link: 0 }, NOWHERE);
        // Only frees of free ranges, on which nothing is promised, could go below zero.
        self.used = self.used.saturating_sub(size.get());
        Ok(())
    }

    /// Where a range ends, if it is one and lies in the space.
    fn end_of(&self, offset: Bytes, size: Bytes) -> Result<u64, FreeError> {
        if size.is_zero() {
            return Err(FreeError::ZeroBytes { offset });
        }
        let end = offset.get().checked_add(size.get()).filter(|&end| end <= self.capacity);
        end.ok_or(FreeError::Outside { offset, size, capacity: self.capacity() })
    }

    /// Whether no byte of `start .. end` is free.
    fn is_used(&self, start: u64, end: u64) -> bool {
        let below = self.free.at_or_below(start).map(|place| self.free.entry(place));
        below.is_none_or(|below| below.start + below.size <= start)
            && self.free.above(start).is_none_or(|above| end <= above.start)
    }

    fn shortage(&self, wanted: Bytes) -> Shortage {
        let (free, largest, capacity) = (self.free_bytes(), self.largest(), self.capacity());
        Shortage { wanted, free, largest, capacity }
    }
}

/// Why `offset .. end`, which is no live range, cannot be freed.
fn mismatch(live: &BTreeMap<u64, u64>, offset: Bytes, size: Bytes, end: u64) -> FreeError {
    if let Some(&live_size) = live.get(&offset.get()) {
        return FreeError::WrongSize { offset, size, live_size: Bytes::new(live_size) };
    }
    match live.range(..end).next_back() {
        Some((&start, &length)) if start + length > offset.get() => {
            let (live_offset, live_size) = (Bytes::new(start), Bytes::new(length));
            FreeError::Overlap { offset, size, live_offset, live_size }
        }
        _ => FreeError::NotAllocated { offset, size },
    }
}
