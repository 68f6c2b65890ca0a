//! Replay of requests that failed during recording.

use super::policy::{EXPANDABLE, PYTORCH};
use super::pytorch::PyTorch;
use super::{Target, run};
use crate::trace::{Allocate, Event, HistoryExtent, OutOfMemory, Trace, TraceId};

/// Returns whether the policy `name`, whose targets `make` creates, serves the first failed request of `trace`, after
/// all events before it and from the memory available to the recorded allocator. `None` if none failed or that memory
/// is unknown.
pub(super) fn fits(
    name: &str,
    make: &dyn Fn(&Trace) -> Box<dyn Target + '_>,
    trace: &Trace,
) -> Option<bool> {
    let recording = trace.recording.as_ref()?;
    let failure = recording.out_of_memory.first()?;
    let capacity = failure.capacity.filter(|_| recording.history == HistoryExtent::Whole)?;
    let trace = until(trace, failure)?;
    let mut target: Box<dyn Target + '_> = match name {
        // These policies release cached memory before they fail.
        PYTORCH => Box::new(PyTorch::native(Some(capacity)).of(&trace)),
        EXPANDABLE => Box::new(PyTorch::expandable(Some(capacity)).of(&trace)),
        _ => make(&trace),
    };
    let outcome = run(&trace, &mut *target, &mut |_| {});
    Some(outcome.failed.is_none() && outcome.peak_reserved <= capacity)
}

/// Returns the trace up to and including the failed request.
fn until(trace: &Trace, failure: &OutOfMemory) -> Option<Trace> {
    let OutOfMemory { event, size, stream, .. } = *failure;
    let before = trace.events.get(..event)?;
    let id = TraceId(trace.allocations);
    let time_us = before.last().map_or(0, Event::time_us);
    let request = Event::Allocate(Allocate { id, size, stream, site: 0, time_us });
    let events = before.iter().copied().chain([request]).collect();
    let allocations = trace.allocations.checked_add(1)?;
    let (name, lag, shared) = (trace.name.clone(), trace.lag, trace.shared.clone());
    Some(Trace { name, events, allocations, lag, shared, ..Trace::default() })
}

/// Returns the trace with all failed requests added, each freed immediately; `None` if none failed.
pub(super) fn served(trace: &Trace) -> Option<Trace> {
    let recording = trace.recording.as_ref().filter(|it| !it.out_of_memory.is_empty())?;
    let mut failures = recording.out_of_memory.iter().peekable();
    let (mut events, mut allocations) = (Vec::with_capacity(trace.events.len()), trace.allocations);
    let mut time_us = 0;
    for place in 0..=trace.events.len() {
        while let Some(failure) = failures.next_if(|failure| failure.event <= place) {
            let OutOfMemory { size, stream, site, .. } = *failure;
            let id = TraceId(allocations);
            allocations = allocations.checked_add(1)?;
            events.push(Event::Allocate(Allocate { id, size, stream, site, time_us }));
            events.push(Event::Free { id, time_us });
        }
        let Some(event) = trace.events.get(place) else { break };
        time_us = event.time_us();
        events.push(*event);
    }
    let (name, recording) = (trace.name.clone(), trace.recording.clone());
    let (lag, shared) = (trace.lag, trace.shared.clone());
    Some(Trace { name, events, allocations, recording, lag, shared, ..Trace::default() })
}

/// Returns a sentence on the first request that failed during recording, and on the policies that would have served it.
pub(super) fn sentence(
    name: &str,
    failure: &OutOfMemory,
    count: usize,
    fitting: &[&str],
) -> String {
    let first = if count == 1 { String::new() } else { format!("the first of {count} times ") };
    let asked = format!("`{name}` ran out of memory {first}when {} was asked for", failure.size);
    let Some(capacity) = failure.capacity else {
        return format!("{asked}; the file does not say what the device had free.");
    };
    let verdict = match fitting {
        [] => "no policy here would have fitted".to_owned(),
        [one] => format!("`{one}` would have fitted"),
        many => format!("`{}` would have fitted", many.join("`, `")),
    };
    format!("{asked}, with {capacity} to be had in all: {verdict}.")
}
