//! What a topology file says, in types.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_sim::{Bandwidth, BufferSpec, Span};

use super::{Direction, Position};
use crate::model::RowsSpec;

/// A machine as a topology file describes it. What the keys mean is written beside them in the default
/// file, [`DEFAULT`](super::DEFAULT).
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The largest piece in which links move a payload; a multiple of the HBM's burst.
    pub flit: Bytes,
    /// Nanoseconds for each millimetre of wire.
    pub ns_per_mm: f64,
    /// The places for flits behind each link; without it there is room for all.
    pub buffers: Option<BufferSpec>,
    /// The SIPs of the system.
    pub sips: SipsSpec,
    /// The cubes of a SIP.
    pub cubes: CubesSpec,
    /// The routers of a cube.
    pub routers: RoutersSpec,
    /// The PEs of a cube.
    pub pe: PeSpec,
    /// The HBM of a cube.
    pub hbm: HbmSpec,
    /// The SRAM of a cube.
    pub sram: SramSpec,
    /// The management processor of a cube.
    pub m_cpu: MCpuSpec,
    /// The ports between cubes.
    pub ucie: UcieSpec,
    /// The IO chiplets of a SIP.
    pub io: IoSpec,
    /// The way from the SIPs to the switch.
    pub pcie: PcieSpec,
    /// What the switch charges each transfer.
    pub switch_overhead: Span,
}

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireSpec {
    /// How fast each direction takes bytes.
    pub bandwidth: Bandwidth,
    /// How long it is, in millimetres.
    pub length_mm: f64,
}

/// Who is whose neighbour among the SIPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SipTopology {
    /// A ring from west to east.
    Ring1d,
    /// A grid whose ends are joined.
    Torus2d,
    /// A grid whose ends are not joined.
    Mesh2dNoWrap,
}

/// The SIPs of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipsSpec {
    /// How many there are.
    pub count: u32,
    /// Who is whose neighbour.
    pub topology: SipTopology,
    /// SIPs in a row; all of them in a ring.
    pub w: u32,
    /// SIPs in a column; one in a ring.
    pub h: u32,
}

/// The cubes of a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubesSpec {
    /// Cubes in a row.
    pub w: u32,
    /// Cubes in a column.
    pub h: u32,
}

/// The routers of a cube.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutersSpec {
    /// Rows of the grid.
    pub rows: u32,
    /// Columns of the grid.
    pub columns: u32,
    /// Where there is no router, in order.
    pub removed: Vec<Position>,
    /// What a router charges each transfer.
    pub overhead: Span,
    /// Between neighbours.
    pub link: WireSpec,
}

/// The PEs of a cube.
#[derive(Clone, Debug, PartialEq)]
pub struct PeSpec {
    /// The router of each PE.
    pub routers: Vec<Position>,
    /// The tightly coupled memory of a PE.
    pub tcm: Bytes,
    /// What the DMA engine charges each transfer.
    pub dma_overhead: Span,
    /// What the processor charges each transfer.
    pub cpu_overhead: Span,
    /// How a PE's virtual addresses are translated.
    pub mmu: MmuSpec,
    /// How kernels run on it.
    pub core: CoreSpec,
    /// From the router to either of them.
    pub link: WireSpec,
}

/// What runs kernels in a PE: the processor that dispatches, the scheduler, and the engines.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreSpec {
    /// What a `tl` call costs the processor.
    pub dispatch: Span,
    /// What the scheduler adds to a command before an engine may begin it.
    pub scheduler_overhead: Span,
    /// How many commands may be under way at once.
    pub window: u32,
    /// How many reads the DMA engine has under way at once.
    pub dma_read_engines: u32,
    /// How many writes.
    pub dma_write_engines: u32,
    /// What of the TCM the tiles of a kernel may take.
    pub scratch: Bytes,
    /// How fast engines read the TCM.
    pub tcm_read: Bandwidth,
    /// How fast engines write it.
    pub tcm_write: Bandwidth,
    /// The matrix engine.
    pub gemm: GemmSpec,
    /// The vector engine.
    pub math: MathSpec,
}

/// A matrix engine: it multiplies tiles of one shape, and smaller ones in the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmSpec {
    /// Rows of the left tile.
    pub m: u32,
    /// Columns of the left tile.
    pub k: u32,
    /// Columns of the right tile.
    pub n: u32,
    /// FLOP in a second, by the name of the type of the operands; a multiply and an add are two.
    pub rates: BTreeMap<String, u64>,
}

