//! Counts of a pool: sums over its regions, with their peaks.
//!
//! A region of a pool adds the changes of its counts whenever its lock is released. So the peaks of a pool are exact to
//! the call. The regions of the default pool add nothing, and cost nothing.

use super::{COUNTS, Count, Counters, Stat, Stats};
use crate::sync::{Arc, Mutex, lock};

/// The counts of one pool.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    stats: [Stat; COUNTS],
    paused: u64,
    counters: Counters,
}

impl Tally {
    pub(crate) fn stats(&self) -> Stats {
        let sums = lock(&self.0);
        Stats { stats: sums.stats, paused: sums.paused, counters: sums.counters }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut lock(&self.0).counters);
    }

    pub(crate) fn reset_peaks(&self) {
        lock(&self.0).stats.iter_mut().for_each(|stat| stat.peak = stat.current);
    }

    pub(crate) fn reset_accumulated(&self) {
        let mut sums = lock(&self.0);
        sums.counters = Counters::default();
        sums.stats.iter_mut().for_each(|stat| (stat.allocated, stat.freed) = (0, 0));
    }
}

/// Counts of a region that were added to the counts of its pool.
#[derive(Debug)]
pub(super) struct Share {
    pool: Arc<Tally>,
    seen: [Seen; COUNTS],
    /// Bytes of paused blocks that were added.
    paused: u64,
}

/// The figures of one count as of the last update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    current: u64,
    allocated: u64,
    freed: u64,
}

impl Seen {
    fn of(count: &Count) -> Self {
        Self { current: count.current, allocated: count.allocated, freed: count.freed() }
    }
}

impl Share {
    pub(super) fn new(pool: Arc<Tally>, counts: &[Count; COUNTS]) -> Self {
        Self { pool, seen: counts.each_ref().map(Seen::of), paused: 0 }
    }

    /// Takes the counts as added, after a reset of their sums.
    pub(super) fn start_from(&mut self, counts: &[Count; COUNTS]) {
        self.seen = counts.each_ref().map(Seen::of);
    }

    pub(super) fn update(&mut self, counts: &[Count; COUNTS], paused: u64) {
        let mut sums = lock(&self.pool.0);
        sums.paused = sums.paused + paused - self.paused;
        self.paused = paused;
        for ((stat, seen), count) in sums.stats.iter_mut().zip(&mut self.seen).zip(counts) {
            let now = Seen::of(count);
            if now == *seen {
                continue;
            }
            stat.current = stat.current + now.current - seen.current;
            stat.allocated += now.allocated - seen.allocated;
            stat.freed += now.freed - seen.freed;
            stat.peak = stat.peak.max(stat.current);
            *seen = now;
        }
    }
}
