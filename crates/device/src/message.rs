//! Messages between the parts of a machine, one type for each kind of receiver.

mod command;
mod internal;

pub(crate) use command::{
    CommandBody, CommandCube, CommandPe, CommandTarget, HostCommand, Launch, MappingChange,
    PortChange,
};
pub(crate) use internal::{
    Arrival, Credit, HostMessage, IoCpuMessage, MCpuMessage, Packet, PeCpuMessage, PeDmaMessage,
};

use std::any::Any;

use cubeyard_sim::Context;

pub use crate::access::{
    Access, Buffer, Direction, Done, Mapping, Rows, Slice, Unwritten, VirtualAccess,
};
pub use crate::ids::RequestId;

/// Content of a transfer or of a call, by receiver. A message is moved about a dozen times, so long contents are boxed.
#[derive(Debug)]
pub enum Message {
    /// To a memory: read, or store the data that travels with this message.
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
    /// To a custom component.
    Custom(Box<dyn Any>),
}

const _: () = assert!(size_of::<Message>() <= 48, "a message is moved often: keep it short");

/// Message to a part that makes accesses.
#[derive(Debug)]
pub enum RequesterMessage {
    /// Request to make this access.
    Issue(Box<Access>),
    /// From a memory: the data of a read, or the acknowledgement of a write.
    Answer(Box<Access>),
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

    /// Returns whether a program on a PE caused the message, rather than a request.
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

/// Implements the conversion into [`Message`] for each kind of receiver.
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
