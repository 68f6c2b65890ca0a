//! Typed values of a topology file.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_sim::{Bandwidth, BufferSpec, Span};
use serde::Serialize;

use super::{NodeKind, Position, Side};
use crate::model::RowsSpec;

/// Machine as described by a topology file. The default file, [`DEFAULT`](super::DEFAULT), explains every key.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Payload of a full flit, the largest unit that links move; a multiple of the HBM's burst.
    pub flit: Bytes,
    /// Size of the header that each flit has on links, in addition to its payload.
    pub flit_header: Bytes,
    /// Propagation delay of wires, in nanoseconds per millimetre.
    pub ns_per_mm: f64,
    /// Nodes that process the overhead of one transfer at a time.
    pub serial_nodes: SerialNodes,
    /// Flit buffers behind each link; `None` if they are unbounded.
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
    /// The PCIe links between the SIPs and the switch.
    pub pcie: PcieSpec,
    /// Latency that the switch adds to each transfer.
    pub switch_overhead: Span,
    /// Host time for each kernel launch: from the end of the events that the launch waits for until it is sent.
    pub host_launch: Span,
}

/// Nodes that process the overhead of one transfer at a time, so that it delays later transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SerialNodes {
    /// No node: an overhead delays only its own transfer.
    None,
    /// Nodes where requests, commands and messages begin, end or are stored: processors, DMA engines, memories and PCIe
    /// endpoints.
    Ends,
    /// All nodes, including routers and ports.
    All,
}

impl SerialNodes {
    /// All settings with their names in topology files.
    pub const NAMES: [(&'static str, Self); 3] =
        [("none", Self::None), ("ends", Self::Ends), ("all", Self::All)];

    /// Returns whether nodes of a kind are included.
    pub fn includes(self, kind: NodeKind) -> bool {
        let is_end = match kind {
            NodeKind::PcieEndpoint
            | NodeKind::IoCpu
            | NodeKind::MCpu
            | NodeKind::Sram
            | NodeKind::Hbm
            | NodeKind::PeDma
            | NodeKind::PeCpu => true,
            NodeKind::Switch
            | NodeKind::IoNoc
            | NodeKind::IoPort
            | NodeKind::IoConnection
            | NodeKind::Port
            | NodeKind::Connection
            | NodeKind::Router => false,
        };
        self == Self::All || self == Self::Ends && is_end
    }
}

/// Bidirectional wire between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WireSpec {
    /// Bandwidth of each direction.
    pub bandwidth: Bandwidth,
    /// Length of the wire, in millimetres.
    pub length_mm: f64,
}

/// Topology that the SIPs form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SipTopology {
    /// A ring from west to east.
    Ring1d,
    /// A grid that wraps around in both dimensions.
    Torus2d,
    /// A grid that does not wrap around.
    Mesh2dNoWrap,
}

/// The SIPs of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipsSpec {
    /// Number of SIPs.
    pub count: u32,
    /// Topology that the SIPs form.
    pub topology: SipTopology,
    /// Number of SIPs in a row; all of them in a ring.
    pub w: u32,
    /// Number of SIPs in a column; one in a ring.
    pub h: u32,
}

/// Grid of the cubes of a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubesSpec {
    /// Number of cubes in a row.
    pub w: u32,
    /// Number of cubes in a column.
    pub h: u32,
}

/// The routers of a cube.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutersSpec {
    /// Number of rows of the grid.
    pub rows: u32,
    /// Number of columns of the grid.
    pub columns: u32,
    /// Positions without a router, sorted.
    pub removed: Vec<Position>,
    /// Latency that a router adds to each transfer.
    pub overhead: Span,
    /// Wire between neighbouring routers.
    pub link: WireSpec,
}

/// The PEs of a cube.
#[derive(Clone, Debug, PartialEq)]
pub struct PeSpec {
    /// Position of each PE's router.
    pub routers: Vec<Position>,
    /// Size of a PE's tightly coupled memory.
    pub tcm: Bytes,
    /// Latency that the DMA engine adds to each transfer.
    pub dma_overhead: Span,
    /// Latency that the processor adds to each transfer.
    pub cpu_overhead: Span,
    /// MMU that translates the virtual addresses of a PE.
    pub mmu: MmuSpec,
    /// Processor, scheduler and engines that run kernels.
    pub core: CoreSpec,
    /// Wire from the router to the DMA engine; the processor has a second wire like it.
    pub link: WireSpec,
}

