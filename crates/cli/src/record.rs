//! Records of commands that simulate: `--save`, and the record of any command line.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, CommandFactory as _, FromArgMatches as _};
use cubeyard_bench::record::{Record, VERSION};
use cubeyard_device::input::{PlainValue, nearest};
use cubeyard_device::topology::Topology;
use serde::Serialize;
use serde_json::{Value, json};

use crate::machine::{self, MachineOptions};
use crate::output::Files;
use crate::own::OwnBenches;
use crate::terminal::OutputOptions;
use crate::{Cli, Command, ccl, model, probe, run, validate};

/// Commands whose results are records.
const RECORDED: [&str; 5] = ["run", "ccl", "model", "probe", "validate"];

/// Options of commands that simulate: a record, and a grid of inputs.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StudyOptions {
    /// Write a record for `cubeyard compare` as JSON: inputs, machine and figures; a line for each point of --vary
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Values to run one after the other, such as m=256,512 or `hbm.channel_bandwidth_gbs=32,64`: a parameter as with
    /// --set, an option of this command, or a topology key; several times for a grid. Values with commas
    /// are written in brackets
    #[arg(long, value_name = "KEY=A,B,...")]
    pub(crate) vary: Vec<String>,
    /// Number of threads that run the points of --vary; one for each core if omitted. Results do not depend on it
    #[arg(long, value_name = "N", requires = "vary", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Write the table of --vary as CSV
    #[arg(long, value_name = "FILE", requires = "vary")]
    pub(crate) csv: Option<PathBuf>,
    /// Plot the times of --vary to an .svg file, or with the table to an .html file
    #[arg(long, value_name = "FILE", requires = "vary")]
    pub(crate) chart: Option<PathBuf>,
}

/// A record of a command that ran to its end.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) record: Record,
    /// Whether all checks passed.
    pub(crate) is_well: bool,
}

/// Returns the options of a command that simulates.
pub(crate) fn study(command: &Command) -> Option<&StudyOptions> {
    match command {
        Command::Run(it) => Some(&it.study),
        Command::Ccl(it) => Some(&it.study),
        Command::Model(it) => Some(&it.study),
        Command::Probe(it) => Some(&it.study),
        Command::Validate(it) => Some(&it.study),
        _ => None,
    }
}

/// Returns the machine of a command that simulates.
pub(crate) fn machine(command: &Command) -> Option<&MachineOptions> {
    match command {
        Command::Run(it) => Some(&it.machine),
        Command::Ccl(it) => Some(&it.machine),
        Command::Model(it) => Some(&it.machine),
        Command::Probe(it) => Some(&it.machine),
        Command::Validate(it) => Some(&it.machine),
        _ => None,
    }
}

/// Runs a command, and returns its record in place of its output.
pub(crate) fn of(command: &Command, front: &dyn OwnBenches) -> Result<Recorded> {
    match command {
        Command::Run(it) => run::recorded(it, front),
        Command::Ccl(it) => ccl::recorded(it),
        Command::Model(it) => model::recorded(it),
        Command::Probe(it) => probe::recorded(it),
        Command::Validate(it) => validate::recorded(it),
        _ => bail!("expected a command that simulates: {}", RECORDED.join(", ")),
    }
}

/// Parses a command line, the first word of which is the program, with more options, which take the place of the same
/// ones before them.
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
    command.filter(|command| study(command).is_some()).ok_or_else(|| {
        anyhow!("expected a command that simulates after `--`: {}", RECORDED.join(", "))
    })
}

