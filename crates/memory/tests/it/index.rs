//! The free-space index against the naive list, on random histories.

use cubeyard_memory::Bytes;
use cubeyard_memory::conformance::Naive;
use cubeyard_memory::index::{Block, Extent, Fit, FreeIndex};
use proptest::prelude::*;

use crate::long_tests::cases;

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(Fit, u64),
    Aligned(Fit, u64, u32),
    At(u64, u64),
    Free(usize),
    Grow(u64),
    /// The first best fit of a history, for which the index builds its chain and bins.
    PrepareBestFit,
}

fn fits() -> impl Strategy<Value = Fit> + Clone {
    prop_oneof![Just(Fit::First), Just(Fit::Best), Just(Fit::Last)]
}

/// Small sizes collide often; the log-uniform sizes reach every octave of the bins.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..40, (0_u32..20, any::<u64>()).prop_map(|(bits, raw)| 1 + raw % (1 << bits))]
}

fn steps(fit: impl Strategy<Value = Fit> + Clone + 'static) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (fit.clone(), sizes()).prop_map(|(fit, size)| Step::Allocate(fit, size)),
        1 => (fit, sizes(), 0_u32..10).prop_map(|(fit, size, align)| Step::Aligned(fit, size, align)),
        1 => (0_u64..1 << 20, sizes()).prop_map(|(at, size)| Step::At(at, size)),
        7 => any::<prop::sample::Index>().prop_map(|pick| Step::Free(pick.index(1 << 20))),
        1 => (0_u64..5000).prop_map(Step::Grow),
    ]
}

/// The index and the model side by side; every answer and the whole state must agree.
struct Pair {
    index: FreeIndex,
    naive: Naive,
    live: Vec<Block>,
}

impl Pair {
    fn new(capacity: u64) -> Self {
        let index = FreeIndex::new(Bytes::new(capacity), Bytes::new(1));
        Self { index, naive: Naive::new(capacity), live: Vec::new() }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Allocate(fit, size) => {
                let ours = self.index.allocate(fit, Bytes::new(size), 7);
                let theirs = self.naive.allocate(fit, size, 1);
                self.compare(ours, theirs);
            }
            Step::Aligned(fit, size, align) => {
                let ours =
                    self.index.allocate_aligned(fit, Bytes::new(size), Bytes::new(1 << align), 7);
                let theirs = self.naive.allocate(fit, size, 1 << align);
                self.compare(ours, theirs);
            }
            Step::At(at, size) => {
                let ours = self.index.allocate_at(Bytes::new(at), Bytes::new(size), 7);
                let theirs = self.naive.take(at, size).then_some(at);
                self.compare(ours, theirs);
            }
            Step::Free(pick) if !self.live.is_empty() => self.free(pick % self.live.len()),
            Step::Free(_) => {}
            Step::Grow(by) => {
                self.naive.free(self.index.capacity().get(), by);
                self.index.grow(Bytes::new(by));
            }
            Step::PrepareBestFit => {
                self.index.find(Fit::Best, Bytes::new(1), Bytes::new(1));
                self.naive.forget_order();
            }
        }
        assert_eq!(self.index.free_bytes(), self.naive.free_bytes());
    }

    fn compare(&mut self, ours: Option<Block>, theirs: Option<u64>) {
        assert_eq!(ours.map(|block| block.offset.get()), theirs);
        self.live.extend(ours);
    }

    fn free(&mut self, pick: usize) {
        let block = self.live.swap_remove(pick);
        assert_eq!(self.index.free(block.key), Ok(block));
        assert!(self.index.free(block.key).is_err(), "a second free is refused");
        self.naive.free(block.offset.get(), block.size.get());
    }

    fn whole_state_agrees(&mut self) {
        let mut end = 0;
        let mut holes = Vec::new();
        let mut live = 0;
        for part in self.index.extents() {
            let (offset, size) = match part {
                Extent::Live(block) => {
                    live += 1;
                    assert!(self.live.contains(&block));
                    (block.offset, block.size)
                }
                Extent::Free(hole) => {
                    holes.push((hole.offset.get(), hole.size.get()));
                    (hole.offset, hole.size)
                }
            };
            assert_eq!(offset.get(), end, "parts follow each other without gaps");
            end += size.get();
        }
        assert_eq!(end, self.index.capacity().get());
        assert_eq!(live, self.live.len());
        assert_eq!(holes, self.naive.ranges());
        assert_eq!(self.index.largest().get(), self.naive.largest());
    }
}

