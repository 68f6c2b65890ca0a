//! `cubeyard run`: runs a bench on a simulated machine.

mod explain;
mod table;

use crate::code::{Code, Exhausted};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow};
use clap::Args;
use cubeyard_bench::record::Record;
use cubeyard_bench::report;
use cubeyard_bench::{
    Bench, BenchError, OwnError, ParameterError, Run, RunConfig, RunFigures, RunInputs, Values,
};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_tl::launch::Mode;

use crate::machine::{self, MachineOptions};
use crate::output::{Files, Named};
use crate::own::{self, OwnBenches};
use crate::page::PageOptions;
use crate::progress::Busy;
use crate::record::{self, Drawing, LeverOptions, Recorded, StudyOptions};
use crate::terminal::OutputOptions;
use crate::{memory, output, terminal};

/// File to which the page of the first example is written.
const PAGE: &str = "cubeyard-run.html";

/// Run a bench on a simulated machine and show its bottleneck
///
/// Without a name, runs a first example with data, and draws it to ./cubeyard-run.html. `--levers` shows what to change:
/// the time if each resource of the machine were twice as fast. Ends with code 1 if a number
/// is wrong or a kernel has a fault, and with code 3 if simulated memory or time runs out.
#[derive(Args, Debug, Default)]
pub(crate) struct Arguments {
    /// Bench: a name from `cubeyard list`, or a Python file with @cubeyard.bench, and the name of a bench in it
    #[arg(value_name = "NAME|FILE.py[::NAME]")]
    name: Option<String>,
    /// Parameter of the bench, such as m=512; `cubeyard list -v` lists them
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// SIPs to use: all, or one such as sip:1; if omitted, the first, or all for a bench of several SIPs
    #[arg(long, value_name = "all|sip:N")]
    device: Option<Device>,
    /// Compute the numbers and check them
    #[arg(long)]
    data: bool,
    /// Run kernels while they are simulated instead of recording them first; the times are the same
    #[arg(long)]
    live: bool,
    /// Write a trace for Perfetto with every operation of every unit
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Show the critical path, step by step
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) levers: LeverOptions,
    #[command(flatten)]
    pub(crate) study: StudyOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// SIPs that a bench runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    All,
    Sip(u32),
}

impl FromStr for Device {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix("sip:").and_then(|number| number.parse().ok());
        match (text, number) {
            ("all", _) => Ok(Self::All),
            (_, Some(number)) => Ok(Self::Sip(number)),
            _ => Err("expected all, or sip: and a number, such as sip:0"),
        }
    }
}

