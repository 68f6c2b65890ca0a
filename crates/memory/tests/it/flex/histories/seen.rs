//! Counts of what histories have done, which show that every operation was tried.

use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) operations: u64,
    pub(super) placed: u64,
    pub(super) refused: u64,
    pub(super) freed: u64,
    /// Blocks that were freed while they were pinned.
    pub(super) orphans: u64,
    /// Uses of blocks by streams other than their own.
    pub(super) shared: u64,
    /// Waits of the allocator for streams.
    pub(super) waits: u64,
    pub(super) launches: u64,
    pub(super) moved: u64,
    pub(super) abandoned: u64,
    /// Plans with a limit of bytes.
    pub(super) steps: u64,
    pub(super) resized: u64,
    pub(super) paused: u64,
    pub(super) resumed: u64,
    /// Requests that a budget refused.
    pub(super) over_budget: u64,
    pub(super) faults: u64,
    /// Comparisons of everything.
    pub(super) checks: u64,
}

impl Seen {
    /// Returns the counts of which each history of usual length has some.
    pub(super) fn each(&self) -> [u64; 17] {
        let Self { operations, placed, refused, freed, orphans, shared, .. } = *self;
        let Self { waits, launches, moved, abandoned, steps, resized, paused, .. } = *self;
        let Self { resumed, over_budget, faults, checks, .. } = *self;
        [
            operations,
            placed,
            refused,
            freed,
            orphans,
            shared,
            waits,
            launches,
            moved,
            abandoned,
            steps,
            resized,
            paused,
            resumed,
            over_budget,
            faults,
            checks,
        ]
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.placed += other.placed;
        self.refused += other.refused;
        self.freed += other.freed;
        self.orphans += other.orphans;
        self.shared += other.shared;
        self.waits += other.waits;
        self.launches += other.launches;
        self.moved += other.moved;
        self.abandoned += other.abandoned;
        self.steps += other.steps;
        self.resized += other.resized;
        self.paused += other.paused;
        self.resumed += other.resumed;
        self.over_budget += other.over_budget;
        self.faults += other.faults;
        self.checks += other.checks;
    }
}
