//! Commands to PEs: the routes of their messages, and the common start of launches.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{NodeId, SignalId, Span};

use super::{Detail, Machine, MachineView, Start};
use crate::log::Watch;
use crate::message::{
    CommandBody, CommandCube, CommandPe, HostCommand, HostMessage, Launch, Mapping, MappingChange,
    PeCpuMessage, PortChange, RequestId,
};
use crate::pe::{PortSpec, SlotMemory};
use crate::request::{Outcome, PeRef, RequestError};
use crate::topology::{NodeKind, Topology};

/// A stage of a command's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the host's endpoint to `IO_CPU`.
    ToIoCpu,
    /// From `IO_CPU` to the cubes.
    ToCubes,
    /// From each `M_CPU` to its PEs.
    ToPes,
    /// From the PEs back.
    FromPes,
    /// From the cubes back.
    FromCubes,
    /// From `IO_CPU` to the host's endpoint.
    FromIoCpu,
}

/// Duration of each stage of a command, in order.
pub type Stages = [(Stage, Span); Stage::ALL.len()];

impl Stage {
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

    /// Returns the name, as in `IO_CPU to the cubes`.
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

/// Routes of the last command about mappings, and its PEs.
#[derive(Debug)]
pub(super) struct LastMapping {
    sip: SipId,
    cubes: Vec<CubeId>,
    pes: Vec<PeId>,
    ways: Rc<[CommandCube]>,
}

/// Part of a PE that a command goes to.
type Receiver = fn(&Topology, SipId, CubeId, PeId) -> NodeId;

#[derive(Clone, Copy)]
pub(super) struct Targets<'a> {
    pub(super) sip: SipId,
    pub(super) cubes: &'a [CubeId],
    pub(super) pes: &'a [PeId],
}

impl<W: Watch> Machine<W> {
    /// Makes the launch of a kernel, with a task that starts its PEs.
    pub(super) fn launch(
        &mut self,
        request: RequestId,
        kernel: &str,
        targets: Targets<'_>,
        work: Span,
    ) -> Result<Start, RequestError> {
        let cubes = self.command_cubes(targets, Topology::pe_cpu)?;
        let lead = cubes.iter().map(|cube| self.lead(cube)).max().unwrap_or_default();
        let (kernel, start, started) = (kernel.to_owned(), OnceCell::new(), OnceCell::new());
        let armed = self.armed(targets);
        let launch = Rc::new(Launch { kernel, lead, start, started, work, armed });
        let body = CommandBody::Launch(Rc::clone(&launch));
        let command = self.command(request, targets.sip, cubes, body)?;
        self.start_together(&command, launch);
        Ok(self.start(targets.sip, command))
    }

    pub(super) fn mapping(
        &mut self,
        request: RequestId,
        targets: Targets<'_>,
        mappings: &Arc<[Mapping]>,
        remove: bool,
    ) -> Result<Start, RequestError> {
        let cubes = self.mapping_cubes(targets)?;
        let change = MappingChange { mappings: Arc::clone(mappings), remove };
        let body = CommandBody::Mappings(Rc::new(change));
        let command = self.command(request, targets.sip, cubes, body)?;
        Ok(self.start(targets.sip, command))
    }

    pub(super) fn ports(
        &mut self,
        request: RequestId,
        targets: Targets<'_>,
        ports: &Arc<[Vec<PortSpec>]>,
        remove: bool,
    ) -> Result<Start, RequestError> {
        let cubes = self.command_cubes(targets, Topology::pe_cpu)?;
        if ports.len() != targets.cubes.len() * targets.pes.len() {
            return Err(RequestError::Targets { what: "a list of ports for each PE" });
        }
        for port in ports.iter().flatten() {
            self.check_pe(port.peer)?;
            for memory in [port.memory, port.peer_memory] {
                if let SlotMemory::At(base) = memory {
                    self.shared.wiring.memory(base, u64::from(port.slots) * port.slot_bytes)?;
                }
            }
        }
        let body = CommandBody::Ports(Rc::new(PortChange { ports: Arc::clone(ports), remove }));
        let command = self.command(request, targets.sip, cubes, body)?;
        Ok(self.start(targets.sip, command))
    }

    /// Returns the start of a command, at the host's endpoint.
    fn start(&self, sip: SipId, command: Rc<HostCommand>) -> Start {
        let (node, done) = (self.topology().endpoint(sip), command.done);
        let detail = Detail::Command(Rc::clone(&command));
        Start { node, message: HostMessage::Command(command).into(), done, detail }
    }

    fn command(
        &mut self,
        request: RequestId,
        sip: SipId,
        cubes: Rc<[CommandCube]>,
        body: CommandBody,
    ) -> Result<Rc<HostCommand>, RequestError> {
        let (endpoint, io_cpu) = (self.topology().endpoint(sip), self.topology().io_cpu(sip));
        let (to_io_cpu, from_io_cpu) = self.shared.wiring.routes(endpoint, io_cpu)?;
        let done = self.signal();
        Ok(Rc::new(HostCommand { request, body, to_io_cpu, from_io_cpu, cubes, done }))
    }

