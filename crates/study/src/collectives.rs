//! Measurements of collectives over sizes and algorithms, as in nccl-tests, with the bound of the fabric.
//!
//! A size is the larger of a rank's input and output. Each row is a single collective on a fresh machine. Its time runs
//! from the start of the first PE to the end of the last.

mod chart;
mod explain;
mod measure;
mod page;
mod report;
mod sizes;
mod values;

use cubeyard_collectives::collective::Operation;
use cubeyard_collectives::collective::bound::{Bound, Spread, bound};
use cubeyard_collectives::distributed::ccl::{CclAlgorithm, Resolved};
use cubeyard_collectives::distributed::{CclConfig, DistError, PeElements, RankMap, Ranks};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;
use serde::Serialize;

use cubeyard_tl::Needs;

use measure::row;

pub use chart::chart;
pub use explain::Explained;
pub use page::page;
pub use sizes::{BadSizes, Sizes};

/// Maximum number of channels of an algorithm; an algorithm with more is measured only if named,
/// because it takes minutes.
const MOST_CHANNELS: usize = 20_000;

/// Parameters of a sweep.
#[derive(Clone, Debug)]
pub struct SweepConfig {
    /// Topology of the simulated machine.
    pub topology: Topology,
    /// Groups and their algorithms.
    pub ccl: CclConfig,
    /// Selection of the algorithms.
    pub which: Which,
    /// Operation to measure.
    pub operation: Operation,
    /// Element type of the tensors.
    pub dtype: DType,
    /// Sizes to measure, in bytes.
    pub sizes: Vec<u64>,
    /// Largest size, in bytes, for which results are computed and checked.
    pub check_up_to: u64,
    /// Whether results are also checked with message slots in every kind of memory, concurrently with other traffic.
    pub every_memory: bool,
}

/// Selection of the algorithms to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All algorithms that are enabled and support the operation.
    All,
    /// For each size, the fastest algorithm, or the algorithm that the file forces.
    Auto,
    /// Algorithms with these names, in this order.
    Named(Vec<String>),
}

/// Default for the largest size whose results are checked, in bytes.
pub const CHECKED: u64 = 64 << 10;

impl From<&str> for Which {
    fn from(name: &str) -> Self {
        match name {
            "all" => Self::All,
            "auto" => Self::Auto,
            names => Self::Named(names.split(',').map(|name| name.trim().to_owned()).collect()),
        }
    }
}

/// Report of `cubeyard ccl`: results of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Measured operation.
    pub operation: Operation,
    /// Element type of the tensors.
    pub dtype: DType,
    /// Kind of unit that forms a rank.
    pub ranks: Ranks,
    /// Ranks and their PEs, for the first algorithm.
    pub map: RankMap,
    /// Bound of the fabric; `None` for a single rank.
    pub bound: Option<Bound>,
    /// Measurements, one row for each size and algorithm.
    pub rows: Vec<Row>,
    /// Algorithms that were omitted, with the reason.
    pub refused: Refused,
}

/// Names of omitted algorithms, with the reason.
pub type Refused = Vec<(String, String)>;

/// Measurement of one size and algorithm.
#[derive(Clone, Debug)]
pub struct Row {
    /// Size in bytes, rounded up to a whole number of elements per PE.
    pub bytes: u64,
    /// Size in elements: `bytes` over the size of an element.
    pub count: u64,
    /// Name of the algorithm.
    pub algorithm: String,
    /// Figures, or the reason for which the row could not be measured.
    pub figures: Result<Figures, String>,
    /// Critical path and utilisation, if they were requested.
    pub explained: Option<Explained>,
}

/// Figures of one collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Time from the start of the first PE to the end of the last.
    pub time: Span,
    /// Time as the host sees it.
    pub host: Span,
    /// Algorithm bandwidth: size over time, in bytes per second.
    pub algorithm_bandwidth: f64,
    /// Bus bandwidth in bytes per second: the bandwidth of the busiest wire, independent of the number of ranks.
    pub bus_bandwidth: f64,
    /// Bus bandwidth as a fraction of the bound; `None` for a single rank.
    pub share: Option<f64>,
    /// Time estimated by the cost model.
    pub estimate: Option<Span>,
    /// Outcome of the check, if results were computed.
    pub check: Option<ResultCheck>,
}

/// Check of the results of a collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultCheck {
    /// Number of wrong results.
    pub wrong: u64,
    /// Number of results that should be equal on all ranks, but have different bits on some.
    pub differing: u64,
    /// Number of kinds of memory in which message slots were placed for repeated checks,
    /// concurrently with other traffic.
    pub memories: u32,
}

impl ResultCheck {
    /// Adds the result of a check with another memory, if there was one.
    fn add(&mut self, other: Option<Self>) {
        let Some(other) = other else { return };
        self.wrong += other.wrong;
        self.differing += other.differing;
        self.memories += 1;
    }

    /// Returns whether all results are correct, and equal on all ranks.
    pub fn is_right(self) -> bool {
        self.wrong == 0 && self.differing == 0
    }
}

/// Range of sizes for which one algorithm is the fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Winner {
    /// Name of the algorithm.
    pub algorithm: String,
    /// First size, in bytes.
    #[serde(rename = "from_bytes")]
    pub from: u64,
    /// Last size, in bytes.
    #[serde(rename = "to_bytes")]
    pub to: u64,
}

