//! What the parts of a machine say to each other.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use cubeyard_sim::{NodeId, Route, SignalId, Span, Time};

/// The number of a request: they are numbered as they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u32);

impl RequestId {
    /// The request at `index` of the log.
    ///
    /// # Panics
    /// Beyond 2³² − 1.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2³² requests"))
    }

    /// The place in the log.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which way data goes, as its memory sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Out of the memory.
    Read,
    /// Into the memory.
    Write,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// An access to memory, from where it is asked for to the memory and back.
#[derive(Clone, Debug)]
pub struct Access {
    /// The request that it belongs to.
    pub request: RequestId,
    /// Read or write.
    pub direction: Direction,
    /// Where, as the memory counts.
    pub address: u64,
    /// How much.
    pub bytes: u64,
    /// The way to the memory.
    pub there: Route,
    /// The way of the data or the acknowledgement; a posted write has none.
    pub back: Option<Route>,
    /// Raised when it is done.
    pub done: SignalId,
}

/// A launch of a kernel, as all parts see it that hand it on.
#[derive(Debug)]
pub struct Launch {
    /// The request that it belongs to.
    pub request: RequestId,
    /// The kernel's name.
    pub kernel: String,
    /// From the PCIe endpoint to `IO_CPU`.
    pub to_io_cpu: Route,
    /// And back.
    pub from_io_cpu: Route,
    /// The cubes that take part.
    pub cubes: Vec<LaunchCube>,
    /// How long `IO_CPU` must look ahead so that every PE has its command when they start.
    pub lead: Span,
    /// When they are to start, once `IO_CPU` has said it.
    pub start: OnceLock<Time>,
    /// How long each PE works.
    pub work: Span,
    /// Raised when the host has the completion.
    pub done: SignalId,
}

/// A cube that takes part in a launch.
#[derive(Debug)]
pub struct LaunchCube {
    /// From `IO_CPU` to the cube's `M_CPU`.
    pub to: Route,
    /// And back.
    pub back: Route,
    /// The PEs that take part.
    pub pes: Vec<LaunchPe>,
}

/// A PE that takes part in a launch.
#[derive(Debug)]
pub struct LaunchPe {
    /// Its `PE_CPU`.
    pub node: NodeId,
    /// From `M_CPU` to it.
    pub to: Route,
    /// And back.
    pub back: Route,
    /// Raised when it has its command and waits for the start.
    pub armed: SignalId,
}

/// What a transfer means, or a call.
#[derive(Debug)]
pub enum Message {
    /// To who makes requests: make this one.
    Issue(Access),
    /// To a memory: read, or take what comes with this.
    Access(Access),
    /// From a memory: the data, or that it is written.
    Answer(Access),
    /// To the host's endpoint: launch this.
    Launch(Arc<Launch>),
    /// To `IO_CPU`: launch this.
    LaunchSip(Arc<Launch>),
    /// To an `M_CPU`: launch this on the PEs of this cube of the launch.
    LaunchCube(Arc<Launch>, usize),
    /// To a `PE_CPU`: get ready, as this PE of this cube of the launch.
    LaunchPe(Arc<Launch>, usize, usize),
    /// To a `PE_CPU`: all of the launch are here; start at this instant.
    Start(RequestId, Time),
    /// Back to an `M_CPU`: a PE is done.
    PeDone(Arc<Launch>, usize),
    /// Back to `IO_CPU`: a cube is done.
    CubeDone(Arc<Launch>),
    /// Back to the host: all is done.
    LaunchDone(Arc<Launch>),
    /// Something between components that are not ours.
    Custom(Box<dyn Any>),
}

impl Message {
    /// The request that this is about.
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Self::Issue(access) | Self::Access(access) | Self::Answer(access) => {
                Some(access.request)
            }
            Self::Launch(launch)
            | Self::LaunchSip(launch)
            | Self::LaunchCube(launch, ..)
            | Self::LaunchPe(launch, ..)
            | Self::PeDone(launch, _)
            | Self::CubeDone(launch)
            | Self::LaunchDone(launch) => Some(launch.request),
            Self::Start(request, _) => Some(*request),
            Self::Custom(_) => None,
        }
    }
}
