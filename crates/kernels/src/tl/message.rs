//! Messages between PEs.

use std::fmt;

use cubeyard_device::pe::{Message, PortId, Work};
use cubeyard_runtime::dtype::DType;

use super::tape::Effect;
use super::{Tile, Tl};
use crate::numeric::TileType;

/// One end of a channel to another PE, by number. The first eight are the neighbours in the mesh of cubes and
/// among the SIPs; what others mean is up to the algorithm that has them installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    /// The neighbour to the north.
    pub const N: Self = Self(0);
    /// The neighbour to the east.
    pub const E: Self = Self(1);
    /// The neighbour to the south.
    pub const S: Self = Self(2);
    /// The neighbour to the west.
    pub const W: Self = Self(3);
    /// The SIP to the north.
    pub const GLOBAL_N: Self = Self(4);
    /// The SIP to the east.
    pub const GLOBAL_E: Self = Self(5);
    /// The SIP to the south.
    pub const GLOBAL_S: Self = Self(6);
    /// The SIP to the west.
    pub const GLOBAL_W: Self = Self(7);

    /// Its number on a machine, where each group has ports of its own.
    pub fn of_group(self, group: u16) -> PortId {
        PortId(u32::from(group) << 16 | u32::from(self.0))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] =
            ["N", "E", "S", "W", "global_N", "global_E", "global_S", "global_W"];
        match NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "port {}", self.0),
        }
    }
}

impl Tl {
    /// Sends a tile to the PE at the other end of a port. Nothing waits for it to arrive; it leaves when
    /// there is a free slot for it there.
    #[track_caller]
    pub fn send(&self, port: Port, tile: &Tile) {
        let message = self.message(port, tile.ty());
        let effect = Effect::Send { input: tile.input(), port };
        self.order(Work::Send(message), effect, &[tile], None, Vec::new());
    }

    /// Receives a tile from the PE at the other end of a port. What uses the tile waits for it; the kernel
    /// goes on.
    #[track_caller]
    pub fn recv(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        let ty = self.checked(TileType::new(dtype, shape));
        let message = self.message(port, &ty);
        let tile = self.tile(ty.clone());
        let effect = Effect::Receive { value: tile.input().value, ty, port };
        self.order(Work::Receive(message), effect, &[], Some(&tile), Vec::new());
        tile
    }

    /// As [`recv`](Self::recv), under the name that kernels use who wait for it with
    /// [`wait_for`](Self::wait_for).
    #[track_caller]
    pub fn recv_async(&self, port: Port, shape: &[u64], dtype: DType) -> Tile {
        self.recv(port, shape, dtype)
    }

    /// Waits until a tile is there.
    #[track_caller]
    pub fn wait_for(&self, tile: &Tile) -> impl Future<Output = ()> + use<> {
        self.state.tape.borrow_mut().steps.push(super::Step::Wait(tile.producer()));
        std::future::ready(())
    }

    fn message(&self, port: Port, ty: &TileType) -> Message {
        Message { port: port.of_group(self.state.site.group), bytes: ty.nbytes() }
    }
}
