//! Messages to and from other PEs.

use std::cell::Cell;
use std::rc::Rc;

use cubeyard_sim::{Context, NodeId, Span, Time};

use super::latest::Latest;
use super::{Core, Run, State};
use crate::message::{
    Arrival, Body, Buffer, Command, Credit, Direction, Done, Failure, Message, Packet, Slice,
    VirtualAccess,
};
use crate::pe::ipcq::{Arrived, Port, Ports};
use crate::pe::{Cause, CommandId, OpRecord, OpUnit, Part, PortId, SlotMemory, Waiting, Work};
use crate::wiring::Wiring;

/// Set in the token of a slot that is read.
pub(super) const SLOT_BIT: u64 = 1 << 62;

/// A message that is being read from a slot in memory.
#[derive(Debug)]
pub(super) struct Reading {
    id: CommandId,
    port: PortId,
    start: Latest,
    buffer: Option<Buffer>,
}

/// The messages of a program.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The commands that send, in order.
    pub(super) sends: std::collections::VecDeque<CommandId>,
    /// When the last of them has left.
    sent: Time,
    last_sent: Option<u32>,
    /// The ports that commands of this program want messages from.
    wanted: Vec<PortId>,
    reading: Vec<Reading>,
}

impl Core {
    /// Installs the ports of a command, or takes them out.
    pub fn connect(&mut self, command: &Command, cube: usize, pe: usize, node: NodeId) {
        let place = cube * command.cubes[0].pes.len() + pe;
        let result = match &command.body {
            Body::Connect(ports) => {
                let dma = |pe: crate::request::PeRef| {
                    self.wiring.topology().pe_dma(pe.sip, pe.cube, pe.pe)
                };
                self.ports.install(&ports[place], dma)
            }
            Body::Disconnect(ports) => self.ports.remove(&ports[place]),
            _ => unreachable!("only ports are connected"),
        };
        if let Err(error) = result {
            self.wiring.fail(command.request, Failure { origin: node, what: error.to_string() });
        }
    }

    /// A message has come into a slot.
    pub fn arrived(&mut self, arrival: Arrival, context: &Context<Message>) {
        let port = self.ports.get_mut(arrival.port).expect("messages are sent to ports that are");
        let Arrival { bytes, slot, data, record, .. } = arrival;
        // What comes into the TCM must be written there; a memory has done so.
        let write = self.wiring.topology().spec().pe.core.tcm_write;
        let at = match port.spec.memory {
            SlotMemory::Tcm => context.now() + write.span(bytes),
            SlotMemory::At(_) => context.now(),
        };
        port.arrived.push_back(Arrived { at, bytes, data, slot, record });
    }

    /// A slot at the other end of a port is free again.
    pub fn credit(&mut self, port: PortId, record: Option<u32>) {
        if let Some(port) = self.ports.get_mut(port) {
            port.credits += 1;
            port.credited = record;
        }
    }

