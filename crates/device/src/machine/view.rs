//! Read-only access to a machine.

use std::cell::{Cell, Ref};

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{PhysAddr, SipId};
use cubeyard_memory::device::RegionId;
use cubeyard_sim::{Bandwidth, Engine, Network, NodeId, SignalId, Waiter, Waiting};

use super::{Detail, Machine};
use crate::formula::{self, LatencyParts};
use crate::log::{Log, Watch};
use crate::message::{Access, Done, RequestId};
use crate::model::{Memory, Mmu, Part, PeCpu};
use crate::pe::{CoreReport, Dma, OpLog};
use crate::request::{Envelope, PeRef, RequestError};
use crate::topology::Topology;

/// Read-only view of a machine: its parts, its requests and their expected latencies.
#[derive(Debug)]
pub struct MachineView<'a, W = Log> {
    pub(super) machine: &'a Machine<W>,
}

impl<W> Clone for MachineView<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for MachineView<'_, W> {}

impl<'a, W: Watch> MachineView<'a, W> {
    fn topology(self) -> &'a Topology {
        self.machine.topology()
    }

    /// Returns the discrete-event engine of the machine.
    pub fn engine(self) -> &'a Engine<Part, W> {
        &self.machine.engine
    }

    /// Returns the nodes and links that the engine simulates.
    pub fn network(self) -> &'a Network {
        self.machine.engine.network()
    }

    /// Returns the log of transfers.
    pub fn log(self) -> &'a Log {
        self.machine.engine.observer().log()
    }

    /// Returns the log of the PEs' operations; empty unless [recording](Machine::keep_ops) is on.
    pub fn ops(self) -> Ref<'a, OpLog> {
        self.machine.shared.ops.borrow()
    }

    /// Describes a waiting component or task, naming its nodes.
    pub fn describe(self, waiting: &Waiting) -> String {
        match &waiting.who {
            Waiter::Component(node) => {
                format!("{} waits for {}", self.topology().node(*node).name, waiting.what)
            }
            _ => waiting.to_string(),
        }
    }

    /// Returns the PE with a name such as `sip0.cube3.pe2`.
    pub fn pe(self, name: &str) -> Result<PeRef, RequestError> {
        let pe = self.topology().pe_of(self.topology().find(name)?);
        pe.ok_or_else(|| RequestError::NoSuchPart { what: format!("PE {name}") })
    }

    /// Returns the address at `offset` in a PE's slice of the HBM.
    pub fn hbm_address(self, pe: PeRef, offset: u64) -> Result<PhysAddr, RequestError> {
        let slice = self.topology().spec().hbm.slice;
        PhysAddr::pe_hbm(pe.sip, pe.cube, pe.pe, Bytes::new(offset), slice)
            .map_err(|error| RequestError::NoSuchPart { what: error.to_string() })
    }

    /// Returns the physical address of an offset in a region of a SIP. For a physical function, the region's id is its
    /// address; for a virtual function, the firmware's table holds the address.
    pub fn region_address(
        self,
        sip: SipId,
        region: RegionId,
        offset: Bytes,
    ) -> Result<PhysAddr, RequestError> {
        let device = self.machine.regions.get(&sip).and_then(std::sync::Weak::upgrade);
        let start = device.and_then(|device| device.physical_address(region));
        let bits = start.and_then(|start| start.checked_add(offset.get()));
        let address = bits.and_then(|bits| PhysAddr::from_bits(bits).ok());
        address.filter(|address| address.sip() == sip).ok_or(RequestError::NoSuchRegion {
            sip,
            region,
            offset,
        })
    }

    /// Returns a request as it was submitted.
    ///
    /// # Panics
    /// If there is no such request, or it is [retired](Machine::retire).
    pub fn envelope(self, request: RequestId) -> &'a Envelope {
        &self.machine.requests[&request].envelope
    }

    /// Returns all requests that are not retired, in the order of their numbers.
    pub fn envelopes(self) -> impl ExactSizeIterator<Item = &'a Envelope> {
        self.machine.requests.values().map(|request| &request.envelope)
    }

    /// Returns the signal that a request raises when it is done.
    ///
    /// # Panics
    /// If there is no such request, or it is [retired](Machine::retire).
    pub fn done_signal(self, request: RequestId) -> SignalId {
        self.machine.requests[&request].done
    }

    /// Returns the access that a physical memory request made.
    pub fn access(self, request: RequestId) -> Option<&'a Access> {
        match &self.machine.requests.get(&request)?.detail {
            Detail::Access(access) => Some(access),
            Detail::VirtualAccess | Detail::Command(_) => None,
        }
    }

    /// Returns the report of a launch's program on a PE, if it has ended.
    pub fn core_report(self, launch: RequestId, pe: PeRef) -> Option<CoreReport> {
        self.cpu(self.topology().pe_cpu(pe))?.core().report(launch)
    }

    /// Returns the memory that holds an address.
    pub fn memory_at(self, address: PhysAddr) -> Option<&'a Memory> {
        self.memory(self.topology().resolve(address).ok()?)
    }

    /// Returns the MMU of a PE.
    pub fn mmu(self, pe: PeRef) -> Option<&'a Mmu> {
        self.machine.check_pe(pe).ok()?;
        self.mmu_at(self.topology().pe_dma(pe))
    }

    /// Returns the MMUs of all PEs, in order.
    pub fn mmus(self) -> impl Iterator<Item = (PeRef, &'a Mmu)> {
        self.nodes()
            .filter_map(move |node| Some((self.topology().pe_of(node)?, self.mmu_at(node)?)))
    }

    /// Returns the bytes that programs have moved by DMA: those in the slices of their own PEs, and all.
    pub fn moved(self) -> [u64; 2] {
        let of = |node| match self.machine.engine.component(node) {
            Some(Part::PeDma(dma)) => dma.moved(),
            _ => [0; 2],
        };
        self.nodes().map(of).fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }

    /// Returns the physical address of a range of a PE's virtual addresses, if the range is contiguous there.
    pub fn physical(self, pe: PeRef, address: u64, bytes: u64) -> Option<PhysAddr> {
        let mmu = self.mmu(pe)?;
        match mmu.place(address) {
            Some((to, left)) => (left >= bytes).then_some(to),
            None => PhysAddr::from_bits(address).ok().filter(|_| !mmu.is_strict()),
        }
    }

    /// Returns the latency of a memory request on an idle machine, by the closed form. `None` for commands, and if a
    /// custom component is the memory.
    pub fn unloaded_latency(self, request: RequestId) -> Option<LatencyParts> {
        let access = self.access(request)?;
        let network = self.network();
        let start = &network.nodes()[network.link(*access.there.first()?).from.index()];
        let channels = self.memory_of(access)?.channels().spec();
        Some(formula::unloaded_latency(network, channels, access, start.overhead))
    }

    /// Returns the latency of a PE's DMA access on an idle machine, by the closed form and with the current mappings of
    /// its MMU. Rows count as if they were contiguous. `None` for an access to several memories, and if a custom
    /// component is the memory.
    pub fn unloaded_dma_latency(self, pe: PeRef, dma: &Dma) -> Option<LatencyParts> {
        let node = self.topology().pe_dma(pe);
        let extent = dma.extent();
        let address = self.physical(pe, dma.address, extent)?;
        let wiring = &self.machine.shared.wiring;
        let memory = wiring.memory(address, extent).ok()?;
        let (there, back) = wiring.routes(node, memory).ok()?;
        let access = Access {
            request: RequestId::new(0),
            direction: dma.direction,
            address: address.sub_offset().get(),
            bytes: dma.bytes,
            rows: None,
            there,
            back: Some(back),
            data: None,
            written: Cell::default(),
            done: Done::Core(node, 0),
        };
        let overhead = self.network().nodes()[node.index()].overhead + self.mmu(pe)?.overhead();
        let channels = self.memory_of(&access)?.channels().spec();
        Some(formula::unloaded_latency(self.network(), channels, &access, overhead))
    }

    /// Returns the total bandwidth of all channels of a request's memory; `None` if a custom component is the memory.
    pub fn memory_bandwidth(self, request: RequestId) -> Option<Bandwidth> {
        self.memory_of(self.access(request)?)?.channels().spec().bandwidth()
    }

    pub(crate) fn memory_of(self, access: &Access) -> Option<&'a Memory> {
        self.memory(self.network().link(*access.there.last()?).to)
    }

    fn memory(self, node: NodeId) -> Option<&'a Memory> {
        match self.machine.engine.component(node)? {
            Part::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    fn mmu_at(self, node: NodeId) -> Option<&'a Mmu> {
        match self.machine.engine.component(node)? {
            Part::PeDma(dma) => Some(dma.mmu()),
            _ => None,
        }
    }

    pub(super) fn cpu(self, node: NodeId) -> Option<&'a PeCpu> {
        match self.machine.engine.component(node)? {
            Part::PeCpu(cpu) => Some(cpu),
            _ => None,
        }
    }

    pub(super) fn nodes(self) -> impl Iterator<Item = NodeId> + use<W> {
        (0..self.topology().nodes().len()).map(NodeId::new)
    }
}
