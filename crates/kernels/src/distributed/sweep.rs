//! Collectives measured over sizes and algorithms, as nccl-tests do, beside the bound of the fabric.
//!
//! A size is the larger of a rank's input and output. Each row is a collective alone on a fresh machine: its
//! time is that from when the first PE begins until the last is done.

mod chart;
mod measure;
mod sizes;
mod values;

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;

use super::ccl::{CclAlgorithm, CclConfig, Resolved};
use super::error::DistError;
use super::group::Ranks;
use super::places::Places;
use crate::bench::Needs;
use crate::collective::Operation;
use crate::collective::bound::{Bound, Spread, bound};

use measure::{Shape, row};

pub use chart::{page, svg};
pub use sizes::{BadSizes, Sizes, bytes};

/// An algorithm with more channels than this is measured only if it is asked for by name: it takes minutes.
const MOST_CHANNELS: usize = 20_000;

/// What is measured.
#[derive(Clone, Debug)]
pub struct SweepConfig {
    /// The machine.
    pub topology: Topology,
    /// Groups and their algorithms.
    pub ccl: CclConfig,
    /// Which of the algorithms.
    pub which: Which,
    /// What ranks do.
    pub operation: Operation,
    /// What tensors are of.
    pub dtype: DType,
    /// How much.
    pub sizes: Vec<u64>,
    /// Numbers are computed and checked for sizes up to this.
    pub check_up_to: u64,
}

/// Which algorithms are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are enabled and can do the operation.
    All,
    /// For each size the one that the file or the cost model chooses.
    Auto,
    /// This one.
    Named(String),
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What was done.
    pub operation: Operation,
    /// On what.
    pub dtype: DType,
    /// What a rank is.
    pub ranks: Ranks,
    /// How many ranks there were, how they lie, and how many PEs each has; of the first algorithm.
    pub places: Places,
    /// The bound of the fabric for these; none for one rank alone.
    pub bound: Option<Bound>,
    /// A row for each size and algorithm.
    pub rows: Vec<Row>,
    /// Algorithms that cannot do it, and why.
    pub refused: Refused,
}

/// Names of algorithms, with why they were left out.
pub type Refused = Vec<(String, String)>;

/// A size by an algorithm.
#[derive(Clone, Debug)]
pub struct Row {
    /// The size, rounded up to a whole number of elements for each PE.
    pub bytes: u64,
    /// Elements of that.
    pub count: u64,
    /// The algorithm.
    pub algorithm: String,
    /// What it took, or why it was not possible.
    pub figures: Result<Figures, String>,
}

/// What a collective took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// From when the first PE began until the last was done.
    pub time: Span,
    /// As the host sees it.
    pub host: Span,
    /// Size by time, in bytes a second.
    pub algorithm_bandwidth: f64,
    /// That of the busiest wire, whatever the number of ranks, in bytes a second.
    pub bus_bandwidth: f64,
    /// How much of the bound that is; none for one rank alone.
    pub share: Option<f64>,
    /// What the cost model takes it for.
    pub estimate: Option<Span>,
    /// How many numbers are wrong, if they were computed.
    pub wrong: Option<u64>,
}

/// Sizes that one algorithm is the quickest for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Winner {
    /// The algorithm.
    pub algorithm: String,
    /// The first size.
    pub from: u64,
    /// The last.
    pub to: u64,
}

impl SweepConfig {
    /// What the largest of its sizes holds in the memory of the host at least: sizes come one after the other.
    pub fn needs(&self) -> Result<Needs, DistError> {
        let places = Places::new(&self.topology, &self.ccl.defaults)?;
        let size = self.sizes.iter().copied().max().unwrap_or(0);
        let checked = self.sizes.iter().copied().filter(|size| *size <= self.check_up_to).max();
        let all = self.ccl.algorithms.iter().map(|it| &it.config).chain([&self.ccl.defaults]);
        let slot = all.map(|config| config.ring.slot_bytes).max().unwrap_or(1).max(1);
        let pes = (places.world().ranks * places.positions()) as u64;
        let Shape { input, output, .. } = Shape::new(self, &places, size);
        // Each piece of what a PE takes or gives is moved twice, into its TCM and out of it.
        let pieces = (input.min(output) * self.dtype.size()).div_ceil(slot);
        let held = checked.map_or(Needs::default(), |size| {
            let Shape { input, output, .. } = Shape::new(self, &places, size);
            Needs::elements([pes, input + output])
        });
        Ok(held + Needs::commands([2, pes, pieces]))
    }
}

