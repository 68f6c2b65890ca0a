//! Message rings between PEs: `PE_IPCQ`.
//!
//! A port of a PE is one end of a channel to another PE, which delivers messages in order. Each direction of a channel
//! is a ring of slots at the receiver. A sender has a credit for each free slot, and gets a credit back through the
//! fabric when the receiver has taken a message out. Data and metadata travel together, so a message arrives as a
//! whole.
//!
//! Slots in a memory with several channels may be written and read in another order than the messages were sent. A
//! message is visible to the receiver when its slot and the slots of all earlier messages are written. A slot becomes
//! free when it and the slots of all earlier messages are read.
//!
//! A port is identified by its number at both ends, never by the sender: two PEs may have several channels
//! between them, as in a ring of two.

use std::collections::VecDeque;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{NodeId, Span, Time};
use thiserror::Error;

use crate::ids::{CommandId, FormatId, PeRef, PortId, RequestId};

/// Memory that holds the slots of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotMemory {
    /// TCM of the receiver.
    Tcm,
    /// SRAM or HBM of the receiver's cube, starting at this address. A message is written there, and read when it is
    /// received.
    At(PhysAddr),
}

/// Method by which a receiver notices a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// The receiver is woken by the message.
    Sleep,
    /// The receiver polls at this interval.
    Poll(Span),
}

/// One end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Number of the port on this PE.
    pub port: PortId,
    /// PE at the other end.
    pub peer: PeRef,
    /// Number of the port at the other end.
    pub peer_port: PortId,
    /// Number of slots in the ring at each end.
    pub slots: u32,
    /// Length of a slot, in bytes.
    pub slot_bytes: u64,
    /// Memory of the slots at this end.
    pub memory: SlotMemory,
    /// Memory of the slots at the other end.
    pub peer_memory: SlotMemory,
    /// Payload of the message that returns a credit, in bytes.
    pub credit_bytes: u64,
    /// Method by which this end notices messages.
    pub waiting: WaitMode,
}

impl PortSpec {
    /// Length of an entry in the message that installs the port, in bytes.
    pub const BYTES: u64 = 32;
}

/// Error of installing or removing a port.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PortError {
    /// A port with that number exists.
    #[error("port {0} already exists")]
    Taken(u32),
    /// No port with that number exists.
    #[error("there is no port {0}")]
    None(u32),
    /// Messages are in the port's slots.
    #[error("port {port} is in use: {what}")]
    InUse {
        /// Number of the port.
        port: u32,
        /// Description of the contents of the port's slots.
        what: String,
    },
}

/// Message in a slot that no command has taken.
#[derive(Debug)]
pub(super) struct Arrived {
    /// Time at which the message's slot and the slots of all earlier messages are written.
    pub(super) at: Time,
    pub(super) bytes: u64,
    pub(super) format: FormatId,
    pub(super) data: Option<Box<[u8]>>,
    pub(super) slot: u32,
    /// Record of the send operation, if records are kept.
    pub(super) record: Option<u32>,
}

/// Slot whose message was taken, but that is not free for the sender yet: this slot or an earlier one is held.
#[derive(Debug)]
pub(super) struct TakenSlot {
    pub(super) by: CommandId,
    /// Time since which the receiver no longer needs the slot, and the record of the operation that freed it.
    pub(super) freed: Option<(Time, Option<u32>)>,
}

/// State of one end of a channel.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) spec: PortSpec,
    /// DMA engine of the other end.
    pub(super) peer: NodeId,
    /// Number of free slots at the other end.
    pub(super) credits: u32,
    /// Whether a command waits for a credit.
    pub(super) starved: bool,
    /// Record of the receive operation that freed the last slot, if records are kept.
    pub(super) credited: Option<u32>,
    /// Number of messages sent so far. The next message goes into the slot of this number, modulo the number of slots.
    pub(super) sent: u64,
    /// Launch and command of the last message in each slot used so far at the other end.
    pub(super) senders: Vec<(RequestId, CommandId)>,
    /// Visible messages, in order.
    pub(super) arrived: VecDeque<Arrived>,
    /// Messages in slots that were written before the slot of an earlier message.
    early: Vec<Arrived>,
    /// Number of messages that have become visible so far. The next one is in the slot of this number, modulo the
    /// number of slots.
    landed: u64,
    /// Time at which the most recent message became visible.
    landed_at: Time,
    /// Slots from the first held one on. The sender uses slots in order, so they become free in order.
    pub(super) taken: VecDeque<TakenSlot>,
    /// Commands that wait for a message of this port, in order.
    pub(super) wanted: VecDeque<CommandId>,
}

/// Ports of a PE, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// Numbers of the first ports, for fast lookup: most PEs have few ports.
    first: [Option<PortId>; FEW],
    ids: Vec<PortId>,
    list: Vec<Port>,
}

const FEW: usize = 4;

impl Ports {
    /// Installs all ports, or none if one of them fails.
    pub(super) fn install(
        &mut self,
        specs: &[PortSpec],
        dma: impl Fn(PeRef) -> NodeId,
    ) -> Result<(), PortError> {
        if let Some(taken) = specs.iter().find(|spec| self.get(spec.port).is_some()) {
            return Err(PortError::Taken(taken.port.0));
        }
        for &spec in specs {
            let place = self.ids.partition_point(|&id| id < spec.port);
            self.ids.insert(place, spec.port);
            self.list.insert(place, Port::new(spec, dma(spec.peer)));
        }
        self.note_first();
        Ok(())
    }

