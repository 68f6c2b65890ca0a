//! `cubeyard sweep`: runs a bench over a grid of inputs.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::code::Code;
use crate::own::{OwnBenches, SweepRequest};

/// Run a bench over a grid of inputs, and keep a record of each run
///
/// The file names the bench, the grid and the file of records; records that it already holds are not made again. Ends
/// with code 1 if a configuration failed. Part of the Python package.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Sweep in YAML, with the keys bench, grid and out; topology, data, live and device are optional
    file: PathBuf,
    /// File of records, one JSON line each, instead of the one that FILE names
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Address of a Dask scheduler whose workers run the configurations; processes of this host if omitted
    #[arg(long, value_name = "ADDRESS", conflicts_with = "workers")]
    scheduler: Option<String>,
    /// Number of processes; one for each core if omitted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    workers: Option<u32>,
    /// Make all records again, even those that the file already holds
    #[arg(long)]
    fresh: bool,
    /// Suppress progress and remarks on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments, front: &dyn OwnBenches) -> Result<Code> {
    let Arguments { file, out, scheduler, workers, fresh, quiet } = arguments;
    let request = SweepRequest {
        file: file.clone(),
        out: out.clone(),
        scheduler: scheduler.clone(),
        workers: *workers,
        fresh: *fresh,
        quiet: *quiet,
    };
    front.sweep(&request).map_err(|error| anyhow!(error))
}
