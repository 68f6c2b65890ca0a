//! Programs that are known from the beginning, step by step.

use std::rc::Rc;

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

/// All steps of a program. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Steps {
    lines: Rc<[Line]>,
    /// Whether each is a command, a bit each: a core asks that long before it can place the command, and by
    /// then no cache would hold the step any more.
    commands: Rc<[u64]>,
}

/// A step in a line of the cache of its own: a machine goes through millions.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line(Step);

const _: () = assert!(size_of::<Line>() == 64, "a step fits a line");

impl From<Vec<Step>> for Steps {
    fn from(steps: Vec<Step>) -> Self {
        let bits = |steps: &[Step]| {
            let commands = steps.iter().enumerate().filter(|(_, step)| step.work().is_some());
            commands.fold(0, |bits, (place, _)| bits | 1 << place)
        };
        let commands = steps.chunks(64).map(bits).collect();
        Self { commands, lines: steps.into_iter().map(Line).collect() }
    }
}

impl Steps {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Step> {
        self.lines.iter().map(|Line(step)| step)
    }

    /// A step, if there are as many.
    pub fn get(&self, number: usize) -> Option<&Step> {
        self.lines.get(number).map(|Line(step)| step)
    }

    /// Whether a step is a command.
    pub(super) fn is_command(&self, number: usize) -> bool {
        self.commands.get(number / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::{Message, PortId};

    #[test]
    fn which_steps_are_commands_is_known_without_a_look_at_them() {
        for count in [0, 1, 63, 64, 65, 200] {
            let command = Work::Send(Message { port: PortId(0), bytes: 1 });
            let step = |number: u32| match number % 3 {
                0 => Step::Wait(number),
                1 => Step::Command(command.clone(), Dependencies::default()),
                _ => Step::Call,
            };
            let steps = Steps::from((0..count).map(step).collect::<Vec<_>>());
            let places = 0..count as usize + 70;
            let commands: Vec<usize> =
                places.clone().filter(|&place| steps.is_command(place)).collect();
            let looked: Vec<usize> = places
                .filter(|&place| steps.get(place).is_some_and(|s| s.work().is_some()))
                .collect();
            assert_eq!(commands, looked);
            assert_eq!(commands.len(), (count as usize + 1) / 3);
        }
    }
}
