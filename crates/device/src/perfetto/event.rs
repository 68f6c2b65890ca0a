//! What is said about tracks, slices, instants and counters.

use super::field;
use super::intern::Interner;
use super::wire::Buffer;

/// A track of one trace: a row of slices and instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrackId(u32);

impl TrackId {
    /// The track that all others are under.
    pub const ROOT: Self = Self(0);

    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("tracks are parts of a machine, far fewer than 2³²"))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// Perfetto keeps zero for events that name no track.
    pub(super) fn uuid(self) -> u64 {
        u64::from(self.0) + 1
    }
}

/// A track that shows a number over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterId(pub(super) TrackId);

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit<'n> {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Something that Perfetto has no word for, such as `GB/s`.
    Named(&'n str),
}

impl Unit<'_> {
    pub(super) fn encode(self, counter: &mut Buffer) {
        match self {
            Self::Count => counter.uint(field::counter::UNIT, field::UNIT_COUNT),
            Self::Bytes => counter.uint(field::counter::UNIT, field::UNIT_SIZE_BYTES),
            Self::Named(name) => counter.text(field::counter::UNIT_NAME, name),
        }
    }
}

/// What a counter shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number. The trace processor turns it into a double: exact up to 2⁵³.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'t> {
    /// A whole number.
    Int(i64),
    /// A whole number that is never negative. The trace processor shows those from 2⁶³ up as negative.
    Uint(u64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text, written in full each time.
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

/// Ties events to others: the viewer draws an arrow from each to the next one in time with the same
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The flow starts here or passes through.
    Step(u64),
    /// The flow ends here; a later event with its number starts a new one.
    End(u64),
}

/// What happened: a name, and details that are shown when the event is picked.
///
/// A name alone can be given as `&str`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'e> {
    pub(super) name: &'e str,
    args: &'e [(&'e str, Arg<'e>)],
    flows: &'e [Flow],
}

impl<'e> Event<'e> {
    /// An event without details. Every different name is kept until the trace is finished, so put what
    /// differs each time into an argument.
    pub const fn new(name: &'e str) -> Self {
        Self { name, args: &[], flows: &[] }
    }

    /// With these arguments in the place of those it had. Their names are kept as the event's is.
    #[must_use]
    pub const fn args(self, args: &'e [(&'e str, Arg<'e>)]) -> Self {
        Self { args, ..self }
    }

    /// With these flows in the place of those it had.
    #[must_use]
    pub const fn flows(self, flows: &'e [Flow]) -> Self {
        Self { flows, ..self }
    }

    pub(super) fn encode_details(&self, event: &mut Buffer, names: &mut Interner) {
        for (name, arg) in self.args {
            event.message(field::event::DEBUG_ANNOTATIONS, |annotation| {
                annotation.uint(field::annotation::NAME_IID, names.iid(name));
                match *arg {
                    Arg::Int(value) => annotation.int(field::annotation::INT_VALUE, value),
                    Arg::Uint(value) => annotation.uint(field::annotation::UINT_VALUE, value),
                    Arg::Float(value) => annotation.double(field::annotation::DOUBLE_VALUE, value),
                    Arg::Bool(value) => {
                        annotation.uint(field::annotation::BOOL_VALUE, value.into());
                    }
                    Arg::Text(value) => annotation.text(field::annotation::STRING_VALUE, value),
                }
            });
        }
        for flow in self.flows {
            match *flow {
                Flow::Step(id) => event.fixed64(field::event::FLOW_IDS, id),
                Flow::End(id) => event.fixed64(field::event::TERMINATING_FLOW_IDS, id),
            }
        }
    }
}

impl<'e> From<&'e str> for Event<'e> {
    fn from(name: &'e str) -> Self {
        Self::new(name)
    }
}
