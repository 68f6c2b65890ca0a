//! A context: a machine, its memory, and the tensors that live there.

mod deferred;
mod deploy;
mod faults;
mod flight;
mod run;
mod stats;
mod storage;

pub use faults::Faults;
pub use flight::LaunchReport;
pub(crate) use flight::{FlightOutcome, InFlight};
pub use stats::{LeakReport, MemoryStats, PeSnapshot, PeUsage, RegionsUsage, ShardSnapshot};
pub(crate) use storage::Storage;
pub use storage::{DeployedShard, TensorId};

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync;

use cubeyard_device::log::Log;
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::RequestId;
use cubeyard_device::pe::{OpLog, PortId};
use cubeyard_device::race::Races;
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PhysAddr, SipId};
use cubeyard_memory::free_list::Checking;
use cubeyard_memory::pe::{AddressLayout, AddressSpec, CubeSram, PeMemory};
use cubeyard_memory::virtual_space::{DeviceVa, VirtualAllocator};
use cubeyard_sim::Time;

use crate::error::RuntimeError;
use crate::sip_memory::SipMemory;
use deferred::{AfterLook, Deferred};
use faults::Steps;

/// How a context works.
#[derive(Clone, Debug)]
pub struct ContextConfig {
    /// The machine.
    pub topology: Topology,
    /// Whether memory holds data; without it, only time is simulated.
    pub data: bool,
    /// Whether tensors have virtual addresses that are mapped in the PEs' MMUs; else kernels and DMA use
    /// physical ones.
    pub addressing: Addressing,
    /// First virtual address of tensors, a multiple of the MMU's page. By default it is the first that no physical
    /// address can be, 2⁵¹, so that a virtual address which a PE does not map is never taken for a physical one.
    /// [`VirtualSpec::CONTEXT_BASE`](cubeyard_memory::virtual_space::VirtualSpec::CONTEXT_BASE), 4 GiB, is what ADR-0048 D4 has.
    pub virtual_base: DeviceVa,
}

/// Which addresses tensors have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// One contiguous virtual range, mapped in the MMUs (ADR-0011, phase 1).
    #[default]
    Virtual,
    /// Physical addresses only (ADR-0011, phase 0).
    Physical,
}

impl Default for ContextConfig {
    fn default() -> Self {
        let (topology, addressing) = (Topology::embedded(), Addressing::default());
        let virtual_base = DeviceVa::new(1 << PhysAddr::BITS);
        Self { topology, data: false, addressing, virtual_base }
    }
}

/// What a host program talks to. See the [crate](crate) for an example.
///
/// Dropping it, or [`close`](Self::close), gives everything back that its tensors hold.
#[derive(Debug)]
pub struct Context {
    pub(crate) inner: Rc<Inner>,
}

/// What a context and its tensors share.
pub(crate) struct Inner {
    pub(crate) addressing: Addressing,
    virtual_base: DeviceVa,
    pub(crate) data: bool,
    pub(crate) machine: RefCell<Machine>,
    layout: AddressLayout,
    /// Made when a PE is first used.
    pub(crate) memory: RefCell<BTreeMap<PeRef, PeMemory>>,
    /// The SRAM of each cube, made when it is first used.
    pub(crate) srams: RefCell<BTreeMap<(SipId, CubeId), CubeSram>>,
    /// The ports of PEs that are in use.
    pub(crate) ports: RefCell<BTreeSet<(PeRef, PortId)>>,
    /// Made when a tensor is first placed.
    pub(crate) virtual_space: RefCell<Option<VirtualAllocator>>,
    storages: RefCell<BTreeMap<TensorId, Weak<Storage>>>,
    deployed: Cell<u64>,
    pub(crate) in_flight: RefCell<BTreeMap<RequestId, InFlight>>,
    /// The SIPs whose memory is managed in regions, as long as somebody takes some.
    pub(crate) regions: RefCell<BTreeMap<SipId, sync::Weak<SipMemory>>>,
    closed: Cell<bool>,
    /// What could not be given back.
    release_errors: RefCell<Vec<String>>,
    /// What was dropped while the machine was looked at.
    deferred: Deferred,
    steps: Steps,
}

