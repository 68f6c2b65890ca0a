//! Commands to PEs: the routes of their messages, and the common start of launches.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{NodeId, Span};

use super::{Detail, Machine, MachineView, Start};
use crate::log::Watch;
use crate::message::{
    CommandBody, CommandCube, CommandPe, HostCommand, HostMessage, Launch, Mapping, MappingChange,
    PeCpuMessage, PortChange, RequestId,
};
use crate::pe::{PortSpec, SlotMemory};
use crate::request::{Outcome, PeGrid, PeRef, RequestError};
use crate::topology::{NodeKind, Topology};

/// Stage on the path of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStage {
    /// From the host's endpoint to `IO_CPU`.
    ToIoCpu,
    /// From `IO_CPU` to the cubes.
    ToCubes,
    /// From each `M_CPU` to its PEs.
    ToPes,
    /// From the PEs back to each `M_CPU`.
    FromPes,
    /// From the cubes back to `IO_CPU`.
    FromCubes,
    /// From `IO_CPU` to the host's endpoint.
    FromIoCpu,
}

/// Duration of each stage of a command, in order.
pub type CommandStages = [(CommandStage, Span); CommandStage::ALL.len()];

impl CommandStage {
    const ALL: [Self; 6] = [
        Self::ToIoCpu,
        Self::ToCubes,
        Self::ToPes,
        Self::FromPes,
        Self::FromCubes,
        Self::FromIoCpu,
    ];

    fn between(from: NodeKind, to: NodeKind) -> Option<Self> {
        match (from, to) {
            (NodeKind::PcieEndpoint, NodeKind::IoCpu) => Some(Self::ToIoCpu),
            (NodeKind::IoCpu, NodeKind::MCpu) => Some(Self::ToCubes),
            (NodeKind::MCpu, NodeKind::PeCpu | NodeKind::PeDma) => Some(Self::ToPes),
            (NodeKind::PeCpu | NodeKind::PeDma, NodeKind::MCpu) => Some(Self::FromPes),
            (NodeKind::MCpu, NodeKind::IoCpu) => Some(Self::FromCubes),
            (NodeKind::IoCpu, NodeKind::PcieEndpoint) => Some(Self::FromIoCpu),
            _ => None,
        }
    }

    /// Returns the name of the stage, as in `IO_CPU to the cubes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToIoCpu => "PCIE_EP to IO_CPU",
            Self::ToCubes => "IO_CPU to the cubes",
            Self::ToPes => "M_CPU to its PEs",
            Self::FromPes => "PEs to M_CPU",
            Self::FromCubes => "cubes to IO_CPU",
            Self::FromIoCpu => "IO_CPU to PCIE_EP",
        }
    }
}

/// PEs and routes of the most recent mapping command.
#[derive(Debug)]
pub(super) struct LastMapping {
    on: PeGrid,
    ways: Rc<[CommandCube]>,
}

/// Function that returns the node of a PE that receives a command.
type Receiver = fn(&Topology, PeRef) -> NodeId;

impl<W: Watch> Machine<W> {
    /// Creates the launch of a kernel.
    pub(super) fn launch(
        &mut self,
        request: RequestId,
        kernel: &str,
        on: &PeGrid,
        work: Span,
    ) -> Result<Start, RequestError> {
        let cubes = self.command_cubes(on, Topology::pe_cpu)?;
        let lead = cubes.iter().map(|cube| self.lead(cube)).max().unwrap_or_default();
        let (kernel, start, started) = (kernel.to_owned(), OnceCell::new(), OnceCell::new());
        let armed = on.all().map(|pe| self.engine.tasks().signal(pe.to_string(), None)).collect();
        let launch = Launch { kernel, lead, start, started, work, armed };
        self.start(request, on.sip, cubes, CommandBody::Launch(Rc::new(launch)))
    }

