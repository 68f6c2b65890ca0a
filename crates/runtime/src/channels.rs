//! Channels between PEs, with a ring of message slots at each end.

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::pe::{PortId, PortSpec, SlotMemory, WaitMode};
use cubeyard_device::request::{PeGrid, PeRef, Request};
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_memory::pe::CubeSram;
use cubeyard_sim::Span;

use crate::context::{Context, Inner};
use crate::error::{AllocateError, RuntimeError};

/// One end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelEnd {
    /// PE of this end.
    pub pe: PeRef,
    /// Port of the PE.
    pub port: PortId,
}

/// A bidirectional channel between two PEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The two ends, on different PEs.
    pub ends: [ChannelEnd; 2],
}

/// Memory that holds the slots of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotKind {
    /// TCM of the receiver.
    #[default]
    Tcm,
    /// SRAM of the receiver's cube.
    Sram,
    /// HBM slice of the receiver.
    Hbm,
}

impl SlotKind {
    /// Names of all kinds, as in files.
    pub const NAMES: [(&'static str, Self); 3] =
        [("tcm", Self::Tcm), ("sram", Self::Sram), ("hbm", Self::Hbm)];
}

/// Parameters of the rings that channels receive into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Memory of the slots.
    pub kind: SlotKind,
    /// Number of messages that a ring holds.
    pub slots: u32,
    /// Maximum size of a message.
    pub slot_bytes: Bytes,
    /// Size of the message that returns a credit.
    pub credit_bytes: Bytes,
    /// Way in which receivers wait for a message.
    pub waiting: WaitMode,
}

/// The published values: four slots of 4 KiB in the TCM, credits of 16 bytes, and receivers that are woken.
impl Default for RingConfig {
    fn default() -> Self {
        Self {
            kind: SlotKind::Tcm,
            slots: 4,
            slot_bytes: Bytes::kib(4),
            credit_bytes: Bytes::new(16),
            waiting: WaitMode::Sleep,
        }
    }
}

#[derive(Debug)]
struct Ring {
    pe: PeRef,
    kind: SlotKind,
    address: PhysAddr,
    bytes: Bytes,
}

/// Installed channels. Dropping them removes them from their PEs, through the fabric, and frees their rings.
#[derive(Debug)]
pub struct Channels {
    context: Rc<Inner>,
    ends: Vec<ChannelEnd>,
    rings: Vec<Ring>,
    installed: Vec<Request>,
    latency: Span,
}

impl Context {
    /// Allocates the rings of channels and installs them in the PEs at both ends, through the fabric. On an error
    /// nothing stays installed.
    pub fn connect(
        &self,
        channels: &[Channel],
        config: &RingConfig,
    ) -> Result<Channels, RuntimeError> {
        self.inner.check_open()?;
        self.inner.check_channels(channels, config)?;
        let mut this = Channels {
            context: Rc::clone(&self.inner),
            ends: Vec::new(),
            rings: Vec::new(),
            installed: Vec::new(),
            latency: Span::ZERO,
        };
        this.reserve(channels)?;
        this.install(channels, config)?;
        Ok(this)
    }
}

impl Channels {
    /// Returns the duration of the installation.
    pub fn latency(&self) -> Span {
        self.latency
    }

    /// Returns the size of all rings.
    pub fn bytes(&self) -> Bytes {
        self.rings.iter().map(|ring| ring.bytes).sum()
    }

    fn reserve(&mut self, channels: &[Channel]) -> Result<(), RuntimeError> {
        for &end in channels.iter().flat_map(|channel| &channel.ends) {
            if !self.context.ports.borrow_mut().insert((end.pe, end.port)) {
                return Err(RuntimeError::PortTaken { pe: end.pe, port: end.port.0 });
            }
            self.ends.push(end);
        }
        Ok(())
    }

    fn install(&mut self, channels: &[Channel], config: &RingConfig) -> Result<(), RuntimeError> {
        let mut ports: BTreeMap<PeRef, Vec<PortSpec>> = BTreeMap::new();
        for channel in channels {
            let [a, b] = channel.ends;
            let memory = [self.ring(a.pe, config)?, self.ring(b.pe, config)?];
            let spec = |this: ChannelEnd, other: ChannelEnd, memory: [SlotMemory; 2]| PortSpec {
                port: this.port,
                peer: other.pe,
                peer_port: other.port,
                slots: config.slots,
                slot_bytes: config.slot_bytes.get(),
                memory: memory[0],
                peer_memory: memory[1],
                credit_bytes: config.credit_bytes.get(),
                waiting: config.waiting,
            };
            ports.entry(a.pe).or_default().push(spec(a, b, memory));
            ports.entry(b.pe).or_default().push(spec(b, a, [memory[1], memory[0]]));
        }
        self.context.step()?;
        let requests = requests(ports);
        let made = requests.iter().map(|request| (request.clone(), None));
        self.latency = self.context.perform(made)?;
        self.installed = requests;
        Ok(())
    }

