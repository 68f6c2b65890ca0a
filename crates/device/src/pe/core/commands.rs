//! Instructions of a program, as read by its core.

use std::rc::Rc;

use crate::ids::CommandId;
use crate::pe::packed::{AHEAD, Packed};
use crate::pe::{Command, Instruction, Instructions, Program, Strips};

/// Source of a core's instructions.
#[derive(Debug)]
pub(super) enum Commands {
    /// Instructions that are known in advance.
    Known {
        all: Rc<Instructions>,
        /// Index of the next instruction.
        next: usize,
        /// Next instruction and some after it, each at its index modulo `AHEAD`. They are read together, because no
        /// cache holds all instructions of all cores.
        ahead: [Packed; AHEAD],
    },
    /// Instructions that the program is asked for one by one.
    Asked {
        /// Most recent commands, each at its number modulo a power of two.
        kept: Box<[Option<Command>]>,
        /// Command that waits for a place in the window.
        held: Option<Command>,
    },
}

impl Commands {
    /// Returns the instructions of a program. Its last `kept` commands (a power of two) can be looked up.
    pub(super) fn new(program: &dyn Program, kept: usize) -> Self {
        match program.instructions() {
            Some(all) => {
                let mut ahead = [Packed::default(); AHEAD];
                all.read(0, &mut ahead);
                Self::Known { all, next: 0, ahead }
            }
            None => Self::Asked { kept: (0..kept).map(|_| None).collect(), held: None },
        }
    }

    /// Returns whether the next instruction is known to be a command. The command then waits for a place in the window.
    pub(super) fn is_next(&self) -> bool {
        let Self::Known { next, ahead, .. } = self else { return false };
        ahead[next % AHEAD].is_command()
    }

    /// Returns the next instruction. A command that the program was asked for waits for a place in the window.
    pub(super) fn ask(&mut self, program: &mut dyn Program) -> Result<Option<Instruction>, String> {
        match self {
            Self::Known { all, next, ahead } => {
                let packed = advance(all, next, ahead);
                Ok(all.unpack(packed))
            }
            Self::Asked { held, .. } => {
                let instruction = program.next()?;
                *held = instruction.as_ref().and_then(Instruction::command).cloned();
                Ok(instruction)
            }
        }
    }

    /// Assigns its number to the command that waits for a place in the window.
    pub(super) fn place(&mut self, id: CommandId) -> Packed {
        match self {
            Self::Known { all, next, ahead } => advance(all, next, ahead),
            Self::Asked { kept, held } => {
                let command = held.take().expect("it waits for a place");
                let packed = Packed::of(&command).unwrap_or(Packed::Long(0));
                let place = id as usize & (kept.len() - 1);
                kept[place] = Some(command);
                packed
            }
        }
    }

    /// Returns a command in unpacked form.
    pub(super) fn unpack(&self, id: CommandId, packed: Packed) -> Command {
        match self {
            Self::Known { all, .. } => match all.unpack(packed) {
                Some(Instruction::Command(command)) => command,
                _ => unreachable!("only commands are given places"),
            },
            Self::Asked { kept, .. } => asked(kept, id).clone(),
        }
    }

    /// Returns a command that is not packed.
    pub(super) fn long(&self, id: CommandId, place: u32) -> &Command {
        match self {
            Self::Known { all, .. } => all.long(place),
            Self::Asked { kept, .. } => asked(kept, id),
        }
    }

    /// Returns a computation from the list of known instructions.
    pub(super) fn strips(&self, place: u32) -> Strips {
        let Self::Known { all, .. } = self else { unreachable!("only packed ones are in a list") };
        *all.strips(place)
    }
}

fn asked(kept: &[Option<Command>], id: CommandId) -> &Command {
    kept[id as usize & (kept.len() - 1)].as_ref().expect("it is under way")
}

/// Returns the next instruction, and advances.
fn advance(all: &Rc<Instructions>, next: &mut usize, ahead: &mut [Packed; AHEAD]) -> Packed {
    let packed = ahead[*next % AHEAD];
    *next += 1;
    if next.is_multiple_of(AHEAD) {
        read(all, *next, ahead);
    }
    packed
}

/// Reads the next instructions. A separate function, because few calls of `advance` need it.
#[inline(never)]
fn read(all: &Rc<Instructions>, from: usize, into: &mut [Packed; AHEAD]) {
    all.read(from, into);
}