impl SweepConfig {
    /// Returns the minimum host memory for the largest size; sizes are measured one after the other.
    pub fn needs(&self) -> Result<Needs, DistError> {
        let map = RankMap::new(&self.topology, &self.ccl.defaults)?;
        let size = self.sizes.iter().copied().max().unwrap_or(0);
        let checked = self.sizes.iter().copied().filter(|size| *size <= self.check_up_to).max();
        let all = self.ccl.algorithms.iter().map(|it| &it.config).chain([&self.ccl.defaults]);
        let slot = all.map(|config| config.ring.slot_bytes.get()).max().unwrap_or(1).max(1);
        let pes = (map.world().ranks * map.positions()) as u64;
        let PeElements { input, output, .. } =
            PeElements::new(self.operation, self.dtype, &map, size);
        // Each piece of a PE's input or output is moved twice: into the TCM and out of it.
        let pieces = (input.min(output) * self.dtype.size()).div_ceil(slot);
        let held = checked.map_or(Needs::default(), |size| {
            let PeElements { input, output, .. } =
                PeElements::new(self.operation, self.dtype, &map, size);
            Needs::elements([pes, input + output])
        });
        Ok(held + Needs::commands([2, pes, pieces]))
    }
}

impl Sweep {
    /// Measures all sizes and algorithms.
    pub fn run(config: &SweepConfig) -> Result<Self, DistError> {
        Self::watched(config, false, &mut |_| ())
    }

    /// Measures all sizes and algorithms, and calls `told` after each measurement with the sweep so far, whose last row is
    /// the new one. If `explains` is set, rows have their critical path; every operation of a row is kept while the row is
    /// measured.
    pub fn watched(
        config: &SweepConfig,
        explains: bool,
        told: &mut dyn FnMut(&Self),
    ) -> Result<Self, DistError> {
        let (algorithms, refused) = measured(config)?;
        let first = algorithms.first().map_or(&config.ccl.defaults, |algorithm| &algorithm.config);
        let map = RankMap::new(&config.topology, first)?;
        let bound = bound_of(config, &map);
        let (operation, dtype, ranks) = (config.operation, config.dtype, first.ranks);
        let mut sweep = Self { operation, dtype, ranks, map, bound, rows: Vec::new(), refused };
        for &size in &config.sizes {
            for algorithm in chosen(config, &algorithms, size)? {
                let row = row(config, algorithm, size, sweep.bound.as_ref(), explains)?;
                let same =
                    |known: &Row| (known.bytes, &known.algorithm) == (row.bytes, &row.algorithm);
                if !sweep.rows.iter().any(same) {
                    sweep.rows.push(row);
                    told(&sweep);
                }
            }
        }
        Ok(sweep)
    }

    /// Returns the fastest algorithm for each range of sizes.
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

    /// Returns whether all checked results are correct, and equal on all ranks.
    pub fn is_right(&self) -> bool {
        let figures = self.rows.iter().filter_map(|row| row.figures.as_ref().ok());
        figures.filter_map(|figures| figures.check).all(ResultCheck::is_right)
    }

    /// Returns whether nothing could be measured.
    pub fn is_exhausted(&self) -> bool {
        self.rows.iter().all(|row| row.figures.is_err())
    }
}

/// Returns the algorithms that are measured at every size, and the omitted ones.
fn measured(config: &SweepConfig) -> Result<(Vec<CclAlgorithm>, Refused), DistError> {
    let (mut algorithms, mut refused) = (Vec::new(), Vec::new());
    let all = match &config.which {
        Which::Named(names) => {
            let found = names.iter().map(|name| config.ccl.named(name).cloned());
            found.collect::<Result<Vec<_>, _>>()?
        }
        Which::All => config.ccl.algorithms.iter().filter(|it| it.enabled).cloned().collect(),
        Which::Auto => return Ok((algorithms, refused)),
    };
    let is_named = matches!(config.which, Which::Named(_));
    for algorithm in all {
        match algorithm.resolved(&config.topology, 0, config.operation) {
            Ok(resolved) => match crowded(config, &resolved)? {
                Some(why) if !is_named => refused.push((algorithm.name, why)),
                _ => algorithms.push(algorithm),
            },
            Err(DistError::Refused { why, .. }) if !is_named => refused.push((algorithm.name, why)),
            Err(error) => return Err(error),
        }
    }
    if algorithms.is_empty() {
        let why = format!("no algorithm of the file supports {}", config.operation);
        return Err(DistError::Refused { algorithm: "all", why });
    }
    Ok((algorithms, refused))
}

/// Returns the reason for omitting an algorithm that was not named: too many channels.
fn crowded(config: &SweepConfig, algorithm: &Resolved) -> Result<Option<String>, DistError> {
    let channels = algorithm.channels(&config.topology)?;
    let why = || format!("the algorithm needs {channels} channels; name it to run it");
    Ok((channels > MOST_CHANNELS).then(why))
}

fn chosen(
    config: &SweepConfig,
    algorithms: &[CclAlgorithm],
    size: u64,
) -> Result<Vec<Resolved>, DistError> {
    let (topology, operation) = (&config.topology, config.operation);
    if config.which == Which::Auto {
        return Ok(vec![config.ccl.resolve(topology, operation, config.dtype, size)?]);
    }
    algorithms.iter().map(|algorithm| algorithm.resolved(topology, size, operation)).collect()
}

fn bound_of(config: &SweepConfig, map: &RankMap) -> Option<Bound> {
    let (topology, world) = (&config.topology, map.world());
    let members: Vec<_> = (0..world.ranks).map(|rank| map.engines(topology, rank)).collect();
    // All PEs hold equal amounts in a sweep.
    bound(topology, &members, world, config.operation, Spread::Even)
}
