//! Messages among the built-in parts. Custom components do not exchange them.

use std::rc::Rc;

use cubeyard_sim::{NodeId, Time};

use super::{CommandTarget, HostCommand, Launch, MappingChange, PortChange};
use crate::access::VirtualAccess;
use crate::ids::{FormatId, PortId, RequestId};
use crate::pe::SlotMemory;

#[derive(Debug)]
pub enum HostMessage {
    /// Request to send this command to `IO_CPU`.
    Command(Rc<HostCommand>),
    Done(Rc<HostCommand>),
}

#[derive(Debug)]
pub enum IoCpuMessage {
    /// Request to distribute the command to its cubes.
    Command(Rc<HostCommand>),
    CubeDone(Rc<HostCommand>),
}

#[derive(Debug)]
pub enum MCpuMessage {
    /// Request to distribute the command to the PEs of the cube with this index in the command.
    Command(Rc<HostCommand>, u32),
    PeDone(CommandTarget),
}

#[derive(Debug)]
pub enum PeDmaMessage {
    /// Request to make this access, whose address is virtual.
    Access(Box<VirtualAccess>),
    /// Request to read this physical address, without translation by the MMU.
    ReadSlot(Box<VirtualAccess>),
    /// Request to send this message to another PE.
    SendPacket(Box<Packet>),
    /// Message that has arrived from another PE.
    Packet(Box<Packet>),
    /// Request to return a credit to the sender of a message.
    SendCredit {
        credit: Credit,
        bytes: u64,
        at: Time,
    },
    /// Credit that has come back from a receiver.
    Credit(Credit),
    Mappings(CommandTarget, Rc<MappingChange>),
}

#[derive(Debug)]
pub enum PeCpuMessage {
    Launch(CommandTarget, Rc<Launch>),
    Ports(CommandTarget, Rc<PortChange>),
    /// Start at this instant: all PEs of the launch have their commands.
    Start(RequestId, Time),
    /// Completion of the access with this number, and whether it succeeded.
    DmaDone(u64, bool),
    Arrived(Arrival),
    /// Credit that a port has received, and the record of the operation that freed the slot.
    Credit(PortId, Option<u32>),
    /// Notice that the program was stopped from outside.
    Stopped,
}

/// Message from one PE to another.
#[derive(Clone, Debug)]
pub struct Packet {
    pub request: RequestId,
    /// DMA engine of the receiver.
    pub to: NodeId,
    pub memory: SlotMemory,
    pub slot_bytes: u64,
    pub arrival: Arrival,
}

/// Message that arrives at a port.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub port: PortId,
    pub bytes: u64,
    pub format: FormatId,
    pub slot: u32,
    /// Content in data mode; `None` if it is in the slot's memory.
    pub data: Option<Box<[u8]>>,
    /// Record of the send operation, if records are kept.
    pub record: Option<u32>,
}

/// Credit on its way back to a sender.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    pub request: RequestId,
    /// DMA engine of the sender.
    pub to: NodeId,
    pub port: PortId,
    /// Record of the receive operation that freed the slot, if records are kept.
    pub record: Option<u32>,
}

impl PeDmaMessage {
    pub(super) fn request(&self) -> RequestId {
        match self {
            Self::Access(access) | Self::ReadSlot(access) => access.request,
            Self::SendPacket(packet) | Self::Packet(packet) => packet.request,
            Self::SendCredit { credit, .. } | Self::Credit(credit) => credit.request,
            Self::Mappings(target, _) => target.command.request,
        }
    }
}
