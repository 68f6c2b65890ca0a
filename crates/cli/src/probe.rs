//! `cubeyard probe`: measures latency and bandwidth of a machine's fabric.

mod chart;
mod page;
mod save;
pub(crate) mod table;

use crate::code::{Code, Exhausted};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use cubeyard_device::log::FlitLog;
use cubeyard_device::machine::Machine;
use cubeyard_device::probe::{
    Case, CaseReport, Pattern, PatternReport, ProbeReport, RunError, Watcher, cases,
};
use cubeyard_device::topology::Topology;
use cubeyard_device::trace;

use crate::machine::MachineOptions;
use crate::output::Files;
use crate::page::PageOptions;
use crate::progress::Busy;
use crate::record::{self, Recorded, StudyOptions, stamped};
use crate::terminal::OutputOptions;
use crate::{input, output, terminal};

/// Largest number of bytes read from a pattern; the library's own limit is lower.
const LIMIT: u64 = 64 << 20;

/// Example of a transfer, shown with pattern errors.
const TRANSFER: &str =
    "{op: read, from: sip0.cube0.pe1, to: sip0.cube0.pe0.hbm, bytes: 16 KiB, at_ns: 0, offset: 0}";

/// Measure the latency and bandwidth of a machine's fabric
///
/// Measures transfers of 32 KiB between the host or a PE and memories near and far, each on a fresh machine, and
/// compares them with a closed form. Sweeps over sizes, shows the route hop by hop, and checks properties of every
/// machine. Ends with code 1 if a property does not hold.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// Name of the case to measure, such as pe-dma-local; `all` for all cases
    #[arg(long, value_name = "NAME", default_value = "all", conflicts_with = "pattern")]
    case: String,
    /// YAML file of transfers to run in place of the cases
    #[arg(long, value_name = "FILE")]
    pattern: Option<PathBuf>,
    /// Write a trace of one case, or of the pattern, for Perfetto
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Show the critical path of each transfer, step by step
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) study: StudyOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Code> {
    let Arguments { machine, pattern, trace, page, study, .. } = arguments;
    let inputs = output::named([("--topology", &machine.topology), ("--pattern", pattern)]);
    let outputs = [("--trace", trace), ("--report", &page.report), ("--save", &study.save)];
    output::check(&inputs, &output::named(outputs))?;
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
    let probed = measured(arguments, topology, &cases, watcher)?;
    arguments.page.write(arguments.output, || page::cases(&probed))?;
    record::save(&arguments.study, arguments.output, || save::of_cases(topology, &probed))?;
    let text = |colours| table::cases(&probed, colours);
    arguments.output.print(text, || stamped(&probed, topology))?;
    Ok(if probed.holds() { Code::Done } else { Code::Failed })
}

fn measured(
    arguments: &Arguments,
    topology: &Topology,
    cases: &[Case],
    watcher: Option<Watcher<'_, anyhow::Error>>,
) -> Result<ProbeReport> {
    let mut probed = Vec::new();
    let _progress = Busy::new(arguments.output.quiet, "simulating transfers");
    for case in cases {
        probed.push(CaseReport::measure(topology, case, arguments.explain, watcher)?);
    }
    Ok(ProbeReport::new(topology, probed))
}

/// Measures the cases or the pattern, and returns the record.
pub(crate) fn recorded(arguments: &Arguments) -> Result<Recorded> {
    let topology = &arguments.machine.read(arguments.output)?;
    let Some(file) = &arguments.pattern else {
        let probed = measured(arguments, topology, &chosen(topology, &arguments.case)?, None)?;
        return Ok(Recorded { record: save::of_cases(topology, &probed), is_well: probed.holds() });
    };
    let pattern = read(file, topology)?;
    let probed =
        PatternReport::measure(topology, &pattern, false, None).map_err(|error| stopped(&error))?;
    let record = save::of_pattern(topology, &file.to_string_lossy(), &probed);
    Ok(Recorded { record, is_well: true })
}

fn read(file: &Path, topology: &Topology) -> Result<Pattern> {
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    Pattern::read(&name, &bytes, topology)
        .map_err(|error| anyhow!("{error}\n  help: a transfer looks like {TRANSFER}"))
}

fn run_pattern(arguments: &Arguments, topology: &Topology, file: &Path) -> Result<Code> {
    let pattern = read(file, topology)?;
    let trace = |machine: &Machine<FlitLog>| write_trace(arguments, machine);
    let watcher = arguments.trace.is_some().then_some(&trace as Watcher<'_, anyhow::Error>);
    let progress = Busy::new(arguments.output.quiet, "simulating transfers");
    let probed = PatternReport::measure(topology, &pattern, arguments.explain, watcher);
    drop(progress);
    let probed = probed.map_err(|error: anyhow::Error| {
        error.downcast::<RunError>().map_or_else(|error| error, |error| stopped(&error))
    })?;
    let name = file.to_string_lossy();
    arguments.page.write(arguments.output, || page::pattern(&name, &probed))?;
    let record = || save::of_pattern(topology, &name, &probed);
    record::save(&arguments.study, arguments.output, record)?;
    let text = |colours| table::pattern(&probed, colours);
    arguments.output.print(text, || stamped(&probed, topology))?;
    Ok(Code::Done)
}

/// Returns the error of a run that ended without a result, with help.
fn stopped(error: &RunError) -> anyhow::Error {
    let help = match error {
        RunError::Stalled { .. } => "larger buffers in the topology, or none",
        RunError::TooManyRecords { .. } => {
            "fewer or smaller transfers; without --explain and --trace none are kept"
        }
        RunError::Interrupted => "run it again",
        RunError::OutOfTime => "fewer or smaller transfers, or a faster machine",
    };
    Exhausted(format!("{error}\n  help: {help}")).into()
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
