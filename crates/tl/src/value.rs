//! Waiting for the end of a tiled operation, and for the elements of a tile.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use cubeyard_device::pe::CommandId;

use super::{Handle, Instruction, KernelState, Tile, Tl};
use crate::numeric::Array;

impl Tl {
    /// Waits until a tiled operation is done.
    #[track_caller]
    pub fn wait(&self, handle: &Handle) -> impl Future<Output = ()> + use<> {
        self.wait_on(handle.command());
        std::future::ready(())
    }

    #[track_caller]
    pub(super) fn wait_on(&self, command: CommandId) {
        self.count();
        self.state.tape.borrow_mut().push(Instruction::Wait(command));
    }

    /// Waits for a tile and returns its elements. A kernel that does so cannot be recorded, and needs data
    /// mode.
    #[track_caller]
    pub fn value(&self, tile: &Tile) -> impl Future<Output = Vec<f64>> + use<> {
        let contents = self.contents(tile);
        async move { contents.await.values() }
    }

    /// Does the same as [`value`](Self::value), but returns the elements in the tile's type.
    #[track_caller]
    pub fn contents(&self, tile: &Tile) -> impl Future<Output = Rc<Array>> + use<> {
        if self.state.recording {
            let what = "the kernel reads loaded values, so it cannot be recorded: run it live";
            self.fail(what);
        }
        if !self.state.site.has_data {
            self.fail("the kernel reads loaded values, so it needs data mode");
        }
        self.check_slot(tile);
        self.wait_on(tile.producer());
        self.state.use_value(tile.value());
        PendingValue { state: Rc::clone(&self.state), tile: tile.clone() }
    }
}

/// A future of a tile's elements.
struct PendingValue {
    state: Rc<KernelState>,
    tile: Tile,
}

impl Future for PendingValue {
    type Output = Rc<Array>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Rc<Array>> {
        let wanted = self.tile.value();
        let mut known = self.state.known.borrow_mut();
        let Some(place) = known.iter().position(|(value, _)| *value == wanted) else {
            self.state.wanted.set(Some(wanted));
            return Poll::Pending;
        };
        let (_, array) = known.swap_remove(place);
        Poll::Ready(array)
    }
}
