//! What can go wrong between a host program and a machine.

use cubeyard_device::request::{PeRef, RequestError};
use cubeyard_memory::address::SipId;
use cubeyard_memory::{Bytes, flex, pe, virtual_space};
use cubeyard_sim::Span;
use thiserror::Error;

use crate::dtype::{DType, OutOfRange};
use crate::placement::PlacementError;
use crate::shape::{Shape, ShapeError};

/// Memory or addresses of the machine that could not be allocated. Freeing never fails: handles own what they free.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// A memory of a PE has no room. Free something there, or place the tensor on more PEs.
    #[error("{pe}: {source}")]
    Pe {
        /// PE whose memory was asked.
        pe: PeRef,
        /// Requested and free bytes, and the largest free range.
        source: pe::AllocateError,
    },
    /// The virtual address space has no room.
    #[error(transparent)]
    VirtualSpace(#[from] virtual_space::AllocateError),
    /// No region has room.
    #[error(transparent)]
    Region(#[from] flex::AllocateError),
}

/// Why something was not done. Whatever was taken on the way has been given back.
#[derive(Clone, Debug, Error)]
pub enum RuntimeError {
    /// The shape means nothing.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The placement does not fit the machine.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A value that the element type cannot have.
    #[error(transparent)]
    Value(#[from] OutOfRange),
    /// Memory or addresses could not be allocated.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// The machine does not take the request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Something went wrong on the machine.
    #[error("{origin}: {what}")]
    Machine {
        /// The part that found it.
        origin: String,
        /// What.
        what: String,
    },
    /// Launches waited for each other, or for what nobody does, and the machine came to a stop. They have been
    /// stopped where they were: their tensors hold what was written until then, messages that nobody received are
    /// gone, and the context can be used again.
    #[error("the machine has come to a stop: {0}")]
    Stalled(String),
    /// Simulated time is over. Ask for less work, or for a faster machine.
    #[error(
        "simulated time has run out: the next event lies more than 2⁶¹ ps (26 days) after the start"
    )]
    OutOfTime,
    /// The machine cannot run while somebody looks at it. Do this after the look.
    #[error(
        "the machine cannot run inside of `Context::machine`, which looks at it; do this after it"
    )]
    Looked,
    /// The range of virtual addresses does not go with the page of the MMUs.
    #[error(transparent)]
    VirtualRange(#[from] virtual_space::VirtualSpecError),
    /// The context was closed.
    #[error("the context is closed")]
    Closed,
    /// The tensor is on no device; deploy it first.
    #[error("the tensor is on no device; `to` puts it there")]
    NotDeployed,
    /// The tensor belongs to another context.
    #[error("the tensor belongs to another context")]
    Foreign,
    /// The elements are of another type.
    #[error("elements of {expected}, found {found}")]
    Type {
        /// What the tensor has.
        expected: DType,
        /// What was given or asked for.
        found: DType,
    },
    /// There are more or fewer elements.
    #[error("{expected} elements of a tensor of {shape}, found {found}")]
    Count {
        /// The tensor's shape.
        shape: Shape,
        /// How many it has.
        expected: u64,
        /// How many were given.
        found: u64,
    },
    /// The range is empty or goes beyond the tensor.
    #[error("bytes {start} to {end} of a tensor of {nbytes} bytes")]
    Range {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
        /// How many bytes the tensor has.
        nbytes: u64,
    },
    /// The range of rows is reversed or goes beyond the tensor.
    #[error("rows {start} to {end} of a tensor of {shape}")]
    Rows {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
        /// The tensor's shape.
        shape: Shape,
    },
    /// The machine holds no data: it was made without.
    #[error("the context simulates time only; make it with data to read values")]
    NoData,
    /// The tensor's addresses are not in the order of its elements, so it has no such view.
    #[error("{shape} is split by columns, so its rows do not follow each other")]
    NotContiguous {
        /// The tensor's shape.
        shape: Shape,
    },
    /// The memory of the SIP is managed in regions. Use another SIP, or drop the device and its blocks first.
    #[error("the memory of {sip} is managed in regions")]
    TakenByRegions {
        /// The SIP.
        sip: SipId,
    },
    /// Tensors or rings are in the SIP's HBM, so it cannot be managed in regions now. Drop them first.
    #[error("slices of PEs of {sip} are in use, so its memory cannot be managed in regions now")]
    TakenBySlices {
        /// The SIP.
        sip: SipId,
    },
    /// An operand is in the memory of one SIP, and the launch on another. Launch where the operand is.
    #[error("the operand is in the memory of {operand}, and the launch is on {launch}")]
    OtherSip {
        /// The SIP of the operand.
        operand: SipId,
        /// The SIP of the launch.
        launch: SipId,
    },
    /// The machine has no such SIP.
    #[error("the machine has no {sip}")]
    NoSuchSip {
        /// The SIP.
        sip: SipId,
    },
    /// The allocator cannot be made.
    #[error(transparent)]
    Build(#[from] flex::BuildError),
    /// The operands do not go with the program.
    #[error(transparent)]
    Launch(#[from] flex::LaunchError),
    /// The range is empty or goes beyond the block.
    #[error("{} bytes at {} of a block of {size}", bytes.get(), offset.get())]
    Beyond {
        /// Offset of the range in the block.
        offset: Bytes,
        /// Size of the range.
        bytes: Bytes,
        /// Size of the block.
        size: Bytes,
    },
    /// A port is in use by other channels. Drop those, or choose another number.
    #[error("port {port} of {pe} is in use")]
    PortTaken {
        /// The PE.
        pe: PeRef,
        /// The number.
        port: u32,
    },
    /// A channel joins two PEs. A PE that needs its own data keeps it.
    #[error("a channel from {pe} to itself: expected two PEs")]
    ToItself {
        /// The PE.
        pe: PeRef,
    },
    /// The machine has no such PE.
    #[error("the machine has no {pe}")]
    NoSuchPe {
        /// The PE.
        pe: PeRef,
    },
    /// A ring that can hold no message.
    #[error(
        "a ring of {slots} slots of {} bytes: expected at least one slot of at least one byte",
        slot_bytes.get()
    )]
    Ring {
        /// Number of slots.
        slots: u32,
        /// Size of a slot.
        slot_bytes: Bytes,
    },
    /// A launch was not done in time, and its programs were stopped. Give it more time, or mend what waits.
    #[error("not done after {limit}: {waiting}")]
    Deadline {
        /// The time it had.
        limit: Span,
        /// Who waited for what.
        waiting: String,
    },
    /// A kernel is not one that can run, in words that name its place.
    #[error("{0}")]
    Kernel(String),
    /// A step failed because a test wants it to.
    #[doc(hidden)]
    #[error("made to fail at step {step}")]
    Injected {
        /// Number of the step.
        step: u64,
    },
}

impl RuntimeError {
    /// Whether simulated memory or time has run out, rather than that it was asked for what cannot be.
    pub fn is_exhausted(&self) -> bool {
        matches!(
            self,
            Self::Allocate(_) | Self::Stalled(_) | Self::OutOfTime | Self::Deadline { .. }
        )
    }
}