/// Reads and runs everything before any output is written, so that a failure leaves no partial result.
pub(crate) fn run(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Code> {
    output::check(&inputs(arguments), &outputs(arguments))?;
    let (topology, run) = simulated(arguments, front)?;
    remark_on_checks(arguments, &run);
    write_files(arguments, &topology, &run)?;
    draw_first(arguments, &run);
    let explains = arguments.explain;
    let figures = RunFigures { report: &run.report, findings: &run.findings, explains };
    let text = |colours| table::render(&run, explains, colours);
    arguments.output.print(text, || record::stamped(&figures, &topology))?;
    Ok(if run.is_well() { Code::Done } else { Code::Failed })
}

/// Runs the bench, and returns its record, with every operation if `has_ops` is set.
pub(crate) fn recorded(
    arguments: &Arguments,
    front: &dyn OwnBenches,
    has_ops: bool,
) -> Result<Recorded> {
    let (topology, run) = simulated(arguments, front)?;
    let record = Record::of(&run).on(&topology);
    let record = if has_ops { record.with_ops(&run) } else { record };
    Ok(Recorded { record, is_well: run.is_well() })
}

/// Runs the bench, and returns its record and its page.
pub(crate) fn drawn(arguments: &Arguments, front: &dyn OwnBenches) -> Result<(Recorded, Drawing)> {
    let (topology, run) = simulated(arguments, front)?;
    let record = Record::of(&run).on(&topology);
    let is_well = run.is_well();
    Ok((Recorded { record, is_well }, Box::new(move |answer| run.page_with(Some(answer)))))
}

/// Returns the record of a run that is not made, without figures. Fails if an input is invalid.
pub(crate) fn foreseen(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Record> {
    let config = config(arguments, arguments.machine.read(OutputOptions::quiet())?)?;
    let inputs = RunInputs::new(&*named(arguments, front)?, &config)?;
    Ok(Record::new(&inputs).on(&config.topology))
}

/// Returns whether the bench is built in; built-in benches can run on any thread.
pub(crate) fn is_built_in(arguments: &Arguments, front: &dyn OwnBenches) -> bool {
    let Some(name) = &arguments.name else { return true };
    let is_own = front.benches().iter().any(|bench| bench.name() == name);
    !is_own && own::file(name).is_none()
}

/// Returns the bench without printing a remark.
pub(crate) fn named(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Box<dyn Bench>> {
    let name = arguments.name.clone();
    let silent = Arguments { name, output: OutputOptions::quiet(), ..Arguments::default() };
    chosen(&silent, front).map_err(helped)
}

/// Checks that a bench has a parameter with this name.
pub(crate) fn check_parameter(bench: &dyn Bench, name: &str) -> Result<()> {
    let given = [format!("{name}=")];
    match Values::new(bench.name(), &bench.parameters(), &given) {
        Err(error @ ParameterError::NoSuchParameter { .. }) => {
            Err(anyhow!("{name}: {error}\n  help: cubeyard list -v shows all parameters"))
        }
        _ => Ok(()),
    }
}

fn simulated(arguments: &Arguments, front: &dyn OwnBenches) -> Result<(Topology, Run)> {
    let topology = arguments.machine.read(arguments.output);
    let topology = topology.map_err(|error| with_parameter(arguments, front, error))?;
    let config = config(arguments, topology)?;
    let bench = chosen(arguments, front).map_err(helped)?;
    let _progress = Busy::new(arguments.output.quiet, &format!("simulating {}", bench.name()));
    let run = measured(&*bench, &config).map_err(|error| match error {
        BenchError::TooLarge(error) => memory::refuse(&error),
        error => refused(&error),
    })?;
    Ok((config.topology, run))
}

/// Adds help to the error of a machine, if `--with` was given a parameter of the bench.
fn with_parameter(
    arguments: &Arguments,
    front: &dyn OwnBenches,
    error: anyhow::Error,
) -> anyhow::Error {
    let Ok(bench) = named(arguments, front) else { return error };
    let parameters = bench.parameters();
    let is_meant = |key: &str| {
        let key = key.replace('_', "-");
        parameters.iter().find(|it| it.name.replace('_', "-").eq_ignore_ascii_case(&key))
    };
    match arguments.machine.with.iter().find_map(|(key, _)| is_meant(key)) {
        Some(it) => {
            anyhow!(
                "{error}\n  help: a parameter of {} is set with --set {}=…",
                bench.name(),
                it.name
            )
        }
        None => error,
    }
}

/// Adds help to the error of a bench that was not found.
fn helped(error: anyhow::Error) -> anyhow::Error {
    error.downcast::<BenchError>().map_or_else(|error| error, |error| refused(&error))
}

/// Formats the critical path of a run as text.
pub fn explained(report: &report::RunReport) -> String {
    explain::render(report, false)
}

fn chosen(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Box<dyn Bench>> {
    if let Some(name) = &arguments.name {
        return own::find(front, name);
    }
    let bench = cubeyard_bench::first();
    let what = "no bench named: running a first example, with its numbers";
    arguments.output.remark(&format!("{what}: {}", bench.name()));
    Ok(bench)
}

fn config(arguments: &Arguments, topology: Topology) -> Result<RunConfig> {
    let sips = sips(arguments.device, &topology)?;
    let mode = if arguments.live { Mode::Live } else { Mode::Recorded };
    let data = arguments.data || arguments.name.is_none();
    Ok(RunConfig { topology, set: arguments.set.clone(), data, mode, sips, ops: true })
}

fn sips(device: Option<Device>, topology: &Topology) -> Result<Vec<SipId>> {
    match device {
        None => Ok(Vec::new()),
        Some(Device::All) => Ok(topology.sips().collect()),
        Some(Device::Sip(number)) => {
            let sip = cubeyard_bench::sip(topology, number);
            sip.map(|sip| vec![sip]).map_err(|error| anyhow!("--device: {error}"))
        }
    }
}

/// Adds help to an error. Ends with code 3 if simulated memory or time ran out.
fn refused(error: &BenchError) -> anyhow::Error {
    let help = match error {
        _ if error.is_exhausted() => {
            let help = "use smaller parameters with --set, or a larger machine with --topology";
            return Exhausted(format!("{error}\n  help: {help}")).into();
        }
        BenchError::NoSuchBench { .. } => "cubeyard list shows all benches",
        BenchError::Parameter(ParameterError::NoSuchParameter { name, .. })
            if machine::is_of_machine(name) =>
        {
            "a key of the machine is set with --with, as in --with hbm.bandwidth=2x"
        }
        BenchError::Parameter(ParameterError::Form(_)) => "write it as in --set elements=4096",
        BenchError::Parameter(_) => "cubeyard list -v shows all parameters",
        BenchError::NeedsData(_) => "add --data",
        BenchError::NothingLaunched(_) => "launch a kernel in the bench",
        BenchError::Own(OwnError { help: Some(help), .. }) => help,
        BenchError::Own(_) => return anyhow!("{error}"),
        BenchError::Unfit(_)
        | BenchError::TooLarge { .. }
        | BenchError::Runtime(_)
        | BenchError::Distributed(_) => "change the parameters with --set",
    };
    anyhow!("{error}\n  help: {help}")
}

fn remark_on_checks(arguments: &Arguments, run: &Run) {
    if run.report.check.is_none() && run.report.assertions.is_none() {
        let what = "note: only times were simulated, and no number was checked";
        arguments.output.remark(&format!("{what}; --data computes and checks them"));
    }
}

fn inputs(arguments: &Arguments) -> Vec<Named<'_>> {
    output::named([("--topology", &arguments.machine.topology)])
}

fn outputs(arguments: &Arguments) -> Vec<Named<'_>> {
    let Arguments { trace, page, study, .. } = arguments;
    output::named([("--trace", trace), ("--report", &page.report), ("--save", &study.save)])
}

/// Runs a bench if it fits into the memory of the host.
fn measured(bench: &dyn Bench, config: &RunConfig) -> Result<Run, BenchError> {
    cubeyard_bench::check_memory(bench, config, memory::limit())?;
    cubeyard_bench::run(bench, config)
}

/// Writes all files before the first is renamed.
fn write_files(arguments: &Arguments, topology: &Topology, run: &Run) -> Result<()> {
    let mut files = Files::default();
    let progress = Busy::new(arguments.output.quiet, "writing files");
    if let Some((path, log)) = arguments.trace.as_ref().zip(run.log.as_ref()) {
        files.write(path, "--trace", |file| log.write_trace(file).map(|_| ()))?;
    }
    if let Some(path) = &arguments.page.report {
        let page = run.page();
        files.write(path, "--report", |file| file.write_all(page.as_bytes()))?;
    }
    if let Some(path) = &arguments.study.save {
        let record = Record::of(run).on(topology).with_ops(run);
        files.write(path, "--save", |file| record::write(file, &record))?;
    }
    files.finish()?;
    drop(progress);
    if let Some(path) = &arguments.trace {
        let line = format!("wrote {}: {}", path.display(), terminal::PERFETTO);
        arguments.output.remark(&line);
    }
    for path in [&arguments.page.report, &arguments.study.save].into_iter().flatten() {
        arguments.output.remark(&format!("wrote {}", path.display()));
    }
    arguments.page.show()
}

/// Draws the first example to the working directory, if it is writable and no other file was given.
fn draw_first(arguments: &Arguments, run: &Run) {
    if arguments.name.is_some() || arguments.page.report.is_some() {
        return;
    }
    let (path, page) = (Path::new(PAGE), run.page());
    let others = [inputs(arguments), outputs(arguments)].concat();
    let drawn = output::check(&others, &[("--report", path)])
        .and_then(|()| output::write(path, "--report", &page));
    match drawn {
        Ok(()) => arguments.output.remark(&format!("wrote {PAGE}")),
        Err(error) => arguments.output.remark(&format!("no page: {error:#}")),
    }
}
