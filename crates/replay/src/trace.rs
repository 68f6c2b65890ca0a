//! Allocation traces: who asked for how many bytes, in which order, and when they were given back.
//!
//! [`read`] tells the forms apart by their content: PyTorch's memory snapshots ([`snapshot`]), the
//! logs of RAPIDS RMM ([`rmm`]), and scripts that people write ([`script`]).

mod detect;
mod recorder;
mod recording;
pub mod rmm;
pub mod script;
pub mod snapshot;

pub use self::detect::{Form, ReadError, read};
pub use self::recording::{HistoryExtent, OutOfMemory, RecordedBy, Recording};

use cubeyard_units::Bytes;

/// A history of allocations and frees on one device, in the order in which they happened.
///
/// Every allocation has a dense number of its own, so that a replay can keep its state in a `Vec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What to call it: the name of its file without folders and endings, with the device where a
    /// file holds several.
    pub name: String,
    /// What happened.
    pub events: Vec<Event>,
    /// How many allocations `events` holds; their numbers are `0..allocations`.
    pub allocations: u32,
    /// What the file says about the allocator that was recorded; nothing for logs and scripts.
    pub recording: Option<Recording>,
}

impl Trace {
    /// What the allocator that was recorded had reserved at its peak, where the file says so.
    pub fn recorded_reserved(&self) -> Option<Bytes> {
        self.recording.as_ref().and_then(|recording| recording.reserved)
    }

    /// Memory that the events take.
    pub fn memory(&self) -> Bytes {
        Bytes::new((self.events.capacity() as u64).saturating_mul(size_of::<Event>() as u64))
    }
}

/// One step of a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `id` was allocated.
    Allocate(Allocate),
    /// The allocation `id`, live until now, was freed.
    Free {
        /// Which allocation.
        id: TraceId,
        /// When, in microseconds since the trace began.
        time_us: u64,
    },
}

impl Event {
    /// When it happened, in microseconds since the trace began.
    pub fn time_us(&self) -> u64 {
        match self {
            Self::Allocate(Allocate { time_us, .. }) | Self::Free { time_us, .. } => *time_us,
        }
    }
}

/// An allocation in a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocate {
    /// Its number.
    pub id: TraceId,
    /// The bytes asked for, not rounded.
    pub size: Bytes,
    /// The stream that it was asked for on.
    pub stream: u32,
    /// Where in the program it was asked for: equal numbers for equal call stacks, 0 where the
    /// trace has no stacks.
    pub site: u32,
    /// When, in microseconds since the trace began.
    pub time_us: u64,
}

/// The number of an allocation within its [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u32);

impl TraceId {
    /// The place of this allocation in a `Vec` with one entry for each.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
