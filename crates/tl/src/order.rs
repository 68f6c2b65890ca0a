//! Issue of commands with their dependencies: operands, and earlier uses of the same memory.

use cubeyard_device::pe::{Command, CommandId, Dma, Instruction, Work};

use smallvec::SmallVec;

use super::{Effect, Order, Tile, Tl};
use crate::numeric::TileType;

/// Commands on which one depends, before duplicates are removed; usually a few.
pub(super) type After = SmallVec<[CommandId; 8]>;

impl Tl {
    /// Allocates a tile in the TCM, without a command that fills it.
    #[track_caller]
    pub(crate) fn tile(&self, ty: TileType) -> Tile {
        let place = self.state.scratch.borrow_mut().allocate(ty.nbytes());
        let place = self.checked(place);
        Tile::new(self, ty, place)
    }

    /// Returns the earlier commands that conflict with these accesses: same memory, and one of the two writes.
    /// So a kernel sees memory as if each of its commands ended before the next began.
    #[track_caller]
    pub(crate) fn meet(&self, accesses: &[Dma]) -> After {
        let id = self.next_command();
        let window = self.state.site.core.window;
        self.state.traffic.borrow_mut().meet(id, window, accesses)
    }

    /// Issues a command that reads and writes tiles, after the commands in `after`.
    #[track_caller]
    pub(crate) fn order(
        &self,
        work: Work,
        effect: Effect,
        reads: &[&Tile],
        writes: &[&Tile],
        mut after: After,
    ) {
        // Not in a closure: `track_caller` would report the closure as the line of the kernel.
        for tile in reads {
            self.check_slot(tile);
        }
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
        let place = self.here();
        let mut tape = self.state.tape.borrow_mut();
        let step = tape.push(Instruction::Command(command));
        tape.orders.push(Order::new(step, effect, place));
        id
    }

    #[track_caller]
    pub(super) fn next_command(&self) -> CommandId {
        let Ok(next) = u32::try_from(self.state.tape.borrow().commands()) else {
            self.fail("more than 2³² commands");
        };
        next
    }
}
