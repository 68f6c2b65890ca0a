//! Nodes and links of a topology, with their kinds and places.

use std::fmt;

use cubeyard_memory::address::{CubeId, IoChipletId, PeId, SipId};
use cubeyard_sim::{Bandwidth, Span};
pub use cubeyard_sim::{LinkId, NodeId};

use crate::ids::PeRef;

/// Kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// The switch between the SIPs.
    Switch,
    /// The PCIe endpoint of a SIP, which stores and forwards.
    PcieEndpoint,
    /// The network of an IO chiplet.
    IoNoc,
    /// The processor of an IO chiplet.
    IoCpu,
    /// A UCIe port of an IO chiplet.
    IoPort,
    /// A connection of a UCIe port of an IO chiplet.
    IoConnection,
    /// A UCIe port of a cube.
    Port,
    /// A connection of a UCIe port of a cube.
    Connection,
    /// A router of a cube.
    Router,
    /// The management processor of a cube.
    MCpu,
    /// The shared memory of a cube.
    Sram,
    /// The controller of a PE's slice of the HBM.
    Hbm,
    /// The DMA engine of a PE.
    PeDma,
    /// The processor of a PE.
    PeCpu,
}

/// Side of a cube or of a SIP, and the direction towards it. Rows are counted from the north, columns from the west.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Towards lower rows.
    North,
    /// Towards higher columns.
    East,
    /// Towards higher rows.
    South,
    /// Towards lower columns.
    West,
}

impl Side {
    /// All directions, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::North, Self::East, Self::South, Self::West];

    /// Returns the direction opposite to this one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::North => Self::South,
            Self::East => Self::West,
            Self::South => Self::North,
            Self::West => Self::East,
        }
    }

    /// Returns the letter of the direction in names of nodes.
    pub const fn letter(self) -> char {
        match self {
            Self::North => 'n',
            Self::East => 'e',
            Self::South => 's',
            Self::West => 'w',
        }
    }

    /// Returns whether the direction is along a row.
    pub const fn is_horizontal(self) -> bool {
        matches!(self, Self::East | Self::West)
    }
}

/// Position in a grid: of a router in a cube, or of a cube in a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Row, counted from the north.
    pub row: u32,
    /// Column, counted from the west.
    pub column: u32,
}

/// Formats a position as in `r0c1`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}c{}", self.row, self.column)
    }
}

/// Place of a node in the machine; fields that do not apply to its kind are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePlace {
    /// SIP of the node; the switch has none.
    pub sip: Option<SipId>,
    /// IO chiplet of the node.
    pub io: Option<IoChipletId>,
    /// Cube of the node.
    pub cube: Option<CubeId>,
    /// PE of the node. The controller of a slice of the HBM belongs to the slice's PE.
    pub pe: Option<PeId>,
    /// Router that the node is, or is attached to.
    pub router: Option<Position>,
    /// Side of the cube, for the cube's ports and connections.
    pub side: Option<Side>,
    /// Number of the IO chiplet's port, counted from the north or the west.
    pub port: Option<u32>,
    /// Number of the connection of its port.
    pub connection: Option<u32>,
}

impl NodePlace {
    /// Returns the PE of the node.
    pub fn pe_ref(&self) -> Option<PeRef> {
        Some(PeRef { sip: self.sip?, cube: self.cube?, pe: self.pe? })
    }
}

/// Component at which traffic starts, ends or passes through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique name, as in `sip0.cube3.pe2.pe_dma`.
    pub name: String,
    /// Kind of component.
    pub kind: NodeKind,
    /// Latency that the node adds to each transfer.
    pub overhead: Span,
    /// Place of the node in the machine.
    pub place: NodePlace,
}

/// One direction of a wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Node at which the link begins.
    pub from: NodeId,
    /// Node at which the link ends.
    pub to: NodeId,
    /// Link in the other direction of the same wire.
    pub reverse: LinkId,
    /// Bandwidth of this direction.
    pub bandwidth: Bandwidth,
    /// Propagation delay of the wire.
    pub propagation: Span,
    /// Length of the wire, in millimetres.
    pub length_mm: f64,
}