fn agree(capacity: u64, steps: &[Step]) {
    let mut pair = Pair::new(capacity);
    for (number, &step) in steps.iter().enumerate() {
        pair.run(step);
        if number % 16 == 0 {
            pair.whole_state_agrees();
        }
    }
    pair.whole_state_agrees();
    while !pair.live.is_empty() {
        pair.free(0);
    }
    pair.whole_state_agrees();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(600)))]

    #[test]
    fn all_fits_mixed_give_the_naive_answers(
        before in prop::collection::vec(steps(Just(Fit::Last)), 0..200),
        after in prop::collection::vec(steps(fits()), 1..400),
    ) {
        agree(1 << 16, &[before, vec![Step::PrepareBestFit], after].concat());
    }

    #[test]
    fn first_fit_alone_gives_the_naive_answers(steps in prop::collection::vec(steps(Just(Fit::First)), 1..400)) {
        agree(1 << 15, &steps);
    }

    #[test]
    fn best_fit_alone_gives_the_naive_answers(steps in prop::collection::vec(steps(Just(Fit::Best)), 1..400)) {
        agree(1 << 15, &[vec![Step::PrepareBestFit], steps].concat());
    }
}

#[test]
fn long_histories_with_thousands_of_holes_give_the_naive_answers() {
    for (seed, fit) in [(1, Fit::First), (2, Fit::Best), (3, Fit::Last)] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::new(1 << 24);
        if fit == Fit::Best {
            pair.run(Step::PrepareBestFit);
        }
        for round in 0..cases(30_000) {
            // Grow to 6,000 blocks, then replace blocks, then drain: the tree gains and loses two levels.
            let wanted = if round < cases(24_000) { cases(6_000) } else { 0 };
            let free = pair.live.len() > wanted as usize || random.u64(..4) == 0;
            let step = if free {
                Step::Free(random.usize(..))
            } else {
                Step::Allocate(fit, 1 + random.u64(..4000))
            };
            pair.run(step);
            if round % 1_000 == 0 {
                pair.whole_state_agrees();
            }
        }
        pair.whole_state_agrees();
    }
}

#[test]
fn blocks_are_found_by_address_only_at_their_start() {
    let mut index = FreeIndex::new(Bytes::mib(1), Bytes::new(128));
    let a = index.allocate(Fit::First, Bytes::new(1000), 1).unwrap();
    let b = index.allocate(Fit::First, Bytes::new(1000), 2).unwrap();
    assert_eq!(index.block_at(b.offset), Some(b));
    assert_eq!(index.block_at(b.offset + Bytes::new(128)), None);
    assert_eq!(index.block_at(Bytes::new(1)), None);
    index.free(b.key).unwrap();
    assert_eq!(index.block_at(b.offset), None);
    let c = index.allocate(Fit::Best, Bytes::new(5), 3).unwrap();
    assert_eq!(index.block_at(c.offset), Some(c));
    assert_eq!(index.block_at(a.offset), Some(a));
}

#[test]
fn requests_near_the_end_of_64_bits_are_refused() {
    let mut index = FreeIndex::new(Bytes::MAX, Bytes::new(128));
    assert_eq!(index.allocate(Fit::First, Bytes::MAX, 0), None);
    assert_eq!(index.allocate_at(Bytes::MAX, Bytes::new(1), 0), None);
    assert_eq!(index.allocate_aligned(Fit::Best, Bytes::new(1), Bytes::new(3 << 7), 0), None);
    let all = index.capacity();
    assert!(index.allocate(Fit::Best, all, 0).is_some(), "the whole space can be handed out");
    assert_eq!(index.largest(), Bytes::ZERO);
}

#[test]
fn metadata_stays_below_64_bytes_a_live_block() {
    for fit in [Fit::First, Fit::Best] {
        let mut random = fastrand::Rng::with_seed(9);
        let mut index = FreeIndex::new(Bytes::gib(4096), Bytes::new(128));
        let mut live: Vec<Block> = Vec::new();
        for _ in 0..400_000 {
            if live.len() == 100_000 {
                let pick = random.usize(..live.len());
                index.free(live.swap_remove(pick).key).unwrap();
            }
            live.extend(index.allocate(fit, Bytes::new(256 + random.u64(..16 << 20)), 0));
        }
        let each = index.footprint() / live.len();
        assert!(each <= 64, "{fit:?}: {each} bytes for each of {} blocks", live.len());
    }
}
