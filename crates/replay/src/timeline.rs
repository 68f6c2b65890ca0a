//! Live and reserved bytes over a trace, short enough to draw.

use crate::trace::{Event, Trace};
use cubeyard_units::Bytes;

const POINTS: usize = 1000;

/// Live and reserved bytes over a trace.
///
/// A long trace is divided into runs of equal numbers of events. Each run keeps its maxima, so that no peak is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Points in order of time.
    pub points: Vec<Point>,
    /// Number of events of the whole trace; a failed replay has processed only the first of them.
    pub total_events: usize,
    /// End of the trace, in microseconds since its start.
    pub end_us: u64,
    /// Whether the times were measured. Events of a script are one microsecond apart.
    pub is_timed: bool,
    /// Number of events per point.
    stride: usize,
    events: usize,
}

/// Maxima of consecutive events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Index of the first of the events.
    pub event: usize,
    /// Time of that event, in microseconds since the start of the trace.
    pub time_us: u64,
    /// Maximum number of live bytes after any of the events.
    pub live: Bytes,
    /// Maximum number of reserved bytes after any of the events.
    pub reserved: Bytes,
}

impl Timeline {
    /// Creates an empty timeline for the events of `trace`.
    pub(super) fn new(trace: &Trace) -> Self {
        let total = trace.events.len();
        let stride = total.div_ceil(POINTS).max(1);
        let end_us = trace.events.last().map_or(0, Event::time_us);
        let (points, is_timed) = (Vec::new(), is_timed(trace));
        Self { points, total_events: total, end_us, is_timed, stride, events: 0 }
    }

    /// Returns the position of a point: its time, or its event number if the times were not measured.
    pub(super) fn instant(&self, point: &Point) -> f64 {
        if self.is_timed { point.time_us as f64 } else { point.event as f64 }
    }

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
}

pub(super) fn is_timed(trace: &Trace) -> bool {
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
            assert_eq!(timeline.points.len(), points);
            let live = timeline.points.iter().map(|point| point.live.get()).max();
            let reserved = timeline.points.iter().map(|point| point.reserved.get()).max();
            assert_eq!(
                (live, reserved),
                if events == 0 { (None, None) } else { (Some(1000), Some(2000)) }
            );
        }
    }

    #[test]
    fn counted_events_are_no_times() {
        assert!(!Timeline::new(&trace(0..10)).is_timed);
        assert!(!Timeline::new(&trace([0; 10].into_iter())).is_timed);
        assert!(Timeline::new(&trace((0..10).map(|it| it * 2))).is_timed);
    }
}
