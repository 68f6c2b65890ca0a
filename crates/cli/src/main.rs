//! The `cubeyard` command: converts arguments in, calls the library, converts results out.
//!
//! Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 a check
//! failed, 2 bad input, 3 out of simulated memory or time.

mod grid;
mod input;
mod placement;
mod probe;
mod progress;
mod replay;
mod terminal;
mod topology;
mod validate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The memory system of an AI accelerator: an allocator to ship, a machine to simulate.
///
/// Without a command, the bundled trace is replayed.
#[derive(Debug, Parser)]
#[command(name = "cubeyard", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Placement(placement::Arguments),
    Probe(probe::Arguments),
    Replay(replay::Arguments),
    Topology(topology::Arguments),
    Validate(validate::Arguments),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let done = match command.unwrap_or_else(|| Command::Replay(replay::Arguments::default())) {
        Command::Placement(arguments) => placement::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Topology(arguments) => topology::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Validate(arguments) => validate::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            terminal::note(&format!("error: {error:#}"));
            ExitCode::from(2)
        }
    }
}
