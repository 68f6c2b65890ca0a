//! Computations in terms of the compute engine: strips that stream through three stages.

use cubeyard_sim::{Span, Time};

use super::OpUnit;

/// Computation of strips. Each strip is fetched from the TCM, processed, and stored to the TCM.
///
/// While one strip is processed, the next is fetched and the previous one is stored, so the slowest stage sets the
/// pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strips {
    /// Processing unit: [`OpUnit::Gemm`] or [`OpUnit::Math`].
    pub unit: OpUnit,
    /// Number of strips.
    pub count: u32,
    /// Time to fetch a strip.
    pub fetch: Span,
    /// Time to process a strip.
    pub work: Span,
    /// Time to store a strip.
    pub store: Span,
}

/// Times at which the stages of the compute engine become free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ComputeStages {
    pub(super) free: [Time; 3],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StageUse {
    pub(super) start: Time,
    pub(super) end: Time,
    /// Whether the previous stage delayed this one up to the last strip.
    pub(super) fed: bool,
}

impl Strips {
    /// Returns the time for which each stage is busy.
    pub fn busy(&self) -> [Span; 3] {
        [self.fetch, self.work, self.store].map(|span| span * u64::from(self.count))
    }
}

impl ComputeStages {
    /// Streams a computation through the stages, not before `ready`.
    pub(super) fn stream(&mut self, strips: &Strips, ready: Time) -> [StageUse; 3] {
        let mut stages = [StageUse::default(); 3];
        let mut first = ready;
        let mut last = ready;
        let each = [strips.fetch, strips.work, strips.store];
        for (index, span) in each.into_iter().enumerate() {
            let start = first.max(self.free[index]);
            let paced = start + span * u64::from(strips.count);
            let fed = last + span;
            let end = paced.max(fed);
            stages[index] = StageUse { start, end, fed: fed > paced };
            self.free[index] = end;
            (first, last) = (start + span, end);
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strip by strip, as the rules say it.
    fn naive(free: &mut [u64; 3], ready: u64, each: [u64; 3], count: u64) -> u64 {
        let mut ends = [ready; 3];
        for _ in 0..count {
            let mut came = ready;
            for stage in 0..3 {
                let start = came.max(free[stage]);
                free[stage] = start + each[stage];
                came = free[stage];
                ends[stage] = came;
            }
        }
        ends[2]
    }

    proptest::proptest! {
        #[test]
        fn a_stream_takes_as_long_as_its_strips_one_by_one(
            works in proptest::collection::vec((0..100_u64, 0..50_u64, 0..50_u64, 1..20_u32, 0..80_u64), 1..20),
        ) {
            let mut stages = ComputeStages::default();
            let mut free = [0; 3];
            let mut ready = 0;
            for (fetch, work, store, count, later) in works {
                ready += later;
                let [fetch, work, store] = [fetch, work, store];
                let strips = Strips {
                    unit: OpUnit::Math,
                    count,
                    fetch: Span::from_ps(fetch),
                    work: Span::from_ps(work),
                    store: Span::from_ps(store),
                };
                let end = stages.stream(&strips, Time::from_ps(ready))[2].end;
                let expected = naive(&mut free, ready, [fetch, work, store], u64::from(count));
                proptest::prop_assert_eq!(end.ps(), expected);
            }
        }
    }
}
