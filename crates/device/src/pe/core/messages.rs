//! Messages to and from other PEs.

mod any;
mod receive;
mod send;

use cubeyard_sim::{Context, NodeId, Time};

use super::latest::Latest;
use super::{ANY, Core, RECEIVE, Run, SEND, State};
use crate::message::{Arrival, CommandTarget, Message, PortChange, RequestId};
use crate::pe::ipcq::{Arrived, Port, Ports};
use crate::pe::packed::Packed;
use crate::pe::{
    CommandId, CommandPart, OpCause, OpUnit, PortError, PortId, PortMessage, PortSpec, SlotMemory,
    SlotUse, Work,
};
use receive::Reading;

/// Token bit of a read from a slot.
pub(super) const SLOT_BIT: u64 = 1 << 62;

/// Messages of a program.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Departure of the last message.
    sent: Time,
    last_sent: Option<u32>,
    /// Ports that commands of this program wait for.
    wanted: Vec<PortId>,
    /// Commands that wait for a message from one of several ports, in order.
    undecided: Vec<CommandId>,
    /// Port of the most recent message received by such a command.
    last_any: Option<PortId>,
    reading: Vec<Reading>,
    /// Commands that free slots and wait for the last users of these slots.
    releasing: Vec<CommandId>,
}

impl Messages {
    pub(super) fn is_idle(&self) -> bool {
        self.reading.is_empty()
    }
}

impl Core {
    /// Installs the ports of a command, or removes them.
    pub(crate) fn connect(&mut self, target: &CommandTarget, change: &PortChange, node: NodeId) {
        let ports = &change.ports[target.index()];
        let result = if change.remove { self.ports.remove(ports) } else { self.install(ports) };
        if let Err(error) = result {
            self.shared.failures.note(target.command.request, node, error.to_string());
        }
    }

    fn install(&mut self, ports: &[PortSpec]) -> Result<(), PortError> {
        let topology = self.shared.wiring.topology();
        self.shared.races.with(|races| {
            ports.iter().for_each(|spec| races.knowledge.installed((self.dma, spec.port)));
        });
        self.ports.install(ports, |pe| topology.pe_dma(pe))
    }

    /// Puts a message into a slot, and returns whether the program may have waited for it.
    pub(crate) fn arrived(&mut self, arrival: Arrival, context: &Context<Message>) -> bool {
        let port = self.ports.get_mut(arrival.port).expect("messages are sent to ports that are");
        let Arrival { bytes, format, slot, data, record, .. } = arrival;
        // A message in the TCM is still to be written; a message in a memory has been.
        let write = self.shared.wiring.topology().spec().pe.core.tcm_write;
        let at = match port.spec.memory {
            SlotMemory::Tcm => context.now() + write.span(bytes),
            SlotMemory::At(_) => context.now(),
        };
        self.shared.mail.update(|mail| mail + 1);
        let is_visible = port.land(Arrived { at, bytes, format, data, slot, record });
        let Some(run) = self.run.as_mut().filter(|_| is_visible) else { return false };
        if !port.wanted.is_empty() {
            run.due.add(RECEIVE);
        }
        if !run.messages.undecided.is_empty() {
            run.due.add(ANY);
        }
        // The alarm of a memory may come before or after the core's own alarms at the same instant.
        !run.due.is_empty() || port.spec.memory != SlotMemory::Tcm
    }

    /// Receives a credit, and returns whether the program may have waited for it.
    pub(crate) fn credit(&mut self, port: PortId, record: Option<u32>) -> bool {
        let Some(port) = self.ports.get_mut(port) else { return false };
        port.credits += 1;
        port.credited = record;
        let starved = std::mem::take(&mut port.starved);
        if let Some(run) = self.run.as_mut().filter(|_| starved) {
            run.due.add(SEND);
        }
        starved
    }

    /// Returns the port, the slot and the length in bytes of each unreceived message.
    pub(crate) fn unreceived(&self) -> impl Iterator<Item = (PortSpec, u32, u64)> {
        self.ports.all().iter().flat_map(|port| {
            port.arrived.iter().map(|arrived| (port.spec, arrived.slot, arrived.bytes))
        })
    }

    /// Returns the sender of the message in a slot at the other end of a port.
    pub(crate) fn sender(&self, port: PortId, slot: u32) -> Option<(RequestId, CommandId)> {
        self.ports.get(port)?.senders.get(slot as usize).copied()
    }

    /// Resets all ports to their state after installation. No message may be on its way.
    pub(crate) fn reset_ports(&mut self) {
        self.shared.races.with(|races| {
            let ports = self.ports.all().iter();
            ports.for_each(|port| races.knowledge.installed((self.dma, port.spec.port)));
        });
        self.ports.reset();
    }

