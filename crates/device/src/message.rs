//! Messages between the parts of a machine, one type for each kind of receiver.

mod command;

pub use command::{
    CommandBody, CommandCube, CommandPe, CommandTarget, HostCommand, Launch, MappingChange,
    PortChange,
};

use std::any::Any;
use std::rc::Rc;

use cubeyard_sim::{Context, NodeId, Time};

pub use crate::access::{
    Access, Buffer, Direction, Done, Mapping, Rows, Slice, Unwritten, VirtualAccess,
};
pub use crate::ids::RequestId;

use crate::ids::{Format, PortId};
use crate::pe::SlotMemory;

/// Content of a transfer or of a call, by its receiver. It is moved about a dozen times on its way, so long
/// contents are boxed.
#[derive(Debug)]
pub enum Message {
    /// To a memory: read, or store the data that comes with this.
    Memory(Box<Access>),
    /// To a part that makes accesses: the PCIe endpoint, an `M_CPU` or a PE's DMA.
    Requester(RequesterMessage),
    /// To the PCIe endpoint, behind which the host is.
    Host(HostMessage),
    /// To an `IO_CPU`.
    IoCpu(IoCpuMessage),
    /// To an `M_CPU`.
    MCpu(MCpuMessage),
    /// To a PE's DMA engine.
    PeDma(PeDmaMessage),
    /// To a `PE_CPU`.
    PeCpu(PeCpuMessage),
    /// To a component of the user's own.
    Custom(Box<dyn Any>),
}

const _: () = assert!(size_of::<Message>() <= 48, "a message is moved often: keep it short");

/// Message to a part that makes accesses.
#[derive(Debug)]
pub enum RequesterMessage {
    /// Make this access.
    Issue(Box<Access>),
    /// From a memory: the data of a read, or the acknowledgement of a write.
    Answer(Box<Access>),
}

/// Message to the PCIe endpoint about a command.
#[derive(Debug)]
pub enum HostMessage {
    /// Send this command to `IO_CPU`.
    Command(Rc<HostCommand>),
    /// All PEs have done the command.
    Done(Rc<HostCommand>),
}

/// Message to an `IO_CPU`.
#[derive(Debug)]
pub enum IoCpuMessage {
    /// Hand the command to its cubes.
    Command(Rc<HostCommand>),
    /// A cube has done the command.
    CubeDone(Rc<HostCommand>),
}

/// Message to an `M_CPU`.
#[derive(Debug)]
pub enum MCpuMessage {
    /// Hand the command to the PEs of the cube of this index in it.
    Command(Rc<HostCommand>, u32),
    /// A PE of the cube has done the command.
    PeDone(CommandTarget),
}

/// Message to a PE's DMA engine.
#[derive(Debug)]
pub enum PeDmaMessage {
    /// Make this access, whose address is virtual.
    Access(Box<VirtualAccess>),
    /// Read this physical address; the MMU is not asked.
    ReadSlot(Box<VirtualAccess>),
    /// Send this to another PE.
    SendPacket(Box<Packet>),
    /// A message has come from another PE.
    Packet(Box<Packet>),
    /// Return a credit to the sender of a message.
    SendCredit {
        /// Credit to return.
        credit: Credit,
        /// Payload of its message, in bytes.
        bytes: u64,
        /// Time of departure.
        at: Time,
    },
    /// A credit has come back from a receiver.
    Credit(Credit),
    /// Change the mappings of the MMU.
    Mappings(CommandTarget, Rc<MappingChange>),
}

/// Message to a `PE_CPU`.
#[derive(Debug)]
pub enum PeCpuMessage {
    /// Wait for the start of this launch.
    Launch(CommandTarget, Rc<Launch>),
    /// Install ports, or remove them.
    Ports(CommandTarget, Rc<PortChange>),
    /// All PEs of the launch have their commands; start at this instant.
    Start(RequestId, Time),
    /// The access of this number is done; whether it succeeded.
    DmaDone(u64, bool),
    /// A message is in a slot.
    Arrived(Arrival),
    /// A port has one more credit, freed by the operation of this record.
    Credit(PortId, Option<u32>),
    /// The program was stopped from outside.
    Stopped,
}

