//! What the parts of a machine say to each other.

use std::any::Any;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_sim::{Context, NodeId, Route, SignalId, Span, Time};

pub use crate::access::{
    Access, Buffer, Direction, Done, Mapping, Rows, Slice, Unwritten, VirtualAccess,
};
pub use crate::ids::{AccessId, RequestId};

use crate::ids::{Format, PortId};
use crate::pe::{PortSpec, SlotMemory};

impl Done {
    /// Tells, and whether all went well.
    pub fn tell(self, well: bool, context: &mut Context<Message>) {
        match self {
            Self::Signal(signal) => context.raise(signal),
            Self::Core(node, token) => context.call(node, Message::DmaDone(token, well)),
            Self::Port { node, port, bytes, format, slot, record } => {
                let arrival = Arrival { port, bytes, format, slot, data: None, record };
                context.call(node, Message::Arrived(arrival));
            }
        }
    }
}

/// A message from a PE to another.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The launch that it belongs to.
    pub request: RequestId,
    /// The DMA engine of the receiver.
    pub to: NodeId,
    /// Where its slots are.
    pub memory: SlotMemory,
    /// How long they are.
    pub slot_bytes: u64,
    /// What comes there.
    pub arrival: Arrival,
}

/// A message that comes to a port.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The port.
    pub port: PortId,
    /// How long it is.
    pub bytes: u64,
    /// Format of its elements.
    pub format: Format,
    /// The slot that it goes into.
    pub slot: u32,
    /// What it says, in data mode; none if that is in the slot's memory.
    pub data: Option<Box<[u8]>>,
    /// The record of its sending, if that is kept.
    pub record: Option<u32>,
}

/// A credit on its way back to a sender.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    /// The launch that it belongs to.
    pub request: RequestId,
    /// The DMA engine of the sender.
    pub to: NodeId,
    /// The port there.
    pub port: PortId,
    /// What the message carries.
    pub bytes: u64,
    /// When it leaves.
    pub at: Time,
    /// The record of the receiving that freed the slot, if that is kept.
    pub record: Option<u32>,
}

/// A command that `IO_CPU` hands to cubes and each `M_CPU` to PEs, and whose completions they gather.
#[derive(Debug)]
pub struct Command {
    /// The request that it belongs to.
    pub request: RequestId,
    /// What the PEs are to do.
    pub body: Body,
    /// From the PCIe endpoint to `IO_CPU`.
    pub to_io_cpu: Route,
    /// And back.
    pub from_io_cpu: Route,
    /// The cubes that take part.
    pub cubes: Rc<[CommandCube]>,
    /// Raised when the host has the completion.
    pub done: SignalId,
}

/// What PEs are to do.
#[derive(Debug)]
pub enum Body {
    /// Run a kernel.
    Launch(Launch),
    /// Take mappings into the MMU.
    Map(Arc<[Mapping]>),
    /// Take mappings out of the MMU.
    Unmap(Arc<[Mapping]>),
    /// Install ports: of each PE its own, as many lists as PEs in the order of the command's.
    Connect(Arc<[Vec<PortSpec>]>),
    /// Take ports out.
    Disconnect(Arc<[Vec<PortSpec>]>),
}

/// A launch of a kernel.
#[derive(Debug)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// How long `IO_CPU` must look ahead so that every PE has its command when they start.
    pub lead: Span,
    /// When they are to start, once `IO_CPU` has said it.
    pub start: OnceCell<Time>,
    /// When they did start: then, or when the last had its command.
    pub started: OnceCell<Time>,
    /// How long each PE works.
    pub work: Span,
}

impl Command {
    /// What a message of it carries.
    pub fn bytes(&self) -> u64 {
        match &self.body {
            Body::Launch(_) => 0,
            Body::Map(mappings) | Body::Unmap(mappings) => mappings.len() as u64 * Mapping::BYTES,
            Body::Connect(ports) | Body::Disconnect(ports) => {
                let most = ports.iter().map(Vec::len).max().unwrap_or_default();
                most as u64 * PortSpec::BYTES
            }
        }
    }

    /// The launch, if it is one.
    pub fn launch(&self) -> Option<&Launch> {
        match &self.body {
            Body::Launch(launch) => Some(launch),
            _ => None,
        }
    }
}

/// What went wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The part that found it.
    pub origin: NodeId,
    /// What.
    pub what: String,
}

