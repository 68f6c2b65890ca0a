//! Programs that are known from the beginning, step by step.

use super::{Command, CommandId, Dependencies, Next, Work};

/// What a program does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// A command for an engine, and the commands that it comes after.
    Command(Work, Dependencies),
    /// A [pipeline](Work::Pipeline), whose loads come after others.
    Pipeline(Box<Command>),
    /// `PE_CPU` waits until a command is done.
    Wait(CommandId),
    /// `PE_CPU` waits until all commands are done.
    Fence,
    /// A call that costs `PE_CPU` its time only.
    Call,
}

/// A step in a line of the cache of its own: a machine goes through millions.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Line(pub Step);

const _: () = assert!(size_of::<Line>() == 64, "a step fits a line");

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        match command.work {
            Work::Pipeline(_) => Self::Pipeline(Box::new(command)),
            work => Self::Command(work, command.after),
        }
    }
}

impl Step {
    /// What the command is, if it is one, and the commands that it comes after.
    pub fn work(&self) -> Option<(&Work, &[CommandId])> {
        match self {
            Self::Command(work, after) => Some((work, after)),
            Self::Pipeline(command) => Some((&command.work, &command.after)),
            Self::Wait(_) | Self::Fence | Self::Call => None,
        }
    }
}

/// What a core is told of a step.
impl From<&Step> for Next {
    fn from(step: &Step) -> Self {
        match step {
            Step::Command(work, after) => {
                let loads_after = Dependencies::default();
                Self::Command(Command { work: work.clone(), after: after.clone(), loads_after })
            }
            Step::Pipeline(command) => Self::Command((**command).clone()),
            Step::Wait(command) => Self::Wait(*command),
            Step::Fence => Self::Fence,
            Step::Call => Self::Dispatch(1),
        }
    }
}
