//! A machine: the simulated parts of a topology, and the requests to them.

mod builder;
mod command;
mod notices;
mod parts;
mod rehearsal;
mod submit;
mod view;

pub use builder::MachineBuilder;
pub use command::{CommandStage, CommandStages};
pub use rehearsal::Rehearsal;
pub use view::MachineView;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use cubeyard_memory::address::{PhysAddr, SipId};
use cubeyard_memory::device::DeviceMemory;
use cubeyard_sim::{Engine, NodeId, SignalId, Span, Stop, Time};

use crate::log::{Log, Watch};
use crate::message::{Access, Buffer, CommandBody, HostCommand, Message, PeCpuMessage, RequestId};
use crate::model::Part;
use crate::pe::{OpLog, Program, Shared};
use crate::race::Races;
use crate::request::{Completion, Envelope, Outcome, PeRef, Request, RequestError, Submission};
use crate::shared_memory::{Dealer, Dealt, DealtCube, SharedMemory};
use crate::topology::{NodeKind, Topology};
use command::LastMapping;

/// A simulated accelerator system.
///
/// ```
/// use cubeyard_device::machine::Machine;
/// use cubeyard_device::message::Direction;
/// use cubeyard_device::request::Request;
/// use cubeyard_device::topology::Topology;
///
/// let mut machine = Machine::new(Topology::embedded());
/// let pe = machine.view().pe("sip0.cube0.pe0")?;
/// let address = machine.view().hbm_address(pe, 0)?;
/// let read = Request::PeDma { from: pe, direction: Direction::Read, address, bytes: 16 << 10 };
/// let read = machine.submit(read)?;
/// machine.run();
/// let completion = machine.completion(read).unwrap();
/// assert_eq!(completion.latency().ns().round(), 77.0);
/// # Ok::<(), cubeyard_device::request::RequestError>(())
/// ```
#[derive(Debug)]
pub struct Machine<W = Log> {
    shared: Rc<Shared>,
    engine: Engine<Part, W>,
    /// Number of requests submitted so far.
    made: usize,
    /// Requests that are not retired.
    requests: BTreeMap<RequestId, Submitted>,
    last_mapping: Option<LastMapping>,
    /// Device of each SIP, whose firmware translates the SIP's region ids.
    regions: BTreeMap<SipId, Weak<dyn DeviceMemory>>,
    /// Memory that the machine shares with its owner.
    dealt: Vec<Dealt>,
}

#[derive(Debug)]
struct Submitted {
    envelope: Envelope,
    done: SignalId,
    detail: Detail,
}

#[derive(Debug)]
enum Detail {
    Access(Box<Access>),
    VirtualAccess,
    Command(Rc<HostCommand>),
}

/// Checked request: its start node, and the message that starts it.
struct Start {
    node: NodeId,
    message: Message,
    done: SignalId,
    detail: Detail,
}

impl Machine {
    /// Creates a machine at time zero.
    pub fn new(topology: Topology) -> Self {
        MachineBuilder::new(topology).build()
    }
}

impl<W: Watch> Machine<W> {
    /// Returns the topology that the machine was built from.
    pub fn topology(&self) -> &Topology {
        self.shared.wiring.topology()
    }

