//! A machine that runs: the parts of a topology, and requests to them.

mod alone;
mod command;
mod notices;
mod parts;
mod rehearsal;

pub use command::{Stage, Stages};
pub use rehearsal::Rehearsal;

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Weak;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{PhysAddr, SipId};
use cubeyard_memory::device::{DeviceMemory, RegionId};
use cubeyard_sim::{
    Bandwidth, Component, Engine, EngineConfig, LinkId, Network, NodeId, SignalId, Span, Stop,
    Time, Waiter, Waiting,
};

use crate::failure::{Failure, Failures};
use crate::formula::{self, Parts};
use crate::log::{FlitLog, Log, Watch};
use crate::message::{
    Access, Buffer, CommandBody, Direction, Done, HostCommand, Message, PeCpuMessage, PeDmaMessage,
    RequestId, RequesterMessage, Slice, VirtualAccess,
};
use crate::model::{Memory, Mmu, Part};
use crate::notice::Notices;
use crate::pe::{CoreReport, OpLog, Program, Shared};
use crate::race::{Race, RaceDetector, Races};
use crate::request::{Completion, Envelope, Outcome, PeRef, Request, RequestError, Shard};
use crate::topology::Topology;
use crate::wiring::Wiring;
use command::{LastMapping, Targets};

/// A simulated accelerator system.
///
/// ```
/// use cubeyard_device::machine::Machine;
/// use cubeyard_device::message::Direction;
/// use cubeyard_device::request::Request;
/// use cubeyard_device::topology::Topology;
///
/// let mut machine = Machine::new(Topology::embedded());
/// let pe = machine.pe("sip0.cube0.pe0")?;
/// let address = machine.hbm_address(pe, 0)?;
/// let read = Request::PeDma { from: pe, direction: Direction::Read, address, bytes: 16 << 10 };
/// let read = machine.submit(read)?;
/// machine.run();
/// let completion = machine.completion(read).unwrap();
/// assert_eq!(completion.latency().ns().round(), 77.0);
/// # Ok::<(), cubeyard_device::request::RequestError>(())
/// ```
#[derive(Debug)]
pub struct Machine<W = Log> {
    wiring: Rc<Wiring>,
    failures: Rc<Failures>,
    races: RaceDetector,
    ops: Rc<RefCell<OpLog>>,
    notices: Rc<RefCell<Notices>>,
    /// Number of messages between PEs that no program has taken.
    mail: Rc<Cell<u64>>,
    engine: Engine<Part, W>,
    /// How many requests were made.
    made: usize,
    envelopes: BTreeMap<RequestId, Envelope>,
    done: BTreeMap<RequestId, SignalId>,
    commands: BTreeMap<RequestId, Rc<HostCommand>>,
    last_mapping: Option<LastMapping>,
    accesses: BTreeMap<RequestId, Access>,
    /// What regions of each SIP stand for, as its firmware knows.
    regions: BTreeMap<SipId, Weak<dyn DeviceMemory>>,
}

/// What a request becomes: the SIP it goes to, where it starts, and the call that starts it.
type Start = (SipId, NodeId, Message);

/// How a machine is made. The results are the same, but for parts of your own.
#[derive(Debug)]
pub struct MachineBuilder {
    topology: Topology,
    config: EngineConfig,
    replaced: Vec<(NodeId, Part)>,
    data: bool,
    bursts: bool,
}

impl MachineBuilder {
    /// A machine of this topology.
    pub fn new(topology: Topology) -> Self {
        let config = EngineConfig { buffers: topology.spec().buffers, ..EngineConfig::default() };
        Self { topology, config, replaced: Vec::new(), data: false, bursts: false }
    }

    /// Chooses how the engine runs, buffers included, whatever the topology says of them.
    #[must_use]
    pub fn config(self, config: EngineConfig) -> Self {
        Self { config, ..self }
    }

    /// Chooses whether memory holds data: without it, only time is simulated.
    #[must_use]
    pub fn data(self, data: bool) -> Self {
        Self { data, ..self }
    }

    /// Puts a component of your own at a node, in the place of ours.
    pub fn replace(
        mut self,
        node: &str,
        component: impl Component<Message = Message> + 'static,
    ) -> Result<Self, RequestError> {
        let node = self.topology.find(node)?;
        self.replaced.push((node, Part::Custom(Box::new(component))));
        Ok(self)
    }

    /// Makes it, with a log of transfers.
    pub fn build(self) -> Machine {
        self.watched(Log::default())
    }

    /// Makes it, with a log of every flit and burst. Slower, and it keeps them all.
    pub fn build_with_flits(self) -> Machine<FlitLog> {
        Self { bursts: true, ..self }.watched(FlitLog::default())
    }

