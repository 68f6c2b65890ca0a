//! Requests of a host to a machine, and their outcomes.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PhysAddr, SipId};
use cubeyard_memory::device::RegionId;
use cubeyard_sim::{SignalId, Span, Time};
use thiserror::Error;

pub use crate::ids::{PeGrid, PeRef};

use crate::access::{Buffer, Direction, Mapping};
use crate::ids::RequestId;
use crate::pe::PortSpec;
use crate::topology::{NoSuchNode, ResolveError, RouteError};

/// Range of device memory, with the PE whose memory it is, so that no component has to decode the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// PE whose memory holds the data.
    pub at: PeRef,
    /// Physical address of the first byte.
    pub address: PhysAddr,
    /// Length of the range, in bytes.
    pub bytes: u64,
}

/// Request to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The host writes to device memory. The write is posted: it is done when the last byte is in memory.
    MemoryWrite(MemoryRange),
    /// The host reads from device memory.
    MemoryRead(MemoryRange),
    /// The DMA engine of a PE reads or writes, as for a kernel.
    PeDma {
        /// PE whose DMA engine is used.
        from: PeRef,
        /// Direction of the data.
        direction: Direction,
        /// Physical address of the first byte.
        address: PhysAddr,
        /// Number of bytes to move.
        bytes: u64,
    },
    /// The management processor of a cube reads or writes with its own DMA.
    MCpuDma {
        /// SIP of the cube.
        sip: SipId,
        /// Cube whose processor is used.
        cube: CubeId,
        /// Direction of the data.
        direction: Direction,
        /// Physical address of the first byte.
        address: PhysAddr,
        /// Number of bytes to move.
        bytes: u64,
    },
    /// The DMA engine of a PE reads or writes at a virtual address, which the PE's MMU translates.
    VirtualDma {
        /// PE whose DMA engine is used.
        from: PeRef,
        /// Direction of the data.
        direction: Direction,
        /// Virtual address of the first byte.
        address: u64,
        /// Number of bytes to move.
        bytes: u64,
    },
    /// PEs of one SIP add mappings to their MMUs, or remove them.
    Mappings {
        /// PEs that take part.
        on: PeGrid,
        /// Mappings of each PE.
        mappings: Arc<[Mapping]>,
        /// Whether the mappings are removed.
        remove: bool,
    },
    /// PEs of one SIP install ports to others, or remove them.
    Connect {
        /// PEs that take part.
        on: PeGrid,
        /// Ports of each PE, cube by cube.
        ports: Arc<[Vec<PortSpec>]>,
        /// Whether the ports are removed.
        remove: bool,
    },
    /// PEs of one SIP run a kernel, starting at the same time.
    KernelLaunch {
        /// Name of the kernel.
        kernel: String,
        /// PEs that take part.
        on: PeGrid,
        /// Duration of the work of each PE.
        work: Span,
    },
}

/// Request with its submission time, data buffer and signals to wait for.
#[derive(Debug)]
pub struct Submission<'a> {
    /// Request to submit.
    pub request: Request,
    /// Submission time; the current time if it is in the past.
    pub at: Time,
    /// Source or destination of the data; its length is the size of the request. Not used without data mode.
    pub buffer: Option<&'a Buffer>,
    /// Signals to wait for. A task then makes the request, regardless of `at`.
    pub after: Option<Vec<SignalId>>,
}

impl From<Request> for Submission<'_> {
    fn from(request: Request) -> Self {
        Self { request, at: Time::ZERO, buffer: None, after: None }
    }
}

/// Submitted request with its id and time, which its completion repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Unique id, assigned by the machine.
    pub request: RequestId,
    /// Time at which the request was made.
    pub made: Time,
    /// Request as it was submitted.
    pub body: Request,
}

/// Completion of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Id of the request.
    pub request: RequestId,
    /// Time at which the request was made.
    pub made: Time,
    /// Time at which the request was done.
    pub done: Time,
    /// Outcome of the request.
    pub outcome: Outcome,
}

