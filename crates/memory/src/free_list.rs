//! `FreeList`: the free ranges of one small address space, allocated by first fit (ADR-0048 D1).
//!
//! It gives the same answers as the seed's sorted list with linear search, in O(log n) instead of O(n). Sizes are exact
//! to the byte, and a caller frees by offset and size.
//!
//! [`Checking`] selects once how strictly frees are verified. Errors that cost nothing to detect (a free of zero bytes,
//! a range outside the space) are refused in either mode.
//!
//! ```
//! use cubeyard_memory::free_list::{Checking, FreeCause, FreeList};
//! use cubeyard_memory::Bytes;
//!
//! let mut list = FreeList::new(Bytes::new(1000), Checking::Checked);
//! let first = list.allocate(Bytes::new(100))?;
//! let second = list.allocate(Bytes::new(200))?;
//! assert_eq!((first, second), (Bytes::ZERO, Bytes::new(100)));
//!
//! list.free(first, Bytes::new(100)).unwrap();
//! let error = list.free(first, Bytes::new(100)).unwrap_err();
//! assert!(matches!(error.cause, FreeCause::NotAllocated { .. }));
//! assert_eq!((list.used(), list.largest()), (Bytes::new(200), Bytes::new(700)));
//! # Ok::<(), cubeyard_memory::free_list::AllocateError>(())
//! ```

mod errors;

pub(crate) use errors::Exact;
pub use errors::{AllocateCause, AllocateError, FreeCause, FreeError, NoRoom, Shortage, Space};

use std::collections::BTreeMap;

use crate::Bytes;
use crate::address::PhysAddr;
use crate::index::{AddressTree, FreeRange, Hole, NOWHERE};

/// Verification of frees.
///
/// This library reads no environment variables: the caller chooses. `Checked` is for addresses from outside, and for
/// tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checking {
    /// Frees are not verified (ADR-0048 D2), so part of an allocation, or several at once, may be freed. Freeing a free
    /// range is a bug of the caller: debug builds panic at once; in release builds the same bytes may be allocated
    /// twice, or a later call may panic.
    #[default]
    Trusted,
    /// Live ranges are recorded. A free must name one of them exactly; otherwise it is refused and nothing changes.
    /// Costs O(log n) time and one map entry per live range. A range that was freed and allocated again at the same
    /// place and size cannot be distinguished from the first one.
    Checked,
}

/// The free ranges of one address space. See the [module](self).
#[derive(Clone, Debug)]
pub struct FreeList {
    space: Space,
    free: AddressTree,
    /// Size of each live range by offset, in checked mode.
    live: Option<BTreeMap<u64, u64>>,
    capacity: u64,
    used: u64,
}

impl FreeList {
    /// Creates a space of `capacity` bytes, which is one free range.
    pub fn new(capacity: Bytes, checking: Checking) -> Self {
        Self::of(Space::List, capacity, checking)
    }

    /// Creates the free list of `space`, which errors name.
    pub(crate) fn of(space: Space, capacity: Bytes, checking: Checking) -> Self {
        let mut free = AddressTree::new();
        if !capacity.is_zero() {
            free.insert(FreeRange { start: 0, size: capacity.get(), link: 0 });
        }
        let live = (checking == Checking::Checked).then(BTreeMap::new);
        Self { space, free, live, capacity: capacity.get(), used: 0 }
    }

    /// Returns the length of the space.
    pub fn capacity(&self) -> Bytes {
        Bytes::new(self.capacity)
    }

    /// Returns the number of allocated bytes.
    pub fn used(&self) -> Bytes {
        Bytes::new(self.used)
    }

    /// Returns the total number of free bytes.
    pub fn free_bytes(&self) -> Bytes {
        Bytes::new(self.capacity - self.used)
    }

    /// Returns the length of the longest free range, which is the largest size that can be allocated.
    pub fn largest(&self) -> Bytes {
        Bytes::new(self.free.longest())
    }

