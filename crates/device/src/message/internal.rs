//! Messages among our own parts. A component of the user's own has no part in them.

use std::rc::Rc;

use cubeyard_sim::{NodeId, Time};

use super::{CommandTarget, HostCommand, Launch, MappingChange, PortChange};
use crate::access::VirtualAccess;
use crate::ids::{FormatId, PortId, RequestId};
use crate::pe::SlotMemory;

#[derive(Debug)]
pub enum HostMessage {
    /// Send this command to `IO_CPU`.
    Command(Rc<HostCommand>),
    Done(Rc<HostCommand>),
}

#[derive(Debug)]
pub enum IoCpuMessage {
    /// Hand the command to its cubes.
    Command(Rc<HostCommand>),
    CubeDone(Rc<HostCommand>),
}

#[derive(Debug)]
pub enum MCpuMessage {
    /// Hand the command to the PEs of the cube of this index in it.
    Command(Rc<HostCommand>, u32),
    PeDone(CommandTarget),
}

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
        credit: Credit,
        bytes: u64,
        at: Time,
    },
    /// A credit has come back from a receiver.
    Credit(Credit),
    Mappings(CommandTarget, Rc<MappingChange>),
}

#[derive(Debug)]
pub enum PeCpuMessage {
    Launch(CommandTarget, Rc<Launch>),
    Ports(CommandTarget, Rc<PortChange>),
    /// All PEs of the launch have their commands; start at this instant.
    Start(RequestId, Time),
    /// The access of this number is done; whether it succeeded.
    DmaDone(u64, bool),
    Arrived(Arrival),
    /// A port has one more credit, freed by the operation of this record.
    Credit(PortId, Option<u32>),
    /// The program was stopped from outside.
    Stopped,
}

/// A message from a PE to another.
#[derive(Clone, Debug)]
pub struct Packet {
    pub request: RequestId,
    /// DMA engine of the receiver.
    pub to: NodeId,
    pub memory: SlotMemory,
    pub slot_bytes: u64,
    pub arrival: Arrival,
}

/// A message that comes to a port.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub port: PortId,
    pub bytes: u64,
    pub format: FormatId,
    pub slot: u32,
    /// Content in data mode; none if it is in the slot's memory.
    pub data: Option<Box<[u8]>>,
    /// Record of the send operation, if records are kept.
    pub record: Option<u32>,
}

/// A credit on its way back to a sender.
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
