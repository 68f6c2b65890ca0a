//! What the parts of a resolved topology are called by programs.

use std::fmt;

use cubeyard_memory::address::{CubeId, IoChipletId, PeId, SipId};
use cubeyard_sim::{Bandwidth, Span};
pub use cubeyard_sim::{LinkId, NodeId};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// The switch between the SIPs.
    Switch,
    /// Where PCIe enters a SIP; it stores and forwards.
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

/// A side of a cube or of a SIP, and the direction towards it. Rows are counted from the north, columns
/// from the west.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Towards lower rows.
    North,
    /// Towards higher columns.
    East,
    /// Towards higher rows.
    South,
    /// Towards lower columns.
    West,
}

impl Direction {
    /// All four, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::North, Self::East, Self::South, Self::West];

    /// The other way.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::North => Self::South,
            Self::East => Self::West,
            Self::South => Self::North,
            Self::West => Self::East,
        }
    }

    /// The letter that names have for it.
    pub const fn letter(self) -> char {
        match self {
            Self::North => 'n',
            Self::East => 'e',
            Self::South => 's',
            Self::West => 'w',
        }
    }

    /// Whether one goes along a row.
    pub const fn is_horizontal(self) -> bool {
        matches!(self, Self::East | Self::West)
    }
}

/// A place in a grid: of routers in a cube, of cubes in a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Counted from the north.
    pub row: u32,
    /// Counted from the west.
    pub column: u32,
}

/// As in `r0c1`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}c{}", self.row, self.column)
    }
}

/// Where a node is, as far as each of these means something for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its SIP; the switch has none.
    pub sip: Option<SipId>,
    /// Its IO chiplet.
    pub io: Option<IoChipletId>,
    /// Its cube.
    pub cube: Option<CubeId>,
    /// Its PE. The controller of a slice of the HBM belongs to the slice's PE.
    pub pe: Option<PeId>,
    /// The router that it is or is attached to.
    pub router: Option<Position>,
    /// The side of the cube, for ports and connections of a cube.
    pub side: Option<Direction>,
    /// Which port of an IO chiplet, counted from the north or the west.
    pub port: Option<u32>,
    /// Which connection of a port.
    pub connection: Option<u32>,
}

/// A component that traffic starts at, ends at or passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, as in `sip0.cube3.pe2.pe_dma`; no two nodes have the same.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// What it charges each transfer.
    pub overhead: Span,
    /// Where it is.
    pub place: Place,
}

/// One direction of a wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// The other direction of the same wire.
    pub reverse: LinkId,
    /// How fast it takes bytes.
    pub bandwidth: Bandwidth,
    /// How long a signal is on its way.
    pub propagation: Span,
    /// The length of the wire, in millimetres.
    pub length_mm: f64,
}
