//! Arguments of `cubeyard sweep`, which the front runs.

use std::path::PathBuf;

use clap::Args;

/// Run a bench over a grid of inputs, and keep a record of each run
///
/// The file names the bench, the grid and the file of records. Existing records are not made again. Ends with code 1
/// if a configuration failed. Part of the Python package.
#[derive(Args, Clone, Debug)]
pub struct SweepRequest {
    /// Sweep in YAML, with the keys bench, grid and out; topology, data, live and device are optional
    pub file: PathBuf,
    /// File of records, one JSON line each, in place of the key `out`
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Address of a Dask scheduler whose workers run the configurations; processes of this host if omitted
    #[arg(long, value_name = "ADDRESS", conflicts_with = "workers")]
    pub scheduler: Option<String>,
    /// Number of processes; one for each core if omitted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// Make all records again, even records that the file already holds
    #[arg(long)]
    pub fresh: bool,
    /// Suppress progress and remarks on standard error
    #[arg(long, short)]
    pub quiet: bool,
}
