//! A PE's DMA engine, with its MMU.
//!
//! An access to virtual addresses is translated when it is made, and becomes one access per piece in a different place.
//! An unmapped address is used as a physical address, or is an error. Commands add and remove mappings, over the same
//! wire as data.

mod access;
mod lately;

use std::cell::Cell;
use std::rc::Rc;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{Asks, Context, NodeId, Route, Span, Time, TransferSpec};

use super::io_cpu::send;
use super::{Mmu, Requester};
use crate::message::{
    Access, Arrival, Buffer, CommandTarget, Credit, Direction, Done, MCpuMessage, MappingChange,
    Message, Packet, PeCpuMessage, PeDmaMessage, RequesterMessage, Slice,
};
use crate::pe::{Shared, SlotMemory};
use crate::request::RequestError;
use access::Known;
use lately::Lately;

/// DMA engine and MMU of a PE, `PE_DMA` and `PE_MMU`.
#[derive(Clone, Debug)]
pub struct PeDma {
    requester: Requester,
    cpu: NodeId,
    /// MMU; boxed, because an access within a known mapping needs little of it.
    mmu: Box<Mmu>,
    shared: Rc<Shared>,
    /// Number of open pieces of each access with several. Few are open at once, so a list is fastest.
    pieces: Vec<(Done, usize)>,
    /// Mappings of recent accesses.
    known: Lately<Known>,
    /// Routes to recent receivers.
    ways: Lately<(NodeId, Route)>,
    /// HBM slice of the PE.
    own: NodeId,
    /// Bytes moved by programs: in the own slice, and in all.
    moved: Cell<[u64; 2]>,
}

impl PeDma {
    pub(crate) fn new(
        requester: Requester,
        [cpu, own]: [NodeId; 2],
        mmu: Mmu,
        shared: Rc<Shared>,
    ) -> Self {
        Self {
            requester,
            cpu,
            mmu: Box::new(mmu),
            shared,
            pieces: Vec::new(),
            known: Lately::default(),
            ways: Lately::default(),
            own,
            moved: Cell::default(),
        }
    }

    pub(crate) fn mmu_mut(&mut self) -> &mut Mmu {
        &mut self.mmu
    }

    /// Returns the bytes that programs have moved: in the PE's own slice of the HBM, and in all.
    pub(crate) fn moved(&self) -> [u64; 2] {
        self.moved.get()
    }

    pub(crate) fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    /// Completes an access once all its pieces are answered.
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

    /// Sends a message to another PE: to its DMA engine if its slots are in the TCM, otherwise to the memory of the
    /// slots.
    fn send(&mut self, packet: Box<Packet>, context: &mut Context<Message>) {
        let result = match packet.memory {
            SlotMemory::Tcm => self.send_to_pe(packet, context),
            SlotMemory::At(base) => self.send_to_memory(*packet, base, context),
        };
        result.expect("ports were checked when they were installed");
    }

    fn send_to_pe(
        &mut self,
        packet: Box<Packet>,
        context: &mut Context<Message>,
    ) -> Result<(), RequestError> {
        let route = self.way(context.node(), packet.to)?;
        let (bytes, message) = (packet.arrival.bytes, PeDmaMessage::Packet(packet).into());
        let asks = self.requester.asks(context);
        context.send(TransferSpec { route, bytes, asks, message });
        Ok(())
    }

    fn send_to_memory(
        &mut self,
        packet: Packet,
        base: PhysAddr,
        context: &mut Context<Message>,
    ) -> Result<(), RequestError> {
        let Packet { request, to, slot_bytes, arrival, .. } = packet;
        let Arrival { port, bytes, format, slot, data, record } = arrival;
        let address = base.sub_offset().get() + u64::from(slot) * slot_bytes;
        let memory = self.shared.wiring.memory(base, slot_bytes)?;
        let there = self.way(context.node(), memory)?;
        let topology = self.shared.wiring.topology();
        let receiver = topology.pe_of(to).expect("a DMA engine is in a PE");
        let node = topology.pe_cpu(receiver);
        let access = Access {
            request,
            direction: Direction::Write,
            address,
            bytes,
            rows: None,
            there,
            back: None,
            data: data.map(|data| Slice::whole(&Buffer::new(data.into_vec().into()))),
            written: Cell::default(),
            done: Done::Port { node, port, bytes, format, slot, record },
        };
        self.requester.access(Box::new(access), Span::ZERO, context);
        Ok(())
    }

    fn way(&mut self, from: NodeId, to: NodeId) -> Result<Route, RequestError> {
        if let Some((_, way)) = self.ways.find(|(node, _)| *node == to) {
            return Ok(Route::clone(way));
        }
        let way = self.shared.wiring.route(from, to)?;
        self.ways.keep((to, Route::clone(&way)));
        Ok(way)
    }

    fn give_back(&mut self, credit: Credit, bytes: u64, at: Time, context: &mut Context<Message>) {
        let route = self.way(context.node(), credit.to);
        let route = route.expect("ports were checked when they were installed");
        let message = PeDmaMessage::Credit(credit).into();
        context.send(TransferSpec { route, bytes, asks: Asks::At(at), message });
    }

    fn change(
        &mut self,
        target: CommandTarget,
        change: &MappingChange,
        context: &mut Context<Message>,
    ) {
        self.known.clear();
        let mappings = &change.mappings;
        let done = if change.remove { self.mmu.unmap(mappings) } else { self.mmu.map(mappings) };
        if let Err(error) = done {
            self.shared.failures.note(target.command.request, context.node(), error.to_string());
        }
        send(context, target.at().back.clone(), 0, MCpuMessage::PeDone(target));
    }

    pub(super) fn handle(&mut self, message: PeDmaMessage, context: &mut Context<Message>) {
        match message {
            PeDmaMessage::Access(access) => self.access(&access, context),
            PeDmaMessage::ReadSlot(access) => self.read_slot(&access, context),
            PeDmaMessage::SendPacket(packet) => self.send(packet, context),
            PeDmaMessage::Packet(packet) => {
                context.call(self.cpu, PeCpuMessage::Arrived(packet.arrival).into());
            }
            PeDmaMessage::SendCredit { credit, bytes, at } => {
                self.give_back(credit, bytes, at, context);
            }
            PeDmaMessage::Credit(credit) => {
                let message = PeCpuMessage::Credit(credit.port, credit.record);
                context.call(self.cpu, message.into());
            }
            PeDmaMessage::Mappings(target, change) => self.change(target, &change, context),
        }
    }

    pub(super) fn handle_access(
        &mut self,
        message: RequesterMessage,
        context: &mut Context<Message>,
    ) {
        match message {
            RequesterMessage::Issue(access) => self.requester.access(access, Span::ZERO, context),
            RequesterMessage::Answer(access) => self.answered(access.done, context),
        }
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        self.requester.waits_for()
    }
}
