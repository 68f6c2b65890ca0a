//! Errors of the runtime.

use cubeyard_device::request::{PeRef, RequestError};
use cubeyard_memory::address::SipId;
use cubeyard_memory::{Bytes, flex, pe, virtual_space};
use cubeyard_sim::Span;
use thiserror::Error;

use crate::dtype::{DType, OutOfRange};
use crate::placement::PlacementError;
use crate::shape::{Shape, ShapeError};

/// Memory or addresses of the machine that could not be allocated. Freeing never fails, since handles own their memory.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// A memory of a PE has no room. Free other allocations there, or place the tensor on more PEs.
    #[error("{pe}: {source}")]
    Pe {
        /// PE of the full memory.
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

/// Reason why an operation failed. Everything that the operation had allocated has been freed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The dimensions are not valid for a tensor.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The placement does not fit the machine.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A value is outside the range of the element type.
    #[error(transparent)]
    Value(#[from] OutOfRange),
    /// Memory or addresses could not be allocated.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// The machine refuses the request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A component of the machine reported an error.
    #[error("{origin}: {what}")]
    Machine {
        /// Component that reported the error.
        origin: String,
        /// Description of the error.
        what: String,
    },
    /// Launches waited for each other, or for an event that never occurs, until no event was left. They have been
    /// stopped: their tensors hold the data written until then, messages that were not received are dropped, and the
    /// context can be used again.
    #[error("the machine has come to a stop: {0}")]
    Stalled(String),
    /// Simulated time has reached its end. Simulate less work, or a faster machine.
    #[error(
        "simulated time has run out: the next event lies more than 2⁶¹ ps (26 days) after the start"
    )]
    OutOfTime,
    /// The user has interrupted the run. Launches in flight were stopped: their tensors hold the data written until
    /// then, and the context can be used again.
    #[error("interrupted")]
    Interrupted,
    /// The machine cannot run while [`Context::machine`](crate::Context::machine) borrows it.
    #[error(
        "the machine cannot run inside `Context::machine`, which borrows it; call this afterwards"
    )]
    Looked,
    /// The range of virtual addresses is not aligned to the pages of the MMUs.
    #[error(transparent)]
    VirtualRange(#[from] virtual_space::VirtualSpecError),
    /// The context was closed.
    #[error("the context is closed")]
    Closed,
    /// The tensor is not deployed; [`Tensor::to`](crate::Tensor::to) deploys it.
    #[error("the tensor is not on a device; deploy it with `to`")]
    NotDeployed,
    /// The tensor belongs to another context.
    #[error("the tensor belongs to another context")]
    Foreign,
    /// The elements have another type.
    #[error("expected elements of {expected}, found {found}")]
    Type {
        /// Element type of the tensor.
        expected: DType,
        /// Element type given or requested.
        found: DType,
    },
    /// The number of elements differs.
    #[error("expected {expected} elements for a tensor of {shape}, found {found}")]
    Count {
        /// Shape of the tensor.
        shape: Shape,
        /// Number of elements of the tensor.
        expected: u64,
        /// Number of elements given.
        found: u64,
    },
    /// The range is empty or extends beyond the tensor.
    #[error("bytes {start} to {end} are not a range of a tensor of {nbytes} bytes")]
    Range {
        /// First byte of the range.
        start: u64,
        /// End of the range, exclusive.
        end: u64,
        /// Size of the tensor in bytes.
        nbytes: u64,
    },
    /// The range of rows is reversed or extends beyond the tensor.
    #[error("rows {start} to {end} are not a range of a tensor of {shape}")]
    Rows {
        /// First row of the range.
        start: u64,
        /// End of the range, exclusive.
        end: u64,
        /// Shape of the tensor.
        shape: Shape,
    },
    /// The context holds no data. Create it with data.
    #[error("the context simulates time only; create it with data to read values")]
    NoData,
    /// The tensor, of this shape, is split by columns. Its addresses are not row-major, so the view does not exist.
    #[error("{0} is split by columns, so its rows are not contiguous")]
    NotContiguous(Shape),
    /// The memory of the SIP is managed in regions. Use another SIP, or drop the device and its blocks first.
    #[error("the memory of {0} is managed in regions")]
    TakenByRegions(SipId),
    /// Tensors or rings are in the SIP's HBM, so it cannot be managed in regions. Drop them first.
    #[error("slices of PEs of {0} are in use, so its memory cannot be managed in regions now")]
    TakenBySlices(SipId),
    /// The memory of the SIP is shared with its owner, such as PyTorch. Use another SIP or another context.
    #[error("the memory of {0} is shared with its owner, so nothing else can be placed there")]
    TakenByOwner(SipId),
    /// An operand and its launch are on different SIPs. Launch on the SIP of the operand.
    #[error("the operand is in the memory of {operand}, but the launch is on {launch}")]
    OtherSip {
        /// SIP of the operand.
        operand: SipId,
        /// SIP of the launch.
        launch: SipId,
    },
    /// The machine has no such SIP.
    #[error("the machine has no {0}")]
    NoSuchSip(SipId),
    /// The allocator of regions cannot be created.
    #[error(transparent)]
    Build(#[from] flex::BuildError),
    /// The operands do not fit the program.
    #[error(transparent)]
    Launch(#[from] flex::LaunchError),
    /// The range is empty or extends beyond the block.
    #[error("{} bytes at offset {} are not a range of a block of {size}", bytes.get(), offset.get())]
    Beyond {
        /// Offset of the range in the block.
        offset: Bytes,
        /// Size of the range.
        bytes: Bytes,
        /// Size of the block.
        size: Bytes,
    },
    /// A port is in use by other channels. Drop these channels, or choose another number.
    #[error("port {port} of {pe} is in use")]
    PortTaken {
        /// PE of the port.
        pe: PeRef,
        /// Number of the port.
        port: u32,
    },
    /// A channel has both ends on the same PE.
    #[error("a channel from {0} to itself: expected two PEs")]
    ToItself(PeRef),
    /// The machine has no such PE.
    #[error("the machine has no {0}")]
    NoSuchPe(PeRef),
    /// A ring cannot hold a message.
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
    /// A launch was not done within its limit, and its programs were stopped.
    #[error("not done after {limit}: {waiting}")]
    Deadline {
        /// Limit of simulated time.
        limit: Span,
        /// Description of the PEs that waited, and of what they waited for.
        waiting: String,
    },
    /// A kernel cannot run; the text names the kernel and its line.
    #[error("{0}")]
    Kernel(String),
    /// A step failed because a test requested it.
    #[doc(hidden)]
    #[error("made to fail at step {0}")]
    Injected(u64),
}

impl RuntimeError {
    /// Returns whether simulated memory or time has run out, as opposed to an invalid request.
    pub fn is_exhausted(&self) -> bool {
        matches!(
            self,
            Self::Allocate(_) | Self::Stalled(_) | Self::OutOfTime | Self::Deadline { .. }
        )
    }
}
