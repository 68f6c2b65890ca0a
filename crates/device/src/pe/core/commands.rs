//! The commands of a program, as its core has them.

use crate::pe::{Command, CommandId, Dependencies, Next, Program, Step, Steps, Work};

/// Where a core has its commands from.
#[derive(Debug)]
pub(super) enum Commands {
    /// They are steps, known from the beginning.
    Known {
        steps: Steps,
        /// The next step.
        next: usize,
    },
    /// The program is asked for each.
    Asked {
        /// The last commands, each at its number modulo a power of two.
        kept: Box<[Option<Command>]>,
        /// The one that waits for a place in the window.
        held: Option<Command>,
    },
}

impl Commands {
    /// The commands of a program, of which so many are kept, a power of two.
    pub(super) fn new(program: &dyn Program, kept: usize) -> Self {
        match program.steps() {
            Some(steps) => Self::Known { steps, next: 0 },
            None => Self::Asked { kept: (0..kept).map(|_| None).collect(), held: None },
        }
    }

    /// Whether the next step is known, and a command. Then it waits for a place.
    pub(super) fn is_next(&self) -> bool {
        let Self::Known { steps, next } = self else { return false };
        steps.is_command(*next)
    }

    /// What comes next.
    pub(super) fn ask(&mut self, program: &mut dyn Program) -> Next {
        let Self::Known { steps, next } = self else { return program.next() };
        *next += 1;
        steps.get(*next - 1).map_or(Next::End, Next::from)
    }

    /// Lets a command that was asked for wait for a place.
    pub(super) fn hold(&mut self, command: Command) {
        let Self::Asked { held, .. } = self else { unreachable!("a step is not asked for") };
        *held = Some(command);
    }

    /// Gives the command that waits for a place its number, and says which step it is, if it is one.
    pub(super) fn place(&mut self, id: CommandId) -> u32 {
        match self {
            Self::Known { next, .. } => {
                *next += 1;
                u32::try_from(*next - 1).expect("fewer than 2³² steps")
            }
            Self::Asked { kept, held } => {
                let place = id as usize & (kept.len() - 1);
                kept[place] = held.take();
                0
            }
        }
    }

    /// What a command is that is such a step, and what it comes after.
    pub(super) fn get(&self, id: CommandId, step: u32) -> (&Work, &[CommandId]) {
        match self {
            Self::Known { steps, .. } => {
                steps.get(step as usize).and_then(Step::work).expect("a step that is a command")
            }
            Self::Asked { kept, .. } => {
                let command = kept[id as usize & (kept.len() - 1)].as_ref();
                let command = command.expect("it is under way");
                (&command.work, &command.after)
            }
        }
    }

    /// What the loads of a pipeline come after.
    pub(super) fn loads_after(&self, id: CommandId, step: u32) -> Dependencies {
        let command = match self {
            Self::Known { steps, .. } => match steps.get(step as usize) {
                Some(Step::Pipeline(command)) => Some(&**command),
                _ => None,
            },
            Self::Asked { kept, .. } => kept[id as usize & (kept.len() - 1)].as_ref(),
        };
        command.map(|command| command.loads_after.clone()).unwrap_or_default()
    }
}
