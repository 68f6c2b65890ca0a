//! Messages between PEs.

use std::rc::Rc;

use cubeyard_device::pe::{AnyOf, FormatId, HeldSlot, PortMessage, SlotUse, Work};
use cubeyard_runtime::dtype::DType;

use super::order::TileUse;
use super::tape::Effect;
use super::tile::TileSlot;
use super::{Instruction, Port, Tile, Tl};
use crate::numeric::TileType;

impl Tl {
    /// Sends a tile to the PE at the other end of a port. Returns at once; the tile is sent when it is computed and a
    /// slot is free at the other end.
    ///
    /// A message does not wait for earlier loads and stores on which it does not depend. If the receiver must see
    /// earlier stores, put a [`fence`](Self::fence) before the send.
    #[track_caller]
    pub fn send(&self, port: Port, tile: &Tile) {
        let message = self.message(port, tile.ty());
        let effect = Effect::Send { input: tile.input(), port };
        self.order(Work::Send(message), effect, [TileUse::Read(tile)]);
    }

    /// Receives a tile from the PE at the other end of a port. The kernel waits for it: all later commands see the
    /// effects of everything that the sender did before the send.
    #[track_caller]
    pub fn recv(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let tile = self.recv_async(port, shape, dtype);
        self.wait_on(tile.producer());
        tile
    }

    /// Does the same as [`recv`](Self::recv), but the kernel continues at once. Commands that use the tile wait for it,
    /// and so does [`wait_for`](Self::wait_for).
    #[track_caller]
    pub fn recv_async(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        let message = self.message(port, &ty);
        let tile = self.tile(ty.clone());
        let effect = Effect::Receive { value: tile.value(), ty, port, usage: None };
        self.order(Work::Receive(message), effect, [TileUse::Write(&tile)]);
        tile
    }

    /// Waits for the next message of a port and returns it, but leaves it in its slot: the next receive gets the same
    /// message, and the slot is not returned to the sender. The kernel waits, as for [`recv`](Self::recv).
    ///
    /// This is for diagnosis: a message in the TCM is not read, so the command ends when the message has arrived. A
    /// message in the SRAM or HBM is read as by `recv`.
    #[track_caller]
    pub fn recv_no_consume(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        let tile = self.tile(ty);
        self.receive_in_slot(port, &tile, SlotUse::Look);
        tile
    }

    /// Receives a tile that stays in its slot, which must be in the TCM: the tile is not copied, and does not count
    /// towards the memory of the kernel's tiles. The kernel waits, as for [`recv`](Self::recv).
    ///
    /// The slot returns to the sender after [`release`](Self::release), and after the slots of all earlier messages. A
    /// kernel must release every slot.
    #[track_caller]
    pub fn recv_slot(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        let place = self.state.scratch.borrow_mut().slot();
        let tile = Tile::in_slot(self, ty, place, TileSlot::Held(port));
        self.receive_in_slot(port, &tile, SlotUse::Hold);
        self.state.slots.borrow_mut().push(tile.producer());
        tile
    }

    #[track_caller]
    fn receive_in_slot(&self, port: Port, tile: &Tile, usage: SlotUse) {
        let (value, ty) = (tile.value(), tile.ty().clone());
        let work = Work::ReceiveInSlot(self.message(port, &ty), usage);
        let effect = Effect::Receive { value, ty, port, usage: Some(usage) };
        self.order(work, effect, [TileUse::Write(tile)]);
        self.wait_on(tile.producer());
    }

    /// Frees the slot of a tile of [`recv_slot`](Self::recv_slot) when all commands so far that use the tile are done. Returns
    /// at once; later commands cannot use the tile.
    #[track_caller]
    pub fn release(&self, tile: &Tile) {
        let TileSlot::Held(port) = tile.slot() else {
            let why = match tile.slot() {
                TileSlot::None => "it is in no slot; only tiles of recv_slot are",
                _ => "its slot was released before",
            };
            self.fail(format!("release of {}: {why}", tile.ty()));
        };
        let by = tile.producer();
        let work = Work::Release(HeldSlot { port: port.of_group(self.state.site.group), by });
        self.order(work, Effect::Release { port }, [TileUse::Take(tile)]);
        tile.set_slot(TileSlot::Released(port));
        self.state.slots.borrow_mut().retain(|held| *held != by);
    }

    /// Ends the kernel if a tile lies in a slot that was released.
    #[track_caller]
    pub(super) fn check_slot(&self, tile: &Tile) {
        if let TileSlot::Released(port) = tile.slot() {
            let ty = tile.ty();
            self.fail(format!("use of {ty} in a slot of {port} that was released: copy it before, or release it later"));
        }
    }

    /// Receives a tile from any of several ports: the first message to arrive, in rotation if several are waiting. The
    /// second tile is a single `i32`, the index of the sender in `ports`. The kernel waits, as for
    /// [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_any(&self, ports: &[Port], shape: &[u64], dtype: DType) -> (Tile, Tile) {
        if ports.is_empty() {
            self.fail("recv_any of no ports: expected at least one");
        }
        let ty = self.checked(TileType::new(dtype, shape));
        let any = AnyOf {
            ports: ports.iter().map(|port| port.of_group(self.state.site.group)).collect(),
            bytes: ty.nbytes(),
            format: format(ty.dtype),
        };
        let tile = self.tile(ty.clone());
        let place = self.tile(self.checked(TileType::new(DType::I32, &[1])));
        let (value, ports) = (tile.value(), ports.to_vec());
        let effect = Effect::ReceiveAny { value, ty, ports, place: place.value() };
        let work = Work::ReceiveAny(Rc::new(any));
        self.order(work, effect, [TileUse::Write(&tile), TileUse::Write(&place)]);
        self.wait_on(tile.producer());
        (tile, place)
    }

    /// Waits until a tile is available.
    #[track_caller]
    pub fn wait_for(&self, tile: &Tile) -> impl Future<Output = ()> + use<> {
        self.wait_on(tile.producer());
        std::future::ready(())
    }

    /// Waits until all commands issued so far are done: stores are in memory, and later loads begin afterwards.
    /// Messages have been sent, but may not have arrived.
    #[track_caller]
    pub fn fence(&self) {
        self.count();
        self.state.tape.borrow_mut().push(Instruction::Fence);
    }

    fn message(&self, port: Port, ty: &TileType) -> PortMessage {
        let port = port.of_group(self.state.site.group);
        PortMessage { port, bytes: ty.nbytes(), format: format(ty.dtype) }
    }
}

/// Returns the number of an element type in messages: its index in [`DType::ALL`].
fn format(dtype: DType) -> FormatId {
    let place = DType::ALL.iter().position(|&other| other == dtype);
    FormatId(place.and_then(|place| u8::try_from(place).ok()).expect("one of a few types"))
}

/// Returns the name of the element type of a message.
pub(crate) fn format_name(format: FormatId) -> String {
    let dtype = DType::ALL.get(usize::from(format.0));
    dtype.map_or_else(|| format!("format {}", format.0), ToString::to_string)
}
