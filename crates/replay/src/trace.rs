//! Allocation traces: requests and frees of one device, in order, with their sizes and times.
//!
//! [`read`] recognizes the formats by their content: PyTorch's memory snapshots ([`snapshot`]), logs of RAPIDS RMM
//! ([`rmm`]), and scripts ([`script`]).

mod detect;
mod lag;
mod recorder;
mod recording;
pub mod rmm;
pub mod script;
pub mod snapshot;
mod stacks;

pub use self::detect::{Form, ReadError, read};
pub use self::lag::{BadLag, Lag, SharedFree};
pub use self::recording::{EmptiedCache, HistoryExtent, OutOfMemory, RecordedBy, Recording};
pub use self::stacks::{CallStacks, Frame};

use std::collections::BTreeSet;
use std::sync::Arc;

use cubeyard_units::Bytes;

/// History of allocations and frees on one device, in order.
///
/// Allocations are numbered densely, so that a replay can keep its state in a `Vec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Name of the trace: the file name without folders and extensions, with the device if a file holds several.
    pub name: String,
    /// Allocations and frees, in order.
    pub events: Vec<Event>,
    /// Number of allocations in `events`; they are numbered `0..allocations`.
    pub allocations: u32,
    /// Properties of the recorded allocator; `None` for logs and scripts.
    pub recording: Option<Recording>,
    /// Call stacks of the call sites; the devices of a snapshot share them.
    pub stacks: Arc<CallStacks>,
    /// Rule by which the work of streams completes.
    pub lag: Lag,
    /// Frees of blocks that other streams use, in the order of their requests. As recorded, `events` has these frees
    /// where they were completed, if they were; under a stated lag, where they were requested.
    pub shared: Vec<SharedFree>,
}

impl Trace {
    /// Returns the peak of the bytes that the recorded allocator reserved, if it is recorded.
    pub fn recorded_reserved(&self) -> Option<Bytes> {
        self.recording.as_ref().and_then(|recording| recording.reserved)
    }

    /// Returns the streams that requested memory.
    pub fn streams(&self) -> BTreeSet<u32> {
        let streams = self.events.iter().filter_map(|event| match event {
            Event::Allocate(request) if !request.size.is_zero() => Some(request.stream),
            _ => None,
        });
        streams.collect()
    }

    /// Returns the memory taken by the events, the shared frees and the call stacks.
    pub fn memory(&self) -> Bytes {
        let events = (self.events.capacity() as u64).saturating_mul(size_of::<Event>() as u64);
        let shared = (self.shared.capacity() as u64).saturating_mul(size_of::<SharedFree>() as u64);
        Bytes::new(events) + Bytes::new(shared) + self.stacks.memory()
    }
}

/// Allocation or free in a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An allocation was made.
    Allocate(Allocate),
    /// A live allocation was freed.
    Free {
        /// Number of the allocation.
        id: TraceId,
        /// Time in microseconds since the start of the trace.
        time_us: u64,
    },
}

impl Event {
    /// Returns the time in microseconds since the start of the trace.
    pub fn time_us(&self) -> u64 {
        match self {
            Self::Allocate(Allocate { time_us, .. }) | Self::Free { time_us, .. } => *time_us,
        }
    }
}

/// Allocation in a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocate {
    /// Number of the allocation.
    pub id: TraceId,
    /// Requested size, not rounded.
    pub size: Bytes,
    /// Number of the requesting stream.
    pub stream: u32,
    /// Call site: equal numbers for equal call stacks, 0 if the trace has no stacks.
    pub site: u32,
    /// Time in microseconds since the start of the trace.
    pub time_us: u64,
}

/// Number of an allocation within its [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u32);

impl TraceId {
    /// Returns the index of this allocation in a `Vec` with one entry per allocation.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
