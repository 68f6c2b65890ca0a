//! Accesses whose addresses the MMU translates.

use std::cell::Cell;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{Context, NodeId, Route, Span};

use super::PeDma;
use crate::message::{Access, Done, Mapping, Message, Rows, Slice, VirtualAccess};
use crate::model::mmu::Piece;
use crate::pe::{Dma, command_of};
use crate::race::Agent;

/// Mapping that lies in one memory, with the routes there and back.
#[derive(Clone, Debug)]
pub(super) struct Known {
    mapping: Mapping,
    memory: NodeId,
    there: Route,
    back: Route,
}

impl Known {
    fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.mapping.from) < self.mapping.bytes
    }
}

impl PeDma {
    pub(super) fn access(&mut self, access: &VirtualAccess, context: &mut Context<Message>) {
        let Dma { address, bytes, rows, .. } = access.dma;
        let within = self.known(address, context.node()).and_then(|known| {
            let translated = self.mmu.translate_within(&known.mapping, address, bytes, rows);
            translated.map(|(piece, span)| (known, piece, span))
        });
        let Some((known, piece, span)) = within else {
            return self.access_pieces(access, context);
        };
        let access = self.piece(access, &piece, 0, known.memory, (known.there, known.back));
        self.requester.access(Box::new(access), span, context);
    }

    /// Returns the mapping of an address, and caches it.
    fn known(&mut self, address: u64, node: NodeId) -> Option<Known> {
        if let Some(known) = self.known.find(|known| known.holds(address)) {
            return Some(known.clone());
        }
        let mapping = self.mmu.mapping(address)?;
        let memory = self.shared.wiring.memory(mapping.to, mapping.bytes).ok()?;
        let (there, back) = self.shared.wiring.routes(node, memory).ok()?;
        let known = Known { mapping, memory, there, back };
        self.known.keep(known.clone());
        Some(known)
    }

