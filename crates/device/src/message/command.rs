//! Host commands to PEs, with the route of each message.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_sim::{NodeId, Route, SignalId, Span, Time};

use crate::access::Mapping;
use crate::ids::RequestId;
use crate::pe::PortSpec;

/// Command that `IO_CPU` distributes to cubes and each `M_CPU` to PEs. They also collect its completions.
#[derive(Debug)]
pub struct HostCommand {
    pub request: RequestId,
    pub body: CommandBody,
    pub to_io_cpu: Route,
    pub from_io_cpu: Route,
    pub cubes: Rc<[CommandCube]>,
    /// Signal raised when the host has received the completion.
    pub done: SignalId,
}

/// Operation that the PEs of a command carry out.
#[derive(Clone, Debug)]
pub enum CommandBody {
    Launch(Rc<Launch>),
    Mappings(Rc<MappingChange>),
    Ports(Rc<PortChange>),
}

#[derive(Debug)]
pub struct Launch {
    pub kernel: String,
    /// Lead time that `IO_CPU` allows, so that every PE has its command before the common start.
    pub lead: Span,
    /// Start time announced by `IO_CPU`.
    pub start: OnceCell<Time>,
    /// Actual start: the announced time, or the time at which the last PE had its command if that is later.
    pub started: OnceCell<Time>,
    pub work: Span,
    /// Signals raised when a PE has its command and waits for the start; one per PE, cube by cube.
    pub armed: Vec<SignalId>,
}

#[derive(Debug)]
pub struct MappingChange {
    pub mappings: Arc<[Mapping]>,
    pub remove: bool,
}

#[derive(Debug)]
pub struct PortChange {
    /// Ports of each PE, cube by cube.
    pub ports: Arc<[Vec<PortSpec>]>,
    pub remove: bool,
}

#[derive(Debug)]
pub struct CommandCube {
    /// Route from `IO_CPU` to `M_CPU`.
    pub to: Route,
    pub back: Route,
    pub pes: Vec<CommandPe>,
}

#[derive(Debug)]
pub struct CommandPe {
    /// Receiving node: the DMA engine with the MMU for mappings, otherwise the `PE_CPU`.
    pub node: NodeId,
    pub to: Route,
    pub back: Route,
}

/// Command as received by one of its PEs.
#[derive(Clone, Debug)]
pub struct CommandTarget {
    pub command: Rc<HostCommand>,
    /// Index of the cube in the command.
    pub cube: u32,
    /// Index of the PE in the cube.
    pub pe: u32,
}

impl HostCommand {
    /// Returns the payload of each message on the way to the PEs, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.body {
            CommandBody::Launch(_) => 0,
            CommandBody::Mappings(change) => change.mappings.len() as u64 * Mapping::BYTES,
            CommandBody::Ports(change) => {
                let most = change.ports.iter().map(Vec::len).max().unwrap_or_default();
                most as u64 * PortSpec::BYTES
            }
        }
    }

    pub(crate) fn pes(&self) -> impl Iterator<Item = &CommandPe> {
        self.cubes.iter().flat_map(|cube| &cube.pes)
    }
}

impl CommandTarget {
    pub(crate) fn at(&self) -> &CommandPe {
        &self.command.cubes[self.cube as usize].pes[self.pe as usize]
    }

    /// Returns the index of the PE among all PEs of the command.
    pub(crate) fn index(&self) -> usize {
        self.cube as usize * self.command.cubes[0].pes.len() + self.pe as usize
    }
}
