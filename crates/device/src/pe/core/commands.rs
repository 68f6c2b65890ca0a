//! The commands of a program, as its core has them.

use std::rc::Rc;

use crate::pe::brief::Brief;
use crate::pe::step::AHEAD;
use crate::pe::{Command, CommandId, Dependencies, Next, Program, Step, Steps, Strips, Work};

/// Where a core has its commands from.
#[derive(Debug)]
pub(super) enum Commands {
    /// They are steps, known from the beginning.
    Known {
        steps: Rc<Steps>,
        /// The next step.
        next: usize,
        /// It and some after it, each at its number modulo how many. They are read together, because no cache
        /// holds all the steps of all cores.
        ahead: [Brief; AHEAD],
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
            Some(steps) => {
                let mut ahead = [Brief::default(); AHEAD];
                steps.read(0, &mut ahead);
                Self::Known { steps, next: 0, ahead }
            }
            None => Self::Asked { kept: (0..kept).map(|_| None).collect(), held: None },
        }
    }

    /// Whether the next step is known, and a command. Then it waits for a place.
    pub(super) fn is_next(&self) -> bool {
        let Self::Known { next, ahead, .. } = self else { return false };
        ahead[next % AHEAD].is_command()
    }

    /// What comes next.
    pub(super) fn ask(&mut self, program: &mut dyn Program) -> Next {
        let Self::Known { steps, next, ahead } = self else { return program.next() };
        let brief = go_on(steps, next, ahead);
        steps.whole(&brief).map_or(Next::End, Next::from)
    }

    /// Lets a command that was asked for wait for a place.
    pub(super) fn hold(&mut self, command: Command) {
        let Self::Asked { held, .. } = self else { unreachable!("a step is not asked for") };
        *held = Some(command);
    }

    /// Gives the command that waits for a place its number: what it is, in brief.
    pub(super) fn place(&mut self, id: CommandId) -> Brief {
        match self {
            Self::Known { steps, next, ahead } => go_on(steps, next, ahead),
            Self::Asked { kept, held } => {
                let command = held.take().expect("it waits for a place");
                let brief = Brief::of(&command.work, &command.after);
                let brief = brief.unwrap_or_else(|| Brief::long(0, &command.after));
                let place = id as usize & (kept.len() - 1);
                kept[place] = Some(command);
                brief
            }
        }
    }

    /// All that was said of the command that was given a place last.
    pub(super) fn placed(&self, id: CommandId) -> Command {
        match self {
            Self::Known { steps, next, .. } => match steps.get(*next - 1).map(Next::from) {
                Some(Next::Command(command)) => command,
                _ => unreachable!("only commands are given places"),
            },
            Self::Asked { kept, .. } => asked(kept, id).clone(),
        }
    }

    /// A command that is not brief, and what it comes after.
    pub(super) fn long(&self, id: CommandId, place: u32) -> (&Work, &[CommandId]) {
        match self {
            Self::Known { steps, .. } => steps.long(place).work().expect("it is a command"),
            Self::Asked { kept, .. } => {
                let command = asked(kept, id);
                (&command.work, &command.after)
            }
        }
    }

    /// A computation of the list that steps have.
    pub(super) fn strips(&self, place: u32) -> Strips {
        let Self::Known { steps, .. } = self else { unreachable!("only steps have a list") };
        *steps.strips(place)
    }

    /// What the loads of a pipeline come after.
    pub(super) fn loads_after(&self, id: CommandId, place: u32) -> Dependencies {
        match self {
            Self::Known { steps, .. } => match steps.long(place) {
                Step::Pipeline(command) => command.loads_after.clone(),
                _ => Dependencies::default(),
            },
            Self::Asked { kept, .. } => asked(kept, id).loads_after.clone(),
        }
    }
}

fn asked(kept: &[Option<Command>], id: CommandId) -> &Command {
    kept[id as usize & (kept.len() - 1)].as_ref().expect("it is under way")
}

/// The next step; the one after it is the next then.
fn go_on(steps: &Rc<Steps>, next: &mut usize, ahead: &mut [Brief; AHEAD]) -> Brief {
    let brief = ahead[*next % AHEAD];
    *next += 1;
    if next.is_multiple_of(AHEAD) {
        read(steps, *next, ahead);
    }
    brief
}

/// Reads the next steps. Apart, so that no core looks for them that has some.
#[inline(never)]
fn read(steps: &Rc<Steps>, from: usize, into: &mut [Brief; AHEAD]) {
    steps.read(from, into);
}
