//! Messages from other PEs: each is taken from its slot, which is then freed.

use std::cell::Cell;
use std::rc::Rc;

use cubeyard_sim::{Context, Span, Time};

use super::{Latest, RECEIVE, Run, SLOT_BIT, State};
use crate::message::{
    Buffer, Credit, Direction, Done, Message, PeDmaMessage, Slice, VirtualAccess,
};
use crate::pe::ipcq::{Port, Ports, TakenSlot};
use crate::pe::{
    CommandId, Dma, HeldSlot, OpCause, OpUnit, PortId, SlotMemory, SlotUse, WaitMode, Work,
};

/// Message that is being read from a slot in memory.
#[derive(Debug)]
pub(super) struct Reading {
    id: CommandId,
    port: PortId,
    start: Latest,
    buffer: Option<Buffer>,
    /// Whether the message stays in its slot.
    stays: bool,
}

impl Run {
    pub(in crate::pe::core) fn receive(
        &mut self,
        ports: &mut Ports,
        context: &mut Context<Message>,
    ) {
        self.release(ports, context);
        let mut wanted = std::mem::take(&mut self.messages.wanted);
        wanted.retain(|&id| {
            let port = ports.get_mut(id).expect("checked when it was issued");
            while !matches!(self.state, State::Failed) && self.take(port, context) {}
            !port.wanted.is_empty()
        });
        self.messages.wanted = wanted;
    }

    /// Takes the next message of a port, if a command waits for it.
    fn take(&mut self, port: &mut Port, context: &mut Context<Message>) -> bool {
        let (Some(&id), Some(arrived)) = (port.wanted.front(), port.arrived.front()) else {
            return false;
        };
        let (message, _) = self.message(id).expect("only receives are wanted");
        let ready = match self.ready(id) {
            Ok(ready) => ready,
            Err(before) => {
                self.due.wait(RECEIVE, before);
                return false;
            }
        };
        if arrived.bytes != message.bytes {
            let (found, peer) = (arrived.bytes, port.spec.peer);
            let what = self.program.describe(id);
            let what = format!("{what}: the message from {peer} has {found} bytes");
            self.fail(what);
            return false;
        }
        if arrived.format != message.format {
            let found = self.program.format_name(arrived.format);
            let (what, peer) = (self.program.describe(id), port.spec.peer);
            self.fail(format!("{what}: the message from {peer} is of {found}"));
            return false;
        }
        let start = ready.or(arrived.at, OpCause::Message, arrived.record);
        let start = Latest { time: noticed(port.spec.waiting, ready.time, start.time), ..start };
        if port.spec.memory != SlotMemory::Tcm && start.time > context.now() {
            self.set_alarm(RECEIVE, start.time, context);
            return false;
        }
        let at = (self.dma_node, port.spec.port);
        let stays = self.slot_use(id) == Some(SlotUse::Look);
        self.tell(|races, launch, pe| races.knowledge.received((launch, pe), id, at, stays));
        if !stays {
            self.shared.mail.update(|mail| mail - 1);
        }
        match port.spec.memory {
            SlotMemory::Tcm => self.take_from_tcm(id, port, start, context),
            SlotMemory::At(base) => self.read_slot(id, port, start, base.to_bits(), context),
        }
        true
    }

    /// Frees the slots whose last users are known.
    fn release(&mut self, ports: &mut Ports, context: &mut Context<Message>) {
        for id in std::mem::take(&mut self.messages.releasing) {
            let Some(&Work::Release(HeldSlot { port, by })) = self.long(id) else {
                unreachable!("only such commands release")
            };
            match self.ready(id) {
                Ok(ready) => {
                    let record = self.message_done(id, OpUnit::Receive, ready, ready.time);
                    let port = ports.get_mut(port).expect("checked when the message was received");
                    self.free(port, by, ready.time, record, context);
                }
                Err(before) => {
                    self.due.wait(RECEIVE, before);
                    self.messages.releasing.push(id);
                }
            }
        }
    }

    /// Returns the credits of all slots that become free when the receiver no longer needs a slot.
    fn free(
        &self,
        port: &mut Port,
        by: CommandId,
        at: Time,
        record: Option<u32>,
        context: &mut Context<Message>,
    ) {
        for (at, record) in port.free(by, at, record) {
            self.give_back(port, at, record, context);
        }
    }

