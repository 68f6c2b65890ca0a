//! What every allocator of this library must do, as code that any of them can be run through.
//!
//! [`Naive`] is the reference: the seeds' sorted list of free ranges, searched from the front. It is
//! slow and short enough to be seen right.

use crate::Bytes;
use crate::index::Fit;

/// A sorted list of free ranges, searched one by one: the model that fast indexes are held to.
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
    /// In address order, none touching the next.
    free: Vec<Range>,
    /// Grows with every range that comes to be.
    clock: u64,
}

/// A free range of [`Naive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    start: u64,
    size: u64,
    /// When it came to be as it is.
    since: u64,
}

/// Below this size best fit prefers the latest of several equal ranges, from here on the lowest.
const LATEST_BELOW: u64 = 8192;

impl Naive {
    /// A space of `capacity` bytes, all free.
    pub fn new(capacity: u64) -> Self {
        let mut naive = Self { free: Vec::new(), clock: 0 };
        naive.free(0, capacity);
        naive
    }

    /// Takes `size` bytes at a multiple of `alignment` and says where.
    pub fn allocate(&mut self, fit: Fit, size: u64, alignment: u64) -> Option<u64> {
        let place = |range: &Range| {
            let at = match fit {
                Fit::First | Fit::Best => range.start.next_multiple_of(alignment),
                Fit::Last => (range.start + range.size).checked_sub(size)? / alignment * alignment,
            };
            (at >= range.start && at + size <= range.start + range.size).then_some((at, *range))
        };
        let preference = |range: Range| match range.size {
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

    /// Takes `at .. at + size` if all of it is free, and says whether it was.
    pub fn take(&mut self, at: u64, size: u64) -> bool {
        let holds = |range: &Range| range.start <= at && at + size <= range.start + range.size;
        let Some(place) = self.free.iter().position(holds) else { return false };
        let range = self.free.remove(place);
        self.add(range.start, at - range.start);
        self.add(at + size, range.start + range.size - at - size);
        true
    }

    /// Gives `at .. at + size` back.
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

    /// Forgets which range came to be when: of equal ones, the lowest counts as the latest.
    pub fn forget_order(&mut self) {
        for range in self.free.iter_mut().rev() {
            self.clock += 1;
            range.since = self.clock;
        }
    }

    /// The longest free range.
    pub fn largest(&self) -> u64 {
        self.free.iter().map(|range| range.size).max().unwrap_or(0)
    }

    /// All that is free.
    pub fn free_bytes(&self) -> Bytes {
        Bytes::new(self.free.iter().map(|range| range.size).sum())
    }

    /// The free ranges as `(start, size)`, in order.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.free.iter().map(|range| (range.start, range.size)).collect()
    }

    fn add(&mut self, start: u64, size: u64) {
        if size > 0 {
            self.clock += 1;
            self.free.push(Range { start, size, since: self.clock });
            self.free.sort_unstable();
        }
    }
}
