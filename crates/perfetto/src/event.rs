//! Tracks, events and counters of a trace, with their encoding.

use super::field;
use super::intern::Interner;
use super::wire::MessageBuffer;

/// Track of a trace: a row of slices and instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackId(u32);

impl TrackId {
    /// Root track, above all others.
    pub const ROOT: Self = Self(0);

    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("tracks are parts of a machine, far fewer than 2³²"))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the track's uuid; Perfetto reserves zero for events without a track.
    pub(super) fn uuid(self) -> u64 {
        u64::from(self.0) + 1
    }
}

/// Track that shows a number over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterId(pub(super) TrackId);

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit<'n> {
    /// Dimensionless count.
    Count,
    /// Size in bytes.
    Bytes,
    /// Unit that Perfetto does not define, such as `GB/s`.
    Named(&'n str),
}

impl CounterUnit<'_> {
    pub(super) fn encode(self, counter: &mut MessageBuffer) {
        match self {
            Self::Count => counter.uint(field::COUNTER_UNIT, field::UNIT_COUNT),
            Self::Bytes => counter.uint(field::COUNTER_UNIT, field::UNIT_SIZE_BYTES),
            Self::Named(name) => counter.text(field::COUNTER_UNIT_NAME, name),
        }
    }
}

/// Value of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    /// Whole number. The trace processor converts it to a double, which is exact up to 2⁵³.
    Int(i64),
    /// Number with a fraction.
    Float(f64),
}

impl From<i64> for CounterValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for CounterValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// Argument value of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'t> {
    /// Signed whole number.
    Int(i64),
    /// Unsigned whole number. The trace processor shows values from 2⁶³ as negative.
    Uint(u64),
    /// Number with a fraction.
    Float(f64),
    /// Boolean value.
    Bool(bool),
    /// Text, which is not interned.
    Text(&'t str),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Arg<'_> {
    fn from(value: u64) -> Self {
        Self::Uint(value)
    }
}

impl From<f64> for Arg<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'t> From<&'t str> for Arg<'t> {
    fn from(value: &'t str) -> Self {
        Self::Text(value)
    }
}

/// Connection between events: the viewer draws an arrow from each event to the next one in time with the same flow
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFlow {
    /// The flow starts here or passes through.
    Step(u64),
    /// The flow ends here; a later event with the same number starts a new flow.
    End(u64),
}

/// Event with a name, and details that the viewer shows when the event is selected.
///
/// A `&str` converts to an event without details.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEvent<'e> {
    pub(super) name: &'e str,
    args: &'e [(&'e str, Arg<'e>)],
    flows: &'e [TraceFlow],
}

impl<'e> TraceEvent<'e> {
    /// Creates an event without details. Every distinct name stays in memory until the trace is finished, so varying
    /// values belong in an argument.
    pub const fn new(name: &'e str) -> Self {
        Self { name, args: &[], flows: &[] }
    }

    /// Replaces the arguments. Their names stay in memory like the name of the event.
    #[must_use]
    pub const fn args(self, args: &'e [(&'e str, Arg<'e>)]) -> Self {
        Self { args, ..self }
    }

    /// Replaces the flows.
    #[must_use]
    pub const fn flows(self, flows: &'e [TraceFlow]) -> Self {
        Self { flows, ..self }
    }

    pub(super) fn encode_details(&self, event: &mut MessageBuffer, names: &mut Interner) {
        for (name, arg) in self.args {
            event.message(field::EVENT_DEBUG_ANNOTATIONS, |annotation| {
                annotation.uint(field::ANNOTATION_NAME_IID, names.iid(name));
                match *arg {
                    Arg::Int(value) => annotation.int(field::ANNOTATION_INT_VALUE, value),
                    Arg::Uint(value) => annotation.uint(field::ANNOTATION_UINT_VALUE, value),
                    Arg::Float(value) => annotation.double(field::ANNOTATION_DOUBLE_VALUE, value),
                    Arg::Bool(value) => {
                        annotation.uint(field::ANNOTATION_BOOL_VALUE, value.into());
                    }
                    Arg::Text(value) => annotation.text(field::ANNOTATION_STRING_VALUE, value),
                }
            });
        }
        for flow in self.flows {
            match *flow {
                TraceFlow::Step(id) => event.fixed64(field::EVENT_FLOW_IDS, id),
                TraceFlow::End(id) => event.fixed64(field::EVENT_TERMINATING_FLOW_IDS, id),
            }
        }
    }
}

impl<'e> From<&'e str> for TraceEvent<'e> {
    fn from(name: &'e str) -> Self {
        Self::new(name)
    }
}