    fn take_from_tcm(
        &mut self,
        id: CommandId,
        port: &mut Port,
        start: Latest,
        context: &mut Context<Message>,
    ) {
        port.wanted.pop_front();
        let usage = self.slot_use(id);
        let (bytes, data) = if usage == Some(SlotUse::Look) {
            let arrived = port.arrived.front().expect("looked at before");
            (arrived.bytes, arrived.data.clone())
        } else {
            let arrived = port.arrived.pop_front().expect("looked at before");
            (arrived.bytes, arrived.data)
        };
        // A message that stays in its slot is not read.
        let read = self.shared.wiring.topology().spec().pe.core.tcm_read.span(bytes);
        let end = if usage.is_none() { start.time + read } else { start.time };
        self.report.moved[0] += if usage.is_none() { bytes } else { 0 };
        if let Some(data) = data.filter(|_| self.has_data) {
            let result = self.program.loaded(id, 0, data.into_vec(), None);
            self.check(result);
        }
        let record = self.message_done(id, OpUnit::Receive, start, end);
        match usage {
            Some(SlotUse::Look) => {}
            Some(SlotUse::Hold) => port.taken.push_back(TakenSlot { by: id, freed: None }),
            None if port.taken.is_empty() => self.give_back(port, end, record, context),
            None => port.taken.push_back(TakenSlot { by: id, freed: Some((end, record)) }),
        }
    }

    fn read_slot(
        &mut self,
        id: CommandId,
        port: &mut Port,
        start: Latest,
        base: u64,
        context: &mut Context<Message>,
    ) {
        port.wanted.pop_front();
        let stays = self.slot_use(id) == Some(SlotUse::Look);
        let arrived = port.arrived.front().expect("looked at before");
        let (bytes, slot) = (arrived.bytes, arrived.slot);
        if !stays {
            port.arrived.pop_front();
            port.taken.push_back(TakenSlot { by: id, freed: None });
        }
        let buffer = self
            .has_data
            .then(|| Buffer::new(vec![0; usize::try_from(bytes).expect("it fits memory")].into()));
        let data = buffer.as_ref().map(|buffer| Slice {
            buffer: Rc::clone(buffer),
            offset: 0,
            unwritten: Some(Rc::new(Cell::new(None))),
        });
        let address = base + u64::from(slot) * port.spec.slot_bytes;
        let dma = Dma { direction: Direction::Read, address, bytes, rows: None };
        let done = Done::Core(self.node, SLOT_BIT | u64::from(id));
        let access = VirtualAccess { request: self.request, dma, data, done };
        let start = Latest { time: context.now(), ..start };
        self.messages.reading.push(Reading { id, port: port.spec.port, start, buffer, stays });
        self.report.moved[0] += bytes;
        context.call(self.dma_node, PeDmaMessage::ReadSlot(Box::new(access)).into());
    }

    pub(in crate::pe::core) fn slot_read(
        &mut self,
        token: u64,
        ports: &mut Ports,
        context: &mut Context<Message>,
    ) {
        let its = |reading: &Reading| SLOT_BIT | u64::from(reading.id) == token;
        let place = self.messages.reading.iter().position(its).expect("it is being read");
        let Reading { id, port, start, buffer, stays } = self.messages.reading.swap_remove(place);
        if let Some(buffer) = buffer {
            let result = self.program.loaded(id, 0, buffer.take(), None);
            self.check(result);
        }
        let record = self.message_done(id, OpUnit::Receive, start, context.now());
        if !stays {
            let port = ports.get_mut(port).expect("it is in use");
            self.free(port, id, context.now(), record, context);
        }
    }

    fn give_back(
        &self,
        port: &Port,
        at: Time,
        record: Option<u32>,
        context: &mut Context<Message>,
    ) {
        let (to, port_there) = (port.peer, port.spec.peer_port);
        let credit = Credit { request: self.request, to, port: port_there, record };
        let bytes = port.spec.credit_bytes;
        context.call(self.dma_node, PeDmaMessage::SendCredit { credit, bytes, at }.into());
    }
}

/// Returns the time at which a receiver that has waited since `since` notices a message that came at `came`.
fn noticed(waiting: WaitMode, since: Time, came: Time) -> Time {
    match waiting {
        WaitMode::Poll(every) if every > Span::ZERO && came > since => {
            since + every * (came - since).ps().div_ceil(every.ps())
        }
        _ => came,
    }
}
