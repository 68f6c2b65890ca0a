//! Messages from any of several ports.

use cubeyard_sim::Context;

use super::{ANY, Core, Run};
use crate::message::Message;
use crate::pe::ipcq::Ports;
use crate::pe::packed::Packed;
use crate::pe::{AnyOf, CommandId, PortId, PortMessage, SlotUse, Work};

impl Core {
    pub(super) fn any_waits(&self, run: &Run, id: CommandId, any: &AnyOf) -> String {
        let ports = any.ports.iter().filter_map(|&port| self.ports.get(port));
        let peers: Vec<_> = ports.map(|port| port.spec.peer.to_string()).collect();
        format!("{}: a message from {}", run.program.describe(id), peers.join(" or "))
    }
}

impl Run {
    pub(in crate::pe::core) fn issue_any(&mut self, id: CommandId, any: &AnyOf, ports: &mut Ports) {
        let (bytes, format) = (any.bytes, any.format);
        let message = |&port: &PortId| PortMessage { port, bytes, format };
        if any.ports.iter().map(message).all(|of| self.port(id, of, ports).is_some()) {
            self.messages.undecided.push(id);
            self.due.add(ANY);
        }
    }

    /// Chooses ports for the commands that can begin now.
    pub(in crate::pe::core) fn choose(
        &mut self,
        ports: &mut Ports,
        context: &mut Context<Message>,
    ) {
        let mut later = None;
        for id in std::mem::take(&mut self.messages.undecided) {
            match self.ready(id).map(|ready| ready.time) {
                Ok(ready) if ready <= context.now() && self.decide(id, ports) => {
                    continue;
                }
                Ok(ready) if ready > context.now() => {
                    later = later.into_iter().chain([ready]).min();
                }
                Ok(_) => {}
                Err(before) => self.due.wait(ANY, before),
            }
            self.messages.undecided.push(id);
        }
        if let Some(time) = later {
            self.set_alarm(ANY, time, context);
        }
    }

    fn decide(&mut self, id: CommandId, ports: &mut Ports) -> bool {
        let (Packed::Long(long), Some(Work::ReceiveAny(any))) = (self.packed(id), self.long(id))
        else {
            unreachable!("only such commands are undecided")
        };
        let last = any.ports.iter().position(|port| Some(*port) == self.messages.last_any);
        let (first, count) = (last.map_or(0, |last| last + 1), any.ports.len());
        let mut turns = (first..first + count).map(|turn| turn % count);
        let Some(place) = turns.find(|&place| self.has_for(ports, any.ports[place], id)) else {
            return false;
        };
        let port = any.ports[place];
        let wanted = &mut ports.get_mut(port).expect("checked when it was issued").wanted;
        let earlier = wanted.iter().take_while(|&&other| other < id).count();
        wanted.insert(earlier, id);
        self.slot_mut(id).packed = Packed::Chosen(long, port);
        self.messages.last_any = Some(port);
        self.want(port);
        let result = self.program.chosen(id, place);
        self.check(result);
        true
    }

    /// Returns whether a port has a message that no earlier command will take.
    fn has_for(&self, ports: &Ports, port: PortId, id: CommandId) -> bool {
        let takes =
            |other: &&CommandId| **other < id && self.slot_use(**other) != Some(SlotUse::Look);
        ports
            .get(port)
            .is_some_and(|port| port.arrived.len() > port.wanted.iter().filter(takes).count())
    }
}
