//! Random histories for which our lists and the seed's lists give the same results.

use std::cell::Cell;

use cubeyard_memory::free_list::FreeCause;
use cubeyard_memory::virtual_space::VirtualSpec;
use cubeyard_memory::{Bytes, Checking, DeviceVa, FreeList, VirtualAllocator};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::holes;
use super::seed::SeedList;
use crate::long_tests::cases;

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(u64),
    /// Frees a whole allocation.
    Free(Index),
    /// Frees a part of an allocation, between two of its bytes.
    FreePart(Index, Index, Index),
    /// Frees an allocation together with its direct successor, if there is one.
    FreePair(Index),
    /// Frees an arbitrary range, which is nearly always invalid.
    FreeAnything(u64, u64),
    /// Frees a valid start with an arbitrary size.
    Resize(Index, u64),
}

/// Mostly small sizes, so that lists become long; occasionally a size that seldom fits.
fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1_u64..40, 1 => 1_u64..CAPACITY]
}

const CAPACITY: u64 = 2000;

fn free() -> impl Strategy<Value = Step> {
    any::<Index>().prop_map(Step::Free)
}

fn allocate() -> impl Strategy<Value = Step> {
    sizes().prop_map(Step::Allocate)
}

fn trusted_steps() -> impl Strategy<Value = Step> {
    let part = any::<(Index, Index, Index)>().prop_map(|(a, b, c)| Step::FreePart(a, b, c));
    let pair = any::<Index>().prop_map(Step::FreePair);
    prop_oneof![6 => allocate(), 2 => free(), 2 => part, 1 => pair]
}

fn checked_steps() -> impl Strategy<Value = Step> {
    let anything =
        (0..CAPACITY + 20, 0_u64..60).prop_map(|(offset, size)| Step::FreeAnything(offset, size));
    let resize = (any::<Index>(), 1_u64..60).prop_map(|(pick, size)| Step::Resize(pick, size));
    prop_oneof![5 => allocate(), 3 => free(), 2 => anything, 1 => resize]
}

/// Counts of what the histories did; they show whether a property was exercised.
#[derive(Debug, Default)]
struct Seen {
    refused: Cell<u32>,
    parts: Cell<u32>,
    pairs: Cell<u32>,
    not_allocated: Cell<u32>,
    wrong_sizes: Cell<u32>,
    overlaps: Cell<u32>,
    outside: Cell<u32>,
}

fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

/// Both lists side by side, and the allocations as `(offset, size)`.
struct Pair<'a> {
    ours: FreeList,
    seed: SeedList,
    live: Vec<(u64, u64)>,
    seen: &'a Seen,
}

impl<'a> Pair<'a> {
    fn new(checking: Checking, seen: &'a Seen) -> Self {
        let ours = FreeList::new(Bytes::new(CAPACITY), checking);
        Self { ours, seed: SeedList::new(CAPACITY), live: Vec::new(), seen }
    }

    fn run_all(&mut self, steps: &[Step]) {
        for &step in steps {
            self.run(step);
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Allocate(size) => self.allocate(size),
            Step::FreeAnything(offset, size) => self.free_anything(offset, size),
            _ if self.live.is_empty() => {}
            Step::Free(pick) => {
                let (offset, size) = self.live.swap_remove(pick.index(self.live.len()));
                self.free(offset, size);
            }
            Step::Resize(pick, size) => {
                let (offset, _) = self.live[pick.index(self.live.len())];
                self.free_anything(offset, size);
            }
            Step::FreePart(pick, from, to) => self.free_part(pick, from, to),
            Step::FreePair(pick) => self.free_pair(pick),
        }
        let largest = self.seed.free.iter().map(|&(_, size)| size).max().unwrap_or(0);
        assert_eq!(holes(&self.ours), self.seed.free);
        assert_eq!((self.ours.used().get(), self.ours.largest().get()), (self.seed.used, largest));
    }

    fn allocate(&mut self, size: u64) {
        let offset = self.seed.allocate(size);
        assert_eq!(self.ours.allocate(Bytes::new(size)).ok().map(Bytes::get), offset);
        self.live.extend(offset.map(|offset| (offset, size)));
        if offset.is_none() {
            count(&self.seen.refused);
        }
    }

    fn free(&mut self, offset: u64, size: u64) {
        self.seed.free(offset, size);
        assert_eq!(self.ours.free(Bytes::new(offset), Bytes::new(size)), Ok(()));
    }

    fn free_part(&mut self, pick: Index, from: Index, to: Index) {
        let (offset, size) = self.live.swap_remove(pick.index(self.live.len()));
        let (from, to) = (from.index(size as usize) as u64, to.index(size as usize) as u64);
        let (from, to) = (from.min(to), from.max(to) + 1);
        self.free(offset + from, to - from);
        let rest = [(offset, from), (offset + to, size - to)];
        self.live.extend(rest.into_iter().filter(|&(_, size)| size > 0));
        count(&self.seen.parts);
    }

    fn free_pair(&mut self, pick: Index) {
        let (offset, size) = self.live[pick.index(self.live.len())];
        let Some(&(_, more)) = self.live.iter().find(|&&(start, _)| start == offset + size) else {
            return;
        };
        self.live.retain(|&(start, _)| start != offset && start != offset + size);
        self.free(offset, size + more);
        count(&self.seen.pairs);
    }

