//! Allocations that are live at one moment of a trace.

use std::collections::BTreeMap;

use crate::trace::{Allocate, Event, OutOfMemory, Trace};
use cubeyard_units::Bytes;

/// Granule to which the sizes of live allocations are rounded up.
pub(super) const LIVE_GRANULE: Bytes = Bytes::new(128);

/// Moment of a trace: the state after a number of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Number of events before the moment.
    pub events: usize,
    /// Time of the last of these events, in microseconds since the start of the trace.
    pub time_us: u64,
}

impl Moment {
    /// Returns the moment after the first `events` events of a trace.
    pub fn after(trace: &Trace, events: usize) -> Self {
        let last = events.checked_sub(1).and_then(|last| trace.events.get(last));
        Self { events, time_us: last.map_or(0, Event::time_us) }
    }

    /// Returns the first moment at which the most bytes are live.
    pub fn of_peak(trace: &Trace) -> Self {
        let mut sizes = vec![Bytes::ZERO; trace.allocations as usize];
        let (mut live, mut most, mut events) = (0_u64, 0, 0);
        for (index, event) in (1..).zip(&trace.events) {
            match event {
                Event::Allocate(request) => {
                    sizes[request.id.index()] = rounded(request.size);
                    live = live.saturating_add(rounded(request.size).get());
                }
                Event::Free { id, .. } => live = live.saturating_sub(sizes[id.index()].get()),
            }
            if live > most {
                (most, events) = (live, index);
            }
        }
        Self::after(trace, events)
    }

    /// Returns the moment of the first request that failed during recording.
    pub fn of_failure(trace: &Trace) -> Option<(Self, OutOfMemory)> {
        let failure = *trace.recording.as_ref()?.out_of_memory.first()?;
        Some((Self::after(trace, failure.event), failure))
    }
}

/// Live allocations of one call site, size and stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldGroup {
    /// Call site, 0 if unknown.
    pub site: u32,
    /// Requested size of each allocation.
    pub size: Bytes,
    /// Number of the stream that requested the allocations.
    pub stream: u32,
    /// Number of live allocations in the group.
    pub blocks: u64,
    /// Bytes attributed to the group: sizes, each rounded up to a multiple of 128.
    pub bytes: Bytes,
    /// Moment just before the first allocation of the group; its time is the time of that allocation.
    pub oldest: Moment,
    /// Moment just before the last allocation of the group.
    pub youngest: Moment,
}

/// Allocations that are live at one moment of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Moment at which the allocations are live.
    pub moment: Moment,
    /// Live bytes: requested sizes, each rounded up to a multiple of 128.
    pub live: Bytes,
    /// Live bytes as requested, without rounding.
    pub requested: Bytes,
    /// Number of live allocations.
    pub blocks: u64,
    /// Live allocations by call site, size and stream, sorted in that order.
    pub groups: Vec<HeldGroup>,
}

impl Held {
    /// Returns the allocations of `trace` that are live at `moment`.
    pub fn at(trace: &Trace, moment: Moment) -> Self {
        let mut held = Self { moment, ..Self::default() };
        let mut groups = Groups::default();
        for (event, request) in live_at(trace, moment) {
            held.live = plus(held.live, rounded(request.size));
            held.requested = plus(held.requested, request.size);
            held.blocks += 1;
            groups.add(&request, event, rounded(request.size));
        }
        held.groups = groups.finish();
        held
    }

    /// Returns the live bytes of each stream, by stream number.
    pub fn streams(&self) -> BTreeMap<u32, Bytes> {
        let mut streams = BTreeMap::new();
        for group in &self.groups {
            let held = streams.entry(group.stream).or_insert(Bytes::ZERO);
            *held = plus(*held, group.bytes);
        }
        streams
    }
}

/// Groups under construction, by call site, size and stream.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<(u32, Bytes, u32), HeldGroup>,
}

impl Groups {
    /// Adds an allocation made at an event, with the bytes to attribute to it.
    pub(super) fn add(&mut self, request: &Allocate, event: usize, bytes: Bytes) {
        let Allocate { size, stream, site, time_us, .. } = *request;
        let moment = Moment { events: event, time_us };
        let first = HeldGroup {
            site,
            size,
            stream,
            blocks: 0,
            bytes: Bytes::ZERO,
            oldest: moment,
            youngest: moment,
        };
        let group = self.groups.entry((site, size, stream)).or_insert(first);
        group.blocks += 1;
        group.bytes = plus(group.bytes, bytes);
        group.oldest = group.oldest.min_by_event(moment);
        group.youngest = group.youngest.max_by_event(moment);
    }

    pub(super) fn finish(self) -> Vec<HeldGroup> {
        self.groups.into_values().collect()
    }
}

impl Moment {
    pub(super) fn min_by_event(self, other: Self) -> Self {
        if other.events < self.events { other } else { self }
    }

    pub(super) fn max_by_event(self, other: Self) -> Self {
        if other.events > self.events { other } else { self }
    }
}

/// Returns the live allocations at a moment in the order of their requests, each with the number of events before it.
pub(super) fn live_at(trace: &Trace, moment: Moment) -> Vec<(usize, Allocate)> {
    let events = trace.events.get(..moment.events).unwrap_or(&trace.events);
    let mut is_live = vec![false; trace.allocations as usize];
    for event in events {
        match event {
            Event::Allocate(request) => is_live[request.id.index()] = !request.size.is_zero(),
            Event::Free { id, .. } => is_live[id.index()] = false,
        }
    }
    let requests = events.iter().enumerate().filter_map(|(index, event)| match event {
        Event::Allocate(request) => Some((index, *request)),
        Event::Free { .. } => None,
    });
    requests.filter(|(_, request)| is_live[request.id.index()]).collect()
}

/// Adds two sizes, saturating: hostile traces can exceed 64 bits.
pub(super) fn plus(left: Bytes, right: Bytes) -> Bytes {
    left.checked_add(right).unwrap_or(Bytes::MAX)
}

/// Rounds a size up to a multiple of 128; near the end of 64 bits, down to the largest multiple.
fn rounded(size: Bytes) -> Bytes {
    size.align_up(LIVE_GRANULE).unwrap_or_else(|| Bytes::MAX.align_down(LIVE_GRANULE))
}

#[cfg(test)]
mod tests;