/// Outcome of a completed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A read or write has moved data.
    Moved {
        /// Number of bytes moved.
        bytes: u64,
    },
    /// A kernel was run.
    Ran {
        /// Common start of all PEs.
        started: Time,
        /// Number of PEs that ran it.
        pes: usize,
    },
    /// Mappings were added or removed.
    Mapped {
        /// Number of mappings of each MMU.
        mappings: usize,
    },
    /// Ports were installed or removed.
    Connected {
        /// Total number of ports of all PEs.
        ports: usize,
    },
    /// The request failed on the machine.
    Failed {
        /// Name of the component that failed.
        origin: String,
        /// Description of the failure.
        what: String,
    },
}

impl Request {
    /// Returns a submission of this request at `time`.
    pub fn at(self, time: Time) -> Submission<'static> {
        Submission { at: time, ..self.into() }
    }

    /// Returns the number of bytes that the request moves; `None` for a command.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::MemoryWrite(range) | Self::MemoryRead(range) => Some(range.bytes),
            Self::PeDma { bytes, .. }
            | Self::MCpuDma { bytes, .. }
            | Self::VirtualDma { bytes, .. } => Some(*bytes),
            Self::KernelLaunch { .. } | Self::Mappings { .. } | Self::Connect { .. } => None,
        }
    }
}

impl Completion {
    /// Returns the time from the request to its completion.
    pub fn latency(&self) -> Span {
        self.done - self.made
    }
}

/// Error that prevented a request from being submitted. The machine is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The machine has nothing at the address.
    #[error(transparent)]
    Address(#[from] ResolveError),
    /// The machine has nothing at the end of the range.
    #[error("{bytes} bytes from {address} end outside of the memory: {source}")]
    End {
        /// Address of the first byte.
        address: PhysAddr,
        /// Length of the range, in bytes.
        bytes: u64,
        /// Error of the last byte.
        source: ResolveError,
    },
    /// The range begins in one memory and ends in another. Make a request for each part.
    #[error("{bytes} bytes from {address} begin in {first} and end in {last}: expected one memory")]
    Spans {
        /// Address of the first byte.
        address: PhysAddr,
        /// Length of the range, in bytes.
        bytes: u64,
        /// Memory of the first byte.
        first: String,
        /// Memory of the last byte.
        last: String,
    },
    /// The address is not in HBM or SRAM, the only memories that requests can access.
    #[error("{address} is in {node}: expected an address in HBM or SRAM")]
    NotMemory {
        /// Address that was given.
        address: PhysAddr,
        /// Name of the node that serves the address.
        node: String,
    },
    /// The PE of a memory range is not the PE whose memory holds the address.
    #[error("{address} belongs to {holder}, but the request names {said}")]
    Tag {
        /// Address that was given.
        address: PhysAddr,
        /// Name of the node that serves the address.
        holder: String,
        /// PE that the request names.
        said: String,
    },
    /// The size is zero, or greater than a terabyte.
    #[error("a request of {bytes} bytes: expected 1 byte to 1 TiB")]
    Size {
        /// Size that was given, in bytes.
        bytes: u64,
    },
    /// The length of the buffer differs from the size of the request.
    #[error("a buffer of {length} bytes: expected {bytes}, the size of the request")]
    Buffer {
        /// Length of the buffer, in bytes.
        length: u64,
        /// Size of the request, in bytes.
        bytes: u64,
    },
    /// The machine has no such SIP, cube or PE.
    #[error("the machine has no {what}")]
    NoSuchPart {
        /// Name that was given.
        what: String,
    },
    /// The firmware of the SIP knows no such region, or the offset is beyond the SIP's memory.
    #[error("{sip} has no region {region} with an offset of {offset}")]
    NoSuchRegion {
        /// SIP that was given.
        sip: SipId,
        /// Region that was given.
        region: RegionId,
        /// Offset in the region, in bytes.
        offset: Bytes,
    },
    /// A command has no target, or the same target twice.
    #[error("targets of a command: expected {what}, at least one and each once")]
    Targets {
        /// Part that the command needs, such as `cubes` or `PEs`.
        what: &'static str,
    },
    /// There is no route to the target.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The machine has no node of this name.
    #[error(transparent)]
    Name(#[from] NoSuchNode),
}
