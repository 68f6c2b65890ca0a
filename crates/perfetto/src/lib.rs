//! Traces in Perfetto's format (`.pftrace`), written packet by packet.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! ```
//! use cubeyard_perfetto::{TraceEvent, TraceFlow, TraceWriter};
//! use cubeyard_units::Time;
//!
//! let mut trace = TraceWriter::new(Vec::new());
//! let pe = trace.track("PE 0", None)?;
//! let dma = trace.track("DMA", Some(pe))?;
//! let (start, end) = (Time::from_ps(1500), Time::from_ps(78_540));
//! let args = [("bytes", 256u64.into())];
//! trace.slice(dma, start, end, TraceEvent::new("read").args(&args).flows(&[TraceFlow::Step(7)]))?;
//! trace.slice(pe, end, Time::from_ps(90_000), TraceEvent::new("dot").flows(&[TraceFlow::End(7)]))?;
//! let bytes = trace.finish()?;
//! # assert!(bytes.len() < 400);
//! # Ok::<(), cubeyard_perfetto::TraceError>(())
//! ```
//!
//! # A picosecond is shown as a nanosecond
//!
//! Perfetto counts whole nanoseconds, and a trace cannot declare a finer clock: its
//! `ClockSnapshot.Clock.unit_multiplier_ns` is a whole number of at least one. Simulated time is in whole picoseconds.
//! To lose no precision, picoseconds are written where Perfetto expects nanoseconds: **1 ns in the viewer is 1 ps, 1 µs
//! is 1 ns, 1 ms is 1 µs**, and `ts` and `dur` of a query are picoseconds. [`ROOT_NAME`], the name of the root track,
//! states this in every trace. Rounding to nanoseconds instead would make flits overlap: 256 bytes at 512 GB/s take 0.5
//! ns.
//!
//! # Guarantees
//!
//! - Slices of one track either follow each other or are nested, and come in the order of their starts, with the outer
//!   slice first. Anything else is an error, because the trace processor would take the end of one slice for the end of
//!   another. [`Lanes`] distributes overlapping operations.
//! - Tracks keep the order in which they were created, and two tracks with the same name stay separate.
//! - The same calls give the same bytes: ids are counted from one, without a clock or random numbers.
//!
//! Messages and field numbers follow Perfetto's `protos/perfetto/trace`, as in version 0.59.1 of the Python package
//! `perfetto`.

use std::io::Write;

use cubeyard_units::Time;

pub use self::error::TraceError;
pub use self::event::{Arg, CounterId, CounterUnit, CounterValue, TraceEvent, TraceFlow, TrackId};
pub use self::lanes::Lanes;

use self::intern::Interner;
use self::wire::MessageBuffer;

mod error;
mod event;
mod field;
mod intern;
mod lanes;
#[cfg(test)]
mod tests;
mod wire;

/// Name of the root track, above all others. It states the time scale to a viewer of the trace.
pub const ROOT_NAME: &str = "cubeyard (1 ns shown = 1 ps simulated)";

/// Number of bytes that are buffered before they are written.
const CHUNK: usize = 64 << 10;

/// Writer of a trace into `W`, packet by packet. Its memory does not grow with the number of events.
///
/// Bytes are written in chunks, so `W` needs no buffering. Only [`finish`](Self::finish) writes the last chunk. After
/// [`TraceError::Io`] the trace is unusable.
#[derive(Debug)]
#[must_use = "a trace is complete only when it is finished"]
pub struct TraceWriter<W> {
    out: W,
    buffer: MessageBuffer,
    names: Interner,
    arg_names: Interner,
    tracks: Vec<Track>,
    started: bool,
}

/// State of a track; its uuid is its index plus one.
#[derive(Debug, Default)]
struct Track {
    /// Ends of the slices that were open at the last start, innermost last.
    open: Vec<Time>,
    last_start: Time,
    children: i32,
}

