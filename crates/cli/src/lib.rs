//! The `cubeyard` command as a library: converts arguments in, calls the crates below, converts results out.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 a check
//! failed, 2 bad input, 3 out of simulated memory or time, or beyond `--memory`.

mod ccl;
mod code;
mod compare;
mod grid;
mod guess;
mod help;
mod input;
mod levers;
mod list;
mod machine;
mod memory;
mod model;
mod output;
mod own;
mod page;
mod placement;
mod points;
mod probe;
mod processor_time;
mod progress;
mod record;
mod replay;
pub mod results;
mod run;
mod serve;
mod shell;
mod simulating;
mod sweep;
mod terminal;
mod topology;
mod validate;
mod vary;
mod view;

pub use anyhow::Result;
pub use code::Code;
pub use input::{Input, MemoryExceeded, Names, bundled as bundled_trace};
pub use input::{parse as parse_traces, read as read_traces};
pub use memory::Limited;
pub use own::{BuiltIn, FrontError, OwnBenches};
pub use placement::layout_text;
pub use processor_time::clock as processor_clock;
pub use replay::check_memory as check_replay_memory;
pub use run::explained;
pub use sweep::SweepRequest;

use std::ffi::OsString;

use anyhow::anyhow;
use clap::{FromArgMatches as _, Parser, Subcommand};
use cubeyard_memory::Bytes;

/// Simulate an AI accelerator: its memory, its fabric, and the kernels that run on it
///
/// Without a command, a first example is run.
#[derive(Debug, Parser)]
#[command(name = "cubeyard", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Limit on the host's memory, such as 2GiB; above it, the command ends with code 3. If omitted, three quarters
    /// of the free memory of the host or its control group
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory::size)]
    memory: Option<Bytes>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ccl(ccl::Arguments),
    Compare(compare::Arguments),
    Completions(shell::CompletionArguments),
    List(list::Arguments),
    Man(shell::ManArguments),
    Model(model::Arguments),
    Placement(placement::Arguments),
    Probe(probe::Arguments),
    Replay(replay::Arguments),
    Run(run::Arguments),
    Serve(serve::Arguments),
    Sweep(SweepRequest),
    Topology(topology::Arguments),
    Validate(validate::Arguments),
    View(view::Arguments),
}

/// Runs the command with these arguments; the first argument is the program's name.
///
/// The limit of `--memory` is exact only in a program whose global allocator is [`Limited`]. In other programs, work is
/// refused only if its parameters alone imply that it needs more.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Code {
    run_with(arguments, &BuiltIn)
}

/// Runs the command as [`run`] does, with the caller's benches in addition to the built-in ones.
///
/// ```
/// use cubeyard_cli::{Code, run_with};
///
/// let code = run_with(["cubeyard", "list", "--quiet"].map(Into::into), &|| Vec::new());
/// assert_eq!(code, Code::Done);
/// ```
pub fn run_with(arguments: impl IntoIterator<Item = OsString>, front: &dyn OwnBenches) -> Code {
    let words: Vec<OsString> = arguments.into_iter().collect();
    let parsed = help::command().try_get_matches_from(&words).and_then(|found| {
        Cli::from_arg_matches(&found).map_err(|error| error.format(&mut help::command()))
    });
    match parsed {
        Ok(cli) => execute(cli, &words, front),
        Err(error) => refuse(&guess::with_option(error, &words)),
    }
}

/// Prints help, the version or a usage error, as clap would.
fn refuse(error: &clap::Error) -> Code {
    // A failure cannot be reported if the terminal is closed.
    let _ = error.print();
    if error.exit_code() == 0 { Code::Done } else { Code::Refused }
}

fn execute(Cli { command, memory }: Cli, words: &[OsString], front: &dyn OwnBenches) -> Code {
    memory::set(memory);
    let command = command.unwrap_or_else(|| Command::Run(run::Arguments::default()));
    let done = match simulating::Simulation::of(&command) {
        Some(it) if !it.study.vary.is_empty() => vary::run(&command, it, words, front),
        Some(it) if it.levers => levers::run(&command, it, words, front),
        _ => alone(command, front),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            terminal::note(&format!("error: {error:#}"));
            code::of(&error)
        }
    }
}

fn alone(command: Command, front: &dyn OwnBenches) -> Result<Code> {
    match command {
        Command::Ccl(arguments) => ccl::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments, front),
        Command::Completions(arguments) => shell::completions(&arguments).map(|()| Code::Done),
        Command::Man(arguments) => shell::man(&arguments).map(|()| Code::Done),
        Command::List(arguments) => list::run(&arguments, front).map(|()| Code::Done),
        Command::Model(arguments) => model::run(&arguments),
        Command::Placement(arguments) => placement::run(&arguments).map(|()| Code::Done),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments).map(|()| Code::Done),
        Command::Run(arguments) => run::run(&arguments, front),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sweep(request) => front.sweep(&request).map_err(|error| anyhow!(error)),
        Command::Topology(arguments) => topology::run(&arguments).map(|()| Code::Done),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::View(arguments) => view::run(&arguments).map(|()| Code::Done),
    }
}
