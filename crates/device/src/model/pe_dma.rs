//! A PE's DMA engine, with its MMU.
//!
//! An access to virtual addresses is translated when it is made, and becomes as many accesses as it has
//! pieces in different places. An address that is not mapped is taken as a physical one, or is an error.
//! Mappings come and go with commands, over the same wire as data.

use std::rc::Rc;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{Asks, Component, Context, Delivery, NodeId, Send, Span};

use super::io_cpu::send;
use super::mmu::Piece;
use super::{Mmu, Requester};
use crate::message::{
    Access, Arrival, Body, Buffer, Command, Credit, Direction, Done, Failure, Message, Packet,
    Slice, VirtualAccess,
};
use crate::pe::{SlotMemory, command_of};
use crate::race::Agent;
use crate::request::RequestError;
use crate::wiring::Wiring;

/// `PE_DMA` and `PE_MMU`.
#[derive(Clone, Debug)]
pub struct PeDma {
    requester: Requester,
    /// The processor of the PE.
    cpu: NodeId,
    mmu: Mmu,
    wiring: Rc<Wiring>,
    /// The pieces that are not done of each access that has several: few at once, so a list is quickest.
    pieces: Vec<(Done, usize)>,
}

impl PeDma {
    /// An engine at a node with this overhead.
    pub fn new(overhead: Span, cpu: NodeId, mmu: Mmu, wiring: Rc<Wiring>) -> Self {
        Self { requester: Requester::new(overhead), cpu, mmu, wiring, pieces: Vec::new() }
    }

