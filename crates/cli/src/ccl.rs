//! `cubeyard ccl`: collectives over sizes and algorithms, in the form of nccl-tests.

pub(crate) mod table;

use crate::code::{Code, Exhausted};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::ccl::DEFAULT;
use cubeyard_collectives::distributed::{CclConfig, DistError, Ranks};
use cubeyard_device::topology::{SipGrid, SipTopology, SipsOverlay, Topology};
use cubeyard_runtime::dtype::DType;
use cubeyard_study::collectives::{CHECKED, Row, Sizes, Sweep, SweepConfig, Which, chart, page};
use serde_json::json;

use crate::grid::bytes;
use crate::machine::MachineOptions;
use crate::page::PageOptions;
use crate::progress::Busy;
use crate::record::{self, LeverOptions, Recorded, StudyOptions, stamped};
use crate::terminal::OutputOptions;
use crate::{input, memory, output, terminal};

/// Largest number of bytes read from a file; the library's own limit is lower.
const LIMIT: u64 = 1 << 20;

const EXHAUSTED: &str = "simulated memory or time has run out\n  help: ask for smaller --sizes";

/// Measure collectives over sizes and algorithms, as nccl-tests do
///
/// Each size and algorithm is run on a fresh machine and compared with the bound of the fabric's links. Numbers are
/// computed and checked for sizes up to 64 KiB, or for all sizes with --data. `--levers` shows what to change: the time
/// if each resource of the machine were twice as fast. Ends with code 1 if a number is wrong, or differs between ranks
/// with equal results, and with code 3 if simulated memory or time runs out for every size.
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
    /// Algorithms to run: `all` that support the operation, `auto` for the choice of ccl.yaml or the fastest, or names
    /// from ccl.yaml, such as ring,grid
    #[arg(long, value_name = "all|auto|NAME,...", default_value = "all")]
    algorithm: String,
    /// Unit of the machine that forms a rank; from ccl.yaml if omitted
    #[arg(long, value_enum)]
    ranks: Option<Rank>,
    /// Number of ranks; from ccl.yaml if omitted, else all units of the machine
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
    pub(crate) machine: MachineOptions,
    /// Number of SIPs, in place of the machine's own
    #[arg(long, value_name = "N")]
    sips: Option<u32>,
    /// Topology of the SIPs, in place of the machine's own: `ring_1d`, `torus_2d` or `mesh_2d_no_wrap`
    #[arg(long, value_name = "NAME")]
    sip_topology: Option<SipTopology>,
    /// Columns and rows of the SIPs in a torus or mesh, such as 3x2; nearest to a square if omitted
    #[arg(long, value_name = "WxH")]
    sip_grid: Option<SipGrid>,
    /// Compute and check the numbers of every size, and again with background traffic and message slots in each kind
    /// of memory (TCM, SRAM, HBM)
    #[arg(long)]
    data: bool,
    /// Earlier name of --report
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) levers: LeverOptions,
    #[command(flatten)]
    pub(crate) study: StudyOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
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
    let rows = table::Stream::new(&config, arguments.output);
    let sweep =
        swept(&config, arguments, arguments.study.save.is_some(), &mut |sweep| rows.row(sweep))?;
    for path in pictures(arguments) {
        draw(path, &sweep, arguments.output)?;
    }
    arguments.page.show()?;
    record::save(&arguments.study, arguments.output, || saved(arguments, &config, &sweep))?;
    let report = || stamped(&sweep, &config.topology);
    arguments.output.print(|_| rows.end(&sweep), report)?;
    if sweep.is_exhausted() {
        terminal::note(&format!("error: {EXHAUSTED}"));
        return Ok(Code::Exhausted);
    }
    Ok(if sweep.is_right() { Code::Done } else { Code::Failed })
}

/// Measures the collectives and returns their record.
pub(crate) fn recorded(arguments: &Arguments) -> Result<Recorded> {
    let config = config(arguments)?;
    let sweep = swept(&config, arguments, true, &mut |_| ())?;
    if sweep.is_exhausted() {
        return Err(Exhausted(EXHAUSTED.to_owned()).into());
    }
    Ok(Recorded { record: saved(arguments, &config, &sweep), is_well: sweep.is_right() })
}

fn swept(
    config: &SweepConfig,
    arguments: &Arguments,
    explains: bool,
    told: &mut dyn FnMut(&Sweep),
) -> Result<Sweep> {
    let needs = config.needs().map_err(|error| refused(&error))?;
    needs.within(memory::limit(), true).map_err(|error| memory::refuse(&error))?;
    let progress = Busy::new(arguments.output.quiet, &format!("simulating {}", config.operation));
    let sweep = Sweep::watched(config, explains, &mut |sweep| {
        progress.step(|| told(sweep));
    });
    sweep.map_err(|error| refused(&error))
}