/// Parts of a PE that run kernels: the dispatching processor, the scheduler, and the engines.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreSpec {
    /// Processor time of one `tl` call.
    pub dispatch: Span,
    /// Latency that the scheduler adds to a command before an engine may begin it.
    pub scheduler_overhead: Span,
    /// Maximum number of commands in flight.
    pub window: u32,
    /// Maximum number of concurrent reads of the DMA engine.
    pub dma_read_engines: u32,
    /// Maximum number of concurrent writes of the DMA engine.
    pub dma_write_engines: u32,
    /// Compute engines of the matrix unit and the vector unit.
    pub compute_engines: ComputeEngines,
    /// Accesses of an atomic operation.
    pub atomics: Atomics,
    /// Size of the part of the TCM that holds tiles of a kernel.
    pub scratch: Bytes,
    /// Bandwidth at which engines read the TCM.
    pub tcm_read: Bandwidth,
    /// Bandwidth at which engines write the TCM.
    pub tcm_write: Bandwidth,
    /// The matrix unit.
    pub gemm: GemmSpec,
    /// The vector unit.
    pub math: MathSpec,
}

/// Compute engines of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputeEngines {
    /// GEMM and MATH are units of one engine, which serves their commands in order.
    Shared,
    /// GEMM and MATH are two engines, each with its own queue and its own paths from and to the TCM.
    Separate,
}

impl ComputeEngines {
    /// All settings with their names in topology files.
    pub const NAMES: [(&'static str, Self); 2] =
        [("shared", Self::Shared), ("separate", Self::Separate)];
}

/// Accesses of an atomic operation of a kernel, one PE at a time for each address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Atomics {
    /// A read, a write and a read back. The next PE begins when the read back is done.
    ReadBack,
    /// A read and a write. The next PE begins when the write is acknowledged.
    Acknowledged,
}

impl Atomics {
    /// All settings with their names in topology files.
    pub const NAMES: [(&'static str, Self); 2] =
        [("read_back", Self::ReadBack), ("acknowledged", Self::Acknowledged)];

    /// Returns the name of the setting in topology files.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadBack => "read_back",
            Self::Acknowledged => "acknowledged",
        }
    }
}

/// Matrix unit. It multiplies tiles of one shape; smaller tiles take the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmSpec {
    /// Number of rows of the left tile.
    pub m: u32,
    /// Number of columns of the left tile.
    pub k: u32,
    /// Number of columns of the right tile.
    pub n: u32,
    /// Rates by operand type, in FLOP per second; a multiply and an add are two FLOP.
    pub rates: BTreeMap<String, u64>,
}

impl GemmSpec {
    /// Returns the duration of one tile with operands of this type; `None` if the type has no rate.
    pub fn tile(&self, dtype: &str) -> Option<Span> {
        let flop = 2 * u64::from(self.m) * u64::from(self.k) * u64::from(self.n);
        // The rate is used as a bandwidth, with FLOP in place of bytes.
        Some(Bandwidth::from_bytes_per_second(*self.rates.get(dtype)?)?.span(flop))
    }
}

/// Vector unit, with a rate in elements per second for each class of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MathSpec {
    /// Number of elements that the engine reads from the TCM at once. It reads the next strip while it works on the
    /// current one.
    pub strip: u32,
    /// Rate of adding, multiplying, comparing, selecting, casting and copying.
    pub simple: Bandwidth,
    /// Rate of division, roots, exponentials and the like.
    pub special: Bandwidth,
    /// Rate of reductions and scans.
    pub reduce: Bandwidth,
}

/// MMU of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmuSpec {
    /// Page size: the unit in which virtual addresses are allocated, covered by one TLB entry; a power of two.
    pub page: Bytes,
    /// Latency that each access pays for its translation.
    pub tlb_overhead: Span,
    /// Number of TLB entries; `None` if every lookup is a hit.
    pub tlb_entries: Option<u32>,
    /// Additional latency for each page that misses the TLB.
    pub tlb_miss: Span,
    /// Whether an unmapped address is an error; otherwise it is used as a physical address.
    pub strict: bool,
}

/// The HBM of a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HbmSpec {
    /// Size of the HBM of a cube.
    pub capacity: Bytes,
    /// Size of the slice of one PE.
    pub slice: Bytes,
    /// Number of channels of a slice; a power of two.
    pub channels: u32,
    /// Bandwidth of one channel.
    pub channel_bandwidth: Bandwidth,
    /// Bytes that a channel moves in one burst; a power of two.
    pub burst: Bytes,
    /// Delay between a read and a write on one channel.
    pub turn_around: Span,
    /// Banks and rows of a channel; `None` if every burst costs the same.
    pub rows: Option<RowsSpec>,
    /// Latency that the controller adds to each transfer.
    pub overhead: Span,
    /// Page of memory that a machine shares with its owner; a power of two.
    pub page: Bytes,
    /// Order in which such pages are dealt over the PEs of a SIP.
    pub deal: DealOrder,
    /// Wire from the PE's router to the controller.
    pub link: WireSpec,
}

