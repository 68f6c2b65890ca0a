//! A conformance suite for allocators.
//!
//! A [`Subject`] adapts an allocator to the suite, and [`check`] runs it. [`Naive`] is the reference: a sorted list of
//! free ranges that is searched from the front.

mod suite;

pub use suite::{Placed, Refused, Report, Subject, check};

use crate::Bytes;
use crate::index::Fit;

/// A sorted list of free ranges with linear search: the reference model for fast indexes.
///
/// ```
/// use cubeyard_memory::{conformance::Naive, index::Fit, Bytes};
///
/// let mut naive = Naive::new(1024);
/// assert_eq!(naive.allocate(Fit::First, 100, 1), Some(0));
/// assert_eq!(naive.allocate(Fit::Last, 100, 64), Some(896));
/// naive.free(0, 100);
/// assert_eq!(naive.largest(), 896);
/// ```
#[derive(Clone, Debug)]
pub struct Naive {
    /// Free ranges in address order; no two are adjacent.
    free: Vec<NaiveRange>,
    /// Number of ranges created so far.
    clock: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NaiveRange {
    start: u64,
    size: u64,
    /// Value of the clock when the range was created.
    since: u64,
}

/// Threshold of the tie-break of best fit: of equal ranges, the most recently created wins below this size, the lowest
/// from this size on.
const LATEST_BELOW: u64 = 8192;

impl Naive {
    /// Creates a space of `capacity` bytes, all free.
    pub fn new(capacity: u64) -> Self {
        let mut naive = Self { free: Vec::new(), clock: 0 };
        naive.free(0, capacity);
        naive
    }

    /// Allocates `size` bytes at a multiple of `alignment` and returns their offset.
    pub fn allocate(&mut self, fit: Fit, size: u64, alignment: u64) -> Option<u64> {
        let place = |range: &NaiveRange| {
            let at = match fit {
                Fit::First | Fit::Best => range.start.next_multiple_of(alignment),
                Fit::Last => (range.start + range.size).checked_sub(size)? / alignment * alignment,
            };
            (at >= range.start && at + size <= range.start + range.size).then_some((at, *range))
        };
        let preference = |range: NaiveRange| match range.size {
            LATEST_BELOW.. => (range.size, range.start),
            _ => (range.size, u64::MAX - range.since),
        };
        let mut places = self.free.iter().filter_map(place);
        let (at, _) = match fit {
            Fit::First => places.next(),
            Fit::Last => places.next_back(),
            Fit::Best => places.min_by_key(|&(_, range)| preference(range)),
        }?;
        self.take(at, size).then_some(at)
    }

    /// Allocates `at .. at + size` if all of it is free, and returns whether it did.
    pub fn take(&mut self, at: u64, size: u64) -> bool {
        let holds = |range: &NaiveRange| range.start <= at && at + size <= range.start + range.size;
        let Some(place) = self.free.iter().position(holds) else { return false };
        let range = self.free.remove(place);
        self.add(range.start, at - range.start);
        self.add(at + size, range.start + range.size - at - size);
        true
    }

    /// Frees `at .. at + size`.
    pub fn free(&mut self, at: u64, size: u64) {
        let (mut start, mut end) = (at, at + size);
        self.free.retain(|range| {
            let touches = range.start + range.size == at || range.start == at + size;
            if touches {
                start = start.min(range.start);
                end = end.max(range.start + range.size);
            }
            !touches
        });
        self.add(start, end - start);
    }

    /// Forgets the order in which ranges were created: of equal ranges, the lowest counts as the most recent.
    pub fn forget_order(&mut self) {
        for range in self.free.iter_mut().rev() {
            self.clock += 1;
            range.since = self.clock;
        }
    }

    /// Returns the length of the longest free range.
    pub fn largest(&self) -> u64 {
        self.free.iter().map(|range| range.size).max().unwrap_or(0)
    }

    /// Returns the number of free bytes.
    pub fn free_bytes(&self) -> Bytes {
        Bytes::new(self.free.iter().map(|range| range.size).sum())
    }

    /// Returns the free ranges as `(start, size)`, in order.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.free.iter().map(|range| (range.start, range.size)).collect()
    }

    fn add(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.clock += 1;
            self.free.push(NaiveRange { start, size, since: self.clock });
            self.free.sort_unstable();
        }
    }
}
