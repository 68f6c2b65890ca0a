//! The suite: properties of every allocator, independent of its policy.

use std::collections::BTreeMap;

use crate::Bytes;

/// An allocator, as seen by the suite. The suite numbers the blocks.
pub trait Subject {
    /// Returns the granule that sizes and offsets are multiples of.
    fn granule(&self) -> Bytes;

    /// Returns the length of the longest block that fits when nothing is allocated.
    fn longest(&self) -> Bytes;

    /// Returns whether alignments above the granule are supported.
    fn aligns(&self) -> bool;

    /// Returns the length of a space.
    fn space(&self, space: u64) -> Bytes;

    /// Allocates block `number` at a multiple of `alignment`.
    fn allocate(&mut self, number: u32, size: Bytes, alignment: Bytes) -> Result<Placed, Refused>;

    /// Frees block `number`, which is live.
    fn free(&mut self, number: u32);

    /// Returns the live blocks in order.
    fn live(&self) -> Vec<Placed>;

    /// Returns the number of allocated bytes, rounded up to the granule.
    fn used(&self) -> Bytes;
}

/// Position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// Number of the space.
    pub space: u64,
    /// Offset in the space.
    pub offset: Bytes,
    /// Length in bytes.
    pub size: Bytes,
}

/// Reason why a subject refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There was no room.
    NoRoom {
        /// Number of bytes requested, rounded up to the granule.
        wanted: Bytes,
        /// Total number of free bytes.
        free: Bytes,
        /// Length of the longest free range.
        largest: Bytes,
    },
    /// The request is invalid.
    Senseless,
}

/// Counts of the operations of a run; they show whether the run did anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of blocks that were placed.
    pub placed: u32,
    /// Number of blocks that were freed.
    pub freed: u32,
    /// Number of requests for which there was no room.
    pub refused: u32,
}

/// Runs a subject through the suite.
///
/// # Panics
/// If the subject breaks a promise.
pub fn check<S: Subject>(make: impl Fn() -> S) -> Report {
    let mut report = Report::default();
    for seed in 1..=4 {
        let first = random_history(make(), seed, &mut report);
        let second = random_history(make(), seed, &mut report);
        assert_eq!(first, second, "the same history gives the same places");
    }
    freed_ranges_join(make(), &mut report);
    senseless_requests_are_refused(make());
    report
}

struct Run<'a, S> {
    subject: S,
    live: BTreeMap<u32, Placed>,
    next: u32,
    report: &'a mut Report,
}

impl<'a, S: Subject> Run<'a, S> {
    fn new(subject: S, report: &'a mut Report) -> Self {
        assert_eq!(subject.used(), Bytes::ZERO, "a new allocator is empty");
        Self { subject, live: BTreeMap::new(), next: 0, report }
    }

    fn allocate(&mut self, size: Bytes, alignment: Bytes) -> Option<Placed> {
        let used = self.subject.used();
        self.next += 1;
        match self.subject.allocate(self.next, size, alignment) {
            Ok(placed) => {
                self.admit(placed, size, alignment);
                self.live.insert(self.next, placed);
                self.report.placed += 1;
                Some(placed)
            }
            Err(refused) => {
                self.refuse(refused, size, alignment, used);
                self.report.refused += 1;
                None
            }
        }
    }

    /// Checks that a block lies where it may, and overlaps no other.
    fn admit(&self, placed: Placed, size: Bytes, alignment: Bytes) {
        let Placed { space, offset, size: length } = placed;
        let granule = self.subject.granule();
        assert!(offset.is_aligned(alignment.max(granule)), "{placed:?} is not aligned");
        assert_eq!(Some(length), size.align_up(granule), "{placed:?} has another size");
        assert!(offset + length <= self.subject.space(space), "{placed:?} is outside");
        let overlaps = |other: &&Placed| {
            other.space == space
                && other.offset < offset + length
                && offset < other.offset + other.size
        };
        assert_eq!(self.live.values().find(overlaps), None, "{placed:?} overlaps");
    }