impl HbmSpec {
    /// Returns the peak bandwidth of a PE's slice for reads alone or writes alone, in bytes per second. The slower of
    /// its channels and its wire sets it.
    pub fn peak_bytes_per_second(&self) -> f64 {
        self.channels_bytes_per_second().min(self.link.bandwidth.bytes_per_second() as f64)
    }

    /// Returns the peak bandwidth of a PE's slice for reads and writes together, in bytes per second. The wire carries
    /// reads and writes in opposite directions; the channels are shared. The wire of the PE that reads or writes,
    /// `pe.link`, is another limit.
    pub fn peak_both_ways(&self) -> f64 {
        self.channels_bytes_per_second().min(2.0 * self.link.bandwidth.bytes_per_second() as f64)
    }

    fn channels_bytes_per_second(&self) -> f64 {
        f64::from(self.channels) * self.channel_bandwidth.bytes_per_second() as f64
    }
}

/// Order in which the pages of a block are dealt over the PEs of a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DealOrder {
    /// All PEs of a cube, then the PEs of the next cube.
    Pes,
    /// One PE of each cube, then the next PE of each cube.
    Cubes,
}

impl DealOrder {
    /// All orders with their names in topology files.
    pub const NAMES: [(&'static str, Self); 2] = [("pes", Self::Pes), ("cubes", Self::Cubes)];
}

/// The SRAM of a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SramSpec {
    /// Position of the SRAM's router.
    pub router: Position,
    /// Size of the SRAM.
    pub capacity: Bytes,
    /// Latency that the SRAM adds to each transfer.
    pub overhead: Span,
    /// Wire from the router.
    pub link: WireSpec,
}

/// The management processor of a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MCpuSpec {
    /// Position of the processor's router.
    pub router: Position,
    /// Latency that the processor adds to each transfer.
    pub overhead: Span,
    /// Wire from the router.
    pub link: WireSpec,
}

/// The UCIe ports of cubes.
#[derive(Clone, Debug, PartialEq)]
pub struct UcieSpec {
    /// Row of the router to which connection `i` of a west or east port is wired.
    pub connection_rows: Vec<u32>,
    /// Column of the router to which connection `i` of a north or south port is wired.
    pub connection_columns: Vec<u32>,
    /// Whether flows are spread over the connections of a side.
    pub balance: bool,
    /// Latency that a port adds to each transfer.
    pub port_overhead: Span,
    /// Latency that a connection adds to each transfer.
    pub connection_overhead: Span,
    /// Wire from a router to a connection.
    pub router_link: WireSpec,
    /// Wire from a connection to its port.
    pub port_link: WireSpec,
    /// Wire from a port to the opposite one, of a cube or an IO chiplet.
    pub phy: WireSpec,
}

/// The IO chiplets of a SIP.
#[derive(Clone, Debug, PartialEq)]
pub struct IoSpec {
    /// Side of the SIP on which each chiplet lies.
    pub chiplets: Vec<Side>,
    /// Latency that the network adds to each transfer.
    pub noc_overhead: Span,
    /// Latency that the processor adds to each transfer.
    pub cpu_overhead: Span,
    /// Latency that a port adds to each transfer.
    pub port_overhead: Span,
    /// Latency that a connection adds to each transfer.
    pub connection_overhead: Span,
    /// Wire from the network to a connection.
    pub connection_link: WireSpec,
    /// Wire from a connection to its port.
    pub port_link: WireSpec,
    /// Wire from the network to the processor.
    pub cpu_link: WireSpec,
    /// Wire from the network to the PCIe endpoint.
    pub endpoint_link: WireSpec,
}

/// The PCIe links between the SIPs and the switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieSpec {
    /// Latency that an endpoint adds to each transfer, after receiving all of it.
    pub endpoint_overhead: Span,
    /// Wire from an endpoint to the switch.
    pub link: WireSpec,
}

impl Spec {
    /// Returns the number of cubes of a SIP.
    pub fn cube_count(&self) -> u32 {
        self.cubes.w * self.cubes.h
    }

    /// Returns the number of PEs of a cube.
    pub fn pe_count(&self) -> u32 {
        u32::try_from(self.pe.routers.len()).expect("checked when read: addresses name at most 64")
    }

    /// Returns the number of connections of a port.
    pub fn connection_count(&self) -> u32 {
        u32::try_from(self.ucie.connection_rows.len())
            .expect("checked when read: one a row at most")
    }
}
