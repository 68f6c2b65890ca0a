//! Messages between PEs.

use std::rc::Rc;

use cubeyard_device::pe::{AnyOf, Format, PortMessage, Work};
use cubeyard_runtime::dtype::DType;

use super::order::After;
use super::tape::Effect;
use super::{Instruction, Port, Tile, Tl};
use crate::numeric::TileType;

impl Tl {
    /// Sends a tile to the PE at the other end of a port. Returns at once; the tile leaves when it is computed
    /// and a slot is free at the other end.
    ///
    /// A message does not wait for earlier loads and stores on which it does not depend. If the receiver is to
    /// see what was stored, put a [`fence`](Self::fence) before the send.
    #[track_caller]
    pub fn send(&self, port: Port, tile: &Tile) {
        let message = self.message(port, tile.ty());
        let effect = Effect::Send { input: tile.input(), port };
        self.order(Work::Send(message), effect, &[tile], &[], After::new());
    }

    /// Receives a tile from the PE at the other end of a port. The kernel waits for it: all later commands see
    /// what the sender had done before it sent.
    #[track_caller]
    pub fn recv(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let tile = self.recv_async(port, shape, dtype);
        self.wait_on(tile.producer());
        tile
    }

    /// As [`recv`](Self::recv), but the kernel continues at once. Commands that use the tile wait for it, and
    /// so does [`wait_for`](Self::wait_for).
    #[track_caller]
    pub fn recv_async(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        let message = self.message(port, &ty);
        let tile = self.tile(ty.clone());
        let effect = Effect::Receive { value: tile.value(), ty, port };
        self.order(Work::Receive(message), effect, &[], &[&tile], After::new());
        tile
    }

    /// Receives a tile from any of several ports: the first message to arrive, and in rotation if several are
    /// waiting. The second tile is a single `i32`, the index in `ports` of the sender. The kernel waits, as for
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
        self.order(work, effect, &[], &[&tile, &place], After::new());
        self.wait_on(tile.producer());
        (tile, place)
    }

    /// Waits until a tile is available.
    #[track_caller]
    pub fn wait_for(&self, tile: &Tile) -> impl Future<Output = ()> + use<> {
        self.wait_on(tile.producer());
        std::future::ready(())
    }

    /// Waits until all commands issued so far are done: stores are in memory, and later loads begin after this.
    /// Messages have left, but may not have arrived.
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
fn format(dtype: DType) -> Format {
    let place = DType::ALL.iter().position(|&other| other == dtype);
    Format(place.and_then(|place| u8::try_from(place).ok()).expect("one of a few types"))
}

/// Returns the name of the element type of a message.
pub(crate) fn format_name(format: Format) -> String {
    let dtype = DType::ALL.get(usize::from(format.0));
    dtype.map_or_else(|| format!("format {}", format.0), ToString::to_string)
}
