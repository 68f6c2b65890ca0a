//! Messages to other PEs: each leaves when a slot at the other end is free.

use cubeyard_sim::Context;

use super::{Latest, Run, SEND};
use crate::message::{Arrival, Message, Packet, PeDmaMessage};
use crate::pe::ipcq::{Port, Ports};
use crate::pe::{CommandId, OpCause, OpUnit, PortMessage};

impl Run {
    pub(in crate::pe::core) fn send(&mut self, ports: &mut Ports, context: &mut Context<Message>) {
        while let Some(id) = self.front(SEND) {
            let (message, _) = self.message(id).expect("only sends are queued");
            let ready = match self.ready(id) {
                Ok(ready) => ready,
                Err(before) => return self.due.wait(SEND, before),
            };
            let last = self.messages.last_sent;
            let ready = ready.or(self.messages.sent, OpCause::Unit, last);
            let port = ports.get_mut(message.port).expect("checked when it was issued");
            if port.credits == 0 {
                port.starved = true;
                break;
            }
            if ready.time > context.now() {
                self.set_alarm(SEND, ready.time, context);
                break;
            }
            self.leave(SEND);
            let data = self.has_data.then(|| self.program.payload(id, 0)).transpose();
            match data {
                Ok(data) => self.depart(id, ready, port, message, data, context),
                Err(what) => self.fail(what),
            }
        }
    }

    fn depart(
        &mut self,
        id: CommandId,
        ready: Latest,
        port: &mut Port,
        PortMessage { bytes, format, .. }: PortMessage,
        data: Option<Vec<u8>>,
        context: &mut Context<Message>,
    ) {
        let slot = port.next_slot();
        port.sends(slot, self.request, id);
        let pe = &self.shared.wiring.topology().spec().pe;
        let now = context.now();
        let end = now + pe.dma_overhead + pe.link.bandwidth.span(bytes);
        // A message that could have left earlier waited for the credit that has just arrived.
        let from = if ready.time < now {
            Latest::new(now, OpCause::Message, port.credited)
        } else {
            ready
        };
        let record = self.message_done(id, OpUnit::Send, from, end);
        let to = (port.peer, port.spec.peer_port);
        self.tell(|races, launch, pe| races.knowledge.sent((launch, pe), id, to));
        let arrival = Arrival {
            port: port.spec.peer_port,
            bytes,
            format,
            slot,
            data: data.map(Vec::into_boxed_slice),
            record,
        };
        let packet = Packet {
            request: self.request,
            to: port.peer,
            memory: port.spec.peer_memory,
            slot_bytes: port.spec.slot_bytes,
            arrival,
        };
        context.call(self.dma_node, PeDmaMessage::SendPacket(Box::new(packet)).into());
        self.messages.sent = end;
        self.report.moved[1] += bytes;
        self.messages.last_sent = record;
    }
}