    fn ring(&mut self, pe: PeRef, config: &RingConfig) -> Result<SlotMemory, RuntimeError> {
        self.context.step()?;
        let bytes = Bytes::new(u64::from(config.slots) * config.slot_bytes.get());
        let address = self.context.take_ring(pe, config.kind, bytes)?;
        self.rings.push(Ring { pe, kind: config.kind, address, bytes });
        Ok(match config.kind {
            SlotKind::Tcm => SlotMemory::Tcm,
            SlotKind::Sram | SlotKind::Hbm => SlotMemory::At(address),
        })
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        let (ends, rings) = (std::mem::take(&mut self.ends), std::mem::take(&mut self.rings));
        let installed = std::mem::take(&mut self.installed);
        self.context.when_free(move |context| context.disconnect(&installed, &ends, &rings));
    }
}

impl Inner {
    fn disconnect(&self, installed: &[Request], ends: &[ChannelEnd], rings: &[Ring]) {
        if !installed.is_empty() {
            let removals = installed.iter().map(removal);
            if let Err(error) = self.perform(removals) {
                self.note_release_error(&error);
            }
        }
        let mut ports = self.ports.borrow_mut();
        ends.iter().for_each(|end| {
            ports.remove(&(end.pe, end.port));
        });
        drop(ports);
        rings.iter().for_each(|ring| self.give_ring_back(ring));
    }

    fn check_channels(
        &self,
        channels: &[Channel],
        config: &RingConfig,
    ) -> Result<(), RuntimeError> {
        let RingConfig { slots, slot_bytes, .. } = *config;
        if slots == 0 || slot_bytes.is_zero() {
            return Err(RuntimeError::Ring { slots, slot_bytes });
        }
        let machine = self.machine.borrow();
        for Channel { ends: [a, b] } in channels {
            if let Some(end) = [a, b].into_iter().find(|end| !machine.topology().has_pe(end.pe)) {
                return Err(RuntimeError::NoSuchPe(end.pe));
            }
            if a.pe == b.pe {
                return Err(RuntimeError::ToItself(a.pe));
            }
        }
        Ok(())
    }

    fn take_ring(&self, pe: PeRef, kind: SlotKind, bytes: Bytes) -> Result<PhysAddr, RuntimeError> {
        if kind == SlotKind::Hbm {
            self.check_slices(pe.sip)?;
        }
        let address = match kind {
            SlotKind::Tcm => self.with_memory(pe, |memory| memory.allocate_tcm(bytes)),
            SlotKind::Hbm => self.with_memory(pe, |memory| memory.allocate_hbm(bytes)),
            SlotKind::Sram => self.with_sram(pe, |sram| sram.allocate(bytes)),
        };
        Ok(address.map_err(|source| AllocateError::Pe { pe, source })?)
    }

    fn give_ring_back(&self, ring: &Ring) {
        let Ring { pe, kind, address, bytes } = *ring;
        let freed = match kind {
            SlotKind::Tcm => self.with_memory(pe, |memory| memory.free_tcm(address, bytes)),
            SlotKind::Hbm => self.with_memory(pe, |memory| memory.free_hbm(address, bytes)),
            SlotKind::Sram => self.with_sram(pe, |sram| sram.free(address, bytes)),
        };
        freed.expect("it was taken");
        self.machine.borrow_mut().forget(address, bytes.get());
    }

    fn with_sram<T>(&self, pe: PeRef, act: impl FnOnce(&mut CubeSram) -> T) -> T {
        let mut srams = self.srams.borrow_mut();
        act(srams.entry((pe.sip, pe.cube)).or_insert_with(|| self.fresh_sram(pe)))
    }
}

type CubePorts = Vec<(PeId, Vec<PortSpec>)>;
type CubePes = (SipId, Vec<PeId>);

/// Groups ports into one request for all cubes of a SIP with the same PEs.
fn requests(ports: BTreeMap<PeRef, Vec<PortSpec>>) -> Vec<Request> {
    let mut by_cube: BTreeMap<(SipId, CubeId), CubePorts> = BTreeMap::new();
    for (at, list) in ports {
        by_cube.entry((at.sip, at.cube)).or_default().push((at.pe, list));
    }
    let mut groups: BTreeMap<CubePes, (Vec<CubeId>, Vec<Vec<PortSpec>>)> = BTreeMap::new();
    for ((sip, cube), pes) in by_cube {
        let (numbers, lists): (Vec<_>, Vec<_>) = pes.into_iter().unzip();
        let (cubes, all) = groups.entry((sip, numbers)).or_default();
        cubes.push(cube);
        all.extend(lists);
    }
    let request = |((sip, pes), (cubes, ports))| {
        let ports: Vec<Vec<PortSpec>> = ports;
        Request::Connect { on: PeGrid { sip, cubes, pes }, ports: ports.into(), remove: false }
    };
    groups.into_iter().map(request).collect()
}

/// Returns the request that removes the ports of an installation.
fn removal(request: &Request) -> (Request, Option<cubeyard_device::message::Buffer>) {
    match request.clone() {
        Request::Connect { on, ports, .. } => (Request::Connect { on, ports, remove: true }, None),
        other => unreachable!("only ports are installed here: {other:?}"),
    }
}
