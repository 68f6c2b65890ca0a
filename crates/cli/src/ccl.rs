//! `cubeyard ccl`: collectives over sizes and algorithms, in the form of nccl-tests.

pub(crate) mod json;
pub(crate) mod table;

use crate::code::Code;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::ccl::DEFAULT;
use cubeyard_collectives::distributed::sweep::{
    CHECKED, Sizes, Sweep, SweepConfig, Which, page, svg,
};
use cubeyard_collectives::distributed::{CclConfig, DistError, Ranks};
use cubeyard_device::topology::{SipGrid, SipTopology, SipsOverlay, Topology};
use cubeyard_runtime::dtype::DType;

use crate::machine::MachineOptions;
use crate::page::PageOptions;
use crate::terminal::OutputOptions;
use crate::{input, memory, output, terminal};

/// Largest number of bytes read from a file; the library's own limit is lower.
const LIMIT: u64 = 1 << 20;

/// Measure collectives over sizes and algorithms, as nccl-tests do
///
/// Each size and algorithm is run on a fresh machine and compared with the bound that the links of the fabric
/// set. Numbers are computed and checked for sizes up to 64 KiB, or for all sizes with --data. Ends with code
/// 1 if a number is wrong, and with code 3 if simulated memory or time runs out for every size.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Operation: `all_reduce`, reduce, broadcast, `all_gather`, `reduce_scatter`, `all_to_all`, gather or
    /// scatter
    #[arg(long, value_name = "NAME", default_value = "all_reduce")]
    op: String,
    /// Reduction operator: sum, prod, min, max, avg, band, bor or bxor
    #[arg(long, value_name = "NAME", default_value = "sum")]
    reduce: ReduceOp,
    /// Root rank of reduce, broadcast, gather and scatter
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: usize,
    /// Algorithms to run: all that support the operation, auto for the one that ccl.yaml or the cost model
    /// selects, or one of ccl.yaml by name
    #[arg(long, value_name = "all|auto|NAME", default_value = "all")]
    algorithm: String,
    /// Unit of the machine that forms a rank; from ccl.yaml if omitted
    #[arg(long, value_enum)]
    ranks: Option<Rank>,
    /// Number of ranks; from ccl.yaml if omitted, or as many as the machine has
    #[arg(long, value_name = "N")]
    world: Option<usize>,
    /// Range of message sizes, each FACTOR times the previous one (2 if omitted); a single size is allowed
    #[arg(long, value_name = "FROM:TO[:FACTOR]", default_value = "256:1M")]
    sizes: Sizes,
    /// Element type of the tensors
    #[arg(long, value_name = "NAME", default_value = "f16")]
    dtype: DType,
    /// Groups and algorithms in YAML, laid over the default ccl.yaml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the default ccl.yaml as a starting point for your own
    #[arg(long)]
    print_default: bool,
    #[command(flatten)]
    machine: MachineOptions,
    /// Number of SIPs, in place of the machine's own
    #[arg(long, value_name = "N")]
    sips: Option<u32>,
    /// Topology of the SIPs, in place of the machine's own: `ring_1d`, `torus_2d` or `mesh_2d_no_wrap`
    #[arg(long, value_name = "NAME")]
    sip_topology: Option<SipTopology>,
    /// Columns and rows of the SIPs in a torus or mesh, such as 3x2; nearest to a square if omitted
    #[arg(long, value_name = "WxH")]
    sip_grid: Option<SipGrid>,
    /// Compute and check the numbers of every size
    #[arg(long)]
    data: bool,
    /// Plot bus bandwidth over size to an .svg or .html file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// Unit of the machine that forms a rank.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rank {
    /// One rank per SIP, with all its PEs
    Sip,
    /// One rank per cube, with all its PEs
    Cube,
    /// One rank per PE
    Pe,
}

