//! Contexts: a machine with the allocators of its memory.

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

/// Configuration of a [`Context`].
#[derive(Clone, Debug)]
pub struct ContextConfig {
    /// Topology of the simulated machine.
    pub topology: Topology,
    /// Whether memory holds data; without data, only times are simulated.
    pub data: bool,
    /// Kind of addresses of tensors.
    pub addressing: Addressing,
    /// First virtual address of tensors, a multiple of the MMU's page. The default, 2⁵¹, is above all physical
    /// addresses, so that an unmapped virtual address is never mistaken for a physical one. ADR-0048 D4 uses 4 GiB
    /// ([`VirtualSpec::CONTEXT_BASE`](cubeyard_memory::virtual_space::VirtualSpec::CONTEXT_BASE)).
    pub virtual_base: DeviceVa,
}

/// Kind of addresses of tensors.
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

/// A simulated machine with its memory, on which tensors are placed and kernels launched. See the [crate](crate) for
/// an example.
///
/// Cheap to clone: clones share the machine. Dropping the last clone, or calling [`close`](Self::close) on any, frees
/// everything that its tensors hold.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) inner: Rc<Inner>,
    /// Closes the context when the last clone is dropped, even if tensors still refer to it.
    _open: Rc<Open>,
}

#[derive(Debug)]
struct Open(Rc<Inner>);

/// State shared by a context, its tensors, channels and launches.
pub(crate) struct Inner {
    pub(crate) addressing: Addressing,
    virtual_base: DeviceVa,
    pub(crate) data: bool,
    pub(crate) machine: RefCell<Machine>,
    layout: AddressLayout,
    /// Allocators of each PE, created on first use.
    pub(crate) memory: RefCell<BTreeMap<PeRef, PeMemory>>,
    /// Allocator of each cube's SRAM, created on first use.
    pub(crate) srams: RefCell<BTreeMap<(SipId, CubeId), CubeSram>>,
    /// Ports that channels use.
    pub(crate) ports: RefCell<BTreeSet<(PeRef, PortId)>>,
    /// Allocator of virtual addresses, created on first use.
    pub(crate) virtual_space: RefCell<Option<VirtualAllocator>>,
    storages: RefCell<BTreeMap<TensorId, Weak<Storage>>>,
    deployed: Cell<u64>,
    pub(crate) in_flight: RefCell<BTreeMap<RequestId, InFlight>>,
    /// Memory of the SIPs that are managed in regions, as long as an allocator or a block uses it.
    pub(crate) regions: RefCell<BTreeMap<SipId, sync::Weak<SipMemory>>>,
    /// SIPs whose memory is shared with its owner.
    pub(crate) shared: RefCell<BTreeSet<SipId>>,
    closed: Cell<bool>,
    /// Errors of failed releases.
    release_errors: RefCell<Vec<String>>,
    /// Releases that wait until the machine is no longer borrowed.
    deferred: Deferred,
    steps: Steps,
}

impl Context {
    /// Creates a context with its own machine.
    ///
    /// # Panics
    /// If the topology's memories do not fit the address format; this is checked when a topology is read.
    pub fn new(config: ContextConfig) -> Self {
        let ContextConfig { topology, data, addressing, virtual_base } = config;
        let spec = topology.spec();
        let layout = AddressSpec {
            hbm_bytes_per_cube: spec.hbm.capacity,
            hbm_slices_per_cube: spec.pe_count(),
            tcm_bytes_per_pe: spec.pe.tcm,
            // Kernels allocate their tiles from this part themselves.
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
            shared: RefCell::default(),
            closed: Cell::new(false),
            release_errors: RefCell::default(),
            deferred: Deferred::default(),
            steps: Steps::default(),
        };
        let inner = Rc::new(inner);
        Self { _open: Rc::new(Open(Rc::clone(&inner))), inner }
    }

    /// Returns the current simulated time.
    pub fn now(&self) -> Time {
        self.inner.machine.borrow().now()
    }

    /// Starts recording every operation of the PEs, for reports and traces.
    pub fn keep_ops(&self) {
        self.inner.machine.borrow().keep_ops();
    }

    /// Stops recording and returns the recorded operations.
    pub fn take_ops(&self) -> OpLog {
        self.inner.machine.borrow().take_ops()
    }

    /// Calls `look` with the machine, which cannot run in the meantime: operations that would run it return
    /// [`RuntimeError::Looked`]. Memory of tensors and channels that `look` drops is freed right after it.
    pub fn machine<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        let after = AfterLook(&self.inner);
        let machine = self.inner.machine.borrow();
        let seen = look(&machine);
        drop(machine);
        drop(after);
        seen
    }

    /// Returns the number of launches whose completion has not been processed.
    pub fn under_way(&self) -> usize {
        self.inner.in_flight.borrow().len()
    }

    /// Runs the machine until all launches are done.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        let ran = self.inner.run_and_settle();
        self.inner.machine.borrow().races(Races::synchronized);
        ran
    }

    /// Frees everything that tensors still hold, and reports it. Later operations on them return
    /// [`RuntimeError::Closed`].
    pub fn close(self) -> LeakReport {
        self.inner.close()
    }
}

/// Omits the machine, which has a hundred thousand parts.
impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addressing, data, closed, .. } = self;
        let mut text = f.debug_struct("Inner");
        text.field("addressing", addressing).field("data", data).field("closed", closed);
        text.finish_non_exhaustive()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
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