    pub(super) fn mapping(
        &mut self,
        request: RequestId,
        on: &PeGrid,
        mappings: &Arc<[Mapping]>,
        remove: bool,
    ) -> Result<Start, RequestError> {
        let cubes = self.mapping_cubes(on)?;
        let change = MappingChange { mappings: Arc::clone(mappings), remove };
        self.start(request, on.sip, cubes, CommandBody::Mappings(Rc::new(change)))
    }

    pub(super) fn ports(
        &mut self,
        request: RequestId,
        on: &PeGrid,
        ports: &Arc<[Vec<PortSpec>]>,
        remove: bool,
    ) -> Result<Start, RequestError> {
        let cubes = self.command_cubes(on, Topology::pe_cpu)?;
        if ports.len() != on.cubes.len() * on.pes.len() {
            return Err(RequestError::Targets { what: "lists of ports, one per PE" });
        }
        for port in ports.iter().flatten() {
            self.check_pe(port.peer)?;
            for memory in [port.memory, port.peer_memory] {
                if let SlotMemory::At(base) = memory {
                    self.shared.wiring.memory(base, u64::from(port.slots) * port.slot_bytes)?;
                }
            }
        }
        let change = PortChange { ports: Arc::clone(ports), remove };
        self.start(request, on.sip, cubes, CommandBody::Ports(Rc::new(change)))
    }

    /// Returns the start of a command at the host's endpoint. A launch has a task that starts its PEs.
    fn start(
        &mut self,
        request: RequestId,
        sip: SipId,
        cubes: Rc<[CommandCube]>,
        body: CommandBody,
    ) -> Result<Start, RequestError> {
        let (node, io_cpu) = (self.topology().endpoint(sip), self.topology().io_cpu(sip));
        let (to_io_cpu, from_io_cpu) = self.shared.wiring.routes(node, io_cpu)?;
        let done = self.signal();
        let command = Rc::new(HostCommand { request, body, to_io_cpu, from_io_cpu, cubes, done });
        if let CommandBody::Launch(launch) = &command.body {
            self.start_together(&command, Rc::clone(launch));
        }
        let detail = Detail::Command(Rc::clone(&command));
        Ok(Start { node, message: HostMessage::Command(command).into(), done, detail })
    }

    /// Returns the routes of a mapping command. They are often the routes of the previous one, as when a tensor is
    /// deployed and freed again.
    fn mapping_cubes(&mut self, on: &PeGrid) -> Result<Rc<[CommandCube]>, RequestError> {
        if let Some(last) = self.last_mapping.as_ref().filter(|last| last.on == *on) {
            return Ok(Rc::clone(&last.ways));
        }
        let ways = self.command_cubes(on, Topology::pe_dma)?;
        self.last_mapping = Some(LastMapping { on: on.clone(), ways: Rc::clone(&ways) });
        Ok(ways)
    }

    fn command_cubes(
        &self,
        on: &PeGrid,
        receiver: Receiver,
    ) -> Result<Rc<[CommandCube]>, RequestError> {
        self.check_grid(on)?;
        on.cubes.iter().map(|&cube| self.command_cube(on, cube, receiver)).collect()
    }

    fn command_cube(
        &self,
        on: &PeGrid,
        cube: CubeId,
        receiver: Receiver,
    ) -> Result<CommandCube, RequestError> {
        let (topology, sip) = (self.topology(), on.sip);
        let m_cpu = topology.m_cpu(sip, cube);
        let (to, back) = self.shared.wiring.routes(topology.io_cpu(sip), m_cpu)?;
        let pe = |&pe: &PeId| -> Result<CommandPe, RequestError> {
            let node = receiver(topology, PeRef { sip, cube, pe });
            let (to, back) = self.shared.wiring.routes(m_cpu, node)?;
            Ok(CommandPe { node, to, back })
        };
        let pes: Result<Vec<_>, _> = on.pes.iter().map(pe).collect();
        Ok(CommandCube { to, back, pes: pes? })
    }

    /// Returns the unloaded latency of the slowest message from `IO_CPU` to the PEs of a cube.
    fn lead(&self, cube: &CommandCube) -> Span {
        let to_pe =
            cube.pes.iter().map(|pe| self.topology().flight(&pe.to)).max().unwrap_or_default();
        self.topology().flight(&cube.to) + to_pe
    }

