//! Accesses to memory, by physical or virtual addresses.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{NodeId, Route, SignalId, Time};

use crate::ids::{FormatId, PortId, RequestId};

/// Direction of data, as seen by its memory.
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

/// Rows of equal length at equal distances, as a tile of a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Length of each row, in bytes.
    pub bytes: u64,
    /// Distance between the beginnings of two rows, in bytes.
    pub pitch: u64,
}

impl Rows {
    /// Returns the distance from the first byte to the last when `bytes` are moved.
    pub fn extent(self, bytes: u64) -> u64 {
        (bytes.div_ceil(self.bytes) - 1) * self.pitch + self.bytes
    }

    /// Returns the offset from the first row and the length of each run of bytes in a range of the
    /// moved data.
    pub fn segments(self, from: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let (mut at, end) = (from, from + bytes);
        std::iter::from_fn(move || {
            let (row, within) = (at / self.bytes, at % self.bytes);
            let length = (self.bytes - within).min(end - at);
            at += length;
            (length > 0).then_some((row * self.pitch + within, length))
        })
    }
}

/// Buffer of the host or of a PE that data comes from or goes to. Messages refer to it; they never
/// hold the data.
pub type Buffer = Rc<RefCell<Vec<u8>>>;

/// First address of a read that was never written, as the memory counts.
pub type Unwritten = Rc<Cell<Option<u64>>>;

/// Part of a buffer, from an offset on.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Buffer that holds the part.
    pub buffer: Buffer,
    /// Offset of the first byte in the buffer.
    pub offset: usize,
    /// Set to the first address read that was never written.
    pub unwritten: Option<Unwritten>,
}

impl Slice {
    /// Returns all of a buffer.
    pub fn whole(buffer: &Buffer) -> Self {
        Self { buffer: Rc::clone(buffer), offset: 0, unwritten: None }
    }
}

/// An access to one memory, with its routes.
#[derive(Clone, Debug)]
pub struct Access {
    /// Request that it belongs to.
    pub request: RequestId,
    /// Direction of the data.
    pub direction: Direction,
    /// Address of the first byte within the memory.
    pub address: u64,
    /// Length of the data, in bytes.
    pub bytes: u64,
    /// Layout of the data in memory, if it is not contiguous.
    pub rows: Option<Rows>,
    /// Route to the memory.
    pub there: Route,
    /// Route of the data or the acknowledgement; a posted write has none.
    pub back: Option<Route>,
    /// Source or destination of the data, in data mode.
    pub data: Option<Slice>,
    /// End of the last burst so far of a write, which its memory sets.
    pub written: Cell<Time>,
    /// Receiver of the completion.
    pub done: Done,
}

/// An access of a DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Direction of the data, as seen by the memory.
    pub direction: Direction,
    /// Virtual address, or a physical one if it is not mapped.
    pub address: u64,
    /// Length of the data, in bytes.
    pub bytes: u64,
    /// Layout of the data in memory, if it is not contiguous.
    pub rows: Option<Rows>,
}

impl Dma {
    /// Returns the distance from the first byte to the last in memory.
    pub fn extent(&self) -> u64 {
        self.rows.map_or(self.bytes, |rows| rows.extent(self.bytes))
    }
}

/// An access whose address the PE's MMU translates.
#[derive(Clone, Debug)]
pub struct VirtualAccess {
    /// Request that it belongs to.
    pub request: RequestId,
    /// Range of addresses, and direction.
    pub dma: Dma,
    /// Source or destination of the data, in data mode.
    pub data: Option<Slice>,
    /// Receiver of the completion.
    pub done: Done,
}

/// Receiver of the completion of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Tasks that wait for a signal.
    Signal(SignalId),
    /// Processor of a PE, with its own number of the access.
    Core(NodeId, u64),
    /// Processor of a PE: a message has come into a slot of one of its ports.
    Port {
        /// Processor of the receiving PE.
        node: NodeId,
        /// Port that the message came to.
        port: PortId,
        /// Length of the message, in bytes.
        bytes: u64,
        /// Format of its elements.
        format: FormatId,
        /// Slot that the message is in.
        slot: u32,
        /// Record of the send operation, if records are kept.
        record: Option<u32>,
    },
}

/// Translation of a range of virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First virtual address.
    pub from: u64,
    /// Length of the range, in bytes.
    pub bytes: u64,
    /// Physical address of the first byte.
    pub to: PhysAddr,
}

impl Mapping {
    /// Length of a mapping in a message, in bytes: two addresses and a length.
    pub const BYTES: u64 = 24;
}
