//! Common view of the commands that simulate: their options, their records, and the keys that can be varied.

use std::ffi::OsString;

use anyhow::{Result, anyhow, bail};
use clap::{CommandFactory as _, FromArgMatches as _};
use cubeyard_device::topology::Topology;
use cubeyard_yaml::{PlainValue, nearest};

use crate::machine::{self, MachineOptions};
use crate::own::OwnBenches;
use crate::page::PageOptions;
use crate::record::{Drawing, Recorded, StudyOptions};
use crate::terminal::OutputOptions;
use crate::{Cli, Command, ccl, model, probe, run, serve, validate};

/// Commands that produce records.
const RECORDED: [&str; 6] = ["run", "ccl", "model", "serve", "probe", "validate"];

/// Options common to all commands that simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulation<'a> {
    /// Name of the command.
    pub(crate) name: &'static str,
    pub(crate) machine: &'a MachineOptions,
    pub(crate) study: &'a StudyOptions,
    pub(crate) output: OutputOptions,
    /// Page of the command; `None` if it draws none.
    pub(crate) page: Option<&'a PageOptions>,
    /// Whether the levers of the machine are measured.
    pub(crate) levers: bool,
}

impl<'a> Simulation<'a> {
    /// Returns the options of a command; `None` if it does not simulate.
    pub(crate) fn of(command: &'a Command) -> Option<Self> {
        let (name, machine, study, output) = match command {
            Command::Run(it) => ("run", &it.machine, &it.study, it.output),
            Command::Ccl(it) => ("ccl", &it.machine, &it.study, it.output),
            Command::Model(it) => ("model", &it.machine, &it.study, it.output),
            Command::Serve(it) => ("serve", &it.machine, &it.study, it.output),
            Command::Probe(it) => ("probe", &it.machine, &it.study, it.output),
            Command::Validate(it) => ("validate", &it.machine, &it.study, it.output),
            _ => return None,
        };
        let levers = match command {
            Command::Run(it) => it.levers.levers,
            Command::Ccl(it) => it.levers.levers,
            Command::Model(it) => it.levers.levers,
            Command::Serve(it) => it.levers.levers,
            _ => false,
        };
        let page = match command {
            Command::Run(it) => Some(&it.page),
            Command::Ccl(it) => Some(&it.page),
            Command::Model(it) => Some(&it.page),
            Command::Serve(it) => Some(&it.page),
            Command::Probe(it) => Some(&it.page),
            _ => None,
        };
        Some(Self { name, machine, study, output, page, levers })
    }
}

/// Runs a command, and returns its record instead of printing its output.
pub(crate) fn of(command: &Command, front: &dyn OwnBenches) -> Result<Recorded> {
    recorded(command, front, false)
}

/// Runs a command like [`of`]; the record of a run has every operation.
pub(crate) fn with_ops(command: &Command, front: &dyn OwnBenches) -> Result<Recorded> {
    recorded(command, front, true)
}

fn recorded(command: &Command, front: &dyn OwnBenches, has_ops: bool) -> Result<Recorded> {
    match command {
        Command::Run(it) => run::recorded(it, front, has_ops),
        Command::Ccl(it) => ccl::recorded(it),
        Command::Model(it) => model::recorded(it),
        Command::Serve(it) => serve::recorded(it),
        Command::Probe(it) => probe::recorded(it),
        Command::Validate(it) => validate::recorded(it),
        _ => bail!("expected a command that simulates: {}", RECORDED.join(", ")),
    }
}

/// Runs a command as [`of`] does, and keeps what its page shows.
pub(crate) fn drawn(command: &Command, front: &dyn OwnBenches) -> Result<(Recorded, Drawing)> {
    match command {
        Command::Run(it) => run::drawn(it, front),
        Command::Model(it) => model::drawn(it),
        Command::Serve(it) => serve::drawn(it),
        _ => bail!("--report: expected run, model or serve"),
    }
}

/// Returns the machine that a command simulates.
pub(crate) fn machine(command: &Command) -> Result<Topology> {
    match command {
        Command::Ccl(it) => ccl::machine(it),
        _ => match Simulation::of(command) {
            Some(simulation) => simulation.machine.read(OutputOptions::quiet()),
            None => bail!("expected a command that simulates: {}", RECORDED.join(", ")),
        },
    }
}

