//! Synthetic traces: seeded workloads that ask for memory in the order in which real programs do.
//!
//! Each [`Workload`] is a small model of one kind of program, with permanent, per-step and short-lived blocks and with
//! shapes drawn from a seed. Workloads stand in for programs without a recorded trace, so a placement policy can be
//! judged on more than the traces of its development. The same seed gives the same trace on every machine.

mod conv;
mod irregular;
mod serve;
mod transformer;

use crate::trace::{Allocate, Event, Trace, TraceId};
use cubeyard_memory::Bytes;

/// Every workload, in the order in which reports list them.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload { name: "transformer_train", write: transformer::train },
    Workload { name: "transformer_checkpointed", write: transformer::checkpointed },
    Workload { name: "gradient_accumulation", write: transformer::gradient_accumulation },
    Workload { name: "pipeline_1f1b", write: transformer::pipeline },
    Workload { name: "moe_train", write: transformer::mixture_of_experts },
    Workload { name: "finetune_eval", write: transformer::finetune_with_eval },
    Workload { name: "rl_generate_train", write: transformer::generate_then_train },
    Workload { name: "serving_concat", write: serve::growing_by_concatenation },
    Workload { name: "serving_blocks", write: serve::growing_by_blocks },
    Workload { name: "diffusion", write: conv::diffusion },
    Workload { name: "conv_prefetch", write: conv::train_with_prefetch },
    Workload { name: "graph_sampling", write: irregular::graph_sampling },
    Workload { name: "churn", write: irregular::churn },
];

/// One kind of program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Name of the workload; a trace adds the seed.
    pub(crate) name: &'static str,
    write: fn(&mut Writer, &mut SplitMix64),
}

impl Workload {
    /// Returns the history of this program with shapes drawn from `seed`.
    ///
    /// Blocks that are live at the end are freed, newest first.
    pub(crate) fn trace(&self, seed: u64) -> Trace {
        let mut writer = Writer::default();
        (self.write)(&mut writer, &mut SplitMix64::new(seed));
        writer.finish(format!("{}-{seed}", self.name))
    }
}

/// Records a trace while a workload runs.
#[derive(Debug, Default)]
struct Writer {
    events: Vec<Event>,
    live: Vec<bool>,
    stream: u32,
}

/// Microseconds between two events of a synthetic trace; only their order matters.
const STEP_US: u64 = 5;

impl Writer {
    fn now_us(&self) -> u64 {
        self.events.len() as u64 * STEP_US
    }

    /// Allocates `size` bytes at call site `caller`.
    fn allocate(&mut self, size: u64, caller: u32) -> TraceId {
        let number = u32::try_from(self.live.len())
            .expect("synthetic traces stay far below 2^32 allocations");
        let id = TraceId(number);
        let request = Allocate {
            id,
            size: Bytes::new(size),
            stream: self.stream,
            site: caller,
            time_us: self.now_us(),
        };
        self.events.push(Event::Allocate(request));
        self.live.push(true);
        id
    }

    fn free(&mut self, id: TraceId) {
        assert!(self.live[id.index()], "a workload freed allocation {} twice", id.0);
        self.live[id.index()] = false;
        let time_us = self.now_us();
        self.events.push(Event::Free { id, time_us });
    }

    fn free_all(&mut self, ids: impl IntoIterator<Item = TraceId>) {
        for id in ids {
            self.free(id);
        }
    }

    /// Allocates a block and frees it at once.
    fn touch(&mut self, size: u64, caller: u32) {
        let id = self.allocate(size, caller);
        self.free(id);
    }

    /// Runs `work` on another stream.
    fn on_stream<T>(&mut self, stream: u32, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.stream, stream);
        let answer = work(self);
        self.stream = before;
        answer
    }

    fn finish(mut self, name: String) -> Trace {
        for index in (0..self.live.len()).rev() {
            if self.live[index] {
                self.free(TraceId(u32::try_from(index).expect("checked when it was allocated")));
            }
        }
        let allocations = u32::try_from(self.live.len()).expect("checked at each allocation");
        Trace { name, events: self.events, allocations, ..Trace::default() }
    }
}

/// Sebastiano Vigna's `SplitMix64` generator, which has one word of state.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    /// Makes a generator whose draws depend on `seed` alone.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws 64 bits.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// Draws a number from `low` to `high`, with about equal probability for each octave.
    pub(crate) fn doubling(&mut self, low: u64, high: u64) -> u64 {
        let exponent = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        self.between(1 << exponent, (2 << exponent) - 1).clamp(low, high)
    }

    /// Draws an index below `count`.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.draw() % count as u64).expect("less than `count`, which is a usize")
    }

    /// Draws one of `choices`.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Draws whether an event with a probability of `percent` % happens.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_draws_the_published_sequence() {
        // The first outputs for seed 1234567, as listed for the reference implementation.
        let mut draws = SplitMix64::new(1_234_567);
        assert_eq!(draws.draw(), 6_457_827_717_110_365_317);
        assert_eq!(draws.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_doubling_draw_stays_within_its_bounds() {
        let mut draws = SplitMix64::new(1);
        let values: Vec<_> = (0..2000).map(|_| draws.doubling(3, 100)).collect();
        assert_eq!(values.iter().min(), Some(&3));
        assert_eq!(values.iter().max(), Some(&100));
    }

    /// Replays every workload and checks that its trace is one that a program could have produced.
    #[test]
    fn every_workload_frees_each_allocation_once_and_after_it_was_made() {
        for workload in WORKLOADS {
            let trace = workload.trace(3);
            let mut state = vec![0_u8; trace.allocations as usize];
            let mut next = 0;
            for event in &trace.events {
                match event {
                    Event::Allocate(request) => {
                        assert_eq!(request.id.0, next, "{}: numbers are dense", trace.name);
                        assert!(!request.size.is_zero(), "{}: sizes are positive", trace.name);
                        next += 1;
                        state[request.id.index()] = 1;
                    }
                    Event::Free { id, .. } => {
                        assert_eq!(state[id.index()], 1, "{}: {id:?} is live", trace.name);
                        state[id.index()] = 2;
                    }
                }
            }
            assert_eq!(next, trace.allocations);
            assert!(state.iter().all(|&seen| seen == 2), "{}: everything ends freed", trace.name);
            assert!(
                trace.allocations > 1000,
                "{}: {} allocations say little",
                trace.name,
                trace.allocations
            );
        }
    }

    #[test]
    fn a_seed_gives_the_same_trace_twice_and_another_seed_another_trace() {
        for workload in WORKLOADS {
            assert_eq!(workload.trace(1), workload.trace(1));
            assert_ne!(workload.trace(1).events, workload.trace(2).events, "{}", workload.name);
        }
    }
}
