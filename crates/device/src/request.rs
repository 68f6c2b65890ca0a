//! What a host may ask of a machine, and what it is told.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_memory::device::RegionId;
use cubeyard_sim::{SignalId, Span, Time};
use thiserror::Error;

pub use crate::ids::PeRef;

use crate::access::{Buffer, Direction, Mapping};
use crate::ids::RequestId;
use crate::pe::PortSpec;
use crate::topology::{NoSuchNode, ResolveError, RouteError};

/// Where data is: an address, and the PE whose memory it is in, so that nobody on the way has to decode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Whose memory it is in.
    pub at: PeRef,
    /// The address.
    pub address: PhysAddr,
    /// How much.
    pub bytes: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The host writes to device memory. Posted: done when the last byte is in memory.
    MemoryWrite(Shard),
    /// The host reads from device memory.
    MemoryRead(Shard),
    /// A PE's DMA reads or writes, as a kernel would order it.
    PeDma {
        /// Whose DMA.
        from: PeRef,
        /// Read or write.
        direction: Direction,
        /// Where the data is.
        address: PhysAddr,
        /// How much.
        bytes: u64,
    },
    /// A cube's management processor reads or writes with its own DMA.
    MCpuDma {
        /// The SIP of the cube.
        sip: SipId,
        /// The cube.
        cube: CubeId,
        /// Read or write.
        direction: Direction,
        /// Where the data is.
        address: PhysAddr,
        /// How much.
        bytes: u64,
    },
    /// A PE's DMA reads or writes at a virtual address, which its MMU translates.
    VirtualDma {
        /// Whose DMA.
        from: PeRef,
        /// Read or write.
        direction: Direction,
        /// Where the data is.
        address: u64,
        /// How much.
        bytes: u64,
    },
    /// PEs of one SIP take mappings into their MMUs.
    MmuMap {
        /// The SIP.
        sip: SipId,
        /// Its cubes that take part.
        cubes: Vec<CubeId>,
        /// The PEs of each cube that take part.
        pes: Vec<PeId>,
        /// The mappings.
        mappings: Arc<[Mapping]>,
    },
    /// PEs of one SIP take mappings out of their MMUs.
    MmuUnmap {
        /// The SIP.
        sip: SipId,
        /// Its cubes that take part.
        cubes: Vec<CubeId>,
        /// The PEs of each cube that take part.
        pes: Vec<PeId>,
        /// The mappings.
        mappings: Arc<[Mapping]>,
    },
    /// PEs of one SIP install ports to others, or take them out.
    Connect {
        /// The SIP.
        sip: SipId,
        /// Its cubes that take part.
        cubes: Vec<CubeId>,
        /// The PEs of each cube that take part.
        pes: Vec<PeId>,
        /// The ports of each PE, cube by cube.
        ports: Arc<[Vec<PortSpec>]>,
        /// Whether they are taken out.
        remove: bool,
    },
    /// PEs of one SIP run a kernel, all from one instant on.
    KernelLaunch {
        /// The kernel's name.
        kernel: String,
        /// The SIP.
        sip: SipId,
        /// Its cubes that take part.
        cubes: Vec<CubeId>,
        /// The PEs of each cube that take part.
        pes: Vec<PeId>,
        /// How long each PE works.
        work: Span,
    },
}

/// A request with its circumstances.
#[derive(Debug)]
pub struct Submission<'a> {
    /// Request to submit.
    pub request: Request,
    /// Time of the request; now, if it is past.
    pub at: Time,
    /// Number that the completion bears, chosen by the host for requests that belong together.
    pub correlation: u64,
    /// Source or destination of the data, as long as the request says. Without data mode it is not
    /// touched.
    pub buffer: Option<&'a Buffer>,
    /// Signals to wait for, by a task that then makes the request whatever the time.
    pub after: Option<Vec<SignalId>>,
}

impl From<Request> for Submission<'_> {
    fn from(request: Request) -> Self {
        Self { request, at: Time::ZERO, correlation: 0, buffer: None, after: None }
    }
}

