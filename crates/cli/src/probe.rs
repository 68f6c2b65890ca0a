//! `cubeyard probe`: measures latency and bandwidth of a machine's fabric.

mod json;
mod page;
mod results;
mod table;

pub use results::{ProbedCase, ProbedCases, ProbedPattern, Watcher};

use crate::code::Code;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use cubeyard_device::log::FlitLog;
use cubeyard_device::machine::Machine;
use cubeyard_device::probe::{Case, Pattern, RunError, cases};
use cubeyard_device::topology::Topology;
use cubeyard_device::trace;
use serde_json::Value;

use crate::machine::MachineOptions;
use crate::output::Files;
use crate::page::PageOptions;
use crate::terminal::OutputOptions;
use crate::{input, output, terminal};

/// Largest number of bytes read from a pattern; the library's own limit is lower.
const LIMIT: u64 = 64 << 20;

/// Example of a transfer, shown with errors in patterns.
const TRANSFER: &str =
    "{op: read, from: sip0.cube0.pe1, to: sip0.cube0.pe0.hbm, bytes: 16 KiB, at_ns: 0, offset: 0}";

/// Measure the latency and bandwidth of a machine's fabric
///
/// Measures transfers of 32 KiB between the host or a PE and memories near and far, each on a fresh machine,
/// and compares them with a closed form; sweeps over sizes; shows the route hop by hop; and checks properties
/// that hold on any machine. Ends with code 1 if one does not hold.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: MachineOptions,
    /// Name of the case to measure, such as pe-dma-local; `all` for all cases
    #[arg(long, value_name = "NAME", default_value = "all", conflicts_with = "pattern")]
    case: String,
    /// YAML file of transfers to run in place of the cases
    #[arg(long, value_name = "FILE")]
    pattern: Option<PathBuf>,
    /// Write a trace for Perfetto, of the one case or of the pattern
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show the critical path of each transfer, step by step
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    output: OutputOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Code> {
    let Arguments { machine, pattern, trace, page, .. } = arguments;
    let inputs = output::named([("--topology", &machine.topology), ("--pattern", pattern)]);
    output::check(&inputs, &output::named([("--trace", trace), ("--report", &page.report)]))?;
    let topology = arguments.machine.read(arguments.output)?;
    match &arguments.pattern {
        Some(file) => run_pattern(arguments, &topology, file),
        None => run_cases(arguments, &topology),
    }
}

fn run_cases(arguments: &Arguments, topology: &Topology) -> Result<Code> {
    let cases = chosen(topology, &arguments.case)?;
    if arguments.trace.is_some() && cases.len() != 1 {
        bail!(
            "--trace: expected one case, found {}\n  help: choose it with --case NAME",
            cases.len()
        );
    }
    let trace = |machine: &Machine<FlitLog>| write_trace(arguments, machine);
    let watcher = arguments.trace.is_some().then_some(&trace as Watcher<'_, anyhow::Error>);
    let mut probed = Vec::new();
    for case in &cases {
        probed.push(ProbedCase::measure(topology, case, arguments.explain, watcher)?);
    }
    let probed = ProbedCases::new(topology, probed);
    arguments.page.write(arguments.output, || page::cases(&probed))?;
    arguments.output.print(|colours| probed.text(colours), || text(&probed.json()))?;
    Ok(if probed.holds() { Code::Done } else { Code::Failed })
}

fn run_pattern(arguments: &Arguments, topology: &Topology, file: &Path) -> Result<Code> {
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    let pattern = Pattern::read(&name, &bytes, topology)
        .map_err(|error| anyhow!("{error}\n  help: a transfer looks like {TRANSFER}"))?;
    let trace = |machine: &Machine<FlitLog>| write_trace(arguments, machine);
    let watcher = arguments.trace.is_some().then_some(&trace as Watcher<'_, anyhow::Error>);
    let probed = match ProbedPattern::run(topology, &pattern, arguments.explain, watcher) {
        Ok(probed) => probed,
        Err(error) => return error.downcast().map(|error| stopped(&error)),
    };
    arguments.page.write(arguments.output, || page::pattern(&name, &probed))?;
    arguments.output.print(|colours| probed.text(colours), || text(&probed.json()))?;
    Ok(Code::Done)
}

fn text(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Reports a run without a result.
fn stopped(error: &RunError) -> Code {
    let help = match error {
        RunError::Stalled { .. } => "larger buffers in the topology, or none",
        RunError::TooManyRecords { .. } => {
            "fewer or smaller transfers; without --explain and --trace none are kept"
        }
        RunError::Interrupted => "run it again",
        RunError::OutOfTime => "fewer or smaller transfers, or a faster machine",
    };
    terminal::note(&format!("error: {error}\n  help: {help}"));
    Code::Exhausted
}

/// Returns the cases with this name.
fn chosen(topology: &Topology, name: &str) -> Result<Vec<Case>> {
    let cases = cases(topology);
    if name == "all" {
        return Ok(cases);
    }
    let names: Vec<_> = cases.iter().map(|case| case.name.clone()).collect();
    let found: Vec<_> = cases.into_iter().filter(|case| case.name == name).collect();
    if found.is_empty() {
        bail!("--case: expected one of all, {}; found {name}", names.join(", "));
    }
    Ok(found)
}

fn write_trace(arguments: &Arguments, machine: &Machine<FlitLog>) -> Result<()> {
    let Some(path) = &arguments.trace else { return Ok(()) };
    let mut files = Files::default();
    files.write(path, "--trace", |file| trace::write(machine, file).map(|_| ()))?;
    files.finish()?;
    arguments.output.remark(&format!("wrote {}: {}", path.display(), terminal::PERFETTO));
    Ok(())
}