impl From<Rank> for Ranks {
    fn from(rank: Rank) -> Self {
        match rank {
            Rank::Sip => Self::Sip,
            Rank::Cube => Self::Cube,
            Rank::Pe => Self::Pe,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Code> {
    if arguments.print_default {
        terminal::print(DEFAULT)?;
        return Ok(Code::Done);
    }
    check_outputs(arguments)?;
    let config = config(arguments)?;
    let needs = config.needs().map_err(|error| refused(&error))?;
    if let Err(error) = needs.within(memory::limit(), true) {
        return Ok(memory::refuse(&error));
    }
    let sweep = Sweep::run(&config).map_err(|error| refused(&error))?;
    if let Some(path) = &arguments.plot {
        draw(path, &sweep, arguments.output)?;
    }
    arguments.page.write(arguments.output, || page(&sweep))?;
    arguments.output.print(|colours| table::render(&sweep, colours), || json::render(&sweep))?;
    if sweep.is_exhausted() {
        terminal::note(
            "error: simulated memory or time has run out\n  help: ask for smaller --sizes",
        );
        return Ok(Code::Exhausted);
    }
    Ok(if sweep.is_right() { Code::Done } else { Code::Failed })
}

fn config(arguments: &Arguments) -> Result<SweepConfig> {
    let mut ccl = read(arguments.config.as_deref())?;
    if let Some(ranks) = arguments.ranks {
        ccl.each(|config| config.ranks = ranks.into());
    }
    if let Some(world) = arguments.world {
        ccl.each(|config| config.world_size = Some(world));
    }
    Ok(SweepConfig {
        topology: machine(arguments)?,
        ccl,
        which: Which::from(arguments.algorithm.as_str()),
        operation: Operation::named(&arguments.op, arguments.reduce, arguments.root)
            .map_err(|error| anyhow!("--op: {error}"))?,
        dtype: arguments.dtype,
        sizes: arguments.sizes.all(),
        check_up_to: if arguments.data { u64::MAX } else { CHECKED },
    })
}

/// Returns the machine, with SIPs as the options give them.
fn machine(arguments: &Arguments) -> Result<Topology> {
    let Arguments { sips: count, sip_topology: topology, sip_grid: grid, .. } = *arguments;
    let machine = arguments.machine.read(arguments.output)?;
    machine.with_sips(SipsOverlay { count, topology, grid }).map_err(|error| {
        anyhow!(
            "{error}\n  help: change --sips, --sip-topology or --sip-grid, or leave the grid out"
        )
    })
}

/// Reads the file, or returns the embedded configuration.
fn read(file: Option<&Path>) -> Result<CclConfig> {
    let Some(file) = file else { return Ok(CclConfig::embedded()) };
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    CclConfig::read_bytes(&name, &bytes)
        .map_err(|error| anyhow!("{error}\n  help: cubeyard ccl --print-default shows every key"))
}

/// Adds help to an error.
fn refused(error: &DistError) -> anyhow::Error {
    let help = match error {
        DistError::World { .. } => "fewer ranks with --world, or a larger machine with --topology",
        DistError::Rank { .. } => "name another --root",
        DistError::Algorithm { .. } => "cubeyard ccl --print-default shows how one is added",
        DistError::Refused { .. } => {
            "choose another --algorithm or --op, or let it be chosen: auto"
        }
        _ => "change the options that do not fit",
    };
    anyhow!("{error}\n  help: {help}")
}

fn is_page(path: &Path) -> Option<bool> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "svg" => Some(false),
        "html" | "htm" => Some(true),
        _ => None,
    }
}

fn check_outputs(arguments: &Arguments) -> Result<()> {
    let Arguments { config, machine, plot, page, .. } = arguments;
    if let Some(path) = plot {
        is_page(path).with_context(|| {
            format!("{}: cannot be drawn\n  help: name an .svg or an .html file", path.display())
        })?;
    }
    let inputs = output::named([("--config", config), ("--topology", &machine.topology)]);
    output::check(&inputs, &output::named([("--plot", plot), ("--report", &page.report)]))
}

fn draw(path: &Path, sweep: &Sweep, options: OutputOptions) -> Result<()> {
    let picture = if is_page(path) == Some(true) { page(sweep) } else { svg(sweep) };
    output::write(path, "--plot", &picture)?;
    options.remark(&format!("wrote {}", path.display()));
    Ok(())
}