    /// Returns the routes of a command about mappings. They are often those of the last one, as when a tensor is
    /// deployed and freed again.
    fn mapping_cubes(&mut self, targets: Targets<'_>) -> Result<Rc<[CommandCube]>, RequestError> {
        let Targets { sip, cubes, pes } = targets;
        if let Some(last) = &self.last_mapping
            && (last.sip, &*last.cubes, &*last.pes) == (sip, cubes, pes)
        {
            return Ok(Rc::clone(&last.ways));
        }
        let ways = self.command_cubes(targets, Topology::pe_dma)?;
        let (cubes, pes) = (cubes.to_vec(), pes.to_vec());
        self.last_mapping = Some(LastMapping { sip, cubes, pes, ways: Rc::clone(&ways) });
        Ok(ways)
    }

    fn command_cubes(
        &self,
        targets: Targets<'_>,
        receiver: Receiver,
    ) -> Result<Rc<[CommandCube]>, RequestError> {
        self.check_targets(targets)?;
        let Targets { sip, cubes, pes } = targets;
        cubes.iter().map(|&cube| self.command_cube(sip, cube, pes, receiver)).collect()
    }

    fn command_cube(
        &self,
        sip: SipId,
        cube: CubeId,
        pes: &[PeId],
        receiver: Receiver,
    ) -> Result<CommandCube, RequestError> {
        let topology = self.topology();
        let m_cpu = topology.m_cpu(sip, cube);
        let (to, back) = self.shared.wiring.routes(topology.io_cpu(sip), m_cpu)?;
        let pe = |&pe: &PeId| -> Result<CommandPe, RequestError> {
            let node = receiver(topology, sip, cube, pe);
            let (to, back) = self.shared.wiring.routes(m_cpu, node)?;
            Ok(CommandPe { node, to, back })
        };
        let pes: Result<Vec<_>, _> = pes.iter().map(pe).collect();
        Ok(CommandCube { to, back, pes: pes? })
    }

    fn armed(&self, Targets { sip, cubes, pes }: Targets<'_>) -> Vec<SignalId> {
        let names =
            cubes.iter().flat_map(|cube| pes.iter().map(move |pe| format!("{sip}.{cube}.{pe}")));
        names.map(|name| self.engine.tasks().signal(name, None)).collect()
    }

    /// Returns the unloaded latency of the slowest message from `IO_CPU` to the PEs of a cube.
    fn lead(&self, cube: &CommandCube) -> Span {
        let to_pe =
            cube.pes.iter().map(|pe| self.topology().flight(&pe.to)).max().unwrap_or_default();
        self.topology().flight(&cube.to) + to_pe
    }

    /// Starts all PEs of a launch at one instant: when `IO_CPU` said, or when the last has its command
    /// if traffic held that up for longer.
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

    fn check_targets(&self, targets: Targets<'_>) -> Result<(), RequestError> {
        let Targets { sip, cubes, pes } = targets;
        if cubes.is_empty() || has_twice(cubes) {
            return Err(RequestError::Targets { what: "cubes" });
        }
        if pes.is_empty() || has_twice(pes) {
            return Err(RequestError::Targets { what: "PEs" });
        }
        for &cube in cubes {
            for &pe in pes {
                self.check_pe(PeRef { sip, cube, pe })?;
            }
        }
        Ok(())
    }
}

impl<W: Watch> MachineView<'_, W> {
    /// Returns the duration of each stage of a command: the time from the end of the stage before until the
    /// last message of this one was delivered. They add up to the latency, less the time that a launch's PEs
    /// wait and work.
    pub fn stages(self, request: RequestId) -> Option<Stages> {
        let command = self.machine.command_of(request)?;
        let made = self.envelope(request).made;
        let mut last = [made; Stage::ALL.len()];
        // None began before the command was made, so those of others before it need not be looked at.
        let records = self.log().since(made).iter();
        for record in records.filter(|record| record.request == Some(request)) {
            let (first, end) = (record.route.first()?, record.route.last()?);
            let kind = |node| self.machine.topology().node(node).kind;
            let ends = (kind(self.network().link(*first).from), kind(self.network().link(*end).to));
            let stage = Stage::between(ends.0, ends.1)?;
            last[stage as usize] = last[stage as usize].max(record.delivered?);
        }
        let mut before = made;
        Some(Stage::ALL.map(|stage| {
            let since = std::mem::replace(&mut before, last[stage as usize]);
            let is_launch = matches!(command.body, CommandBody::Launch(_));
            let waits = stage == Stage::FromPes && is_launch;
            (stage, if waits { Span::ZERO } else { before.since(since) })
        }))
    }
}

fn has_twice<T: Ord + Copy>(items: &[T]) -> bool {
    let mut sorted = items.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// Returns the outcome of a command that succeeded.
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