    /// The refusal must match the definition of its reason. `run` checks that nothing changed, since the seed's list
    /// does not see this call.
    fn free_anything(&mut self, offset: u64, size: u64) {
        let answer = self.ours.free(Bytes::new(offset), Bytes::new(size));
        if let Some(at) = self.live.iter().position(|&live| live == (offset, size)) {
            assert_eq!(answer, Ok(()));
            self.seed.free(offset, size);
            self.live.swap_remove(at);
            return;
        }
        let starts = self.live.iter().any(|&(start, _)| start == offset);
        let overlaps =
            self.live.iter().any(|&(start, long)| start < offset + size && offset < start + long);
        let (right, counter) = match answer.unwrap_err().cause {
            FreeCause::ZeroBytes { .. } => (size == 0, &self.seen.outside),
            FreeCause::Outside { .. } => (offset + size > CAPACITY, &self.seen.outside),
            FreeCause::WrongSize { .. } => (starts, &self.seen.wrong_sizes),
            FreeCause::Overlap { .. } => (overlaps && !starts, &self.seen.overlaps),
            FreeCause::NotAllocated { .. } => (!overlaps, &self.seen.not_allocated),
            other => panic!("{other}"),
        };
        assert!(right, "{:?} with {:?}", answer, self.live);
        count(counter);
    }
}

fn histories(step: impl Strategy<Value = Step>, history: impl Fn(Vec<Step>)) {
    let config =
        ProptestConfig { cases: cases(3000), failure_persistence: None, ..Default::default() };
    let steps = prop::collection::vec(step, 1..150);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        history(steps);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

fn all_seen(counters: &[&Cell<u32>]) {
    assert!(counters.iter().all(|counter| counter.get() > cases(500)), "{counters:?}");
}

// D1, D2
#[test]
fn a_trusted_list_gives_the_seed_s_answers_with_partial_frees_too() {
    let seen = Seen::default();
    histories(trusted_steps(), |steps| {
        let mut pair = Pair::new(Checking::Trusted, &seen);
        pair.run_all(&steps);
    });
    all_seen(&[&seen.refused, &seen.parts, &seen.pairs]);
}

// D1, A2
#[test]
fn a_checked_list_gives_the_seed_s_answers_and_refuses_what_the_seed_would_not_see() {
    let seen = Seen::default();
    histories(checked_steps(), |steps| {
        let mut pair = Pair::new(Checking::Checked, &seen);
        pair.run_all(&steps);
    });
    all_seen(&[
        &seen.refused,
        &seen.not_allocated,
        &seen.wrong_sizes,
        &seen.overlaps,
        &seen.outside,
    ]);
}

const PAGE: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;

/// A space of 64 pages, the seed's list in units of pages, and the allocations as `(page, address, bytes)`.
struct Pages {
    ours: VirtualAllocator,
    seed: SeedList,
    live: Vec<(u64, DeviceVa, u64)>,
}

impl Pages {
    fn new(checking: Checking) -> Self {
        let spec = VirtualSpec::new(DeviceVa::new(BASE), Bytes::new(64 * PAGE));
        let spec = VirtualSpec { page: Bytes::new(PAGE), checking, ..spec };
        let ours = VirtualAllocator::from_spec(spec).unwrap();
        Self { ours, seed: SeedList::new(64), live: Vec::new() }
    }

    fn allocate(&mut self, bytes: u64) {
        let page = self.seed.allocate(bytes.div_ceil(PAGE));
        let va = page.map(|page| DeviceVa::new(BASE + page * PAGE));
        assert_eq!(self.ours.allocate(Bytes::new(bytes)).ok(), va);
        self.live.extend(page.zip(va).map(|(page, va)| (page, va, bytes)));
    }

    fn free(&mut self, pick: Index) {
        let (page, va, bytes) = self.live.swap_remove(pick.index(self.live.len()));
        self.seed.free(page, bytes.div_ceil(PAGE));
        assert_eq!(self.ours.free(va, Bytes::new(bytes)), Ok(()));
    }

    fn agree(&self) {
        let in_pages = |bytes: Bytes| (bytes.get() / PAGE, bytes.get() % PAGE);
        let holes = self.ours.holes().map(|hole| (in_pages(hole.offset), in_pages(hole.size)));
        let seed = self.seed.free.iter().map(|&(page, pages)| ((page, 0), (pages, 0)));
        assert!(holes.eq(seed), "{:?} {:?}", self.ours, self.seed);
        assert_eq!(in_pages(self.ours.used()), (self.seed.used, 0));
    }
}

fn virtual_history(checking: Checking, steps: &[Step], freed: &Cell<u32>) {
    let mut pages = Pages::new(checking);
    for &step in steps {
        match step {
            Step::Allocate(size) => pages.allocate(size * 500),
            Step::Free(pick) if !pages.live.is_empty() => {
                pages.free(pick);
                count(freed);
            }
            _ => {}
        }
        pages.agree();
    }
}

// D4
#[test]
fn a_virtual_space_gives_the_seed_s_answers_in_pages() {
    let freed = Cell::new(0);
    let steps = || prop_oneof![3 => allocate(), 2 => free()];
    histories(steps(), |steps| virtual_history(Checking::Trusted, &steps, &freed));
    histories(steps(), |steps| virtual_history(Checking::Checked, &steps, &freed));
    all_seen(&[&freed]);
}
