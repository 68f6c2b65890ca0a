//! Issue of commands. One function derives the dependencies of a command, so that no kind of command can omit any:
//! memory accesses follow from its work, and TCM ranges from the tiles that it uses.

use cubeyard_device::pe::{Command, CommandId, Instruction, MemoryOrder, Work};

use smallvec::SmallVec;

use super::{Effect, Order, Tile, Tl};
use crate::numeric::TileType;

/// Dependencies of a command, before duplicates are removed; usually a few.
pub(super) type After = SmallVec<[CommandId; 8]>;

/// A tile, and its use by a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TileUse<'a> {
    /// The elements are read, once they are available.
    Read(&'a Tile),
    /// The elements are written, once no command uses the tile's range any more.
    Write(&'a Tile),
    /// The range is used for another purpose, once no command uses it any more.
    Take(&'a Tile),
}

impl<'a> TileUse<'a> {
    fn tile(self) -> &'a Tile {
        match self {
            Self::Read(tile) | Self::Write(tile) | Self::Take(tile) => tile,
        }
    }

    /// Returns whether the use concerns only the computations of a pipeline: loads write to ranges that were taken.
    fn is_computed(self) -> bool {
        !matches!(self, Self::Take(_))
    }
}

impl Tl {
    /// Allocates a tile in the TCM, without a command that fills it.
    #[track_caller]
    pub(crate) fn tile(&self, ty: TileType) -> Tile {
        let place = self.state.scratch.borrow_mut().allocate(ty.nbytes());
        let place = self.checked(place);
        Tile::new(self, ty, place)
    }

    /// Issues a command that uses these tiles, after the commands with which it conflicts: accesses to the same memory
    /// or TCM, at least one of which is a write. So a kernel sees both as if each of its commands ended before the next
    /// began.
    #[track_caller]
    pub(crate) fn order<'a>(
        &self,
        work: Work,
        effect: Effect,
        uses: impl IntoIterator<Item = TileUse<'a>>,
    ) -> CommandId {
        self.order_with(None, work, effect, uses)
    }

    /// Issues a command like [`order`](Self::order). `atomic` is its order as a part of an atomic operation.
    #[track_caller]
    pub(crate) fn order_with<'a>(
        &self,
        atomic: Option<MemoryOrder>,
        work: Work,
        effect: Effect,
        uses: impl IntoIterator<Item = TileUse<'a>>,
    ) -> CommandId {
        let uses: SmallVec<[_; 4]> = uses.into_iter().collect();
        // Not in a closure: `track_caller` would report the closure as the line of the kernel.
        for of in &uses {
            if let TileUse::Read(tile) = of {
                self.check_slot(tile);
            }
        }
        self.count();
        let id = self.next_command();
        let accesses = effect.accesses(&work);
        let mut after = self.state.traffic.borrow_mut().meet(id, self.window(), &accesses);
        let mut computes_after = After::new();
        let computes = matches!(&work, Work::Pipeline(pipeline) if pipeline.parts()[1] > 0);
        for of in &uses {
            let apart = computes && of.is_computed();
            self.users(id, *of, if apart { &mut computes_after } else { &mut after });
        }
        self.push(atomic, work, effect, (id, [after, computes_after]));
        for of in &uses {
            if let TileUse::Write(tile) = of {
                tile.made_by(id);
            }
        }
        id
    }

    /// Adds the commands that a use of a tile waits for, and records the use.
    fn users(&self, id: CommandId, of: TileUse<'_>, after: &mut After) {
        let (mut scratch, tile) = (self.state.scratch.borrow_mut(), of.tile());
        match of {
            TileUse::Read(_) => after.push(tile.producer()),
            TileUse::Write(_) | TileUse::Take(_) => after.extend(scratch.users(id, tile.place())),
        }
        scratch.touch(id, tile.place());
    }

    #[track_caller]
    fn push(
        &self,
        atomic: Option<MemoryOrder>,
        work: Work,
        effect: Effect,
        (id, waits): (CommandId, [After; 2]),
    ) {
        for input in effect.inputs() {
            self.state.use_value(input.value);
        }
        let [after, computes_after] = waits.map(|mut list| {
            list.retain(|before| *before + self.window() > id);
            list.sort_unstable();
            list.dedup();
            list.as_slice().into()
        });
        let place = self.here();
        let mut tape = self.state.tape.borrow_mut();
        let mut command = match work {
            Work::Pipeline(pipeline) => Command::pipeline(pipeline, after, computes_after),
            work => Command::new(work, after),
        };
        command.atomic = atomic;
        let step = tape.push(Instruction::Command(command));
        tape.orders.push(Order::new(step, effect, place));
    }

    /// Begins a part of the kernel that has no order with the parts before, such as another program of a grid on the same
    /// PE. The PE runs the parts one after the other; accesses of different parts to the same bytes are races.
    #[track_caller]
    pub fn begin_part(&self) {
        let next = self.next_command();
        self.state.tape.borrow_mut().parts.push(next);
    }

    fn window(&self) -> u32 {
        self.state.site.core.window
    }

    #[track_caller]
    fn next_command(&self) -> CommandId {
        let Ok(next) = u32::try_from(self.state.tape.borrow().commands()) else {
            self.fail("more than 2³² commands");
        };
        next
    }
}