    /// Makes it, with a log of your own.
    pub fn watched<W: Watch>(self, watch: W) -> Machine<W> {
        let Self { topology, config, replaced, data, bursts } = self;
        let network = parts::network(&topology);
        let shared = Rc::new(Shared {
            wiring: Rc::new(Wiring::new(topology)),
            failures: Rc::default(),
            races: RaceDetector::new(data),
            ops: Rc::default(),
            mail: Rc::default(),
        });
        let notices = Rc::default();
        let parts = parts::parts(&shared, &notices, replaced).map(|(node, mut part)| {
            if let Part::Memory(memory) = &mut part {
                if data {
                    memory.keep_contents();
                }
                if bursts {
                    memory.keep_bursts();
                }
            }
            (node, part)
        });
        let engine = Engine::observed(network, parts, config, watch);
        Machine {
            wiring: Rc::clone(&shared.wiring),
            failures: Rc::clone(&shared.failures),
            races: shared.races.clone(),
            ops: Rc::clone(&shared.ops),
            mail: Rc::clone(&shared.mail),
            notices,
            engine,
            made: 0,
            envelopes: BTreeMap::new(),
            done: BTreeMap::new(),
            commands: BTreeMap::new(),
            last_mapping: None,
            accesses: BTreeMap::new(),
            regions: BTreeMap::new(),
        }
    }
}

impl Machine {
    /// A machine at time zero.
    pub fn new(topology: Topology) -> Self {
        MachineBuilder::new(topology).build()
    }
}

