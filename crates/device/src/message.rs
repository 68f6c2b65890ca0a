//! What the parts of a machine say to each other.

use std::any::Any;
use std::fmt;

use cubeyard_sim::{Route, SignalId};

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

/// What a transfer means, or a call.
#[derive(Debug)]
pub enum Message {
    /// To who makes requests: make this one.
    Issue(Access),
    /// To a memory: read, or take what comes with this.
    Access(Access),
    /// From a memory: the data, or that it is written.
    Answer(Access),
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
            Self::Custom(_) => None,
        }
    }
}