/// A request under the numbers that its answer bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Chosen by the host, for what belongs together.
    pub correlation: u64,
    /// Chosen by the machine, for this request alone.
    pub request: RequestId,
    /// The SIP that it goes to.
    pub device: SipId,
    /// When it was made.
    pub made: Time,
    /// What is asked.
    pub body: Request,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of its envelope.
    pub correlation: u64,
    /// Of its envelope.
    pub request: RequestId,
    /// When it was made.
    pub made: Time,
    /// When it was done.
    pub done: Time,
    /// What there is to say.
    pub outcome: Outcome,
}

/// What there is to say of a request that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Data has been moved.
    Moved {
        /// How much.
        bytes: u64,
    },
    /// A kernel has run.
    Ran {
        /// When all its PEs started.
        started: Time,
        /// How many PEs there were.
        pes: usize,
    },
    /// MMUs have taken mappings in or out.
    Mapped {
        /// How many mappings each had to take.
        mappings: usize,
    },
    /// Ports have been installed or taken out.
    Connected {
        /// How many.
        ports: usize,
    },
    /// It went wrong on the machine.
    Failed {
        /// The part that found it.
        origin: String,
        /// What.
        what: String,
    },
}

impl Request {
    /// Returns the submission of this request at a time.
    pub fn at(self, time: Time) -> Submission<'static> {
        Submission { at: time, ..self.into() }
    }

    /// How much data it moves; none for a command.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::MemoryWrite(shard) | Self::MemoryRead(shard) => Some(shard.bytes),
            Self::PeDma { bytes, .. }
            | Self::MCpuDma { bytes, .. }
            | Self::VirtualDma { bytes, .. } => Some(*bytes),
            Self::KernelLaunch { .. }
            | Self::MmuMap { .. }
            | Self::MmuUnmap { .. }
            | Self::Connect { .. } => None,
        }
    }
}

impl Completion {
    /// How long it took.
    pub fn latency(&self) -> Span {
        self.done - self.made
    }
}

/// Why a request was not made. The machine is as before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// Nothing lies there.
    #[error(transparent)]
    Address(#[from] ResolveError),
    /// The range ends where nothing lies.
    #[error("{bytes} bytes from {address} end outside: {source}")]
    End {
        /// Where it begins.
        address: PhysAddr,
        /// How long it is.
        bytes: u64,
        /// What is wrong with its end.
        source: ResolveError,
    },
    /// The range begins in one memory and ends in another. Ask for each part by itself.
    #[error("{bytes} bytes from {address} begin in {first} and end in {last}")]
    Spans {
        /// Where it begins.
        address: PhysAddr,
        /// How long it is.
        bytes: u64,
        /// The memory of its first byte.
        first: String,
        /// The memory of its last byte.
        last: String,
    },
    /// What answers for the address is no memory that others can reach: HBM and SRAM are.
    #[error(
        "{address} is in {node}, which is no memory that a request can reach; HBM and SRAM are"
    )]
    NotMemory {
        /// The address.
        address: PhysAddr,
        /// Who answers for it.
        node: String,
    },
    /// The PE that a shard names is not the one whose memory the address is in.
    #[error("{address} belongs to {holder}, and the request says {said}")]
    Tag {
        /// The address.
        address: PhysAddr,
        /// Who answers for it.
        holder: String,
        /// Who the request says.
        said: String,
    },
    /// No bytes, or more than a terabyte at once.
    #[error("a request moves from 1 byte to 1 TiB at once, and this one {bytes} bytes")]
    Size {
        /// How many.
        bytes: u64,
    },
    /// The buffer is not as long as the request says.
    #[error("a buffer of {length} bytes for a request of {bytes}")]
    Buffer {
        /// How long it is.
        length: u64,
        /// What the request says.
        bytes: u64,
    },
    /// The machine has no such SIP, cube or PE.
    #[error("the machine has no {what}")]
    NoSuchPart {
        /// Its name.
        what: String,
    },
    /// The firmware of the SIP knows no such region, or the place is not in the SIP's memory.
    #[error("{sip} has no region {region} with an offset of {offset}")]
    NoSuchRegion {
        /// The SIP.
        sip: SipId,
        /// The region's id.
        region: RegionId,
        /// The offset in it.
        offset: Bytes,
    },
    /// A command to nothing, or twice to the same.
    #[error("a command needs {what}, each once")]
    Targets {
        /// Cubes or PEs.
        what: &'static str,
    },
    /// No route leads there.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// There is no node of that name.
    #[error(transparent)]
    Name(#[from] NoSuchNode),
}
