//! `cubeyard ccl`: collectives over sizes and algorithms, in the form of nccl-tests.

mod json;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use cubeyard_device::input::nearest;
use cubeyard_device::topology::{SipGrid, SipTopology, SipsOverlay, Topology};
use cubeyard_kernels::collective::{Operation, ReduceOp};
use cubeyard_kernels::distributed::ccl::DEFAULT;
use cubeyard_kernels::distributed::sweep::{Sizes, Sweep, SweepConfig, Which, page, svg};
use cubeyard_kernels::distributed::{CclConfig, DistError, Ranks};
use cubeyard_runtime::dtype::DType;

use crate::terminal::Format;
use crate::{input, memory, output, terminal, topology};

/// The most that is read of a file; the library refuses less.
const LIMIT: u64 = 1 << 20;
/// Sizes up to this are checked without being asked for.
const CHECKED: u64 = 64 << 10;

/// Measure collectives over sizes and algorithms, as nccl-tests do
///
/// Each size and algorithm is run alone on a fresh machine, and held against what the links of the fabric
/// allow. Numbers are computed and checked for sizes up to 64 KiB, or for all with --data. Ends with code 1 if
/// a number is wrong, 3 if simulated memory or time has run out for every size.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// `all_reduce`, reduce, broadcast, `all_gather`, `reduce_scatter`, `all_to_all`, gather or scatter
    #[arg(long, value_name = "NAME", default_value = "all_reduce")]
    op: String,
    /// How values are joined: sum, prod, min, max, avg, band, bor or bxor
    #[arg(long, value_name = "NAME", default_value = "sum")]
    reduce: ReduceOp,
    /// The rank that has or gets all, where there is one
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: usize,
    /// all that can do it, auto for the one that is chosen, or one of ccl.yaml by name
    #[arg(long, value_name = "all|auto|NAME", default_value = "all")]
    algorithm: String,
    /// What a rank is; without it, what ccl.yaml says
    #[arg(long, value_enum)]
    ranks: Option<Rank>,
    /// How many ranks there are; without it, what ccl.yaml says, or as many as the machine has
    #[arg(long, value_name = "N")]
    world: Option<usize>,
    /// From one size to another, each twice or FACTOR times the one before; one alone will do
    #[arg(long, value_name = "FROM:TO[:FACTOR]", default_value = "256:1M")]
    sizes: Sizes,
    /// What tensors are of
    #[arg(long, value_name = "NAME", default_value = "f16")]
    dtype: DType,
    /// Groups and algorithms, as YAML over the default ccl.yaml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the default ccl.yaml, to be edited
    #[arg(long)]
    print_default: bool,
    /// The machine, as YAML; without it, the default one
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// How many SIPs that machine has instead
    #[arg(long, value_name = "N")]
    sips: Option<u32>,
    /// How its SIPs lie to each other instead: `ring_1d`, `torus_2d` or `mesh_2d_no_wrap`
    #[arg(long, value_name = "NAME")]
    sip_topology: Option<SipTopology>,
    /// Columns and rows of its SIPs in a torus or mesh, such as 3x2; without it, as near to a square as can be
    #[arg(long, value_name = "WxH")]
    sip_grid: Option<SipGrid>,
    /// Compute and check the numbers of every size
    #[arg(long)]
    data: bool,
    /// Draw bus bandwidth against size: to an .svg or an .html file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// No remarks on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// What a rank is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rank {
    /// A SIP with all its PEs
    Sip,
    /// A cube with all its PEs
    Cube,
    /// A PE
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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.print_default {
        terminal::print(DEFAULT).context("standard output")?;
        return Ok(ExitCode::SUCCESS);
    }
    arguments.plot.as_deref().map_or(Ok(()), |path| check_plot(arguments, path))?;
    let config = config(arguments)?;
    let needs = config.needs().map_err(|error| refused(&error))?;
    if let Err(error) = needs.within(memory::limit(), true) {
        return Ok(memory::refuse(&error));
    }
    let sweep = Sweep::run(&config).map_err(|error| refused(&error))?;
    if let Some(path) = &arguments.plot {
        draw(path, &sweep, arguments.quiet)?;
    }
    let result = match arguments.format {
        Format::Table => table::render(&sweep, terminal::colours()),
        Format::Json => json::render(&sweep)?,
    };
    terminal::print(&result).context("standard output")?;
    if sweep.is_exhausted() {
        terminal::note(
            "error: simulated memory or time has run out\n  help: ask for smaller --sizes",
        );
        return Ok(ExitCode::from(3));
    }
    Ok(if sweep.is_right() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn config(arguments: &Arguments) -> Result<SweepConfig> {
    let mut ccl = read(arguments.config.as_deref())?;
    if let Some(ranks) = arguments.ranks {
        ccl.each(|config| config.ranks = ranks.into());
    }
    if let Some(world) = arguments.world {
        ccl.each(|config| config.world_size = Some(world));
    }
    let which = match arguments.algorithm.as_str() {
        "all" => Which::All,
        "auto" => Which::Auto,
        name => Which::Named(name.to_owned()),
    };
    Ok(SweepConfig {
        topology: machine(arguments)?,
        ccl,
        which,
        operation: operation(arguments)?,
        dtype: arguments.dtype,
        sizes: arguments.sizes.all(),
        check_up_to: if arguments.data { u64::MAX } else { CHECKED },
    })
}

/// The machine, with the SIPs that were asked for.
fn machine(arguments: &Arguments) -> Result<Topology> {
    let Arguments { sips: count, sip_topology: topology, sip_grid: grid, .. } = *arguments;
    let machine = topology::read(arguments.topology.as_deref(), arguments.quiet)?;
    machine.with_sips(SipsOverlay { count, topology, grid }).map_err(|error| {
        anyhow!(
            "{error}\n  help: change --sips, --sip-topology or --sip-grid, or leave the grid out"
        )
    })
}

/// The file, or the embedded one.
fn read(file: Option<&Path>) -> Result<CclConfig> {
    let Some(file) = file else { return Ok(CclConfig::embedded()) };
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    CclConfig::read_bytes(&name, &bytes)
        .map_err(|error| anyhow!("{error}\n  help: cubeyard ccl --print-default shows every key"))
}

fn operation(arguments: &Arguments) -> Result<Operation> {
    let all = Operation::all(arguments.reduce, arguments.root);
    let found = all.into_iter().find(|operation| operation.name() == arguments.op);
    found.ok_or_else(|| {
        let names = all.map(Operation::name);
        let nearest = nearest(&arguments.op, names.into_iter()).unwrap_or_default();
        let (known, op) = (names.join(", "), &arguments.op);
        anyhow!("--op: expected one of {known}; found `{op}`; the nearest is `{nearest}`")
    })
}

/// An error with what can be done about it.
fn refused(error: &DistError) -> anyhow::Error {
    let help = match error {
        DistError::World { .. } => "fewer ranks with --world, or a larger machine with --topology",
        DistError::Rank { .. } => "name another --root",
        DistError::Algorithm { .. } => "cubeyard ccl --print-default shows how one is added",
        DistError::Refused { .. } => {
            "choose another --algorithm or --op, or let it be chosen: auto"
        }
        _ => "change what does not fit",
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

fn check_plot(arguments: &Arguments, path: &Path) -> Result<()> {
    is_page(path).with_context(|| {
        format!("{}: cannot be drawn\n  help: name an .svg or an .html file", path.display())
    })?;
    let inputs = [("--config", &arguments.config), ("--topology", &arguments.topology)];
    let inputs = inputs.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
    output::check(&inputs.collect::<Vec<_>>(), &[("--plot", path)])
}

fn draw(path: &Path, sweep: &Sweep, quiet: bool) -> Result<()> {
    let picture = if is_page(path) == Some(true) { page(sweep) } else { svg(sweep) };
    output::write(path, "--plot", &picture)?;
    if !quiet {
        terminal::note(&format!("wrote {}", path.display()));
    }
    Ok(())
}