fn saved(arguments: &Arguments, config: &SweepConfig, sweep: &Sweep) -> Record {
    let sizes: Vec<_> = config.sizes.iter().map(ToString::to_string).collect();
    let inputs = [
        ("op", json!(config.operation.to_string())),
        ("dtype", json!(config.dtype.name())),
        ("algorithm", json!(arguments.algorithm)),
        ("ranks", json!(sweep.ranks.kind())),
        ("world", json!(sweep.map.world().ranks)),
        ("sizes", json!(sizes.join(","))),
        ("--data", json!(arguments.data)),
        ("--config", json!(arguments.config.as_ref().map(|path| path.to_string_lossy()))),
    ];
    let inputs = inputs.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let record = Record::of_command("ccl", config.operation.name(), &config.topology, inputs);
    let rows: Vec<_> = sweep.rows.iter().filter_map(measured).collect();
    let failed = || sweep.rows.iter().find_map(|row| row.figures.as_ref().err().cloned());
    let error = if rows.is_empty() { failed() } else { None };
    Record { figures: Some(Measured::figures(&rows)), error, ..record }
}

fn measured(row: &Row) -> Option<Measured> {
    let (figures, explained) =
        (row.figures.as_ref().ok()?, row.explained.clone().unwrap_or_default());
    let time_ns = figures.time.ns();
    let bound = figures.share.map(|share| ("links".to_owned(), time_ns * share));
    Some(Measured {
        name: format!("{} {}", row.algorithm, bytes(row.bytes)),
        time_ns,
        path_ns: explained.path.into_iter().map(|(name, span)| (name, span.ns())).collect(),
        utilisation: explained.utilisation,
        bounds_ns: bound.into_iter().collect(),
        limited_by: None,
    })
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
        every_memory: arguments.data,
    })
}

/// Returns the machine, with the number and topology of SIPs that the options set.
pub(crate) fn machine(arguments: &Arguments) -> Result<Topology> {
    let Arguments { sips: count, sip_topology: topology, sip_grid: grid, .. } = *arguments;
    let machine = arguments.machine.read(arguments.output)?;
    machine.with_sips(SipsOverlay { count, topology, grid }).map_err(|error| {
        anyhow!(
            "{error}\n  help: change --sips, --sip-topology or --sip-grid, or leave the grid out"
        )
    })
}

/// Reads the configuration from the file, or returns the embedded one.
fn read(file: Option<&Path>) -> Result<CclConfig> {
    let Some(file) = file else { return Ok(CclConfig::embedded()) };
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    CclConfig::read_bytes(&name, &bytes)
        .map_err(|error| anyhow!("{error}\n  help: cubeyard ccl --print-default shows every key"))
}

/// Adds help to an error.
fn refused(error: &DistError) -> anyhow::Error {
    let help = match error {
        DistError::World { .. } => {
            "use fewer ranks with --world, or a larger machine with --topology"
        }
        DistError::Rank { .. } => "name another --root",
        DistError::Algorithm { .. } => "cubeyard ccl --print-default shows how to add an algorithm",
        DistError::Refused { .. } => {
            "use another --op or --algorithm, or --algorithm auto for the fastest"
        }
        _ => "change the options that do not fit",
    };
    anyhow!("{error}\n  help: {help}")
}

fn check_outputs(arguments: &Arguments) -> Result<()> {
    let Arguments { config, machine, study, .. } = arguments;
    let pictures = pictures(arguments);
    pictures.iter().try_for_each(|path| output::is_page(path).map(|_| ()))?;
    let inputs = output::named([("--config", config), ("--topology", &machine.topology)]);
    let pictures = pictures.iter().map(|path| (output::PICTURE, path.as_path()));
    let outputs = pictures.chain(output::named([("--save", &study.save)]));
    output::check(&inputs, &outputs.collect::<Vec<_>>())
}

/// Returns the files of pictures and pages.
fn pictures(arguments: &Arguments) -> Vec<&PathBuf> {
    arguments.plot.iter().chain(&arguments.page.report).collect()
}

fn draw(path: &Path, sweep: &Sweep, options: OutputOptions) -> Result<()> {
    let picture = if output::is_page(path)? { page(sweep) } else { chart(sweep).svg() };
    output::write(path, "--report", &picture)?;
    options.remark(&format!("wrote {}", path.display()));
    Ok(())
}