/// Returns the text of a usage error without its heading, which is written before every error.
fn refused(error: &clap::Error) -> anyhow::Error {
    let text = error.to_string();
    anyhow!("{}", text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
}

/// Writes the record of a command, if one was asked for.
pub(crate) fn save(
    study: &StudyOptions,
    options: OutputOptions,
    record: impl FnOnce() -> Record,
) -> Result<()> {
    let Some(path) = &study.save else { return Ok(()) };
    let (mut files, record) = (Files::default(), record());
    files.write(path, "--save", |file| write(file, &record))?;
    files.finish()?;
    options.remark(&format!("wrote {}", path.display()));
    Ok(())
}

/// Writes a record as one line.
pub(crate) fn write(file: &mut impl Write, record: &Record) -> Result<()> {
    serde_json::to_writer(&mut *file, record)?;
    Ok(file.write_all(b"\n")?)
}

/// Adds the version of the program and the hash of the machine to a result.
pub(crate) fn stamped(mut value: Value, topology: &Topology) -> Value {
    value["version"] = json!(VERSION);
    value["topology"] = json!(topology.content_hash().to_string());
    value
}

/// A result with the version of the program and the hash of the machine before its own keys.
#[derive(Debug, Serialize)]
pub(crate) struct Stamped<T> {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<String>,
    #[serde(flatten)]
    result: T,
}

impl<T> Stamped<T> {
    pub(crate) fn new(result: T, topology: &Topology) -> Self {
        let topology = Some(topology.content_hash().to_string());
        Self { version: VERSION, topology, result }
    }

    /// Makes a result without a machine.
    pub(crate) fn version_alone(result: T) -> Self {
        Self { version: VERSION, topology: None, result }
    }
}

/// Returns the name of a command that simulates.
pub(crate) fn name(command: &Command) -> &'static str {
    match command {
        Command::Ccl(_) => "ccl",
        Command::Model(_) => "model",
        Command::Probe(_) => "probe",
        Command::Validate(_) => "validate",
        _ => "run",
    }
}

/// Returns the options of a command's output.
pub(crate) fn output(command: &Command) -> OutputOptions {
    match command {
        Command::Run(it) => it.output,
        Command::Ccl(it) => it.output,
        Command::Model(it) => it.output,
        Command::Probe(it) => it.output,
        Command::Validate(it) => it.output,
        _ => OutputOptions::default(),
    }
}

/// Returns an option that was given and writes a file of a single run.
pub(crate) fn single_output(command: &Command) -> Option<&'static str> {
    let given = match command {
        Command::Run(it) => vec![("--trace", &it.trace), ("--report", &it.page.report)],
        Command::Ccl(it) => vec![("--plot", &it.plot), ("--report", &it.page.report)],
        Command::Probe(it) => vec![("--trace", &it.trace), ("--report", &it.page.report)],
        Command::Model(it) => vec![("--report", &it.page.report)],
        _ => Vec::new(),
    };
    given.into_iter().find_map(|(option, path)| path.as_ref().map(|_| option))
}

/// Checks that a command has an option that takes a value and can be varied.
fn check_option(command: &Command, key: &str) -> Result<()> {
    const FIXED: [&str; 10] =
        ["save", "vary", "threads", "csv", "chart", "format", "plot", "trace", "report", "with"];
    let (program, name) = (Cli::command(), name(command));
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

/// Returns the options that give a value to a key of a command: a topology key, a parameter of a run, or an option.
pub(crate) fn assigned(command: &Command, key: &str, value: &str) -> [OsString; 2] {
    let [option, value] = match command {
        _ if is_of_machine(key) => ["--with".to_owned(), format!("{key}={value}")],
        Command::Run(_) => ["--set".to_owned(), format!("{key}={value}")],
        _ => [format!("--{key}"), value.to_owned()],
    };
    [option.into(), value.into()]
}

/// Returns whether a key is of the machine: it has a dot, or is a plain value at the top of a topology file.
fn is_of_machine(key: &str) -> bool {
    let is_plain = |value: &PlainValue| !matches!(value, PlainValue::Map(_));
    key.contains('.') || Topology::embedded().values().get(key).is_some_and(is_plain)
}

/// Checks that a command or its machine has the key that an option names; nothing is said about the value.
pub(crate) fn check_key(
    option: &str,
    command: &Command,
    (key, value): (&str, &str),
    front: &dyn OwnBenches,
) -> Result<()> {
    let machine = machine(command).expect("a command that simulates has a machine");
    let checked = match command {
        _ if is_of_machine(key) => {
            machine::check_key(&machine.read(OutputOptions::quiet())?, key, value)
        }
        Command::Run(arguments) => run::check_parameter(&*run::named(arguments, front)?, key),
        command => check_option(command, key),
    };
    checked.map_err(|error| anyhow!("{option} {error}"))
}
