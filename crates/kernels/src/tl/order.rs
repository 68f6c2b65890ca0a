//! Commands as a kernel orders them: after what they use, and after what was in their places before.

use std::panic::Location;

use cubeyard_device::pe::{Command, CommandId, Dma, Work};

use smallvec::SmallVec;

use super::{Effect, Order, Tile, Tl};
use crate::numeric::TileType;

/// The commands that one comes after, before they are looked through: a few, most often.
pub(super) type After = SmallVec<[CommandId; 8]>;

impl Tl {
    /// A new tile in the TCM, without an order that fills it.
    #[track_caller]
    pub(crate) fn tile(&self, ty: TileType) -> Tile {
        let place = self.state.scratch.borrow_mut().allocate(ty.nbytes());
        let place = self.checked(place);
        Tile::new(self, ty, place)
    }

    /// The commands that the next comes after because they access the same memory, and one of the two
    /// writes it: a kernel sees memory as if each of its commands ended before the next began.
    #[track_caller]
    pub(crate) fn meet(&self, accesses: &[Dma]) -> After {
        let id = self.next_command();
        let window = self.state.site.core.window;
        self.state.traffic.borrow_mut().meet(id, window, accesses)
    }

    /// Orders a command that reads some tiles and writes others, after some others.
    #[track_caller]
    pub(crate) fn order(
        &self,
        work: Work,
        effect: Effect,
        reads: &[&Tile],
        writes: &[&Tile],
        mut after: After,
    ) {
        let id = self.next_command();
        let mut scratch = self.state.scratch.borrow_mut();
        after.extend(reads.iter().map(|tile| tile.producer()));
        for tile in writes {
            scratch.users(id, tile.place()).for_each(|user| after.push(user));
            scratch.touch(id, tile.place());
        }
        reads.iter().for_each(|tile| scratch.touch(id, tile.place()));
        drop(scratch);
        self.push(work, effect, after, After::new());
        writes.iter().for_each(|tile| tile.made_by(id));
    }

    #[track_caller]
    pub(super) fn push(
        &self,
        work: Work,
        effect: Effect,
        mut after: After,
        mut loads_after: After,
    ) -> CommandId {
        self.count();
        let id = self.next_command();
        for list in [&mut after, &mut loads_after] {
            list.retain(|before| *before + self.state.site.core.window > id);
            list.sort_unstable();
            list.dedup();
        }
        for input in effect.inputs() {
            self.state.use_value(input.value);
        }
        let (after, loads_after) = (after.as_slice().into(), loads_after.as_slice().into());
        let command = Command { work, after, loads_after };
        let mut tape = self.state.tape.borrow_mut();
        let step = tape.push(command.into());
        tape.orders.push(Order { step, effect, place: Location::caller() });
        tape.peak = self.state.scratch.borrow().peak();
        id
    }

    /// The number of the next command.
    #[track_caller]
    pub(super) fn next_command(&self) -> CommandId {
        let Ok(next) = u32::try_from(self.state.tape.borrow().commands()) else {
            self.fail("more than 2³² commands");
        };
        next
    }
}