    /// Removes all ports, or none if one of them fails. The caller must wait for credits on their way.
    pub(super) fn remove(&mut self, ids: &[PortSpec]) -> Result<(), PortError> {
        for spec in ids {
            let id = spec.port;
            let port = self.get(id).ok_or(PortError::None(id.0))?;
            if !port.arrived.is_empty() {
                let what = format!("{} messages were not received", port.arrived.len());
                return Err(PortError::InUse { port: id.0, what });
            }
        }
        for spec in ids {
            if let Some(place) = self.place(spec.port) {
                self.ids.remove(place);
                self.list.remove(place);
                self.note_first();
            }
        }
        Ok(())
    }

    pub(super) fn all(&self) -> &[Port] {
        &self.list
    }

    /// Resets all ports to their state after installation: no messages, and all slots free.
    pub(super) fn reset(&mut self) {
        self.list.iter_mut().for_each(|port| *port = Port::new(port.spec, port.peer));
    }

    fn note_first(&mut self) {
        self.first = std::array::from_fn(|place| self.ids.get(place).copied());
    }

    pub(super) fn get(&self, id: PortId) -> Option<&Port> {
        self.place(id).map(|place| &self.list[place])
    }

    pub(super) fn get_mut(&mut self, id: PortId) -> Option<&mut Port> {
        self.place(id).map(|place| &mut self.list[place])
    }

    fn place(&self, id: PortId) -> Option<usize> {
        let place = self.first.iter().position(|first| *first == Some(id));
        place.or_else(|| self.ids.binary_search(&id).ok())
    }
}

impl Port {
    /// Creates one end of a channel, without messages and with all slots free.
    fn new(spec: PortSpec, peer: NodeId) -> Self {
        Self {
            spec,
            peer,
            credits: spec.slots,
            starved: false,
            credited: None,
            sent: 0,
            senders: Vec::new(),
            arrived: VecDeque::new(),
            early: Vec::new(),
            landed: 0,
            landed_at: Time::ZERO,
            taken: VecDeque::new(),
            wanted: VecDeque::new(),
        }
    }

    pub(super) fn next_slot(&self) -> u32 {
        self.slot_of(self.sent)
    }

    /// Returns the slot of a message by its number in the channel.
    fn slot_of(&self, message: u64) -> u32 {
        u32::try_from(message % u64::from(self.spec.slots)).expect("less than the slots")
    }

    /// Accepts a message whose slot is written, and returns whether a message became visible.
    pub(super) fn land(&mut self, message: Arrived) -> bool {
        self.early.push(message);
        let before = self.landed;
        // Each slot has at most one message, in it or on its way, so a slot identifies a message.
        while let Some(place) =
            self.early.iter().position(|it| it.slot == self.slot_of(self.landed))
        {
            let message = self.early.swap_remove(place);
            self.landed_at = self.landed_at.max(message.at);
            self.landed += 1;
            self.arrived.push_back(Arrived { at: self.landed_at, ..message });
        }
        self.landed > before
    }

    pub(super) fn sends(&mut self, slot: u32, launch: RequestId, command: CommandId) {
        // Slots are used in order, so the slot is an existing one or the one after the last.
        match self.senders.get_mut(slot as usize) {
            Some(sender) => *sender = (launch, command),
            None => self.senders.push((launch, command)),
        }
        self.sent += 1;
        self.credits -= 1;
    }

    /// Records that the receiver no longer needs a slot. Returns the release time of each slot that has thereby become
    /// free.
    pub(super) fn free(
        &mut self,
        by: CommandId,
        at: Time,
        record: Option<u32>,
    ) -> Vec<(Time, Option<u32>)> {
        if let Some(taken) = self.taken.iter_mut().find(|taken| taken.by == by) {
            taken.freed = Some((at, record));
        }
        let mut free = Vec::new();
        while let Some((since, record)) = self.taken.front().and_then(|taken| taken.freed) {
            self.taken.pop_front();
            free.push((since.max(at), record));
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use cubeyard_memory::address::{CubeId, PeId, SipId};

    use super::*;

    fn spec(port: u32) -> PortSpec {
        let peer = PeRef {
            sip: SipId::new(0).unwrap(),
            cube: CubeId::new(0).unwrap(),
            pe: PeId::new(0).unwrap(),
        };
        PortSpec {
            port: PortId(port),
            peer,
            peer_port: PortId(port),
            slots: 1,
            slot_bytes: 1,
            memory: SlotMemory::Tcm,
            peer_memory: SlotMemory::Tcm,
            credit_bytes: 0,
            waiting: WaitMode::Sleep,
        }
    }

    #[test]
    fn ports_are_found_by_their_numbers_as_they_come_and_go() {
        let mut ports = Ports::default();
        let there = |ports: &Ports| -> Vec<u32> {
            let its = |id: u32| ports.get(PortId(id)).is_some_and(|port| port.spec.port.0 == id);
            (0..20).filter(|&id| its(id)).collect()
        };
        let install = |ports: &mut Ports, ids: &[u32]| {
            let specs: Vec<_> = ids.iter().map(|&id| spec(id)).collect();
            ports.install(&specs, |_| NodeId::new(0))
        };
        install(&mut ports, &[9, 2, 14, 5, 11, 3]).unwrap();
        assert_eq!(there(&ports), [2, 3, 5, 9, 11, 14]);
        assert_eq!(install(&mut ports, &[1, 11]), Err(PortError::Taken(11)));
        ports.remove(&[spec(2), spec(5), spec(14)]).unwrap();
        assert_eq!(there(&ports), [3, 9, 11]);
        assert_eq!(ports.remove(&[spec(3), spec(5)]), Err(PortError::None(5)));
        install(&mut ports, &[1, 19]).unwrap();
        assert_eq!(there(&ports), [1, 3, 9, 11, 19]);
    }
}
