//! `cubeyard compare`: compares two records, or two machines under one command.

mod page;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use cubeyard_bench::compare::Comparison;
use cubeyard_bench::record::{Record, RecordError, VERSION};
use cubeyard_memory::Bytes;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::code::{self, Code};
use crate::machine;
use crate::own::OwnBenches;
use crate::page::PageOptions;
use crate::progress::Busy;
use crate::record::{self, Recorded};
use crate::simulating::{self, Simulation};
use crate::terminal::OutputOptions;
use crate::{Command, input, output};

/// Largest number of bytes read from a file of records.
const LIMIT: u64 = 1 << 28;

const SYNTAX: &str = "cubeyard compare A.json B.json, with files of --save; or cubeyard compare --with \
                      hbm.channel_bandwidth_gbs=64 -- run gemm";

/// Compare two runs, or two machines under one command: differences, and their cause
///
/// Without a command, A and B are records of --save; `FILE:N` is line N of a file of several records. A command after
/// `--` is run on two machines. One topology file is compared with the default machine, two with each other; without a
/// file both machines are the default one. --against changes values of A, and --with values of B: topology keys,
/// parameters of the bench, or options of the command. Ends with code 1 if a check failed, as the command itself would.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// First record, or first topology file. A single topology file is B, and A is the default machine
    a: Option<PathBuf>,
    /// Second record, or second topology file
    b: Option<PathBuf>,
    /// Value of a topology key, or of a parameter or option of the command, for B; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = machine::assignment)]
    with: Vec<(String, String)>,
    /// Value of a topology key, or of a parameter or option of the command, for A; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = machine::assignment)]
    against: Vec<(String, String)>,
    #[command(flatten)]
    page: PageOptions,
    /// Write both records, one line each
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
    /// Command to run on both machines: run, ccl, model, probe or validate with its options
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Two records with their names.
struct Sides {
    names: [String; 2],
    records: [Recorded; 2],
}

pub(crate) fn run(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Code> {
    let Arguments { a, b, page, save, .. } = arguments;
    let inputs = output::named([("A", a), ("B", b)]);
    output::check(&inputs, &output::named([("--report", &page.report), ("--save", save)]))?;
    let sides =
        if arguments.command.is_empty() { files(arguments)? } else { runs(arguments, front)? };
    let well = sides.records.iter().all(|it| it.is_well);
    let compared = ComparedRecords::new(sides.names, sides.records.map(|it| it.record));
    write_files(arguments, &compared)?;
    arguments.output.print(|colours| compared.text(colours), || &compared)?;
    Ok(if well { Code::Done } else { Code::Failed })
}

/// Report of `cubeyard compare`: two records side by side.
#[derive(Debug)]
pub struct ComparedRecords {
    names: [String; 2],
    records: [Record; 2],
    comparison: Comparison,
}

impl ComparedRecords {
    /// Compares two records under names of the caller's choice.
    pub fn new(names: [String; 2], records: [Record; 2]) -> Self {
        let comparison = Comparison::new(&records[0], &records[1]);
        Self { names, records, comparison }
    }

    /// Returns the tables and the cause, as `cubeyard compare` prints them.
    pub fn text(&self, colours: bool) -> String {
        table::render(&self.names, &self.comparison, colours)
    }

    /// Returns the page of `cubeyard compare --report`.
    pub fn page(&self) -> String {
        page::render(&self.title(), &self.names, &self.records, &self.comparison)
    }

    /// Returns the name of the command that was run on both sides.
    fn title(&self) -> String {
        let name = |record: &Record| {
            let command = record.command.as_deref().unwrap_or("run");
            if command == record.bench {
                command.to_owned()
            } else {
                format!("{command} {}", record.bench)
            }
        };
        let [a, b] = self.records.each_ref().map(name);
        if a == b { format!("{a}: A and B") } else { format!("{a} and {b}") }
    }
}

impl Serialize for ComparedRecords {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut value = json!(self.comparison);
        let side = |at: usize| {
            let Record { version, topology, .. } = &self.records[at];
            json!({ "name": self.names[at], "version": version, "topology": topology })
        };
        value["verdict"] = json!(self.comparison.verdict());
        value["version"] = json!(VERSION);
        value["a"] = side(0);
        value["b"] = side(1);
        value.serialize(to)
    }
}

fn write_files(arguments: &Arguments, compared: &ComparedRecords) -> Result<()> {
    let mut files = output::Files::default();
    let report = &arguments.page.report;
    if let Some(path) = report {
        let page = compared.page();
        files.write(path, "--report", |file| std::io::Write::write_all(file, page.as_bytes()))?;
    }
    if let Some(path) = &arguments.save {
        files.write(path, "--save", |file| {
            compared.records.iter().try_for_each(|record| record::write(file, record))
        })?;
    }
    files.finish()?;
    for path in [report, &arguments.save].into_iter().flatten() {
        arguments.output.remark(&format!("wrote {}", path.display()));
    }
    arguments.page.show()
}

/// Reads two records.
fn files(arguments: &Arguments) -> Result<Sides> {
    if !arguments.with.is_empty() || !arguments.against.is_empty() {
        bail!("--with and --against: expected a command after `--`\n  help: {SYNTAX}");
    }
    let (Some(a), Some(b)) = (&arguments.a, &arguments.b) else {
        bail!("expected two records, or a command after `--`\n  help: {SYNTAX}");
    };
    let names = [a, b].map(|path| path.display().to_string());
    let records =
        [read_record(a)?, read_record(b)?].map(|record| Recorded { record, is_well: true });
    Ok(Sides { names, records })
}

