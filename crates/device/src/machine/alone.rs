//! What an access of a PE takes that has the machine for itself.

use std::cell::Cell;

use cubeyard_memory::address::PhysAddr;

use super::Machine;
use crate::formula::{self, Parts};
use crate::log::Watch;
use crate::message::{Access, Done, RequestId};
use crate::pe::Dma;
use crate::request::PeRef;

impl<W: Watch> Machine<W> {
    /// What an access of a PE's DMA takes on a machine that has nothing else to do, as its MMU has it now;
    /// nothing is simulated. Rows count as if they followed each other. None for an access that goes to
    /// several places, and where a component of your own answers.
    pub fn alone_dma(&self, pe: PeRef, dma: &Dma) -> Option<Parts> {
        let node = self.topology().pe_dma(pe.sip, pe.cube, pe.pe);
        let extent = dma.rows.map_or(dma.bytes, |rows| rows.extent(dma.bytes));
        let address = self.physical(pe, dma.address, extent)?;
        let memory = self.wiring.memory(address, extent).ok()?;
        let (there, back) = self.wiring.routes(node, memory).ok()?;
        let access = Access {
            request: RequestId::new(0),
            direction: dma.direction,
            address: address.sub_offset().get(),
            bytes: dma.bytes,
            rows: None,
            there,
            back: Some(back),
            data: None,
            written: Cell::default(),
            done: Done::Core(node, 0),
        };
        let overhead = self.network().nodes()[node.index()].overhead + self.mmu(pe)?.overhead();
        let channels = self.memory_of(&access)?.channels().spec();
        Some(formula::alone(self.network(), channels, &access, overhead))
    }

    /// Where a PE finds a range of addresses, if it is in one piece.
    pub fn physical(&self, pe: PeRef, address: u64, bytes: u64) -> Option<PhysAddr> {
        let mmu = self.mmu(pe)?;
        match mmu.place(address) {
            Some((to, left)) => (left >= bytes).then_some(to),
            None => PhysAddr::from_bits(address).ok().filter(|_| !mmu.is_strict()),
        }
    }
}