impl Context {
    /// A context on a machine of its own.
    ///
    /// # Panics
    /// If the topology's memories fit no address, which it has checked.
    pub fn new(config: ContextConfig) -> Self {
        let ContextConfig { topology, data, addressing, virtual_base } = config;
        let spec = topology.spec();
        let layout = AddressSpec {
            hbm_bytes_per_cube: spec.hbm.capacity,
            hbm_slices_per_cube: spec.pe_count(),
            tcm_bytes_per_pe: spec.pe.tcm,
            // What the tiles of kernels take is not for others.
            tcm_scheduler_reserved_bytes: spec.pe.core.scratch,
            sram_bytes_per_cube: spec.sram.capacity,
        };
        let layout = layout.resolve().expect("checked when the topology was read");
        let machine = MachineBuilder::new(topology).data(data).watched(Log::without_programs());
        let inner = Inner {
            addressing,
            virtual_base,
            data,
            machine: RefCell::new(machine),
            layout,
            memory: RefCell::default(),
            srams: RefCell::default(),
            ports: RefCell::default(),
            virtual_space: RefCell::default(),
            storages: RefCell::default(),
            deployed: Cell::new(0),
            in_flight: RefCell::default(),
            regions: RefCell::default(),
            closed: Cell::new(false),
            release_errors: RefCell::default(),
            deferred: Deferred::default(),
            steps: Steps::default(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// The machine's present.
    pub fn now(&self) -> Time {
        self.inner.machine.borrow().now()
    }

    /// Keeps every operation of the PEs from now on, for reports and traces.
    pub fn keep_ops(&self) {
        self.inner.machine.borrow().keep_ops();
    }

    /// The operations that were kept; they are kept no more.
    pub fn take_ops(&self) -> OpLog {
        self.inner.machine.borrow().take_ops()
    }

    /// Looks at the machine.
    ///
    /// It stands still meanwhile: whatever would have to run it is [`RuntimeError::Looked`]. What tensors and
    /// channels hold that are dropped in `look` is given back right after it.
    pub fn machine<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        let after = AfterLook(&self.inner);
        let machine = self.inner.machine.borrow();
        let seen = look(&machine);
        drop(machine);
        drop(after);
        seen
    }

    /// Number of launches whose end the context has not seen.
    pub fn under_way(&self) -> usize {
        self.inner.in_flight.borrow().len()
    }

    /// Waits until all launches are done.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        let ran = self.inner.run_and_settle();
        self.inner.machine.borrow().races(Races::synchronized);
        ran
    }

    /// Gives everything back that tensors still hold, and says what that was. What is done with them
    /// afterwards is an error.
    pub fn close(self) -> LeakReport {
        self.inner.close()
    }
}

/// Without the machine, which has a hundred thousand parts.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addressing, data, closed, .. } = self;
        let mut text = f.debug_struct("Inner");
        text.field("addressing", addressing).field("data", data).field("closed", closed);
        text.finish_non_exhaustive()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl Inner {
    pub(crate) fn check_open(&self) -> Result<(), RuntimeError> {
        if self.closed.get() { Err(RuntimeError::Closed) } else { Ok(()) }
    }

    pub(crate) fn live(&self) -> Vec<Rc<Storage>> {
        self.storages.borrow().values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn note_release_error(&self, error: &RuntimeError) {
        self.release_errors.borrow_mut().push(error.to_string());
    }

    /// The allocators of a PE, made when it is first used.
    pub(crate) fn with_memory<T>(&self, pe: PeRef, act: impl FnOnce(&mut PeMemory) -> T) -> T {
        let mut memory = self.memory.borrow_mut();
        let fresh = || {
            PeMemory::new(pe.sip, pe.cube, pe.pe, &self.layout, Checking::Checked)
                .expect("a PE of the machine")
        };
        act(memory.entry(pe).or_insert_with(fresh))
    }

    pub(crate) fn fresh_sram(&self, pe: PeRef) -> CubeSram {
        CubeSram::new(pe.sip, pe.cube, &self.layout, Checking::Checked)
    }

    fn close(&self) -> LeakReport {
        if self.closed.get() {
            return LeakReport::default();
        }
        for ended in [self.run_and_settle(), self.tidy()] {
            ended.unwrap_or_else(|error| self.note_release_error(&error));
        }
        let live = self.live();
        let tensors = live.iter().map(|storage| stats::leak(storage)).collect();
        for storage in live {
            if let Some(taken) = storage.taken.take() {
                self.give_back(taken, storage.shards.clone());
            }
        }
        self.closed.set(true);
        let regions = self.regions_usage().iter().map(ToString::to_string).collect();
        LeakReport { tensors, regions, release_errors: self.release_errors.take() }
    }
}