/// Reads the record of a file, or of one of its lines, given as `FILE:N`.
pub fn read_record(path: &Path) -> Result<Record> {
    let (file, number) = match numbered(path) {
        Some((file, number)) if !path.exists() => (file, Some(number)),
        _ => (path.to_owned(), None),
    };
    let (name, bytes) = input::named_bytes(&file, LIMIT + 1)?;
    let help = "name a file that --save has written";
    if bytes.len() as u64 > LIMIT {
        let limit = Bytes::new(LIMIT);
        bail!("{name}: expected a file of at most {limit}, found a longer one\n  help: {help}");
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| anyhow!("{name}: expected a record in UTF-8\n  help: {help}"))?;
    let lines: Vec<&str> = text.lines().collect();
    let line = match number {
        None if lines.len() > 1 => {
            let count = lines.len();
            bail!(
                "{name}: expected one record, found {count} lines\n  help: name one, as in {name}:1"
            )
        }
        None => lines.first().copied().unwrap_or_default(),
        Some(number) => {
            number.checked_sub(1).and_then(|at| lines.get(at)).copied().with_context(|| {
                let last = lines.len();
                format!(
                    "{name}: expected a line from 1 to {last}, found {number}\n  help: name another"
                )
            })?
        }
    };
    Record::read(line).map_err(|error| match error {
        RecordError::Format(_) => anyhow!("{name}: {error}"),
        RecordError::Form(_) => anyhow!("{name}: {error}\n  help: {help}"),
    })
}

/// Splits `FILE:N` into the file and the line number.
fn numbered(path: &Path) -> Option<(PathBuf, usize)> {
    let (file, number) = path.to_str()?.rsplit_once(':')?;
    Some((PathBuf::from(file), number.parse().ok()?))
}

/// Runs the command on both machines.
fn runs(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Sides> {
    let sides = machines(arguments);
    if sides.iter().all(|(file, with)| file.is_none() && with.is_empty()) {
        bail!("A and B are the same\n  help: {SYNTAX}");
    }
    let words: Vec<OsString> =
        std::iter::once("cubeyard".into()).chain(arguments.command.clone()).collect();
    let command = simulating::parsed(&words, &[])?;
    if let Some(option) = simulating::beyond_one_record(&command) {
        bail!("{}", unfit(option));
    }
    for (option, given) in [("--against", &arguments.against), ("--with", &arguments.with)] {
        for (key, value) in given {
            simulating::check_key(option, &command, (key, value), front)?;
        }
    }
    let own = Simulation::of(&command).map(|it| it.machine);
    let own = own.filter(|it| it.topology.is_some() || !it.with.is_empty());
    let base = if own.is_some() { "the machine of the command" } else { "the default machine" };
    if arguments.a.is_some() && own.is_some_and(|it| it.topology.is_some()) {
        bail!("--topology: expected none in the command\n  help: A and B are the topology files");
    }
    let names = sides.map(|(file, with)| name(file, with, base));
    let commands =
        sides.map(|(file, with)| simulating::parsed(&words, &options(&command, file, with)));
    let mut records = Vec::new();
    for (command, name) in commands.into_iter().zip(["A", "B"]) {
        let command = command?;
        let _progress = Busy::new(arguments.output.quiet, &format!("running {name}"));
        let recorded = simulating::with_ops(&command, front);
        records.push(recorded.map_err(|error| side(name, &error))?);
    }
    let [a, b] = <[Recorded; 2]>::try_from(records).expect("two machines were run");
    Ok(Sides { names, records: [a, b] })
}

/// Topology file of a machine, and the values that are changed in it.
type Side<'a> = (Option<&'a PathBuf>, &'a [(String, String)]);

/// Returns both machines. A single file is B; A is then the default machine.
fn machines(arguments: &Arguments) -> [Side<'_>; 2] {
    let Arguments { a, b, with, against, .. } = arguments;
    let [a, b] = if b.is_some() { [a.as_ref(), b.as_ref()] } else { [None, a.as_ref()] };
    [(a, against), (b, with)]
}

/// Describes an option that the command after `--` cannot have.
fn unfit(option: &str) -> String {
    let help = match option {
        "--levers" | "--vary" => {
            "run the command with it on each machine: --topology FILE, or --with KEY=VALUE"
        }
        _ => "give --report FILE or --save FILE before `--`, for both machines",
    };
    format!("{option}: cannot be given to a command that is compared\n  help: {help}")
}

/// Adds the name of the machine to an error, and keeps the exit code.
fn side(name: &str, error: &anyhow::Error) -> anyhow::Error {
    match code::of(error) {
        Code::Exhausted => code::Exhausted(format!("{name}: {error:#}")).into(),
        _ => anyhow!("{name}: {error:#}"),
    }
}

fn options(command: &Command, file: Option<&PathBuf>, with: &[(String, String)]) -> Vec<OsString> {
    let file = file.into_iter().flat_map(|file| ["--topology".into(), file.into()]);
    let with = with.iter().flat_map(|(key, value)| simulating::assigned(command, key, value));
    std::iter::once("--quiet".into()).chain(file).chain(with).collect()
}

fn name(file: Option<&PathBuf>, with: &[(String, String)], base: &str) -> String {
    let file = file.map_or_else(|| base.to_owned(), |it| it.display().to_string());
    let with: Vec<_> = with.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if with.is_empty() { file } else { format!("{file} with {}", with.join(", ")) }
}