impl Sweep {
    /// Measures.
    pub fn run(config: &SweepConfig) -> Result<Self, DistError> {
        let (lanes, refused) = lanes(config)?;
        let first = lanes.first().map_or(&config.ccl.defaults, |lane| &lane.config);
        let places = Places::new(&config.topology, first)?;
        let bound = bound_of(config, &places);
        let mut rows: Vec<Row> = Vec::new();
        for &size in &config.sizes {
            for lane in chosen(config, &lanes, size)? {
                let row = row(config, lane, size, bound.as_ref())?;
                let same =
                    |known: &Row| (known.bytes, &known.algorithm) == (row.bytes, &row.algorithm);
                if !rows.iter().any(same) {
                    rows.push(row);
                }
            }
        }
        let (operation, dtype, ranks) = (config.operation, config.dtype, first.ranks);
        Ok(Self { operation, dtype, ranks, places, bound, rows, refused })
    }

    /// Which algorithm is the quickest for which sizes.
    pub fn winners(&self) -> Vec<Winner> {
        let mut winners: Vec<Winner> = Vec::new();
        for rows in self.rows.chunk_by(|left, right| left.bytes == right.bytes) {
            let timed = rows.iter().filter_map(|row| Some((row.figures.as_ref().ok()?.time, row)));
            let Some((_, row)) = timed.min_by_key(|(time, _)| *time) else { continue };
            let (algorithm, from, to) = (row.algorithm.clone(), row.bytes, row.bytes);
            match winners.last_mut() {
                Some(last) if last.algorithm == algorithm => last.to = to,
                _ => winners.push(Winner { algorithm, from, to }),
            }
        }
        winners
    }

    /// Whether every number that was checked is right.
    pub fn is_right(&self) -> bool {
        let figures = self.rows.iter().filter_map(|row| row.figures.as_ref().ok());
        figures.filter_map(|figures| figures.wrong).all(|wrong| wrong == 0)
    }

    /// Whether nothing could be measured.
    pub fn is_exhausted(&self) -> bool {
        self.rows.iter().all(|row| row.figures.is_err())
    }
}

/// The algorithms that are measured at every size, and those that cannot do it.
fn lanes(config: &SweepConfig) -> Result<(Vec<CclAlgorithm>, Refused), DistError> {
    let (mut lanes, mut refused) = (Vec::new(), Vec::new());
    let all = match &config.which {
        Which::Named(name) => vec![config.ccl.named(name)?.clone()],
        Which::All => config.ccl.algorithms.iter().filter(|it| it.enabled).cloned().collect(),
        Which::Auto => return Ok((lanes, refused)),
    };
    let is_named = matches!(config.which, Which::Named(_));
    for lane in all {
        match lane.resolved(&config.topology, 0, config.operation) {
            Ok(resolved) => match crowded(config, &resolved)? {
                Some(why) if !is_named => refused.push((lane.name, why)),
                _ => lanes.push(lane),
            },
            Err(DistError::Refused { why, .. }) if !is_named => refused.push((lane.name, why)),
            Err(error) => return Err(error),
        }
    }
    if lanes.is_empty() {
        let why = format!("no algorithm of the file does {}", config.operation);
        return Err(DistError::Refused { algorithm: "all", why });
    }
    Ok((lanes, refused))
}

/// Why an algorithm is better not measured unless it is asked for by name.
fn crowded(config: &SweepConfig, lane: &Resolved) -> Result<Option<String>, DistError> {
    let places = Places::new(&config.topology, &lane.config)?;
    let channels = lane.algorithm.wires(places.world()).len() * places.positions();
    let why = || format!("it needs {channels} channels; it is run if asked for by name");
    Ok((channels > MOST_CHANNELS).then(why))
}

fn chosen(
    config: &SweepConfig,
    lanes: &[CclAlgorithm],
    size: u64,
) -> Result<Vec<Resolved>, DistError> {
    let (topology, operation) = (&config.topology, config.operation);
    if config.which == Which::Auto {
        return Ok(vec![config.ccl.resolve(topology, size, operation)?]);
    }
    lanes.iter().map(|lane| lane.resolved(topology, size, operation)).collect()
}

fn bound_of(config: &SweepConfig, places: &Places) -> Option<Bound> {
    let (topology, world) = (&config.topology, places.world());
    let members: Vec<_> = (0..world.ranks).map(|rank| places.engines(topology, rank)).collect();
    // A row of the sweep is as long on every PE.
    bound(topology, &members, world, config.operation, Spread::Even)
}