impl GemmSpec {
    /// How long a tile of operands of this type takes; none if the type has no rate.
    pub fn tile(&self, dtype: &str) -> Option<Span> {
        let flop = 2 * u64::from(self.m) * u64::from(self.k) * u64::from(self.n);
        // A rate is to FLOP what a bandwidth is to bytes.
        Some(Bandwidth::from_bytes_per_second(*self.rates.get(dtype)?)?.span(flop))
    }
}

/// A vector engine: elements in a second, by the class of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MathSpec {
    /// Elements that it takes from the TCM in one go; the next come while it works on these.
    pub strip: u32,
    /// Adding, multiplying, comparing, choosing, casting, copying.
    pub simple: Bandwidth,
    /// Dividing, roots, exponentials and their like.
    pub special: Bandwidth,
    /// Reductions and scans.
    pub reduce: Bandwidth,
}

/// How virtual addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmuSpec {
    /// What virtual addresses are handed out in, and what an entry of the TLB covers; a power of two.
    pub page: Bytes,
    /// What each access pays for its translation.
    pub tlb_overhead: Span,
    /// How many pages the TLB holds; none if every lookup is a hit.
    pub tlb_entries: Option<u32>,
    /// What each page costs that the TLB does not hold.
    pub tlb_miss: Span,
    /// Whether an address that is not mapped is an error; else it is taken as a physical one.
    pub strict: bool,
}

/// The HBM of a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HbmSpec {
    /// All the HBM of a cube.
    pub capacity: Bytes,
    /// What of it belongs to each PE.
    pub slice: Bytes,
    /// The channels of a slice; a power of two.
    pub channels: u32,
    /// How fast a channel is.
    pub channel_bandwidth: Bandwidth,
    /// What a channel moves at once; a power of two.
    pub burst: Bytes,
    /// Between a read and a write on one channel.
    pub turn_around: Span,
    /// The banks of a channel; without them a burst costs the same wherever it lies.
    pub rows: Option<RowsSpec>,
    /// What the controller charges each transfer.
    pub overhead: Span,
    /// From the PE's router to the controller.
    pub link: WireSpec,
}

/// The SRAM of a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SramSpec {
    /// Its router.
    pub router: Position,
    /// All of it.
    pub capacity: Bytes,
    /// What it charges each transfer.
    pub overhead: Span,
    /// From its router.
    pub link: WireSpec,
}

/// The management processor of a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MCpuSpec {
    /// Its router.
    pub router: Position,
    /// What it charges each transfer.
    pub overhead: Span,
    /// From its router.
    pub link: WireSpec,
}

/// The ports between cubes.
#[derive(Clone, Debug, PartialEq)]
pub struct UcieSpec {
    /// The row of the router that connection `i` of a west or east port is at.
    pub connection_rows: Vec<u32>,
    /// The column of the router that connection `i` of a north or south port is at.
    pub connection_columns: Vec<u32>,
    /// Whether flows are spread over the connections of a side.
    pub balance: bool,
    /// What a port charges each transfer.
    pub port_overhead: Span,
    /// What a connection charges each transfer.
    pub connection_overhead: Span,
    /// From a router to a connection.
    pub router_link: WireSpec,
    /// From a connection to its port.
    pub port_link: WireSpec,
    /// From a port to the one opposite, IO chiplets included.
    pub phy: WireSpec,
}

/// The IO chiplets of a SIP.
#[derive(Clone, Debug, PartialEq)]
pub struct IoSpec {
    /// The side of each.
    pub chiplets: Vec<Direction>,
    /// What the network charges each transfer.
    pub noc_overhead: Span,
    /// What the processor charges each transfer.
    pub cpu_overhead: Span,
    /// What a port charges each transfer.
    pub port_overhead: Span,
    /// What a connection charges each transfer.
    pub connection_overhead: Span,
    /// From the network to a connection.
    pub connection_link: WireSpec,
    /// From a connection to its port.
    pub port_link: WireSpec,
    /// From the network to the processor.
    pub cpu_link: WireSpec,
    /// From the network to the PCIe endpoint.
    pub endpoint_link: WireSpec,
}

/// The way from the SIPs to the switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieSpec {
    /// What an endpoint charges each transfer, once it has all of it.
    pub endpoint_overhead: Span,
    /// From an endpoint to the switch.
    pub link: WireSpec,
}

impl Spec {
    /// How many cubes a SIP has.
    pub fn cube_count(&self) -> u32 {
        self.cubes.w * self.cubes.h
    }

    /// How many PEs a cube has.
    pub fn pe_count(&self) -> u32 {
        u32::try_from(self.pe.routers.len()).expect("checked when read: addresses name at most 64")
    }

    /// How many connections a port has.
    pub fn connection_count(&self) -> u32 {
        u32::try_from(self.ucie.connection_rows.len())
            .expect("checked when read: one a row at most")
    }
}
