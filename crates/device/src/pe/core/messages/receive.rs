//! Messages from other PEs: each is taken from its slot, which becomes free.

use std::cell::Cell;
use std::rc::Rc;

use cubeyard_sim::{Context, Span, Time};

use super::{Latest, RECEIVE, Run, SLOT_BIT, State};
use crate::message::{
    Buffer, Credit, Direction, Done, Message, PeDmaMessage, Slice, VirtualAccess,
};
use crate::pe::ipcq::{Port, Ports};
use crate::pe::{CommandId, OpCause, OpUnit, PortId, SlotMemory, WaitMode};

/// A message that is being read from a slot in memory.
#[derive(Debug)]
pub(super) struct Reading {
    id: CommandId,
    port: PortId,
    start: Latest,
    buffer: Option<Buffer>,
}

impl Run {
    pub(in crate::pe::core) fn receive(
        &mut self,
        ports: &mut Ports,
        context: &mut Context<Message>,
    ) {
        let mut wanted = std::mem::take(&mut self.messages.wanted);
        wanted.retain(|&id| {
            let port = ports.get_mut(id).expect("checked when it was issued");
            while !matches!(self.state, State::Failed) && self.take(port, context) {}
            !port.wanted.is_empty()
        });
        self.messages.wanted = wanted;
    }

    /// Takes the next message of a port if a command waits for it.
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
        self.shared.mail.update(|mail| mail - 1);
        let at = (self.dma_node, port.spec.port);
        self.tell(|races, launch, pe| races.knowledge.received((launch, pe), id, at));
        match port.spec.memory {
            SlotMemory::Tcm => self.take_from_tcm(id, port, start, context),
            SlotMemory::At(base) => self.read_slot(id, port, start, base.to_bits(), context),
        }
        true
    }

    fn take_from_tcm(
        &mut self,
        id: CommandId,
        port: &mut Port,
        start: Latest,
        context: &mut Context<Message>,
    ) {
        port.wanted.pop_front();
        let arrived = port.arrived.pop_front().expect("looked at before");
        let read = self.shared.wiring.topology().spec().pe.core.tcm_read.span(arrived.bytes);
        let end = start.time + read;
        self.report.moved[0] += arrived.bytes;
        if let Some(data) = arrived.data.filter(|_| self.has_data) {
            let result = self.program.loaded(id, 0, data.into_vec(), None);
            self.check(result);
        }
        let record = self.message_done(id, OpUnit::Receive, start, end);
        self.give_back(port, end, record, context);
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
        let arrived = port.arrived.pop_front().expect("looked at before");
        let bytes = arrived.bytes;
        let buffer = self
            .has_data
            .then(|| Buffer::new(vec![0; usize::try_from(bytes).expect("it fits memory")].into()));
        let data = buffer.as_ref().map(|buffer| Slice {
            buffer: Rc::clone(buffer),
            offset: 0,
            unwritten: Some(Rc::new(Cell::new(None))),
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
        let Reading { id, port, start, buffer } = self.messages.reading.swap_remove(place);
        if let Some(buffer) = buffer {
            let result = self.program.loaded(id, 0, buffer.take(), None);
            self.check(result);
        }
        let record = self.message_done(id, OpUnit::Receive, start, context.now());
        let port = ports.get_mut(port).expect("it is in use");
        self.give_back(port, context.now(), record, context);
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

/// Returns when a receiver that waits since `since` notices a message of time `came`.
fn noticed(waiting: WaitMode, since: Time, came: Time) -> Time {
    match waiting {
        WaitMode::Poll(every) if every > Span::ZERO && came > since => {
            since + every * (came - since).ps().div_ceil(every.ps())
        }
        _ => came,
    }
}
