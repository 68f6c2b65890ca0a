//! Records of commands that simulate: their options, the file of `--save`, and the version and machine in JSON.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use cubeyard_bench::record::{Record, VERSION};
use cubeyard_bench::report::Answer;
use cubeyard_device::topology::Topology;
use serde::Serialize;
use serde_json::{Value, json, to_value};

use crate::output::Files;
use crate::terminal::OutputOptions;

/// Options of commands that simulate: a record, and a grid of inputs.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StudyOptions {
    /// Write a record for `cubeyard compare` as JSON: inputs, machine and figures; a line for each point of --vary and
    /// each machine of --levers
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Key with values to run in turn, such as m=256,512 or `hbm.channel_bandwidth_gbs=32,64`. The key is a parameter
    /// as with --set, an option of this command, or a topology key. Several keys form a grid. Values with commas are
    /// written in brackets
    #[arg(long, value_name = "KEY=A,B,...", group = "points")]
    pub(crate) vary: Vec<String>,
    /// Number of threads for --vary and --levers; one for each core if omitted. Results do not depend on it
    #[arg(long, value_name = "N", requires = "points", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Cost of a machine, such as '0.3*hbm.bandwidth + 2*sips.count', for the points of --vary: numbers, + - * /,
    /// parentheses, min, max, topology keys, and groups of keys, whose value is the factor relative to the default machine.
    /// Marks the points on the Pareto front: no other point is as fast and as cheap, and better in one of both
    #[arg(long, value_name = "EXPRESSION", requires = "vary", allow_hyphen_values = true)]
    pub(crate) cost: Option<String>,
    /// Write the table of --vary as CSV
    #[arg(long, value_name = "FILE", requires = "vary")]
    pub(crate) csv: Option<PathBuf>,
    /// Earlier name of --report for --vary
    #[arg(long, value_name = "FILE", requires = "vary", hide = true)]
    pub(crate) chart: Option<PathBuf>,
}

/// Option of commands that measure a workload.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct LeverOptions {
    /// Show what to change: the time if each resource of the machine were twice as fast, by simulation, ranked
    #[arg(long, group = "points")]
    pub(crate) levers: bool,
}

/// Draws the page of a run that has been made, with an answer first.
pub(crate) type Drawing = Box<dyn FnOnce(&Answer) -> String>;

/// Record of a command that ran to completion.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) record: Record,
    /// Whether all checks passed.
    pub(crate) is_well: bool,
}

/// Writes the record of a command, if `--save` was given.
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

/// Adds the version of the program and the hash of the machine to a result; the keys are sorted.
pub(crate) fn stamped(result: &impl Serialize, topology: &Topology) -> Value {
    let mut value = to_value(result).expect("a report has text keys");
    value["version"] = json!(VERSION);
    value["topology"] = json!(topology.content_hash().to_string());
    value
}

/// Result, preceded by the version of the program and the hash of the machine.
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

    /// Creates a result with the version and without a machine.
    pub(crate) fn version_alone(result: T) -> Self {
        Self { version: VERSION, topology: None, result }
    }
}
