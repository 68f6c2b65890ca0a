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

/// Layout of equally long rows at a constant pitch, such as a tile of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Length of each row, in bytes.
    pub bytes: u64,
    /// Distance between the starts of consecutive rows, in bytes.
    pub pitch: u64,
}

impl Rows {
    /// Returns the distance from the first byte to the end of the last when `bytes` are moved, in bytes.
    pub fn extent(self, bytes: u64) -> u64 {
        (bytes.div_ceil(self.bytes) - 1) * self.pitch + self.bytes
    }

    /// Returns the contiguous runs of a range of the moved data: for each, the offset from the first row and the
    /// length, in bytes.
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

/// Data buffer of the host or of a PE. Messages refer to it; they never hold the data.
pub type Buffer = Rc<RefCell<Vec<u8>>>;

/// First address of a read that was never written, relative to its memory.
pub type Unwritten = Rc<Cell<Option<u64>>>;

/// Part of a buffer that starts at an offset.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Buffer that holds the part.
    pub buffer: Buffer,
    /// Offset of the first byte in the buffer, in bytes.
    pub offset: usize,
    /// Cell that receives the first address of the read that was never written.
    pub unwritten: Option<Unwritten>,
}

impl Slice {
    /// Returns a slice of the whole buffer.
    pub fn whole(buffer: &Buffer) -> Self {
        Self { buffer: Rc::clone(buffer), offset: 0, unwritten: None }
    }
}

/// Access to one memory, with its routes.
#[derive(Clone, Debug)]
pub struct Access {
    /// Request that the access belongs to.
    pub request: RequestId,
    /// Direction of the data.
    pub direction: Direction,
    /// Address of the first byte, relative to the memory.
    pub address: u64,
    /// Length of the data, in bytes.
    pub bytes: u64,
    /// Layout of the data in memory, if it is not contiguous.
    pub rows: Option<Rows>,
    /// Route to the memory.
    pub there: Route,
    /// Route of the data or the acknowledgement back; `None` for a posted write.
    pub back: Option<Route>,
    /// Source or destination of the data, in data mode.
    pub data: Option<Slice>,
    /// End of the latest burst of a write so far, set by the memory.
    pub written: Cell<Time>,
    /// Receiver of the completion.
    pub done: Done,
}

/// Access of a DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Direction of the data, as seen by the memory.
    pub direction: Direction,
    /// Virtual address; used as a physical address if it is not mapped.
    pub address: u64,
    /// Length of the data, in bytes.
    pub bytes: u64,
    /// Layout of the data in memory, if it is not contiguous.
    pub rows: Option<Rows>,
}

impl Dma {
    /// Returns the distance from the first byte to the end of the last in memory, in bytes.
    pub fn extent(&self) -> u64 {
        self.rows.map_or(self.bytes, |rows| rows.extent(self.bytes))
    }
}

/// Access whose address the PE's MMU translates.
#[derive(Clone, Debug)]
pub struct VirtualAccess {
    /// Request that the access belongs to.
    pub request: RequestId,
    /// Address range and direction.
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
    /// Processor of a PE, with the number that it gave to the access.
    Core(NodeId, u64),
    /// Processor of a PE: a message has arrived in a slot of one of its ports.
    Port {
        /// Processor of the receiving PE.
        node: NodeId,
        /// Port at which the message arrived.
        port: PortId,
        /// Length of the message, in bytes.
        bytes: u64,
        /// Format of the message's elements.
        format: FormatId,
        /// Slot that holds the message.
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