    /// Its MMU.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    fn access(&mut self, access: &VirtualAccess, context: &mut Context<Message>) {
        let (pieces, span) =
            match self.mmu.translate_rows(access.address, access.bytes, access.rows) {
                Ok(translated) => translated,
                Err(fault) if self.mmu.is_strict() => {
                    let what = format!("virtual address {:#x} is not mapped", fault.address);
                    return self.fail(access, what, context);
                }
                Err(fault) => match PhysAddr::from_bits(access.address) {
                    Ok(to) => {
                        let piece = Piece { to, bytes: access.bytes, rows: access.rows };
                        (vec![piece], fault.span)
                    }
                    Err(error) => {
                        let what = format!(
                            "{:#x} is not mapped, and as a physical address: {error}",
                            fault.address
                        );
                        return self.fail(access, what, context);
                    }
                },
            };
        match self.accesses(access, &pieces, context) {
            Ok(accesses) => {
                if accesses.len() > 1 {
                    self.pieces.push((access.done, accesses.len()));
                }
                for access in accesses {
                    self.requester.access(Box::new(access), span, context);
                }
            }
            Err(what) => self.fail(access, what, context),
        }
    }

    /// The accesses that a translated one becomes.
    fn accesses(
        &self,
        whole: &VirtualAccess,
        pieces: &[Piece],
        context: &Context<Message>,
    ) -> Result<Vec<Access>, String> {
        let mut moved = 0;
        let mut accesses = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let extent = piece.rows.map_or(piece.bytes, |rows| rows.extent(piece.bytes));
            let memory = self.wiring.memory(piece.to, extent).map_err(|error| error.to_string())?;
            let (there, back) =
                self.wiring.routes(context.node(), memory).map_err(|error| error.to_string())?;
            self.note(whole, piece, memory);
            let data =
                whole.data.clone().map(|slice| Slice { offset: slice.offset + moved, ..slice });
            accesses.push(Access {
                request: whole.request,
                id: self.wiring.number(),
                direction: whole.direction,
                address: piece.to.sub_offset().get(),
                bytes: piece.bytes,
                rows: piece.rows,
                there,
                back: Some(back),
                data,
                done: whole.done,
            });
            moved += usize::try_from(piece.bytes).map_err(|error| error.to_string())?;
        }
        Ok(accesses)
    }

    /// Notes an access of a program, if races are looked for.
    fn note(&self, whole: &VirtualAccess, piece: &Piece, memory: NodeId) {
        let Done::Core(pe, token) = whole.done else { return };
        self.wiring.races(|races| {
            let (launch, direction) = (whole.request, whole.direction);
            let by = Agent { launch, pe, command: command_of(token), direction };
            races.access(memory, piece.to.sub_offset().get(), piece.bytes, piece.rows, by);
        });
    }

    fn fail(&self, access: &VirtualAccess, what: String, context: &mut Context<Message>) {
        self.wiring.fail(access.request, Failure { origin: context.node(), what });
        access.done.tell(false, context);
    }

    /// An access has been answered: all of it, or a piece.
    fn answered(&mut self, done: Done, context: &mut Context<Message>) {
        self.requester.answered();
        let place = self.pieces.iter().position(|(whole, _)| *whole == done);
        if let Some(place) = place {
            self.pieces[place].1 -= 1;
            if self.pieces[place].1 > 0 {
                return;
            }
            self.pieces.swap_remove(place);
        }
        done.tell(true, context);
    }

    /// Sends a message to another PE: to its DMA if its slots are in the TCM, else into their memory.
    fn send(&mut self, packet: Box<Packet>, context: &mut Context<Message>) {
        let result = match packet.memory {
            SlotMemory::Tcm => self.send_to_pe(packet, context),
            SlotMemory::At(base) => self.send_to_memory(*packet, base, context),
        };
        result.expect("ports were checked when they were installed");
    }

    fn send_to_pe(
        &self,
        packet: Box<Packet>,
        context: &mut Context<Message>,
    ) -> Result<(), RequestError> {
        let route = self.wiring.route(context.node(), packet.to)?;
        let (bytes, message) = (packet.arrival.bytes, Message::Packet(packet));
        context.send(Send { route, bytes, asks: self.requester.asks(context), message });
        Ok(())
    }

    fn send_to_memory(
        &mut self,
        packet: Packet,
        base: PhysAddr,
        context: &mut Context<Message>,
    ) -> Result<(), RequestError> {
        let Packet { request, to, slot_bytes, arrival, .. } = packet;
        let Arrival { port, bytes, slot, data, record } = arrival;
        let address = base.sub_offset().get() + u64::from(slot) * slot_bytes;
        let memory = self.wiring.memory(base, slot_bytes)?;
        let there = self.wiring.route(context.node(), memory)?;
        let node = self.wiring.cpu_of(to);
        let access = Access {
            request,
            id: self.wiring.number(),
            direction: Direction::Write,
            address,
            bytes,
            rows: None,
            there,
            back: None,
            data: data.map(|data| Slice::whole(&Buffer::new(data.into_vec().into()))),
            done: Done::Port { node, port, bytes, slot, record },
        };
        self.requester.access(Box::new(access), Span::ZERO, context);
        Ok(())
    }

    fn give_back(&self, credit: Credit, context: &mut Context<Message>) {
        let route = self.wiring.route(context.node(), credit.to);
        let route = route.expect("ports were checked when they were installed");
        let (bytes, asks) = (credit.bytes, Asks::At(credit.at));
        context.send(Send { route, bytes, asks, message: Message::Credit(credit) });
    }

    /// Reads a slot: its address is physical.
    fn read_slot(&mut self, access: &VirtualAccess, context: &mut Context<Message>) {
        let to = PhysAddr::from_bits(access.address).expect("an address of a slot");
        let piece = Piece { to, bytes: access.bytes, rows: None };
        match self.accesses(access, &[piece], context) {
            Ok(accesses) => accesses
                .into_iter()
                .for_each(|access| self.requester.access(Box::new(access), Span::ZERO, context)),
            Err(what) => self.fail(access, what, context),
        }
    }

    fn command(&mut self, command: &Command, context: &Context<Message>) {
        let done = match &command.body {
            Body::Map(mappings) => self.mmu.map(mappings),
            Body::Unmap(mappings) => self.mmu.unmap(mappings),
            Body::Launch(_) | Body::Connect(_) | Body::Disconnect(_) => {
                unreachable!("launches and ports go to PE_CPU")
            }
        };
        if let Err(error) = done {
            let failure = Failure { origin: context.node(), what: error.to_string() };
            self.wiring.fail(command.request, failure);
        }
    }
}

impl Component for PeDma {
    type Message = Message;

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        match message {
            Message::IssueVirtual(access) => self.access(&access, context),
            Message::ReadSlot(access) => self.read_slot(&access, context),
            Message::SendPacket(packet) => self.send(packet, context),
            Message::SendCredit(credit) => self.give_back(credit, context),
            other => self.requester.call(other, context),
        }
    }

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        match delivery.message {
            Message::Packet(packet) => context.call(self.cpu, Message::Arrived(packet.arrival)),
            Message::Credit(credit) => {
                context.call(self.cpu, Message::CreditBack(credit.port, credit.record));
            }
            Message::CommandPe(command, cube, pe) => {
                self.command(&command, context);
                let route = command.cubes[cube].pes[pe].back.clone();
                send(context, route, 0, Message::PeDone(command, cube));
            }
            Message::Answer(access) => self.answered(access.done, context),
            other => unreachable!("PE_DMA is sent answers and mappings: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        self.requester.waits_for()
    }
}