    /// Starts all PEs of a launch at one instant: at the time that `IO_CPU` announced, or when the last PE has its
    /// command if traffic delayed it beyond that time.
    fn start_together(&mut self, command: &Rc<HostCommand>, launch: Rc<Launch>) {
        let command = Rc::clone(command);
        let name = format!("launch {} of {}", command.request, launch.kernel);
        self.engine.spawn(name, |tasks| async move {
            for &armed in &launch.armed {
                tasks.wait(armed).await;
            }
            let said = *launch.start.get().expect("said before a command left");
            let start = *launch.started.get_or_init(|| said.max(tasks.now()));
            for pe in command.pes() {
                tasks.call(pe.node, PeCpuMessage::Start(command.request, start).into());
            }
        });
    }

    pub(super) fn check_cube(&self, sip: SipId, cube: CubeId) -> Result<(), RequestError> {
        let spec = self.topology().spec();
        if sip.number() < spec.sips.count && cube.number() < spec.cube_count() {
            return Ok(());
        }
        Err(RequestError::NoSuchPart { what: format!("{sip}.{cube}") })
    }

    pub(super) fn check_pe(&self, at: PeRef) -> Result<(), RequestError> {
        self.check_cube(at.sip, at.cube)?;
        if at.pe.number() < self.topology().spec().pe_count() {
            return Ok(());
        }
        Err(RequestError::NoSuchPart { what: at.to_string() })
    }

    fn check_grid(&self, on: &PeGrid) -> Result<(), RequestError> {
        if on.cubes.is_empty() || has_twice(&on.cubes) {
            return Err(RequestError::Targets { what: "cubes" });
        }
        if on.pes.is_empty() || has_twice(&on.pes) {
            return Err(RequestError::Targets { what: "PEs" });
        }
        on.all().try_for_each(|pe| self.check_pe(pe))
    }
}

impl<W: Watch> MachineView<'_, W> {
    /// Returns the duration of each stage of a command: from the end of the previous stage until the last message of
    /// the stage is delivered. The durations add up to the latency, without the time that the PEs of a launch wait and
    /// work.
    pub fn stages(self, request: RequestId) -> Option<CommandStages> {
        let command = self.machine.command_of(request)?;
        let made = self.envelope(request).made;
        let mut last = [made; CommandStage::ALL.len()];
        // No transfer of this command began before the command was made, so earlier records are skipped.
        let records = self.log().since(made).iter();
        for record in records.filter(|record| record.request == Some(request)) {
            let (first, end) = (record.route.first()?, record.route.last()?);
            let kind = |node| self.machine.topology().node(node).kind;
            let ends = (kind(self.network().link(*first).from), kind(self.network().link(*end).to));
            let stage = CommandStage::between(ends.0, ends.1)?;
            last[stage as usize] = last[stage as usize].max(record.delivered?);
        }
        let mut before = made;
        Some(CommandStage::ALL.map(|stage| {
            let since = std::mem::replace(&mut before, last[stage as usize]);
            let is_launch = matches!(command.body, CommandBody::Launch(_));
            let waits = stage == CommandStage::FromPes && is_launch;
            (stage, if waits { Span::ZERO } else { before.since(since) })
        }))
    }
}

fn has_twice<T: Ord + Copy>(items: &[T]) -> bool {
    let mut sorted = items.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the outcome of a successful command.
pub(super) fn outcome(command: &HostCommand) -> Outcome {
    match &command.body {
        CommandBody::Mappings(change) => Outcome::Mapped { mappings: change.mappings.len() },
        CommandBody::Ports(change) => {
            Outcome::Connected { ports: change.ports.iter().map(Vec::len).sum() }
        }
        CommandBody::Launch(launch) => Outcome::Ran {
            started: *launch.started.get().expect("a launch that is done was started"),
            pes: command.pes().count(),
        },
    }
}
