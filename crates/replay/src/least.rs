//! The least memory in which a policy serves a trace.
//!
//! Limits are multiples of 2 MiB. They are found by bisection between a limit that fails, near the live bytes, and the
//! bytes that the policy reserves without a limit. An allocator that releases its cache and retries may succeed under
//! one limit and fail under a higher one. So a few limits below the answer are tried too. The answer states only what
//! was observed: the trace is served there, and fails one step below.

use super::{Make, Outcome, ReplayPolicy, Target, run};
use crate::trace::Trace;
use cubeyard_units::Bytes;

/// Step between the limits that are tried.
const STEP: Bytes = Bytes::mib(2);
/// Distance below the live bytes at which limits are tried.
const BELOW: Bytes = Bytes::mib(32);
/// Number of limits tried below the answer.
const PROBES: u64 = 4;

/// Least memory in which a policy serves a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Limit under which the whole trace was served.
    pub runs: Bytes,
    /// Limit one step below, under which the trace was not served.
    pub fails: Bytes,
    /// Number of times that the cache was released under the limit `runs`.
    pub retries: u64,
    /// Peak of the reserved bytes under the limit `runs`. PyTorch checks a limit before it maps whole pages of
    /// expandable segments, so this can exceed the limit by less than a page.
    pub reserved: Bytes,
    /// Peak of the reserved bytes without a limit.
    pub unlimited: Bytes,
    /// Peak of the live bytes.
    pub live: Bytes,
}

impl Least {
    /// Returns the memory in which the trace was served: the limit, or the bytes reserved under it if they are more.
    pub fn memory(&self) -> Bytes {
        self.runs.max(self.reserved)
    }
}

impl ReplayPolicy {
    /// Returns the least memory in which the policy serves a trace, given its outcome without a limit; `None` if it
    /// failed, held nothing, or does not support limits.
    pub fn least(&self, trace: &Trace, unlimited: &Outcome) -> Option<Least> {
        let Make::Limited(make) = self.make else { return None };
        search(trace, &|limit| make(trace, Some(limit)), unlimited)
    }

    /// Returns the least memory in which the policy serves a trace, after replaying the trace without a limit.
    pub(super) fn least_of(&self, trace: &Trace) -> Option<Least> {
        let Make::Limited(make) = self.make else { return None };
        self.least(trace, &run(trace, &mut *make(trace, None), &mut |_| {}))
    }
}

/// Returns the least memory in which the targets that `make` creates serve a trace, given the outcome without a limit.
pub(super) fn search<'s>(
    trace: &'s Trace,
    make: &'s dyn Fn(Bytes) -> Box<dyn Target + 's>,
    unlimited: &Outcome,
) -> Option<Least> {
    let served = unlimited.failed.is_none() && !unlimited.peak_live.is_zero();
    served.then(|| Search { trace, make }.least(unlimited)).flatten()
}

/// Peak of the reserved bytes, and number of retries, of a run that served the whole trace.
type Served = (Bytes, u64);

struct Search<'s> {
    trace: &'s Trace,
    make: &'s dyn Fn(Bytes) -> Box<dyn Target + 's>,
}

impl Search<'_> {
    fn least(&self, unlimited: &Outcome) -> Option<Least> {
        let enough = unlimited.peak_reserved.align_up(STEP)?;
        let served = self.attempt(enough)?;
        let Some(less) = self.attempt(enough - STEP) else {
            return Some(self.probed((enough, served), unlimited));
        };
        let fails = self.failing(unlimited.peak_live.min(enough - STEP - STEP));
        let runs = self.bisect(fails, (enough - STEP, less));
        Some(self.probed(runs, unlimited))
    }

    /// Returns a limit at or below `start` that fails. Expandable segments can need less than the live bytes, because
    /// their pages may exceed the limit.
    fn failing(&self, start: Bytes) -> Bytes {
        let mut limit = start.align_down(STEP);
        while !limit.is_zero() && self.attempt(limit).is_some() {
            limit = limit.saturating_sub(BELOW);
        }
        limit
    }

    /// Bisects between a limit that fails and one that runs, until they are one step apart.
    fn bisect(&self, mut fails: Bytes, mut runs: (Bytes, Served)) -> (Bytes, Served) {
        while runs.0 - fails > STEP {
            let middle = Bytes::new(fails.get().midpoint(runs.0.get())).align_up(STEP);
            let middle = middle.unwrap_or(runs.0).min(runs.0 - STEP);
            match self.attempt(middle) {
                Some(served) => runs = (middle, served),
                None => fails = middle,
            }
        }
        runs
    }

    /// Tries a few limits between the live bytes and a limit that runs, and continues from the lowest that also runs.
    fn probed(&self, mut runs: (Bytes, Served), unlimited: &Outcome) -> Least {
        let live = unlimited.peak_live;
        let mut fails = live.align_down(STEP).min(runs.0 - STEP);
        let part = Bytes::new((runs.0 - fails).get() / (PROBES + 1)).align_down(STEP);
        let probes = (1..=PROBES).map(|times| fails + Bytes::new(part.get() * times));
        let probes: Vec<_> = probes.filter(|_| !part.is_zero()).collect();
        for limit in probes {
            match self.attempt(limit) {
                Some(served) => {
                    let lower = self.failing(fails);
                    runs = self.bisect(lower, (limit, served));
                    break;
                }
                None => fails = limit,
            }
        }
        let (limit, (reserved, retries)) = runs;
        let unlimited = unlimited.peak_reserved;
        Least { runs: limit, fails: limit - STEP, retries, reserved, unlimited, live }
    }

    /// Replays the trace under a limit; `None` if a request fails.
    fn attempt(&self, limit: Bytes) -> Option<Served> {
        let mut target = (self.make)(limit);
        let outcome = run(self.trace, &mut *target, &mut |_| {});
        outcome.failed.is_none().then(|| (outcome.peak_reserved, target.retries()))
    }
}

#[cfg(test)]
mod tests;