impl<W: Watch> Machine<W> {
    /// What it was made from.
    pub fn topology(&self) -> &Topology {
        self.wiring.topology()
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine<Part, W> {
        &self.engine
    }

    /// What the engine was made of.
    pub fn network(&self) -> &Network {
        self.engine.network()
    }

    /// The log.
    pub fn log(&self) -> &Log {
        self.engine.observer().log()
    }

    /// The log, to be read out.
    pub fn watch_mut(&mut self) -> &mut W {
        self.engine.observer_mut()
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// Goes on until nothing is left to happen.
    pub fn run(&mut self) -> Stop {
        self.engine.run()
    }

    /// Goes on until nothing is left to happen, or until `deadline` is over.
    pub fn run_until(&mut self, deadline: Time) -> Stop {
        self.engine.run_until(deadline)
    }

    /// How long each link has been in use, by link.
    pub fn busy(&mut self) -> Vec<Span> {
        self.engine.busy()
    }

    /// Who waits for what, in words, with nodes by name.
    pub fn describe(&self, waiting: &Waiting) -> String {
        match &waiting.who {
            Waiter::Component(node) => {
                format!("{} waits for {}", self.topology().node(*node).name, waiting.what)
            }
            _ => waiting.to_string(),
        }
    }

    /// A link in words, as in `sip0.cube0.r0c0 → sip0.cube0.r0c1`.
    pub fn link_name(&self, link: LinkId) -> String {
        let link = self.topology().link(link);
        let name = |node| &self.topology().node(node).name;
        format!("{} → {}", name(link.from), name(link.to))
    }

    /// The PE of a name such as `sip0.cube3.pe2`.
    pub fn pe(&self, name: &str) -> Result<PeRef, RequestError> {
        let node = self.topology().node(self.topology().find(name)?);
        let place = node.place;
        match (place.sip, place.cube, place.pe) {
            (Some(sip), Some(cube), Some(pe)) => Ok(PeRef { sip, cube, pe }),
            _ => Err(RequestError::NoSuchPart { what: format!("PE {name}") }),
        }
    }

    /// The address at `offset` of a PE's slice of the HBM.
    pub fn hbm_address(&self, pe: PeRef, offset: u64) -> Result<PhysAddr, RequestError> {
        let slice = self.topology().spec().hbm.slice;
        let offset = Bytes::new(offset);
        PhysAddr::pe_hbm(pe.sip, pe.cube, pe.pe, offset, slice)
            .map_err(|error| RequestError::NoSuchPart { what: error.to_string() })
    }

    /// Takes regions of a SIP's memory from a device from now on, whose firmware knows what their ids stand for. The
    /// device is not kept alive.
    pub fn set_regions(&mut self, sip: SipId, device: Weak<dyn DeviceMemory>) {
        self.regions.insert(sip, device);
    }

    /// The physical address of a place in a region of a SIP: as a physical function the region's id is its address, as a
    /// virtual function the firmware's table has it.
    pub fn region_address(
        &self,
        sip: SipId,
        region: RegionId,
        offset: Bytes,
    ) -> Result<PhysAddr, RequestError> {
        let device = self.regions.get(&sip).and_then(Weak::upgrade);
        let start = device.and_then(|device| device.physical_address(region));
        let bits = start.and_then(|start| start.checked_add(offset.get()));
        let address = bits.and_then(|bits| PhysAddr::from_bits(bits).ok());
        address.filter(|address| address.sip() == sip).ok_or(RequestError::NoSuchRegion {
            sip,
            region,
            offset,
        })
    }

    /// Makes a request, now.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, RequestError> {
        self.submit_at(self.now(), 0, request)
    }

    /// Makes a request at a time that is not past, under a number that its completion will bear.
    pub fn submit_at(
        &mut self,
        time: Time,
        correlation: u64,
        body: Request,
    ) -> Result<RequestId, RequestError> {
        self.submit_with(time, correlation, body, None)
    }

    /// As [`submit_at`](Self::submit_at), with the buffer that the data comes from or goes to. It must be as
    /// long as the request says; without data mode it is not touched.
    pub fn submit_with(
        &mut self,
        time: Time,
        correlation: u64,
        body: Request,
        buffer: Option<&Buffer>,
    ) -> Result<RequestId, RequestError> {
        let (request, start, message) = self.take_in(time, correlation, body, buffer)?;
        let made = self.envelope(request).made;
        self.engine.call_at(made, start, message);
        Ok(request)
    }

    /// Makes a request as soon as all of these signals have been raised.
    pub fn submit_after(
        &mut self,
        after: Vec<SignalId>,
        correlation: u64,
        body: Request,
    ) -> Result<RequestId, RequestError> {
        let (request, start, message) = self.take_in(self.now(), correlation, body, None)?;
        self.engine.spawn(format!("request {request}"), |tasks| async move {
            for signal in after {
                tasks.wait(signal).await;
            }
            tasks.call(start, message);
        });
        Ok(request)
    }

    /// Checks a request and takes it into the books: where it starts, and the call that starts it.
    fn take_in(
        &mut self,
        time: Time,
        correlation: u64,
        body: Request,
        buffer: Option<&Buffer>,
    ) -> Result<(RequestId, NodeId, Message), RequestError> {
        let request = RequestId::new(self.made);
        let made = time.max(self.now());
        if let Some((buffer, bytes)) = buffer.zip(body.bytes())
            && buffer.borrow().len() as u64 != bytes
        {
            let length = buffer.borrow().len() as u64;
            return Err(RequestError::Buffer { length, bytes });
        }
        let (device, start, message) = self.message(request, &body, buffer)?;
        self.made += 1;
        self.envelopes.insert(request, Envelope { correlation, request, device, made, body });
        Ok((request, start, message))
    }

    /// Gives a PE what a launch runs there, before it starts.
    ///
    /// # Panics
    /// If the machine has no such PE, or a component of your own is its processor.
    pub fn load(&mut self, launch: RequestId, pe: PeRef, program: Box<dyn Program>) {
        let node = self.topology().pe_cpu(pe.sip, pe.cube, pe.pe);
        match self.engine.component_mut(node) {
            Some(Part::PeCpu(cpu)) => cpu.load(launch, program),
            _ => panic!("{pe} has no processor of ours"),
        }
    }

    /// Stops the programs of a launch where they are: who waited for what, in words.
    pub fn stop_programs(&mut self, launch: RequestId) -> Vec<String> {
        let Some(command) = self.commands.get(&launch).cloned() else { return Vec::new() };
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

    /// What came of a launch's program on a PE.
    pub fn core_report(&self, launch: RequestId, pe: PeRef) -> Option<CoreReport> {
        self.cpu(self.topology().pe_cpu(pe.sip, pe.cube, pe.pe))?.core().report(launch)
    }

    /// Keeps every operation of the PEs from now on, for [`ops`](Self::ops).
    pub fn keep_ops(&self) {
        self.ops.borrow_mut().keep();
    }

    /// What PEs did, if that is kept.
    pub fn ops(&self) -> Ref<'_, OpLog> {
        self.ops.borrow()
    }

    /// What PEs did, if that was kept; it is kept no more.
    pub fn take_ops(&self) -> OpLog {
        self.ops.take()
    }

    /// Takes note of what orders launches, for [`take_races`](Self::take_races); in data mode only.
    pub fn order<T>(&self, act: impl FnOnce(&mut Races) -> T) -> Option<T> {
        self.races.with(act)
    }

    /// The races between programs that were found since this was last asked. They are looked for in data
    /// mode.
    pub fn take_races(&self) -> Vec<Race> {
        self.races.with(Races::take).unwrap_or_default()
    }

    /// The PE that a node belongs to.
    pub fn pe_of(&self, node: NodeId) -> Option<PeRef> {
        self.topology().pe_of(node)
    }

    /// Forgets a request that is done, and all that was kept of it. Its number is not used again.
    pub fn retire(&mut self, request: RequestId) {
        let tasks = self.engine.tasks();
        if let Some(command) = self.commands.remove(&request)
            && let CommandBody::Launch(launch) = &command.body
        {
            launch.armed.iter().for_each(|&armed| tasks.release(armed));
            for pe in command.pes() {
                if let Some(Part::PeCpu(cpu)) = self.engine.component_mut(pe.node) {
                    cpu.core_mut().forget(request);
                }
            }
        }
        if let Some(done) = self.done.remove(&request) {
            tasks.release(done);
        }
        self.failures.forget(request);
        self.notices.borrow_mut().forget(request);
        self.envelopes.remove(&request);
        self.accesses.remove(&request);
    }

    /// The signal that a request raises when it is done, for tasks.
    pub fn done_signal(&self, request: RequestId) -> SignalId {
        self.done[&request]
    }

    /// The memory at a node, to look at.
    pub fn memory_at(&self, address: PhysAddr) -> Option<&Memory> {
        self.memory_node(self.topology().resolve(address).ok()?)
    }

    /// Forgets what a range of memory holds, as when it is freed. Takes no simulated time.
    pub fn forget(&mut self, address: PhysAddr, bytes: u64) {
        let Ok(node) = self.topology().resolve(address) else { return };
        let from = address.sub_offset().get();
        self.races.with(|races| races.forget(node, from..from + bytes));
        if let Some(Part::Memory(memory)) = self.engine.component_mut(node)
            && let Some(contents) = memory.contents_mut()
        {
            contents.forget(address.sub_offset().get(), bytes);
        }
    }

    /// The MMU of a PE.
    pub fn mmu(&self, pe: PeRef) -> Option<&Mmu> {
        self.check_pe(pe).ok()?;
        match self.engine.component(self.topology().pe_dma(pe.sip, pe.cube, pe.pe))? {
            Part::PeDma(dma) => Some(dma.mmu()),
            _ => None,
        }
    }

    /// The MMUs of all PEs, in order.
    pub fn mmus(&self) -> impl Iterator<Item = (PeRef, &Mmu)> {
        let nodes = (0..self.topology().nodes().len()).map(NodeId::new);
        nodes.filter_map(|node| match self.engine.component(node)? {
            Part::PeDma(dma) => Some((self.pe_of(node)?, dma.mmu())),
            _ => None,
        })
    }

    /// A request as it was made.
    ///
    /// # Panics
    /// If there is no such request, or it was [retired](Self::retire).
    pub fn envelope(&self, request: RequestId) -> &Envelope {
        &self.envelopes[&request]
    }

    /// All requests that were not retired, in the order of their numbers.
    pub fn envelopes(&self) -> impl ExactSizeIterator<Item = &Envelope> {
        self.envelopes.values()
    }

    /// What came of a request, if it is done.
    pub fn completion(&self, request: RequestId) -> Option<Completion> {
        let done = self.engine.tasks().raised(*self.done.get(&request)?)?;
        let Envelope { correlation, made, body, .. } = self.envelope(request);
        let outcome = match (self.failures.get(request), body.bytes()) {
            (Some(failure), _) => self.failed(failure),
            (None, Some(bytes)) => Outcome::Moved { bytes },
            (None, None) => self.outcome(request),
        };
        Some(Completion { correlation: *correlation, request, made: *made, done, outcome })
    }

    /// The ways that a request to memory takes, there and back.
    pub fn access(&self, request: RequestId) -> Option<&Access> {
        self.accesses.get(&request)
    }

    /// What a request to memory takes on a machine that has nothing else to do; nothing is simulated.
    /// None for launches, and where a component of your own answers.
    pub fn alone(&self, request: RequestId) -> Option<Parts> {
        let access = self.access(request)?;
        let network = self.network();
        let start = &network.nodes()[network.link(*access.there.first()?).from.index()];
        let channels = self.memory_of(access)?.channels().spec();
        Some(formula::alone(network, channels, access, start.overhead))
    }

    /// How fast the memory of a request is, all channels together; none where a component of your own
    /// answers.
    pub fn memory_bandwidth(&self, request: RequestId) -> Option<Bandwidth> {
        self.memory_of(self.access(request)?)?.channels().spec().bandwidth()
    }

    /// The memory that an access goes to, unless a component of a user's own is there.
    pub(crate) fn memory_of(&self, access: &Access) -> Option<&Memory> {
        self.memory_node(self.network().link(*access.there.last()?).to)
    }

    fn memory_node(&self, node: NodeId) -> Option<&Memory> {
        match self.engine.component(node)? {
            Part::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    fn failed(&self, failure: Failure) -> Outcome {
        let origin = self.topology().node(failure.origin).name.clone();
        Outcome::Failed { origin, what: failure.what }
    }

    /// What a request becomes: the SIP it goes to, where it starts, and the call that starts it.
    fn message(
        &mut self,
        request: RequestId,
        body: &Request,
        buffer: Option<&Buffer>,
    ) -> Result<Start, RequestError> {
        let targets = |sip, cubes, pes| Targets { sip, cubes, pes };
        let (start, direction, address, bytes, posted) = match *body {
            Request::MemoryWrite(shard) => {
                (self.host(&shard)?, Direction::Write, shard.address, shard.bytes, true)
            }
            Request::MemoryRead(shard) => {
                (self.host(&shard)?, Direction::Read, shard.address, shard.bytes, false)
            }
            Request::PeDma { from, direction, address, bytes } => {
                self.check_pe(from)?;
                let node = self.topology().pe_dma(from.sip, from.cube, from.pe);
                (node, direction, address, bytes, false)
            }
            Request::MCpuDma { sip, cube, direction, address, bytes } => {
                self.check_cube(sip, cube)?;
                (self.topology().m_cpu(sip, cube), direction, address, bytes, false)
            }
            Request::VirtualDma { from, direction, address, bytes } => {
                return self.virtual_access(request, from, direction, address, bytes, buffer);
            }
            Request::KernelLaunch { ref kernel, sip, ref cubes, ref pes, work } => {
                return self.launch(request, kernel, targets(sip, cubes, pes), work);
            }
            Request::MmuMap { sip, ref cubes, ref pes, ref mappings } => {
                return self.mapping(request, targets(sip, cubes, pes), mappings, false);
            }
            Request::MmuUnmap { sip, ref cubes, ref pes, ref mappings } => {
                return self.mapping(request, targets(sip, cubes, pes), mappings, true);
            }
            Request::Connect { sip, ref cubes, ref pes, ref ports, remove } => {
                return self.ports(request, targets(sip, cubes, pes), ports, remove);
            }
        };
        let memory = self.wiring.memory(address, bytes)?;
        let (there, back) = self.wiring.routes(start, memory)?;
        let done = self.signal(request);
        let into = address.sub_offset().get();
        self.races.with(|races| races.host_access(memory, into, bytes, direction, request));
        let access = Access {
            request,
            direction,
            address: into,
            bytes,
            rows: None,
            there,
            back: (!posted).then_some(back),
            data: buffer.map(Slice::whole),
            written: Cell::default(),
            done: Done::Signal(done),
        };
        self.accesses.insert(request, access.clone());
        Ok((address.sip(), start, RequesterMessage::Issue(Box::new(access)).into()))
    }

    fn virtual_access(
        &mut self,
        request: RequestId,
        from: PeRef,
        direction: Direction,
        address: u64,
        bytes: u64,
        buffer: Option<&Buffer>,
    ) -> Result<Start, RequestError> {
        self.check_pe(from)?;
        if bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(RequestError::Size { bytes });
        }
        let node = self.topology().pe_dma(from.sip, from.cube, from.pe);
        let (data, done) = (buffer.map(Slice::whole), Done::Signal(self.signal(request)));
        let access = VirtualAccess { request, direction, address, bytes, rows: None, data, done };
        Ok((from.sip, node, PeDmaMessage::Access(Box::new(access)).into()))
    }

    /// The signal of a request that is being taken in.
    fn signal(&mut self, request: RequestId) -> SignalId {
        let done = self.engine.tasks().signal(String::new(), None);
        self.done.insert(request, done);
        done
    }

    /// The node where the host's traffic to a shard enters, whose tag is checked.
    fn host(&self, shard: &Shard) -> Result<NodeId, RequestError> {
        let holder = self.topology().node(self.topology().resolve(shard.address)?);
        let place = holder.place;
        let right = place.sip == Some(shard.at.sip)
            && place.cube == Some(shard.at.cube)
            && place.pe.is_none_or(|pe| pe == shard.at.pe);
        if !right {
            let (holder, said) = (holder.name.clone(), shard.at.to_string());
            return Err(RequestError::Tag { address: shard.address, holder, said });
        }
        Ok(self.topology().endpoint_of(shard.at.sip, shard.at.cube))
    }
}