    /// Returns the current simulated time.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// Returns a read-only view of the parts, requests and logs.
    pub fn view(&self) -> MachineView<'_, W> {
        MachineView { machine: self }
    }

    /// Submits a request at the current time.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, RequestError> {
        self.submit_with(request.into())
    }

    /// Submits a request with a time, a buffer, or signals to wait for.
    pub fn submit_with(&mut self, submission: Submission<'_>) -> Result<RequestId, RequestError> {
        let Submission { request: body, at, buffer, after } = submission;
        let request = RequestId::new(self.made);
        let prepared = self.preparation(&body);
        let made = at.max(self.now());
        check_buffer(&body, buffer)?;
        let Start { node, message, done, detail } = self.begin(request, &body, buffer)?;
        self.made += 1;
        let envelope = Envelope { request, made, body };
        self.requests.insert(request, Submitted { envelope, done, detail });
        let Some(after) = after else {
            self.engine.call_at(made + prepared, node, message);
            return Ok(request);
        };
        self.engine.spawn(format!("request {request}"), |tasks| async move {
            for signal in after {
                tasks.wait(signal).await;
            }
            if prepared > Span::ZERO {
                tasks.sleep(prepared).await;
            }
            tasks.call(node, message);
        });
        Ok(request)
    }

    /// Returns the time that the host takes to prepare a request before sending it.
    fn preparation(&self, body: &Request) -> Span {
        match body {
            Request::KernelLaunch { .. } => self.topology().spec().host_launch,
            _ => Span::ZERO,
        }
    }

    /// Loads the program that a launch runs on a PE. Call it before the launch starts.
    ///
    /// # Panics
    /// If the machine has no such PE, or a custom component is its processor.
    pub fn load(&mut self, launch: RequestId, pe: PeRef, program: Box<dyn Program>) {
        let node = self.topology().pe_cpu(pe);
        self.races(|races| races.parted((launch, node), program.parts()));
        match self.engine.component_mut(node) {
            Some(Part::PeCpu(cpu)) => cpu.load(launch, program),
            _ => panic!("{pe} has no processor of ours"),
        }
    }

    /// Runs until no event is left.
    pub fn run(&mut self) -> Stop {
        self.engine.run()
    }

    /// Runs until no event is left, or until `deadline` has passed.
    pub fn run_until(&mut self, deadline: Time) -> Stop {
        self.engine.run_until(deadline)
    }

    /// Returns the outcome of a request, if it is done.
    pub fn completion(&self, request: RequestId) -> Option<Completion> {
        let Submitted { envelope, done, detail } = self.requests.get(&request)?;
        let done = self.engine.tasks().raised(*done)?;
        let Envelope { made, body, .. } = envelope;
        let outcome = match (self.shared.failures.get(request), detail) {
            (Some(failure), _) => {
                let origin = self.topology().node(failure.origin).name.clone();
                Outcome::Failed { origin, what: failure.what }
            }
            (None, Detail::Command(command)) => command::outcome(command),
            (None, _) => Outcome::Moved { bytes: body.bytes().unwrap_or_default() },
        };
        Some(Completion { request, made: *made, done, outcome })
    }

    /// Forgets a completed request, with its logs and reports. Its number is not reused.
    pub fn retire(&mut self, request: RequestId) {
        let Some(Submitted { done, detail, .. }) = self.requests.remove(&request) else { return };
        let tasks = self.engine.tasks();
        tasks.release(done);
        self.shared.failures.forget(request);
        self.shared.notices.borrow_mut().forget(request);
        if let Detail::Command(command) = detail
            && let CommandBody::Launch(launch) = &command.body
        {
            launch.armed.iter().for_each(|&armed| tasks.release(armed));
            for pe in command.pes() {
                if let Some(Part::PeCpu(cpu)) = self.engine.component_mut(pe.node) {
                    cpu.core_mut().forget(request);
                }
            }
        }
    }

    /// Stops the programs of a launch, and describes the event that each waited for.
    pub fn stop_programs(&mut self, launch: RequestId) -> Vec<String> {
        let Some(command) = self.command_of(launch).cloned() else { return Vec::new() };
        let mut waiting = Vec::new();
        for pe in command.pes() {
            if let Some(Part::PeCpu(cpu)) = self.engine.component_mut(pe.node)
                && let Some(what) = cpu.core_mut().stop(launch)
            {
                waiting.push(format!("{} waits for {what}", self.topology().node(pe.node).name));
                self.engine.call(pe.node, PeCpuMessage::Stopped.into());
            }
        }
        waiting
    }

    /// Forgets the contents of a memory range, for example when it is freed. Takes no simulated time.
    pub fn forget(&mut self, address: PhysAddr, bytes: u64) {
        let Ok(node) = self.topology().resolve(address) else { return };
        let from = address.sub_offset().get();
        self.races(|races| races.forget(node, from..from + bytes));
        if let Some(Part::Memory(memory)) = self.engine.component_mut(node)
            && let Some(contents) = memory.contents_mut()
        {
            contents.forget(from, bytes);
        }
    }

    /// Makes memory of another owner the HBM of a SIP. PEs of all SIPs can access it by its addresses. The contents of the
    /// HBM are replaced.
    pub fn share(&mut self, sip: SipId, memory: Arc<dyn SharedMemory>) {
        let dealer = Dealer::new(memory, self.topology().spec(), sip);
        let dealt: Dealt = Rc::new(RefCell::new(dealer));
        self.dealt.push(Rc::clone(&dealt));
        let shared = Rc::clone(&self.shared);
        for (index, node) in shared.wiring.topology().nodes().iter().enumerate() {
            match self.engine.component_mut(NodeId::new(index)) {
                Some(Part::PeDma(dma)) => {
                    if let Some(pe) = node.place.pe_ref() {
                        dma.mmu_mut().share(Rc::clone(&dealt), pe);
                    }
                }
                Some(Part::Memory(memory)) if node.kind == NodeKind::Hbm => {
                    let here = node.place.pe_ref().filter(|pe| pe.sip == sip);
                    if let Some((pe, contents)) = here.zip(memory.contents_mut()) {
                        contents.share(DealtCube { of: Rc::clone(&dealt), cube: pe.cube });
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the addresses of all blocks of shared memory now, in order for each SIP. Programs that are launched later
    /// may access them; blocks that are gone lose their places. No program may be running.
    pub fn refresh_shared(&mut self) -> Vec<Range<u64>> {
        self.dealt.iter().flat_map(|dealt| dealt.borrow_mut().refresh()).collect()
    }

    /// Sets the device whose firmware knows the regions of a SIP's memory. The device is not kept alive.
    pub fn set_regions(&mut self, sip: SipId, device: Weak<dyn DeviceMemory>) {
        self.regions.insert(sip, device);
    }

    /// Returns mutable access to the log.
    pub fn watch_mut(&mut self) -> &mut W {
        self.engine.observer_mut()
    }

    /// Starts recording every operation of the PEs, for [`MachineView::ops`].
    pub fn keep_ops(&self) {
        self.shared.ops.borrow_mut().keep();
    }

    /// Takes the log of the PEs' operations and stops recording.
    pub fn take_ops(&self) -> OpLog {
        self.shared.ops.take()
    }

    /// Calls a function with the race detector; `None` without data mode.
    pub fn races<T>(&self, act: impl FnOnce(&mut Races) -> T) -> Option<T> {
        self.shared.races.with(act)
    }

    /// Returns the total busy time of each link, by link.
    pub(crate) fn busy(&mut self) -> Vec<Span> {
        self.engine.busy()
    }

    fn command_of(&self, request: RequestId) -> Option<&Rc<HostCommand>> {
        match &self.requests.get(&request)?.detail {
            Detail::Command(command) => Some(command),
            Detail::Access(_) | Detail::VirtualAccess => None,
        }
    }
}

fn check_buffer(body: &Request, buffer: Option<&Buffer>) -> Result<(), RequestError> {
    let lengths = buffer.map(|buffer| buffer.borrow().len() as u64).zip(body.bytes());
    match lengths.filter(|(length, bytes)| length != bytes) {
        Some((length, bytes)) => Err(RequestError::Buffer { length, bytes }),
        None => Ok(()),
    }
}