/// Parses a command line with additional options, which override earlier occurrences of the same options. The
/// first word is the program.
pub(crate) fn parsed(words: &[OsString], more: &[OsString]) -> Result<Command> {
    let mut words = words.to_vec();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.splice(end..end, more.iter().cloned());
    let over = |program: clap::Command, name| {
        program.mut_subcommand(name, |it| it.args_override_self(true))
    };
    let program = RECORDED.iter().fold(Cli::command(), over);
    let cli = program.try_get_matches_from(words).and_then(|it| Cli::from_arg_matches(&it));
    let command = cli.map_err(|error| refused(&error))?.command;
    command.filter(|command| Simulation::of(command).is_some()).ok_or_else(|| {
        anyhow!("expected a command that simulates after `--`: {}", RECORDED.join(", "))
    })
}

/// Returns the text of a usage error without its heading, because the heading is added to every error.
fn refused(error: &clap::Error) -> anyhow::Error {
    let text = error.to_string();
    anyhow!("{}", text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
}

/// Returns the first given option that writes a file of a single run, other than `--report`.
pub(crate) fn single_output(command: &Command) -> Option<&'static str> {
    let given = match command {
        Command::Run(it) => ("--trace", &it.trace),
        Command::Ccl(it) => ("--plot", &it.plot),
        Command::Probe(it) => ("--trace", &it.trace),
        _ => return None,
    };
    given.1.as_ref().map(|_| given.0)
}

/// Returns the first given option that measures more than one run, or writes a file.
pub(crate) fn beyond_one_record(command: &Command) -> Option<&'static str> {
    let simulation = Simulation::of(command)?;
    let study = simulation.study;
    let given = [
        ("--levers", simulation.levers),
        ("--vary", !study.vary.is_empty()),
        ("--save", study.save.is_some()),
        ("--report", simulation.page.is_some_and(|page| page.report.is_some())),
    ];
    let found = given.into_iter().find_map(|(option, is_given)| is_given.then_some(option));
    found.or_else(|| single_output(command))
}

/// Checks that a command has an option with this name that takes a value and can be varied.
fn check_option(name: &str, key: &str) -> Result<()> {
    const FIXED: [&str; 12] = [
        "requests-csv",
        "cost",
        "save",
        "vary",
        "threads",
        "csv",
        "chart",
        "format",
        "plot",
        "trace",
        "report",
        "with",
    ];
    let program = Cli::command();
    let subcommand = program.find_subcommand(name).expect("it is a command of the program");
    let takes_value = |it: &&clap::Arg| it.get_action().takes_values();
    let options = subcommand.get_arguments().filter(takes_value).filter_map(clap::Arg::get_long);
    let options: Vec<_> = options.filter(|option| !FIXED.contains(option)).collect();
    if options.contains(&key) {
        return Ok(());
    }
    let nearest = nearest(key, options.iter().copied()).unwrap_or_default();
    bail!(
        "{key}: expected an option of {name} or a topology key with a dot; the nearest is `{nearest}`\n  \
         help: options are {}",
        options.join(", ")
    )
}

/// Returns the option that sets a key of a command, followed by its value: for a topology key, a
/// parameter of a run, or an option.
pub(crate) fn assigned(command: &Command, key: &str, value: &str) -> [OsString; 2] {
    let [option, value] = match command {
        _ if machine::is_of_machine(key) => ["--with".to_owned(), format!("{key}={value}")],
        Command::Run(_) => ["--set".to_owned(), format!("{key}={value}")],
        _ => [format!("--{key}"), value.to_owned()],
    };
    [option.into(), value.into()]
}

/// Checks that a command or its machine has the key that an option names; the value is not checked.
pub(crate) fn check_key(
    option: &str,
    command: &Command,
    (key, value): (&str, &str),
    front: &dyn OwnBenches,
) -> Result<()> {
    let Simulation { name, machine, .. } = Simulation::of(command).expect("it simulates");
    let checked = match command {
        _ if machine::is_of_machine(key) => {
            machine::check_key(&machine.read(OutputOptions::quiet())?, key, value)
        }
        Command::Run(arguments) => run::check_parameter(&*run::named(arguments, front)?, key),
        _ => check_option(name, key),
    };
    checked.map_err(|error| anyhow!("{option} {error}{}", mapping_help(key)))
}

/// Returns help if a key is a mapping of the machine: the keys in it.
fn mapping_help(key: &str) -> String {
    match Topology::embedded().values().get(key) {
        Some(PlainValue::Map(entries)) => {
            let keys: Vec<_> = entries.iter().map(|(name, _)| format!("{key}.{name}")).collect();
            format!("\n  help: keys of the machine are {}", keys.join(", "))
        }
        _ => String::new(),
    }
}