/// A cube that takes part in a command.
#[derive(Debug)]
pub struct CommandCube {
    /// From `IO_CPU` to the cube's `M_CPU`.
    pub to: Route,
    /// And back.
    pub back: Route,
    /// The PEs that take part.
    pub pes: Vec<CommandPe>,
}

/// A PE that takes part in a command.
#[derive(Debug)]
pub struct CommandPe {
    /// Its `PE_CPU` for a launch, its DMA engine with the MMU for mappings.
    pub node: NodeId,
    /// From `M_CPU` to it.
    pub to: Route,
    /// And back.
    pub back: Route,
    /// Raised when it has a launch's command and waits for the start.
    pub armed: Option<SignalId>,
}

/// What a transfer means, or a call. It is moved a dozen times from who sends it to who takes it, so what is
/// long is in a box.
#[derive(Debug)]
pub enum Message {
    /// To who makes requests: make this one.
    Issue(Box<Access>),
    /// To a memory: read, or take what comes with this.
    Access(Box<Access>),
    /// From a memory: the data, or that it is written.
    Answer(Box<Access>),
    /// To a PE's DMA: make this access, whose address is virtual.
    IssueVirtual(Box<VirtualAccess>),
    /// To the host's endpoint: send this command.
    Command(Rc<Command>),
    /// To `IO_CPU`: hand this on.
    CommandSip(Rc<Command>),
    /// To an `M_CPU`: hand this to the PEs of this cube of the command.
    CommandCube(Rc<Command>, usize),
    /// To a part of a PE: do this, as this PE of this cube of the command.
    CommandPe(Rc<Command>, usize, usize),
    /// To a `PE_CPU`: all of the launch are here; start at this instant.
    Start(RequestId, Time),
    /// To a `PE_CPU`: the access that it knows by this number is done, and whether all went well.
    DmaDone(u64, bool),
    /// To a PE's DMA: send this to another PE.
    SendPacket(Box<Packet>),
    /// To another PE's DMA: a message.
    Packet(Box<Packet>),
    /// To a `PE_CPU`: a message is there.
    Arrived(Arrival),
    /// To a PE's DMA: give this credit back.
    SendCredit(Credit),
    /// To another PE's DMA: a credit.
    Credit(Credit),
    /// To a `PE_CPU`: a port has a credit more.
    CreditBack(PortId, Option<u32>),
    /// To a PE's DMA: read this physical address, whatever the MMU says.
    ReadSlot(Box<VirtualAccess>),
    /// To a `PE_CPU`: its program was stopped; see whether it is over.
    Stopped,
    /// Back to an `M_CPU`: a PE is done.
    PeDone(Rc<Command>, usize),
    /// Back to `IO_CPU`: a cube is done.
    CubeDone(Rc<Command>),
    /// Back to the host: all is done.
    CommandDone(Rc<Command>),
    /// Something between components that are not ours.
    Custom(Box<dyn Any>),
}

const _: () = assert!(size_of::<Message>() <= 48, "a message is moved often: keep it short");

impl Message {
    /// The request that this is about.
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Self::Issue(access) | Self::Access(access) | Self::Answer(access) => {
                Some(access.request)
            }
            Self::IssueVirtual(access) | Self::ReadSlot(access) => Some(access.request),
            Self::SendPacket(packet) | Self::Packet(packet) => Some(packet.request),
            Self::SendCredit(credit) | Self::Credit(credit) => Some(credit.request),
            Self::Command(command)
            | Self::CommandSip(command)
            | Self::CommandCube(command, _)
            | Self::CommandPe(command, ..)
            | Self::PeDone(command, _)
            | Self::CubeDone(command)
            | Self::CommandDone(command) => Some(command.request),
            Self::Start(request, _) => Some(*request),
            Self::DmaDone(..)
            | Self::Arrived(_)
            | Self::CreditBack(..)
            | Self::Stopped
            | Self::Custom(_) => None,
        }
    }

    /// Whether a program of a PE has made it, and not a request.
    pub(crate) fn is_of_program(&self) -> bool {
        match self {
            Self::Issue(access) | Self::Access(access) | Self::Answer(access) => {
                !matches!(access.done, Done::Signal(_))
            }
            Self::Packet(_) | Self::Credit(_) => true,
            _ => false,
        }
    }
}