impl<W: Write> TraceWriter<W> {
    /// Creates a trace that has only a root track.
    pub fn new(out: W) -> Self {
        let mut this = Self {
            out,
            buffer: MessageBuffer::default(),
            names: Interner::default(),
            arg_names: Interner::default(),
            tracks: Vec::new(),
            started: false,
        };
        this.describe(ROOT_NAME, None, None);
        this
    }

    /// Adds a track below `parent`, after its existing children.
    pub fn track(&mut self, name: &str, parent: Option<TrackId>) -> Result<TrackId, TraceError> {
        let id = self.describe(name, Some(parent.unwrap_or(TrackId::ROOT)), None);
        self.write_full_chunk()?;
        Ok(id)
    }

    /// Adds a track below `parent` that shows a number over time.
    pub fn counter_track(
        &mut self,
        name: &str,
        unit: CounterUnit<'_>,
        parent: Option<TrackId>,
    ) -> Result<CounterId, TraceError> {
        let id = self.describe(name, Some(parent.unwrap_or(TrackId::ROOT)), Some(unit));
        self.write_full_chunk()?;
        Ok(CounterId(id))
    }

    /// Adds a slice from `start` to `end`.
    ///
    /// Slices of one track must be added in the order of their starts, and a slice that starts inside another
    /// must end inside it; slices that only touch do not overlap.
    pub fn slice<'e>(
        &mut self,
        track: TrackId,
        start: Time,
        end: Time,
        event: impl Into<TraceEvent<'e>>,
    ) -> Result<(), TraceError> {
        within_64_bits(end.max(start))?;
        self.tracks[track.index()].open(start, end)?;
        self.event(track, start, field::TYPE_SLICE_BEGIN, &event.into());
        self.packet(end, |packet| {
            packet.message(field::PACKET_TRACK_EVENT, |event| {
                event.uint(field::EVENT_TYPE, field::TYPE_SLICE_END);
                event.uint(field::EVENT_TRACK_UUID, track.uuid());
            });
        });
        self.write_full_chunk()
    }

    /// Adds an event without duration.
    pub fn instant<'e>(
        &mut self,
        track: TrackId,
        at: Time,
        event: impl Into<TraceEvent<'e>>,
    ) -> Result<(), TraceError> {
        within_64_bits(at)?;
        self.event(track, at, field::TYPE_INSTANT, &event.into());
        self.write_full_chunk()
    }

    /// Sets the value of a counter from `at` on. If several calls have the same time, the last one wins.
    pub fn counter(
        &mut self,
        track: CounterId,
        at: Time,
        value: impl Into<CounterValue>,
    ) -> Result<(), TraceError> {
        within_64_bits(at)?;
        let value = value.into();
        self.packet(at, |packet| {
            packet.message(field::PACKET_TRACK_EVENT, |event| {
                event.uint(field::EVENT_TYPE, field::TYPE_COUNTER);
                event.uint(field::EVENT_TRACK_UUID, track.0.uuid());
                match value {
                    CounterValue::Int(value) => event.int(field::EVENT_COUNTER_VALUE, value),
                    CounterValue::Float(value) => {
                        event.double(field::EVENT_DOUBLE_COUNTER_VALUE, value);
                    }
                }
            });
        });
        self.write_full_chunk()
    }

    /// Writes the rest of the buffer and returns the sink.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.out.write_all(self.buffer.bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn describe(
        &mut self,
        name: &str,
        parent: Option<TrackId>,
        unit: Option<CounterUnit<'_>>,
    ) -> TrackId {
        let id = TrackId::new(self.tracks.len());
        let rank = parent.map(|parent| self.tracks[parent.index()].next_child());
        self.tracks.push(Track::default());
        // The first packet clears all strings interned earlier on this sequence.
        let first = !std::mem::replace(&mut self.started, true);
        self.buffer.message(field::TRACE_PACKET, |packet| {
            packet.uint(field::PACKET_SEQUENCE_ID, field::SEQUENCE);
            if first {
                packet.uint(field::PACKET_SEQUENCE_FLAGS, field::INCREMENTAL_STATE_CLEARED);
            }
            packet.message(field::PACKET_TRACK_DESCRIPTOR, |track| {
                track.uint(field::TRACK_UUID, id.uuid());
                track.text(field::TRACK_NAME, name);
                if let (Some(parent), Some(rank)) = (parent, rank) {
                    track.uint(field::TRACK_PARENT_UUID, parent.uuid());
                    track.int(field::TRACK_SIBLING_ORDER_RANK, rank.into());
                }
                track.uint(field::TRACK_CHILD_ORDERING, field::ORDERING_EXPLICIT);
                track.uint(field::TRACK_SIBLING_MERGE_BEHAVIOR, field::MERGE_NONE);
                if let Some(unit) = unit {
                    track.message(field::TRACK_COUNTER, |counter| unit.encode(counter));
                }
            });
        });
        id
    }

    /// Appends a packet with a named event, and the definitions of strings that are used for the first time.
    fn event(&mut self, track: TrackId, at: Time, kind: u64, event: &TraceEvent<'_>) {
        let Self { buffer, names, arg_names, .. } = self;
        buffer.message(field::TRACE_PACKET, |packet| {
            packet.uint(field::PACKET_TIMESTAMP, at.ps());
            packet.uint(field::PACKET_SEQUENCE_ID, field::SEQUENCE);
            packet.uint(field::PACKET_SEQUENCE_FLAGS, field::NEEDS_INCREMENTAL_STATE);
            let (known_names, known_args) = (names.len(), arg_names.len());
            packet.message(field::PACKET_TRACK_EVENT, |message| {
                message.uint(field::EVENT_TYPE, kind);
                message.uint(field::EVENT_TRACK_UUID, track.uuid());
                message.uint(field::EVENT_NAME_IID, names.iid(event.name));
                event.encode_details(message, arg_names);
            });
            if names.len() > known_names || arg_names.len() > known_args {
                packet.message(field::PACKET_INTERNED_DATA, |data| {
                    names.encode_since(known_names, field::INTERNED_EVENT_NAMES, data);
                    arg_names.encode_since(known_args, field::INTERNED_ANNOTATION_NAMES, data);
                });
            }
        });
    }

    /// Appends a packet that uses no interned string.
    fn packet(&mut self, at: Time, fill: impl FnOnce(&mut MessageBuffer)) {
        self.buffer.message(field::TRACE_PACKET, |packet| {
            packet.uint(field::PACKET_TIMESTAMP, at.ps());
            packet.uint(field::PACKET_SEQUENCE_ID, field::SEQUENCE);
            fill(packet);
        });
    }

    fn write_full_chunk(&mut self) -> Result<(), TraceError> {
        if self.buffer.bytes().len() >= CHUNK {
            self.out.write_all(self.buffer.bytes())?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Track {
    fn next_child(&mut self) -> i32 {
        self.children += 1;
        self.children - 1
    }

    /// Accepts a slice that follows the last one or lies within the open slices.
    fn open(&mut self, start: Time, end: Time) -> Result<(), TraceError> {
        if end < start {
            return Err(TraceError::EndsBeforeStart { start, end });
        }
        if start < self.last_start {
            return Err(TraceError::OutOfOrder { start, last: self.last_start });
        }
        while self.open.pop_if(|outer| *outer <= start).is_some() {}
        if let Some(&outer) = self.open.last()
            && outer < end
        {
            return Err(TraceError::Overlap { start, end, outer });
        }
        self.open.push(end);
        self.last_start = start;
        Ok(())
    }
}

/// Checks the range of Perfetto's signed timestamps, 2⁶³ picoseconds or 106 days.
fn within_64_bits(at: Time) -> Result<(), TraceError> {
    i64::try_from(at.ps()).map(|_| ()).map_err(|_| TraceError::BeyondRange { at })
}