    /// Checks that a refusal has a reason and changes nothing.
    fn refuse(&self, refused: Refused, size: Bytes, alignment: Bytes, used: Bytes) {
        let Refused::NoRoom { wanted, free, largest } = refused else {
            panic!("a request for {size} makes sense");
        };
        assert!(wanted >= size, "wanted {wanted} is less than {size}");
        assert!(largest <= free, "the longest range {largest} is above all that is free, {free}");
        let served = largest >= wanted && alignment <= self.subject.granule();
        assert!(!served, "{wanted} would fit into {largest}");
        assert_eq!(self.subject.used(), used, "a refusal changes nothing");
        self.agrees();
    }

    fn free(&mut self, number: u32) {
        self.subject.free(number);
        self.live.remove(&number).expect("the suite frees what is live");
        self.report.freed += 1;
    }

    fn agrees(&self) {
        let mut ours: Vec<_> = self.live.values().copied().collect();
        ours.sort_unstable();
        assert_eq!(self.subject.live(), ours, "the allocator knows its blocks");
        let used: Bytes = ours.iter().map(|placed| placed.size).sum();
        assert_eq!(self.subject.used(), used, "every byte is accounted for");
    }

    /// Checks that the longest block fits again after all frees.
    fn whole_again(&mut self) {
        for number in self.live.keys().copied().collect::<Vec<_>>() {
            self.free(number);
        }
        self.agrees();
        let longest = self.subject.longest();
        let all = self.allocate(longest, Bytes::new(1));
        assert!(all.is_some(), "after all frees {longest} fit again");
        self.free(self.next);
        self.agrees();
    }
}

fn random_history<S: Subject>(subject: S, seed: u64, report: &mut Report) -> Vec<Option<Placed>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut run = Run::new(subject, report);
    let mut places = Vec::new();
    let longest = run.subject.longest().get();
    for step in 0..400 {
        if !run.live.is_empty() && random.u64(..5) < 2 {
            let place = random.usize(..run.live.len());
            let number = *run.live.keys().nth(place).expect("the place is one of them");
            run.free(number);
        } else {
            // Mostly small sizes, of every order of magnitude; occasionally nearly the whole space.
            let limit = if random.u64(..6) == 0 { longest } else { longest / 8 };
            let octave = random.u32(..12).min(limit.ilog2());
            let size = 1 + random.u64(..limit >> octave);
            let above = if run.subject.aligns() { random.u64(..8).saturating_sub(4) } else { 0 };
            let alignment = Bytes::new(run.subject.granule().get() << above);
            places.push(run.allocate(Bytes::new(size), alignment));
        }
        if step % 20 == 0 {
            run.agrees();
        }
    }
    run.whole_again();
    places
}

/// Frees every second block, then the rest: ranges merge on both sides.
fn freed_ranges_join<S: Subject>(subject: S, report: &mut Report) {
    let mut run = Run::new(subject, report);
    let size = Bytes::new(run.subject.longest().get() / 40);
    while run.allocate(size, Bytes::new(1)).is_some() {}
    let numbers: Vec<_> = run.live.keys().copied().collect();
    assert!(numbers.len() >= 32, "at least one space of 40 blocks was filled");
    let halves = [0, 1].map(|half| numbers.iter().copied().skip(half).step_by(2));
    for number in halves.into_iter().flatten() {
        run.free(number);
        run.agrees();
    }
    run.whole_again();
}

fn senseless_requests_are_refused<S: Subject>(mut subject: S) {
    let one = Bytes::new(1);
    assert_eq!(subject.allocate(1, Bytes::ZERO, one), Err(Refused::Senseless));
    let beyond = Bytes::new(subject.longest().get() + 1);
    for size in [beyond, Bytes::gib(1 << 33), Bytes::new(u64::MAX - 1), Bytes::MAX] {
        let refused = subject.allocate(1, size, one);
        assert!(matches!(refused, Err(Refused::NoRoom { .. })), "{size}: {refused:?}");
        assert_eq!(subject.used(), Bytes::ZERO);
    }
}