    /// Returns the free ranges in address order. No two are adjacent.
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        self.free
            .iter()
            .map(|range| Hole { offset: Bytes::new(range.start), size: Bytes::new(range.size) })
    }

    /// Allocates `size` bytes at the start of the lowest free range that is long enough, and returns their offset.
    /// There are no partial allocations (D6).
    pub fn allocate(&mut self, size: Bytes) -> Result<Bytes, AllocateError> {
        self.allocate_rounded(size, size)
    }

    /// Allocates `size` bytes for a request of `asked` bytes.
    pub(crate) fn allocate_rounded(
        &mut self,
        asked: Bytes,
        size: Bytes,
    ) -> Result<Bytes, AllocateError> {
        if size.is_zero() {
            return Err(AllocateError { space: self.space, cause: AllocateCause::ZeroBytes });
        }
        let Some(place) = self.free.first(size.get()) else {
            return Err(AllocateError { space: self.space, cause: self.no_room(asked, size) });
        };
        let hole = self.free.entry(place);
        match hole.size - size.get() {
            0 => self.free.remove(place),
            rest => {
                let start = hole.start + size.get();
                self.free.replace(place, FreeRange { start, size: rest, ..hole });
            }
        }
        self.used += size.get();
        if let Some(live) = &mut self.live {
            live.insert(hole.start, size.get());
        }
        Ok(Bytes::new(hole.start))
    }

    /// Frees `offset .. offset + size` and merges it with adjacent free ranges.
    pub fn free(&mut self, offset: Bytes, size: Bytes) -> Result<(), FreeError> {
        self.try_free(offset, size).map_err(|cause| self.refused(cause))
    }

    /// Returns the error of a free in this space.
    pub(crate) fn refused(&self, cause: FreeCause) -> FreeError {
        FreeError { space: self.space, cause }
    }

    fn try_free(&mut self, offset: Bytes, size: Bytes) -> Result<(), FreeCause> {
        let end = self.end_of(offset, size)?;
        if let Some(live) = &mut self.live {
            let exact = live.get(&offset.get()) == Some(&size.get());
            if !exact {
                return Err(mismatch(live, offset, size, end));
            }
            live.remove(&offset.get());
        }
        debug_assert!(self.is_used(offset.get(), end), "a free range was freed again");
        self.free.give_back(FreeRange { start: offset.get(), size: size.get(), link: 0 }, NOWHERE);
        // The difference could be negative only after frees of free ranges, whose effect is undefined.
        self.used = self.used.saturating_sub(size.get());
        Ok(())
    }

    /// Frees `bytes` at `address`; `offset` is `None` if the address lies in another space.
    pub(crate) fn free_address(
        &mut self,
        address: PhysAddr,
        offset: Option<Bytes>,
        bytes: Bytes,
    ) -> Result<(), FreeError> {
        let offset = offset.ok_or_else(|| self.refused(FreeCause::Foreign { address }))?;
        self.free(offset, bytes)
    }

    fn end_of(&self, offset: Bytes, size: Bytes) -> Result<u64, FreeCause> {
        if size.is_zero() {
            return Err(FreeCause::ZeroBytes { offset });
        }
        let end = offset.get().checked_add(size.get()).filter(|&end| end <= self.capacity);
        end.ok_or(FreeCause::Outside { offset, size, capacity: self.capacity() })
    }

    /// Returns whether no byte of `start .. end` is free.
    fn is_used(&self, start: u64, end: u64) -> bool {
        let below = self.free.at_or_below(start).map(|place| self.free.entry(place));
        below.is_none_or(|below| below.start + below.size <= start)
            && self.free.above(start).is_none_or(|above| end <= above.start)
    }

    fn no_room(&self, asked: Bytes, wanted: Bytes) -> AllocateCause {
        let (free, largest, capacity) = (self.free_bytes(), self.largest(), self.capacity());
        AllocateCause::NoRoom(NoRoom { asked, wanted, free, largest, capacity })
    }
}

/// Returns why `offset .. end`, which is not a live range, cannot be freed.
fn mismatch(live: &BTreeMap<u64, u64>, offset: Bytes, size: Bytes, end: u64) -> FreeCause {
    if let Some(&live_size) = live.get(&offset.get()) {
        return FreeCause::WrongSize { offset, size, live_size: Bytes::new(live_size) };
    }
    match live.range(..end).next_back() {
        Some((&start, &length)) if start + length > offset.get() => {
            let (live_offset, live_size) = (Bytes::new(start), Bytes::new(length));
            FreeCause::Overlap { offset, size, live_offset, live_size }
        }
        _ => FreeCause::NotAllocated { offset, size },
    }
}
