//! A context: a machine, its memory, and the tensors that live there.

mod bind;
mod deferred;
mod deploy;
mod launch;
mod stall;
mod stats;

pub use bind::{BoundArgument, BoundTensor, LocalPart, Site};
pub use launch::{Argument, Event, Launch, LaunchHandle, LaunchReport, Programs, Stream};
pub use stats::{LeakReport, MemoryStats, PeSnapshot, PeUsage, RegionsUsage, ShardSnapshot};

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync;

use cubeyard_device::log::Log;
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::{Buffer, RequestId};
use cubeyard_device::pe::OpLog;
use cubeyard_device::race::Races;
use cubeyard_device::request::{Completion, Outcome, PeRef, Request};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PhysAddr, SipId};
use cubeyard_memory::free_list::Checking;
use cubeyard_memory::pe::{AddressLayout, AddressSpec, CubeSram, PeMemory};
use cubeyard_memory::virtual_space::{DeviceVa, VirtualAllocator};
use cubeyard_sim::{Span, Stop, Time};

use crate::channels::End;
use crate::error::RuntimeError;
use crate::flex::SipMemory;
use crate::storage::Storage;
use deferred::{AfterLook, Deferred};
use launch::InFlight;

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
    pub(crate) ports: RefCell<BTreeSet<End>>,
    /// Made when a tensor is first placed.
    pub(crate) virtual_space: RefCell<Option<VirtualAllocator>>,
    storages: RefCell<BTreeMap<u64, Weak<Storage>>>,
    made: Cell<u64>,
    pub(crate) in_flight: RefCell<BTreeMap<RequestId, InFlight>>,
    /// The SIPs whose memory is managed in regions, as long as somebody takes some.
    pub(crate) regions: RefCell<BTreeMap<SipId, sync::Weak<SipMemory>>>,
    closed: Cell<bool>,
    /// What could not be given back.
    troubles: RefCell<Vec<String>>,
    /// What was dropped while the machine was looked at.
    deferred: Deferred,
    /// Steps that are left until one is made to fail.
    fail_in: Cell<Option<u64>>,
    steps: Cell<u64>,
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
            made: Cell::new(0),
            in_flight: RefCell::default(),
            regions: RefCell::default(),
            closed: Cell::new(false),
            troubles: RefCell::default(),
            deferred: Deferred::default(),
            fail_in: Cell::new(None),
            steps: Cell::new(0),
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
        self.inner.machine.borrow().order(Races::synchronized);
        ran
    }

    /// Gives everything back that tensors still hold, and says what that was. What is done with them
    /// afterwards is an error.
    pub fn close(self) -> LeakReport {
        self.inner.close()
    }

    /// Makes the step of this number fail, counted from now: every allocation, mapping and transfer is one.
    /// For tests of what happens then; `None` ends it.
    pub fn fail_at(&self, step: Option<u64>) {
        self.inner.fail_in.set(step);
        self.inner.steps.set(0);
    }

    /// How many steps were taken since [`fail_at`](Self::fail_at).
    pub fn steps(&self) -> u64 {
        self.inner.steps.get()
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

    /// One more step, which may be made to fail.
    pub(crate) fn step(&self) -> Result<(), RuntimeError> {
        let step = self.steps.replace(self.steps.get() + 1);
        if self.fail_in.get() == Some(step) {
            return Err(RuntimeError::Injected { step });
        }
        Ok(())
    }

    /// A number for one more storage.
    pub(crate) fn number(&self) -> u64 {
        self.made.replace(self.made.get() + 1)
    }

    pub(crate) fn remember(&self, storage: &Rc<Storage>) {
        self.storages.borrow_mut().insert(storage.number, Rc::downgrade(storage));
    }

    pub(crate) fn forget(&self, number: u64) {
        self.storages.borrow_mut().remove(&number);
    }

    pub(crate) fn live(&self) -> Vec<Rc<Storage>> {
        self.storages.borrow().values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn trouble(&self, error: &RuntimeError) {
        self.troubles.borrow_mut().push(error.to_string());
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

    /// Makes requests at once, runs the machine until all are done, and says how long that took. The first
    /// that failed is the error; all are forgotten.
    pub(crate) fn perform(
        &self,
        requests: impl IntoIterator<Item = (Request, Option<Buffer>)>,
    ) -> Result<Span, RuntimeError> {
        self.perform_and(requests, |_, _| ()).map(|(span, ())| span)
    }

    /// As [`perform`](Self::perform), with a look at the machine before the requests are forgotten: at the one
    /// that was done last, if there was any.
    pub(crate) fn perform_and<T: Default>(
        &self,
        requests: impl IntoIterator<Item = (Request, Option<Buffer>)>,
        look: impl FnOnce(&Machine, RequestId) -> T,
    ) -> Result<(Span, T), RuntimeError> {
        let mut machine = self.machine_mut()?;
        let now = machine.now();
        let requests = requests.into_iter();
        let mut ids = Vec::with_capacity(requests.size_hint().0);
        let mut refused = None;
        for (request, buffer) in requests {
            match machine.submit_with(now, 0, request, buffer.as_ref()) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        drop(machine);
        self.run_until_done(&ids)?;
        let mut machine = self.machine.borrow_mut();
        let (mut last, mut failed) = (None, Ok(()));
        for completion in ids.iter().filter_map(|&id| machine.completion(id)) {
            last = last.max(Some((completion.done, completion.request)));
            failed = failed.and_then(|()| check(&completion));
        }
        let span = last.map_or(Span::ZERO, |(done, _)| done.since(now));
        let seen = last.map(|(_, request)| look(&machine, request)).unwrap_or_default();
        ids.into_iter().for_each(|id| machine.retire(id));
        if self.in_flight.borrow().is_empty() {
            machine.watch_mut().forget();
        }
        drop(machine);
        if let Some(error) = refused {
            return Err(error.into());
        }
        failed.map(|()| (span, seen))
    }

    /// Makes requests that read, at once: the bytes of each one after the other, in data mode, and how long
    /// it took.
    pub(crate) fn fetch(
        &self,
        requests: Vec<Request>,
    ) -> Result<(Vec<Vec<u8>>, Span), RuntimeError> {
        let zeros = |request: &Request| {
            let bytes = request.bytes().filter(|_| self.data)?;
            Some(Buffer::new(vec![0; usize::try_from(bytes).expect("it fits memory")].into()))
        };
        let requests: Vec<_> =
            requests.into_iter().map(|request| (zeros(&request), request)).collect();
        let buffers: Vec<Buffer> =
            requests.iter().filter_map(|(buffer, _)| buffer.clone()).collect();
        let requests = requests.into_iter().map(|(buffer, request)| (request, buffer));
        let span = self.perform(requests)?;
        Ok((buffers.iter().map(|buffer| buffer.take()).collect(), span))
    }

    /// Runs the machine until these are done; launches under way go on meanwhile.
    fn run_until_done(&self, ids: &[RequestId]) -> Result<(), RuntimeError> {
        let mut machine = self.machine.borrow_mut();
        if self.in_flight.borrow().is_empty() {
            let stop = machine.run();
            return stopped(&machine, stop);
        }
        // A launch that has come to a stop is the business of whoever waits for it.
        let mut open = ids.to_vec();
        loop {
            while open.pop_if(|id| machine.completion(*id).is_some()).is_some() {}
            if open.is_empty() {
                return Ok(());
            }
            let next = machine.engine().next_time().unwrap_or(Time::NEVER);
            let stop = machine.run_until(next);
            if stop != Stop::Deadline {
                let is_done = ids.iter().all(|&id| machine.completion(id).is_some());
                return if is_done { Ok(()) } else { stopped(&machine, stop) };
            }
        }
    }

    /// Runs the machine until nothing is left to happen, and takes in what came of launches.
    pub(crate) fn run_and_settle(&self) -> Result<(), RuntimeError> {
        self.run()?;
        let settled = self.settle();
        self.tidy()?;
        settled
    }

    /// Runs the machine until nothing is left to happen. Launches that cannot go on are stopped, and are the
    /// error.
    fn run(&self) -> Result<(), RuntimeError> {
        let mut machine = self.machine_mut()?;
        let stop = machine.run();
        let stopped = stopped(&machine, stop);
        drop(machine);
        stopped.or_else(|stalled| self.abandon(stalled))
    }

    /// Once no launch is under way, forgets what was kept for launches, and drops messages that nobody has
    /// received.
    fn tidy(&self) -> Result<(), RuntimeError> {
        if self.in_flight.borrow().is_empty() {
            let mut machine = self.machine_mut()?;
            machine.watch_mut().forget();
            machine.clear_mail();
        }
        self.give_back_dropped();
        Ok(())
    }

    /// Runs the machine until a launch is done or the limit has passed; then its programs are stopped.
    pub(crate) fn run_for(&self, limit: Span, launch: RequestId) -> Result<(), RuntimeError> {
        let mut machine = self.machine_mut()?;
        let deadline = machine.now() + limit;
        let stop = machine.run_until(deadline);
        if stop != Stop::Deadline || machine.completion(launch).is_some() {
            let stopped = stopped(&machine, stop);
            drop(machine);
            return stopped.or_else(|stalled| self.abandon(stalled));
        }
        let waiting = machine.stop_programs(launch);
        drop(machine);
        // Others may wait for what the launch would have sent. They are stopped, too, and told so themselves.
        self.run().or_else(told_otherwise)?;
        self.settle().or_else(told_otherwise)?;
        self.tidy()?;
        Err(RuntimeError::Deadline { limit, waiting: waiting.join("; ") })
    }

    fn close(&self) -> LeakReport {
        if self.closed.get() {
            return LeakReport::default();
        }
        for ended in [self.run_and_settle(), self.tidy()] {
            ended.unwrap_or_else(|error| self.trouble(&error));
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
        LeakReport { tensors, regions, troubles: self.troubles.take() }
    }
}

/// What a completion says that failed.
pub(crate) fn check(completion: &Completion) -> Result<(), RuntimeError> {
    match &completion.outcome {
        Outcome::Failed { origin, what } => {
            Err(RuntimeError::Machine { origin: origin.clone(), what: what.clone() })
        }
        _ => Ok(()),
    }
}

/// Passes over what whoever waits for a launch is told of it.
fn told_otherwise(error: RuntimeError) -> Result<(), RuntimeError> {
    match error {
        RuntimeError::Machine { .. } | RuntimeError::Stalled(_) => Ok(()),
        other => Err(other),
    }
}

fn stopped(machine: &Machine, stop: Stop) -> Result<(), RuntimeError> {
    match stop {
        Stop::Deadlock(waiting) => {
            let lines: Vec<_> = waiting.iter().map(|waiting| machine.describe(waiting)).collect();
            Err(RuntimeError::Stalled(lines.join("; ")))
        }
        Stop::OutOfTime => Err(RuntimeError::OutOfTime),
        Stop::Idle | Stop::Deadline => Ok(()),
    }
}
