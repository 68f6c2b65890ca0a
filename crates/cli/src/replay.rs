//! `cubeyard replay`: replays recorded allocations under every policy.

mod holders;
mod plot;
mod summary;
mod table;

use std::borrow::Borrow;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use cubeyard_memory::Bytes;
use cubeyard_replay::trace::Lag;
use cubeyard_replay::{Grouping, HolderOptions, POLICIES, ReplayPolicy, Report, chart};

use crate::input::{self, Input, MemoryExceeded, Names};
use crate::memory;
use crate::output;
use crate::page::PageOptions;
use crate::processor_time;
use crate::progress::Progress;
use crate::record::Stamped;
use crate::terminal::OutputOptions;
use plot::Plot;

/// Replay recorded allocations under other policies, and show the memory that each needs
///
/// Reads PyTorch memory snapshots (`torch.cuda.memory._dump_snapshot`), logs of RAPIDS RMM and .trace
/// scripts, each also compressed with gzip. Without a file, replays a bundled trace and draws it to
/// ./cubeyard-replay.svg.
#[derive(Args, Debug)]
#[command(after_help = policies_help())]
pub(crate) struct Arguments {
    /// Files to replay: snapshots, logs and scripts, or folders of them (a snapshot for each rank)
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Policy to replay under, instead of all; may be given several times
    #[arg(long = "policy", value_name = "NAME", value_parser = cubeyard_replay::policy)]
    policies: Vec<&'static ReplayPolicy>,
    /// Launches (allocations) by which each stream lags behind the host, or `recorded`: work completes as
    /// the file shows. If omitted, as recorded where the file shows it, else at once
    #[arg(long, value_name = "N|recorded", allow_negative_numbers = true)]
    lag: Option<Lag>,
    /// Earlier name of --report
    #[arg(long, value_name = "OUT", hide = true)]
    plot: Option<Plot>,
    #[command(flatten)]
    page: PageOptions,
    /// Number of holders of memory to list; 5 if the recording has call stacks, else none
    #[arg(long, value_name = "N")]
    holders: Option<usize>,
    /// Property by which holders are grouped: frame (of your own code), stack or size
    #[arg(long, value_name = "WHAT", default_value_t)]
    by: Grouping,
    /// Also consider the frames of C++ code, which are recorded with stacks="all"
    #[arg(long)]
    native_frames: bool,
    #[command(flatten)]
    output: OutputOptions,
}

impl Arguments {
    fn holder_options(&self) -> HolderOptions {
        HolderOptions { count: self.holders, by: self.by, native: self.native_frames }
    }

    /// Returns whether the output is an HTML page, which shows the blocks over time.
    fn has_page(&self) -> bool {
        self.reports_page() || self.plot.as_ref().is_some_and(Plot::is_page)
    }

    /// Returns whether the file of `--report` is an HTML page.
    fn reports_page(&self) -> bool {
        let is_page = |path: &PathBuf| output::is_page(path).is_ok_and(|is_page| is_page);
        self.page.report.as_ref().is_some_and(is_page)
    }

    /// Checks before any work that the output files can be written and are not inputs.
    fn check_outputs(&self) -> Result<()> {
        let inputs: Vec<_> = self.files.iter().map(|file| ("a trace", file.as_path())).collect();
        let plot = self.plot.as_ref().map(|plot| ("--plot", plot.path()));
        if let Some(path) = &self.page.report {
            output::is_page(path)?;
        }
        let page = self.page.report.as_deref().map(|path| (output::PICTURE, path));
        output::check(&inputs, &plot.into_iter().chain(page).collect::<Vec<_>>())
    }
}

fn policies_help() -> String {
    let line = |policy: &ReplayPolicy| format!("  {:<20} {}\n", policy.name, policy.summary);
    let lines: Vec<_> = POLICIES.iter().map(line).collect();
    format!("Policies:\n{}", lines.concat())
}

