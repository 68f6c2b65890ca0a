//! Time per operation of a target.

use super::Target;
use super::run::BATCH;
use crate::trace::{Event, Trace};

/// Total measured time above which a short trace is not repeated, far above the resolution of clocks.
const ENOUGH_NS: u64 = 20_000_000;
const MOST_PASSES: usize = 32;
/// Creation time of a target above which a trace is not repeated.
const SLOW_NS: u64 = 100_000_000;

/// Returns the nanoseconds per call of a target, in the fastest of several passes over the trace, each with a new
/// target; `None` if the target fails or is never called.
///
/// Only the calls and the walk over the events are timed, in batches.
pub(super) fn nanoseconds_per_operation(
    trace: &Trace,
    make: &dyn Fn(&Trace) -> Box<dyn Target + '_>,
    clock: &mut dyn FnMut() -> u64,
    progress: &mut dyn FnMut(usize),
) -> Option<f64> {
    let (mut fastest, mut total) = (f64::INFINITY, 0);
    for pass in 0..MOST_PASSES {
        let told: &mut dyn FnMut(usize) = if pass == 0 { &mut *progress } else { &mut |_| {} };
        let begin = clock();
        let mut target = make(trace);
        let slow = clock().saturating_sub(begin) >= SLOW_NS;
        let (operations, elapsed) = pass_over(trace, &mut *target, clock, told)?;
        if operations == 0 {
            return None;
        }
        fastest = fastest.min(elapsed as f64 / operations as f64);
        total += elapsed;
        if total >= ENOUGH_NS || slow {
            break;
        }
    }
    Some(fastest)
}

/// Returns the number of calls and their total time in nanoseconds.
fn pass_over(
    trace: &Trace,
    target: &mut dyn Target,
    clock: &mut dyn FnMut() -> u64,
    progress: &mut dyn FnMut(usize),
) -> Option<(u64, u64)> {
    let mut tokens: Vec<Option<u64>> = vec![None; trace.allocations as usize];
    let (mut operations, mut elapsed) = (0, 0_u64);
    for events in trace.events.chunks(BATCH) {
        let begin = clock();
        for event in events {
            operations += u64::from(step(target, &mut tokens, event)?);
        }
        elapsed += clock().saturating_sub(begin);
        progress(events.len());
    }
    Some((operations, elapsed))
}

/// Returns whether the target was called for this event; `None` if it failed.
#[inline]
fn step(target: &mut dyn Target, tokens: &mut [Option<u64>], event: &Event) -> Option<bool> {
    match event {
        Event::Allocate(request) if request.size.is_zero() => Some(false),
        Event::Allocate(request) => {
            tokens[request.id.index()] = Some(target.allocate(request).ok()?);
            Some(true)
        }
        Event::Free { id, .. } => {
            let token = tokens[id.index()].take();
            Some(token.map(|token| target.free(token)).is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pytorch::PyTorch;
    use crate::trace::script::Script;
    use cubeyard_units::Bytes;

    /// Measures with a clock that advances by `tick` each time it is read, and counts the passes.
    fn measure(script: &str, tick: u64, capacity: Option<Bytes>) -> (Option<f64>, usize) {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        let (passes, mut now) = (std::cell::Cell::new(0), 0);
        let mut clock = || {
            now += tick;
            now
        };
        let make: &dyn Fn(&Trace) -> Box<dyn Target + '_> = &|_| {
            passes.set(passes.get() + 1);
            Box::new(PyTorch::native(capacity))
        };
        let time = nanoseconds_per_operation(&trace, make, &mut clock, &mut |_| {});
        (time, passes.get())
    }

    #[test]
    fn the_time_of_a_batch_is_shared_by_its_calls() {
        let script = "alloc a 1\nalloc none 0\nfree a\n";
        assert_eq!(measure(script, 100, None), (Some(50.0), MOST_PASSES));
        assert_eq!(measure(script, ENOUGH_NS / 2, None).1, 2);
        assert_eq!(measure(script, ENOUGH_NS, None).1, 1);
    }

    #[test]
    fn without_calls_or_with_a_failure_there_is_no_time() {
        assert_eq!(measure("alloc none 0\n", 1, None), (None, 1));
        assert_eq!(measure("", 1, None), (None, 1));
        assert_eq!(measure("alloc a 1\n", 1, Some(Bytes::ZERO)), (None, 1));
    }
}
