//! A service from its description to its report: load, memory, times of steps, and rates.

mod report;
mod source;

use cubeyard_units::Span;

use crate::error::ServeError;
use crate::load::Load;
use crate::machine::{CacheSize, MachineTimes, ServedModel, StepCheck};
use crate::report::{Limits, ServiceReport};
use crate::scheduler::SchedulerConfig;
use crate::search::{RatePoint, at_rates, highest_rate};
use crate::service::{Outcome, ServiceConfig, simulate_watched};
use crate::shape::StepShape;
pub use source::{Arrivals, LoadSource};

/// Description of a service.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Model and machine.
    pub model: ServedModel,
    /// Features of the model that are not simulated, one sentence each; the report repeats them.
    pub notes: Vec<String>,
    /// Requests.
    pub source: LoadSource,
    /// Rates of requests to run.
    pub rates: Rates,
    /// Parameters of the scheduler.
    pub scheduler: SchedulerConfig,
    /// Number of blocks of the KV cache; as many as the memory holds if `None`.
    pub kv_blocks: Option<u64>,
    /// Share of a PE's memory that is used (default 0.92).
    pub memory_share: f64,
    /// Time of the host before each step (default 0).
    pub step_overhead: Span,
    /// Maximum number of unanswered requests (no limit if `None`).
    pub max_concurrency: Option<u64>,
    /// Limits on latencies.
    pub limits: Limits,
    /// Whether the time of every step is simulated, not interpolated.
    pub is_exact: bool,
    /// Number of batches whose interpolated times are compared with simulated ones.
    pub check_steps: usize,
}

/// Rates of requests to run.
#[derive(Clone, Debug, PartialEq)]
pub enum Rates {
    /// The rate of the load.
    Own,
    /// Each of these rates.
    Each(Vec<f64>),
    /// The highest rate at which this share of the requests is within the limits.
    Highest(f64),
}

/// Results of a service.
#[derive(Clone, Debug)]
pub struct ServiceRun {
    /// Description of the service.
    pub config: RunConfig,
    /// Requests at the rate of the report.
    pub load: Load,
    /// Memory of the KV cache.
    pub cache: CacheSize,
    /// Parameters of the simulated service.
    pub service: ServiceConfig,
    /// Events at the rate of the report.
    pub outcome: Outcome,
    /// Report at the one rate, at the last of several, or at the highest within the limits.
    pub report: ServiceReport,
    /// Reports at all rates that were run, by their rate; empty for the load's own rate.
    pub points: Vec<RatePoint>,
    /// Result of a search: the highest rate within the limits, and the lowest beyond them.
    pub highest: Option<[Option<f64>; 2]>,
    /// Interpolated times of some batches beside simulated ones.
    pub checks: Vec<StepCheck>,
    /// Number of simulations of parts of steps.
    pub simulated: u64,
}

/// Runs a service. `told` is called before each simulation on the machine, with a description of it.
pub fn run(config: RunConfig, told: &mut dyn FnMut(&str)) -> Result<ServiceRun, ServeError> {
    config.scheduler.check()?;
    let model = config.model.clone();
    let mut times = if config.is_exact {
        MachineTimes::exact(&model, told)
    } else {
        MachineTimes::interpolated(&model, told)
    };
    let scheduler = config.scheduler;
    let tokens = scheduler.max_num_batched_tokens;
    let cache = times.cache_size(scheduler.block_size, tokens, config.memory_share)?;
    let blocks = config.kv_blocks.unwrap_or(cache.blocks);
    if blocks > cache.blocks {
        let expected = format!("at most {}, which the memory holds", cache.blocks);
        return Err(ServeError::value("kv-blocks", blocks, expected));
    }
    let service = ServiceConfig {
        scheduler,
        blocks,
        block_bytes: cache.block_bytes,
        step_overhead: config.step_overhead,
        max_concurrency: config.max_concurrency,
    };
    let searched = searched(&config, &service, &mut times)?;
    let load = config.source.at(searched.rate)?;
    let mut shapes = Shapes::new(config.check_steps);
    let outcome =
        simulate_watched(&load, &service, &mut times, &mut |step| shapes.see(step.shape))?;
    let report = ServiceReport::new(&outcome, &load, &service, &config.limits);
    let checks = if config.is_exact { Vec::new() } else { times.check(&shapes.kept)? };
    let simulated = times.simulated();
    drop(times);
    let Searched { points, highest, .. } = searched;
    Ok(ServiceRun {
        config,
        load,
        cache,
        service,
        outcome,
        report,
        points,
        highest,
        checks,
        simulated,
    })
}

/// Services at several rates, and the rate of the report.
struct Searched {
    points: Vec<RatePoint>,
    highest: Option<[Option<f64>; 2]>,
    rate: Option<f64>,
}

fn searched(
    config: &RunConfig,
    service: &ServiceConfig,
    times: &mut MachineTimes<'_>,
) -> Result<Searched, ServeError> {
    let (limits, load) = (&config.limits, |rate| config.source.at(Some(rate)));
    match &config.rates {
        Rates::Own => Ok(Searched { points: Vec::new(), highest: None, rate: None }),
        Rates::Each(rates) => {
            let points = at_rates(rates, &load, service, limits, times)?;
            Ok(Searched { points, highest: None, rate: rates.last().copied() })
        }
        Rates::Highest(share) => {
            if limits.is_empty() {
                return Err(ServeError::value("find-rate", share, "limits on latencies beside it"));
            }
            let start = config.source.rate().unwrap_or(1.0);
            let found = highest_rate(start, *share, &load, service, limits, times)?;
            let lowest = found.points.first().map(|point| point.rate);
            let highest = Some([found.best, found.beyond]);
            Ok(Searched { points: found.points, highest, rate: found.best.or(lowest) })
        }
    }
}

/// Batches of a run, evenly spread over its steps.
struct Shapes {
    kept: Vec<StepShape>,
    most: usize,
    /// Number of steps seen, and the distance of kept ones.
    seen: u64,
    every: u64,
}

impl Shapes {
    fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most, seen: 0, every: 1 }
    }

    fn see(&mut self, shape: &StepShape) {
        self.seen += 1;
        if self.most == 0 || !self.seen.is_multiple_of(self.every) {
            return;
        }
        if self.kept.len() == 2 * self.most {
            // Every second one is dropped, so that those kept remain evenly spread.
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 0
            });
            self.every *= 2;
            if !self.seen.is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(shape.clone());
    }
}

impl RunConfig {
    /// Returns the configuration of a model with all defaults, for a load.
    pub fn new(model: ServedModel, source: LoadSource) -> Self {
        Self {
            model,
            notes: Vec::new(),
            source,
            rates: Rates::Own,
            scheduler: SchedulerConfig::default(),
            kv_blocks: None,
            memory_share: 0.92,
            step_overhead: Span::ZERO,
            max_concurrency: None,
            limits: Limits::default(),
            is_exact: false,
            check_steps: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_batches_are_spread_over_all_steps() {
        for (steps, most) in [(3, 4), (100, 4), (1000, 3), (7, 1), (5, 0)] {
            let mut shapes = Shapes::new(most);
            (1..=steps)
                .for_each(|decodes| shapes.see(&StepShape { decodes, ..StepShape::default() }));
            let kept: Vec<_> = shapes.kept.iter().map(|shape| shape.decodes).collect();
            assert!(kept.len() <= 2 * most && kept.len() >= most.min(3), "{kept:?}");
            let even = kept.windows(2).all(|pair| pair[1] - pair[0] == shapes.every);
            assert!(even && kept.last().is_none_or(|last| last + shapes.every > steps), "{kept:?}");
        }
    }
}