    /// Makes an access that has several pieces or an unmapped address.
    fn access_pieces(&mut self, access: &VirtualAccess, context: &mut Context<Message>) {
        let dma = access.dma;
        if dma.bytes == 0 {
            return self.fail(access, "an access of 0 bytes".to_owned(), context);
        }
        let (pieces, span) = match self.mmu.translate_rows(dma.address, dma.bytes, dma.rows) {
            Ok((pieces, span)) => (self.cut(pieces), span),
            Err(fault) if self.mmu.is_strict() => {
                let what = format!("virtual address {:#x} is not mapped", fault.address);
                return self.fail(access, what, context);
            }
            Err(fault) => match PhysAddr::from_bits(dma.address) {
                Ok(to) => {
                    self.note_fall(access);
                    (vec![Piece { to, bytes: dma.bytes, rows: dma.rows }], fault.span)
                }
                Err(error) => {
                    let at = fault.address;
                    let what = format!("{at:#x} is not mapped, and as a physical address: {error}");
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

    /// Cuts pieces at the ends of HBM slices, so that each piece lies in one memory.
    fn cut(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        let slice = self.shared.wiring.topology().spec().hbm.slice.get();
        if pieces.iter().all(|piece| is_within_slice(piece, slice)) {
            return pieces;
        }
        pieces.iter().flat_map(|piece| within_slices(piece, slice)).collect()
    }

    /// Returns the accesses to the pieces of a translated access.
    fn accesses(
        &self,
        whole: &VirtualAccess,
        pieces: &[Piece],
        context: &Context<Message>,
    ) -> Result<Vec<Access>, String> {
        let mut moved = 0;
        let mut accesses = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let memory = self
                .shared
                .wiring
                .memory(piece.to, piece.extent())
                .map_err(|error| error.to_string())?;
            let (there, back) = self
                .shared
                .wiring
                .routes(context.node(), memory)
                .map_err(|error| error.to_string())?;
            accesses.push(self.piece(whole, piece, moved, memory, (there, back)));
            moved += usize::try_from(piece.bytes).map_err(|error| error.to_string())?;
        }
        Ok(accesses)
    }

    /// Returns the access to a piece that begins `moved` bytes into a translated access.
    fn piece(
        &self,
        whole: &VirtualAccess,
        piece: &Piece,
        moved: usize,
        memory: NodeId,
        (there, back): (Route, Route),
    ) -> Access {
        self.note(whole, piece, memory);
        self.count(whole, piece.bytes, memory);
        let within = |slice: Slice| Slice { offset: slice.offset + moved, ..slice };
        Access {
            request: whole.request,
            direction: whole.dma.direction,
            address: piece.to.sub_offset().get(),
            bytes: piece.bytes,
            rows: piece.rows,
            there,
            back: Some(back),
            data: whole.data.clone().map(within),
            written: Cell::default(),
            done: whole.done,
        }
    }

    /// Counts the bytes of an access by a program.
    fn count(&self, whole: &VirtualAccess, bytes: u64, memory: NodeId) {
        if matches!(whole.done, Done::Core(..)) {
            let [own, all] = self.moved.get();
            self.moved.set([own + if memory == self.own { bytes } else { 0 }, all + bytes]);
        }
    }

    /// Reports an access of a program or of the host to the race detector.
    fn note(&self, whole: &VirtualAccess, piece: &Piece, memory: NodeId) {
        let (request, direction) = (whole.request, whole.dma.direction);
        let (address, bytes) = (piece.to.sub_offset().get(), piece.bytes);
        self.shared.races.with(|races| match whole.done {
            Done::Core(pe, token) => {
                let command = command_of(token);
                let is_atomic = false;
                let by =
                    Agent { launch: request, pe: Some(pe), command, direction, is_atomic, part: 0 };
                races.access(memory, address, bytes, piece.rows, by);
            }
            Done::Signal(_) => races.host_access(memory, address, bytes, direction, request),
            Done::Port { .. } => {}
        });
    }

    /// Reports an unmapped access of a program that is made to physical addresses.
    fn note_fall(&self, access: &VirtualAccess) {
        let Done::Core(pe, token) = access.done else { return };
        let mut notices = self.shared.notices.borrow_mut();
        notices.fell_through(access.request, pe, command_of(token), &access.dma);
    }

    fn fail(&self, access: &VirtualAccess, what: String, context: &mut Context<Message>) {
        self.shared.failures.note(access.request, context.node(), what);
        access.done.tell(false, context);
    }

    pub(super) fn read_slot(&mut self, access: &VirtualAccess, context: &mut Context<Message>) {
        let to = PhysAddr::from_bits(access.dma.address).expect("an address of a slot");
        let piece = Piece { to, bytes: access.dma.bytes, rows: None };
        match self.accesses(access, &[piece], context) {
            Ok(accesses) => accesses
                .into_iter()
                .for_each(|access| self.requester.access(Box::new(access), Span::ZERO, context)),
            Err(what) => self.fail(access, what, context),
        }
    }
}

/// Returns whether a piece lies in one slice of the HBM, or outside the HBM.
fn is_within_slice(piece: &Piece, slice: u64) -> bool {
    piece.to.hbm_offset().is_none_or(|from| from.get() % slice + piece.extent() <= slice)
}

/// Cuts a piece at the ends of HBM slices; rows that do not all lie in one slice become separate pieces.
fn within_slices(piece: &Piece, slice: u64) -> Vec<Piece> {
    let Piece { to, bytes, rows } = *piece;
    let Some(from) = to.hbm_offset().filter(|_| !is_within_slice(piece, slice)) else {
        return vec![*piece];
    };
    let mut cut = Vec::new();
    for (offset, length) in rows.unwrap_or(Rows { bytes, pitch: 0 }).segments(0, bytes) {
        let mut at = 0;
        while at < length {
            let room = slice - (from.get() + offset + at) % slice;
            let Ok(to) = PhysAddr::from_bits(to.to_bits() + offset + at) else {
                // The piece ends at an invalid address; the lookup of its memory reports the error.
                return vec![*piece];
            };
            let bytes = room.min(length - at);
            cut.push(Piece { to, bytes, rows: None });
            at += bytes;
        }
    }
    cut
}