/// A message from a PE to another.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Launch that it belongs to.
    pub request: RequestId,
    /// DMA engine of the receiver.
    pub to: NodeId,
    /// Memory that holds the receiver's slots.
    pub memory: SlotMemory,
    /// Length of a slot, in bytes.
    pub slot_bytes: u64,
    /// Message as it reaches the port.
    pub arrival: Arrival,
}

/// A message that comes to a port.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Port of the receiver.
    pub port: PortId,
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Format of its elements.
    pub format: Format,
    /// Slot that it goes into.
    pub slot: u32,
    /// Content in data mode; none if it is in the slot's memory.
    pub data: Option<Box<[u8]>>,
    /// Record of the send operation, if records are kept.
    pub record: Option<u32>,
}

/// A credit on its way back to a sender.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    /// Launch that it belongs to.
    pub request: RequestId,
    /// DMA engine of the sender.
    pub to: NodeId,
    /// Port of the sender.
    pub port: PortId,
    /// Record of the receive operation that freed the slot, if records are kept.
    pub record: Option<u32>,
}

impl Done {
    /// Reports the end of the access, and whether it succeeded.
    pub fn tell(self, well: bool, context: &mut Context<Message>) {
        match self {
            Self::Signal(signal) => context.raise(signal),
            Self::Core(node, token) => {
                context.call(node, PeCpuMessage::DmaDone(token, well).into());
            }
            Self::Port { node, port, bytes, format, slot, record } => {
                let arrival = Arrival { port, bytes, format, slot, data: None, record };
                context.call(node, PeCpuMessage::Arrived(arrival).into());
            }
        }
    }
}

impl Message {
    /// Returns the request that the message belongs to.
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Self::Memory(access)
            | Self::Requester(RequesterMessage::Issue(access) | RequesterMessage::Answer(access)) => {
                Some(access.request)
            }
            Self::Host(HostMessage::Command(command) | HostMessage::Done(command))
            | Self::IoCpu(IoCpuMessage::Command(command) | IoCpuMessage::CubeDone(command))
            | Self::MCpu(MCpuMessage::Command(command, _)) => Some(command.request),
            Self::MCpu(MCpuMessage::PeDone(target)) => Some(target.command.request),
            Self::PeDma(message) => Some(message.request()),
            Self::PeCpu(PeCpuMessage::Launch(target, _) | PeCpuMessage::Ports(target, _)) => {
                Some(target.command.request)
            }
            Self::PeCpu(PeCpuMessage::Start(request, _)) => Some(*request),
            Self::PeCpu(_) | Self::Custom(_) => None,
        }
    }

    /// Returns whether a program of a PE caused it, and not a request.
    pub(crate) fn is_of_program(&self) -> bool {
        match self {
            Self::Memory(access)
            | Self::Requester(RequesterMessage::Issue(access) | RequesterMessage::Answer(access)) => {
                !matches!(access.done, Done::Signal(_))
            }
            Self::PeDma(message) => {
                matches!(message, PeDmaMessage::Packet(_) | PeDmaMessage::Credit(_))
            }
            _ => false,
        }
    }
}

impl PeDmaMessage {
    fn request(&self) -> RequestId {
        match self {
            Self::Access(access) | Self::ReadSlot(access) => access.request,
            Self::SendPacket(packet) | Self::Packet(packet) => packet.request,
            Self::SendCredit { credit, .. } | Self::Credit(credit) => credit.request,
            Self::Mappings(target, _) => target.command.request,
        }
    }
}

/// Wraps the message of each kind of receiver.
macro_rules! receivers {
    ($($receiver:ident: $message:ty),* $(,)?) => {$(
        impl From<$message> for Message {
            fn from(message: $message) -> Self {
                Self::$receiver(message)
            }
        }
    )*};
}

receivers! {
    Requester: RequesterMessage,
    Host: HostMessage,
    IoCpu: IoCpuMessage,
    MCpu: MCpuMessage,
    PeDma: PeDmaMessage,
    PeCpu: PeCpuMessage,
}