    /// What a port is at, for the report of a deadlock.
    pub(super) fn message_waits(&self, run: &Run, id: CommandId) -> Option<String> {
        let command = run.slot(id).command.as_ref()?;
        let (message, receives) = match &command.work {
            Work::Receive(message) => (message, true),
            Work::Send(message) => (message, false),
            _ => return None,
        };
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
    /// A command that sends or receives has been issued.
    pub(super) fn issue_message(&mut self, id: CommandId, ports: &mut Ports, wiring: &Wiring) {
        let command = self.slot(id).command.as_ref().expect("it was just issued");
        let (message, receives) = match &command.work {
            Work::Send(message) => (*message, false),
            Work::Receive(message) => (*message, true),
            _ => return,
        };
        let Some(port) = ports.get_mut(message.port) else {
            let what = self.program.describe(id);
            return self.fail(format!("{what}: this PE has no such port"), wiring);
        };
        if message.bytes > port.spec.slot_bytes {
            let what = self.program.describe(id);
            let (bytes, most) = (message.bytes, port.spec.slot_bytes);
            return self.fail(format!("{what}: {bytes} bytes, but a slot has {most}"), wiring);
        }
        if receives {
            port.wanted.push_back(id);
            self.messages.wanted.push(message.port);
        } else {
            self.messages.sends.push_back(id);
        }
    }

    /// Sends what can leave now: whether anything did.
    pub(super) fn send(
        &mut self,
        ports: &mut Ports,
        dma: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) -> bool {
        let mut moved = false;
        while let Some(&id) = self.messages.sends.front() {
            let command = self.slot(id).command.as_ref().expect("it is under way");
            let Work::Send(message) = command.work else { unreachable!("only sends are queued") };
            let Some(ready) = self.ready(id, &command.after) else { break };
            let last = self.messages.last_sent;
            let ready = ready.or(self.messages.sent, Cause::Unit, last);
            let port = ports.get_mut(message.port).expect("checked when it was issued");
            if port.credits == 0 {
                break;
            }
            if ready.time > context.now() {
                self.set_alarm(3, ready.time, context);
                break;
            }
            self.messages.sends.pop_front();
            let data = self.has_data.then(|| self.program.payload(id, 0)).transpose();
            match data {
                Ok(data) => self.leave(id, ready, port, message.bytes, data, dma, context, wiring),
                Err(what) => self.fail(what, wiring),
            }
            moved = true;
        }
        moved
    }

    #[expect(clippy::too_many_arguments, reason = "what a message is made of, in one place")]
    fn leave(
        &mut self,
        id: CommandId,
        ready: Latest,
        port: &mut Port,
        bytes: u64,
        data: Option<Vec<u8>>,
        dma: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) {
        let slot = port.next_slot();
        port.sent += 1;
        port.credits -= 1;
        let pe = &wiring.topology().spec().pe;
        let now = context.now();
        let end = now + pe.dma_overhead + pe.link.bandwidth.span(bytes);
        // What could have left before waited for the credit that came now.
        let from = if ready.time < now {
            Latest { time: now, cause: Cause::Message, record: port.credited }
        } else {
            ready
        };
        let record = self.message_done(id, OpUnit::Send, from, end, wiring);
        let arrival = Arrival { port: port.spec.peer_port, bytes, slot, data, record };
        let packet = Packet {
            request: self.request,
            to: port.peer,
            memory: port.spec.peer_memory,
            slot_bytes: port.spec.slot_bytes,
            arrival,
        };
        context.call(dma, Message::SendPacket(packet));
        self.messages.sent = end;
        self.report.moved[1] += bytes;
        self.messages.last_sent = record;
    }

    /// Takes messages that are there and wanted: whether there were any.
    pub(super) fn receive(
        &mut self,
        ports: &mut Ports,
        dma: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) -> bool {
        let mut moved = false;
        for place in 0..self.messages.wanted.len() {
            let id = self.messages.wanted[place];
            let port = ports.get_mut(id).expect("checked when it was issued");
            while !matches!(self.state, State::Failed) && self.take(port, dma, context, wiring) {
                moved = true;
            }
        }
        self.messages
            .wanted
            .retain(|&id| ports.get(id).is_some_and(|port| !port.wanted.is_empty()));
        moved
    }

    /// Takes the next message of a port, if it is there and wanted.
    fn take(
        &mut self,
        port: &mut Port,
        dma: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) -> bool {
        let (Some(&id), Some(arrived)) = (port.wanted.front(), port.arrived.front()) else {
            return false;
        };
        let command = self.slot(id).command.as_ref().expect("it is under way");
        let Work::Receive(message) = command.work else { unreachable!("only receives are wanted") };
        let Some(ready) = self.ready(id, &command.after) else { return false };
        if arrived.bytes != message.bytes {
            let (found, peer) = (arrived.bytes, port.spec.peer);
            let what = self.program.describe(id);
            let what = format!("{what}: the message from {peer} has {found} bytes");
            self.fail(what, wiring);
            return false;
        }
        let start = ready.or(arrived.at, Cause::Message, arrived.record);
        let start = Latest { time: noticed(port.spec.waiting, ready.time, start.time), ..start };
        match port.spec.memory {
            SlotMemory::Tcm => self.take_from_tcm(id, port, start, dma, context, wiring),
            SlotMemory::At(_) if start.time > context.now() => {
                self.set_alarm(4, start.time, context);
                return false;
            }
            SlotMemory::At(base) => self.read_slot(id, port, start, base.to_bits(), dma, context),
        }
        true
    }

    fn take_from_tcm(
        &mut self,
        id: CommandId,
        port: &mut Port,
        start: Latest,
        dma: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) {
        port.wanted.pop_front();
        let arrived = port.arrived.pop_front().expect("looked at before");
        let read = wiring.topology().spec().pe.core.tcm_read.span(arrived.bytes);
        let end = start.time + read;
        self.report.moved[0] += arrived.bytes;
        if let Some(data) = arrived.data.filter(|_| self.has_data) {
            let result = self.program.loaded(id, 0, data, None);
            self.check(result, wiring);
        }
        let record = self.message_done(id, OpUnit::Receive, start, end, wiring);
        self.give_back(port, end, record, dma, context);
    }

    fn read_slot(
        &mut self,
        id: CommandId,
        port: &mut Port,
        start: Latest,
        base: u64,
        dma: NodeId,
        context: &mut Context<Message>,
    ) {
        port.wanted.pop_front();
        let arrived = port.arrived.pop_front().expect("looked at before");
        let bytes = arrived.bytes;
        let buffer = self
            .has_data
            .then(|| Buffer::new(vec![0; usize::try_from(bytes).expect("it fits memory")].into()));
        let unwritten = Rc::new(Cell::new(None));
        let data = buffer.as_ref().map(|buffer| Slice {
            buffer: Rc::clone(buffer),
            offset: 0,
            unwritten: Some(unwritten),
        });
        let access = VirtualAccess {
            request: self.request,
            direction: Direction::Read,
            address: base + u64::from(arrived.slot) * port.spec.slot_bytes,
            bytes,
            rows: None,
            data,
            done: Done::Core(self.node, SLOT_BIT | u64::from(id)),
        };
        let start = Latest { time: context.now(), ..start };
        self.messages.reading.push(Reading { id, port: port.spec.port, start, buffer });
        self.report.moved[0] += bytes;
        context.call(dma, Message::ReadSlot(access));
    }

    /// A slot in memory has been read.
    pub(super) fn slot_read(
        &mut self,
        token: u64,
        ports: &mut Ports,
        dma: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) {
        let its = |reading: &Reading| SLOT_BIT | u64::from(reading.id) == token;
        let place = self.messages.reading.iter().position(its).expect("it is being read");
        let Reading { id, port, start, buffer } = self.messages.reading.swap_remove(place);
        if let Some(buffer) = buffer {
            let result = self.program.loaded(id, 0, buffer.take(), None);
            self.check(result, wiring);
        }
        let record = self.message_done(id, OpUnit::Receive, start, context.now(), wiring);
        let port = ports.get_mut(port).expect("it is in use");
        self.give_back(port, context.now(), record, dma, context);
    }

    /// Returns the credit of a message that has been taken.
    fn give_back(
        &self,
        port: &Port,
        at: Time,
        record: Option<u32>,
        dma: NodeId,
        context: &mut Context<Message>,
    ) {
        let credit = Credit {
            request: self.request,
            to: port.peer,
            port: port.spec.peer_port,
            bytes: port.spec.credit_bytes,
            at,
            record,
        };
        context.call(dma, Message::SendCredit(credit));
    }

    fn message_done(
        &mut self,
        id: CommandId,
        unit: OpUnit,
        from: Latest,
        end: Time,
        wiring: &Wiring,
    ) -> Option<u32> {
        self.report.busy[unit as usize] += end - from.time;
        let record = self.record(
            |run| OpRecord {
                request: run.request,
                pe: run.node,
                command: id,
                part: Part::Compute(0),
                unit,
                start: from.time,
                end,
                began: from.reason(),
                from: from.time,
                ended: from.reason(),
            },
            wiring,
        );
        let slot = self.slot_mut(id);
        slot.left = 0;
        slot.end = slot.end.or(end, Cause::Part, record);
        self.command_done(id);
        record
    }
}

/// When a receiver that waits since `since` notices what came at `came`.
fn noticed(waiting: Waiting, since: Time, came: Time) -> Time {
    match waiting {
        Waiting::Poll(every) if every > Span::ZERO && came > since => {
            since + every * (came - since).ps().div_ceil(every.ps())
        }
        _ => came,
    }
}