    /// Removes the waits of a failed program from the ports.
    pub(super) fn leave_ports(&mut self, run: &Run) {
        for &port in &run.messages.wanted {
            if let Some(port) = self.ports.get_mut(port) {
                port.wanted.clear();
            }
        }
    }

    /// Describes the message that a command waits for, for the report of a deadlock.
    pub(super) fn message_waits(&self, run: &Run, id: CommandId) -> Option<String> {
        if run.open == 0 {
            return None;
        }
        if let (Packed::Long(_), Some(Work::ReceiveAny(any))) = (run.packed(id), run.long(id)) {
            return Some(self.any_waits(run, id, any));
        }
        let (message, receives) = run.message(id)?;
        let port = self.ports.get(message.port)?;
        let what = run.program.describe(id);
        let peer = port.spec.peer;
        Some(if receives {
            format!("{what}: a message from {peer}")
        } else {
            format!("{what}: a free slot at {peer}, which has {}", port.spec.slots)
        })
    }
}

impl Run {
    pub(super) fn issue_send(&mut self, id: CommandId, message: PortMessage, ports: &mut Ports) {
        if self.port(id, message, ports).is_some() {
            self.stand(SEND, id);
        }
    }

    pub(super) fn issue_receive(&mut self, id: CommandId, message: PortMessage, ports: &mut Ports) {
        if let Some(port) = self.port(id, message, ports) {
            port.wanted.push_back(id);
            self.want(message.port);
        }
    }

    /// Issues a command whose message stays in its slot. Only a slot in the TCM can be held, because engines read no
    /// other memory.
    pub(super) fn issue_in_slot(
        &mut self,
        id: CommandId,
        message: PortMessage,
        usage: SlotUse,
        ports: &mut Ports,
    ) {
        let memory = ports.get(message.port).map(|port| port.spec.memory);
        if usage == SlotUse::Hold && matches!(memory, Some(SlotMemory::At(_))) {
            let what = self.program.describe(id);
            return self.fail(format!(
                "{what}: the slots of this port are not in the TCM, so a message must be copied: use recv"
            ));
        }
        self.issue_receive(id, message, ports);
    }

    pub(super) fn issue_release(&mut self, id: CommandId) {
        self.messages.releasing.push(id);
        self.due.add(RECEIVE);
    }

    /// Returns the use of a message that stays in its slot; `None` if the command copies the message.
    fn slot_use(&self, id: CommandId) -> Option<SlotUse> {
        match self.long(id) {
            Some(&Work::ReceiveInSlot(_, usage)) => Some(usage),
            _ => None,
        }
    }

    /// Returns the message that a command sends or receives, and whether it receives; `None` until its port is chosen.
    fn message(&self, id: CommandId) -> Option<(PortMessage, bool)> {
        match (self.packed(id), self.long(id)) {
            (Packed::Send(message, _), _) | (_, Some(&Work::Send(message))) => {
                Some((message, false))
            }
            (Packed::Receive(message, _), _)
            | (_, Some(&(Work::Receive(message) | Work::ReceiveInSlot(message, _)))) => {
                Some((message, true))
            }
            (Packed::Chosen(_, port), Some(Work::ReceiveAny(any))) => {
                Some((PortMessage { port, bytes: any.bytes, format: any.format }, true))
            }
            _ => None,
        }
    }

    /// Returns the port of a message. Fails the program if there is no such port or its slots are too short.
    fn port<'p>(
        &mut self,
        id: CommandId,
        message: PortMessage,
        ports: &'p mut Ports,
    ) -> Option<&'p mut Port> {
        let Some(port) = ports.get_mut(message.port) else {
            let what = self.program.describe(id);
            self.fail(format!("{what}: this PE has no such port"));
            return None;
        };
        if message.bytes > port.spec.slot_bytes {
            let what = self.program.describe(id);
            let (bytes, most) = (message.bytes, port.spec.slot_bytes);
            self.fail(format!("{what}: {bytes} bytes, but a slot has {most}"));
            return None;
        }
        Some(port)
    }

    fn want(&mut self, port: PortId) {
        if !self.messages.wanted.contains(&port) {
            self.messages.wanted.push(port);
        }
        self.due.add(RECEIVE);
    }

    fn message_done(
        &mut self,
        id: CommandId,
        unit: OpUnit,
        from: Latest,
        end: Time,
    ) -> Option<u32> {
        self.report.busy[unit as usize] += end - from.time;
        let record = self.record(id, CommandPart::Compute(0), unit, from, from.time, end);
        self.put_off(id, end, OpCause::Part, record.into());
        self.command_done(id);
        record
    }
}
