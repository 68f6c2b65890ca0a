//! Runs a command with several inputs, on all cores.

use std::num::NonZeroUsize;
use std::thread;

use cubeyard_study::on_threads;

use crate::own::{BuiltIn, OwnBenches};
use crate::record::{Recorded, StudyOptions};
use crate::run::is_built_in;
use crate::{Command, simulating};

/// Result of one run: a record, or the text of its error.
pub(crate) type Outcome = Result<Recorded, String>;

/// Runs all commands, on several threads unless they need the front's own benches. `each` is called with the index and
/// the result of a command when the command ends.
pub(crate) fn all(
    commands: &[Command],
    study: &StudyOptions,
    front: &dyn OwnBenches,
    mut each: impl FnMut(usize, &Outcome),
) -> Vec<Outcome> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = study.threads.map_or(cores, usize::from).min(commands.len());
    let is_any_thread = |command: &Command| match command {
        Command::Run(arguments) => is_built_in(arguments, front),
        _ => true,
    };
    if threads > 1 && commands.iter().all(is_any_thread) {
        return on_threads(commands, threads, |it| outcome(it, &BuiltIn), each);
    }
    let one = |(place, command)| {
        let outcome = outcome(command, front);
        each(place, &outcome);
        outcome
    };
    commands.iter().enumerate().map(one).collect()
}

fn outcome(command: &Command, front: &dyn OwnBenches) -> Outcome {
    simulating::of(command, front).map_err(|error| format!("{error:#}"))
}
