//! `Timeline`: live and reserved bytes over a trace, short enough to draw.

use crate::trace::{Event, Trace};
use cubeyard_units::Bytes;

/// The most points that a timeline has.
const POINTS: usize = 1000;

/// Live and reserved bytes over a trace.
///
/// A long trace is cut into runs of equally many events, and each run keeps its maxima, so the
/// peaks are never lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    points: Vec<Point>,
    /// Events to a point.
    stride: usize,
    events: usize,
    total: usize,
    end_us: u64,
    timed: bool,
}

/// The maxima of some events that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The first of these events, from 0.
    pub event: usize,
    /// When that was, in microseconds since the trace began.
    pub time_us: u64,
    /// The most bytes live after any of them.
    pub live: Bytes,
    /// The most bytes reserved after any of them.
    pub reserved: Bytes,
}

impl Timeline {
    /// An empty timeline with room for every event of `trace`.
    pub(super) fn new(trace: &Trace) -> Self {
        let total = trace.events.len();
        let stride = total.div_ceil(POINTS).max(1);
        let end_us = trace.events.last().map_or(0, Event::time_us);
        Self { points: Vec::new(), stride, events: 0, total, end_us, timed: is_timed(trace) }
    }

    /// Notes what there was after the next event.
    pub(super) fn push(&mut self, time_us: u64, live: Bytes, reserved: Bytes) {
        match self.points.last_mut() {
            Some(last) if !self.events.is_multiple_of(self.stride) => {
                last.live = last.live.max(live);
                last.reserved = last.reserved.max(reserved);
            }
            _ => self.points.push(Point { event: self.events, time_us, live, reserved }),
        }
        self.events += 1;
    }

    /// What there was, in order.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// How many events the whole trace has, of which a replay that failed has seen the first.
    pub fn total_events(&self) -> usize {
        self.total
    }

    /// When the trace ends, in microseconds since it began.
    pub fn end_us(&self) -> u64 {
        self.end_us
    }

    /// Whether the times were measured. Scripts have none: their events count microseconds.
    pub fn is_timed(&self) -> bool {
        self.timed
    }
}

fn is_timed(trace: &Trace) -> bool {
    let mut counted = (0..).zip(&trace.events);
    let stands_still = trace.events.last().is_none_or(|last| last.time_us() == 0);
    !stands_still && counted.any(|(index, event)| event.time_us() != index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Allocate, TraceId};

    fn trace(times_us: impl Iterator<Item = u64>) -> Trace {
        let event = |(id, time_us)| {
            let (size, id) = (Bytes::new(1), TraceId(id));
            Event::Allocate(Allocate { id, size, stream: 0, site: 0, time_us })
        };
        Trace { events: (0..).zip(times_us).map(event).collect(), ..Trace::default() }
    }

    #[test]
    fn a_short_trace_keeps_every_event_and_a_long_one_its_peaks() {
        for (events, points) in [(0, 0), (1, 1), (1000, 1000), (1001, 501), (123_456, 996)] {
            let mut timeline = Timeline::new(&trace(0..events));
            for index in 0..events {
                let peak = u64::from(index == events / 3) * 1000;
                timeline.push(index, Bytes::new(peak), Bytes::new(2 * peak));
            }
            assert_eq!(timeline.points().len(), points);
            let live = timeline.points().iter().map(|point| point.live.get()).max();
            let reserved = timeline.points().iter().map(|point| point.reserved.get()).max();
            assert_eq!(
                (live, reserved),
                if events == 0 { (None, None) } else { (Some(1000), Some(2000)) }
            );
        }
    }

    #[test]
    fn counted_events_are_no_times() {
        assert!(!Timeline::new(&trace(0..10)).is_timed());
        assert!(!Timeline::new(&trace([0; 10].into_iter())).is_timed());
        assert!(Timeline::new(&trace((0..10).map(|it| it * 2))).is_timed());
    }
}