/// Reads and replays all files before any output is written, so that a failure leaves no partial result.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.check_outputs()?;
    let mut progress = Progress::new(arguments.output.quiet);
    let limit = memory::limit();
    let mut inputs = read(arguments, limit, &mut progress)?;
    if let Some(lag) = arguments.lag {
        inputs = inputs.into_iter().map(|input| input.with_lag(lag)).collect();
    }
    check_memory(&inputs, limit)?;
    let reports = replay_all(&inputs, arguments, &mut progress);
    progress.finish();
    draw(arguments, &reports)?;
    let draw = if arguments.reports_page() { chart::html } else { chart::svg };
    arguments.page.write(arguments.output, || draw(&reports))?;
    let options = arguments.holder_options();
    let records = || {
        let records = inputs.iter().zip(&reports);
        let records = records.flat_map(|(it, report)| report.records(it.file.as_deref(), options));
        records.map(Stamped::version_alone).collect::<Vec<_>>()
    };
    arguments.output.print(|colours| table::render(&reports, options, colours), records)
}

fn read(arguments: &Arguments, limit: Bytes, progress: &mut Progress) -> Result<Vec<Input>> {
    if arguments.files.is_empty() {
        arguments.output.remark("no file given: replaying a bundled trace, ResNet-50 in training");
        return input::bundled(limit);
    }
    let (mut inputs, mut names) = (Vec::new(), Names::default());
    for file in &arguments.files {
        progress.turn_to(format!("reading {}", file.display()));
        let left = limit.saturating_sub(held(&inputs));
        inputs.extend(input::read(file, &mut names, left)?);
    }
    Ok(inputs)
}

/// Returns the memory that the traces use.
fn held<I: Borrow<Input>>(inputs: &[I]) -> Bytes {
    inputs.iter().map(|input| input.borrow().trace.memory()).sum()
}

/// Rejects traces whose replay would exceed `limit`, including the memory of everything read.
pub fn check_memory<I: Borrow<Input>>(inputs: &[I], limit: Bytes) -> Result<()> {
    let left = limit.saturating_sub(held(inputs));
    let mut traces = inputs.iter().map(|input| &input.borrow().trace);
    match traces.find(|trace| cubeyard_replay::memory_needed(trace) > left) {
        Some(trace) => Err(MemoryExceeded::new(format!("replaying {}", trace.name), limit).into()),
        None => Ok(()),
    }
}

fn replay_all(inputs: &[Input], arguments: &Arguments, progress: &mut Progress) -> Vec<Report> {
    let policies = distinct(&arguments.policies);
    // Each policy replays a trace twice: to count bytes, and to measure the time.
    let steps = |input: &Input| 2 * input.trace.events.len();
    progress.expect(inputs.iter().map(|input| steps(input) * policies.len()).sum());
    let (mut clock, mut expected) = (processor_time::clock(), 0);
    let mut reports = Vec::new();
    for input in inputs {
        let mut report = Report::new(&input.trace);
        for policy in &policies {
            progress.turn_to(format!("{}: {}", input.trace.name, policy.name));
            let told = &mut |events| progress.advance(events);
            report.rows.push(policy.replay(&input.trace, &mut clock, told));
            expected += steps(input);
            progress.settle_at(expected);
        }
        progress.turn_to(format!("{}: least memory", input.trace.name));
        report.find_least(&input.trace);
        if arguments.has_page() {
            report.map_blocks(&input.trace);
        }
        reports.push(report);
    }
    reports
}

/// Returns the chosen policies without repetition, in their order; all if none was chosen.
fn distinct(chosen: &[&'static ReplayPolicy]) -> Vec<&'static ReplayPolicy> {
    if chosen.is_empty() {
        return POLICIES.iter().collect();
    }
    let mut policies: Vec<&ReplayPolicy> = Vec::new();
    for policy in chosen {
        if policies.iter().all(|known| known.name != policy.name) {
            policies.push(policy);
        }
    }
    policies
}

/// Draws to the given file. Without input files and a page, draws to the working directory if it is writable.
fn draw(arguments: &Arguments, reports: &[Report]) -> Result<()> {
    match &arguments.plot {
        Some(plot) => {
            plot.write(reports)?;
            arguments.output.remark(&format!("wrote {plot}"));
        }
        None if arguments.files.is_empty() && arguments.page.report.is_none() => {
            let plot = Plot::default();
            match plot.write(reports) {
                Ok(()) => arguments.output.remark(&format!("wrote {plot}")),
                Err(error) => arguments.output.remark(&format!("no picture: {error:#}")),
            }
        }
        None => {}
    }
    Ok(())
}
