//! The highest rate of requests within limits.

use crate::error::ServeError;
use crate::load::Load;
use crate::report::{Limits, ServiceReport};
use crate::service::{ServiceConfig, simulate};
use crate::shape::StepTimes;

/// Maximum number of rates that a search tries.
const MOST_TRIES: usize = 24;

/// Service at one rate of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RatePoint {
    /// Mean number of requests a second.
    pub rate: f64,
    /// Report of the service.
    pub report: ServiceReport,
}

impl RatePoint {
    /// Returns whether requests are answered about as fast as they arrive, at 80 % of the rate or more. At a higher rate the
    /// queue grows as long as the load lasts, so latencies depend on the number of requests alone.
    pub fn is_sustained(&self) -> bool {
        self.report.request_throughput() >= 0.8 * self.rate
    }

    /// Returns whether a share of the requests is within the limits.
    pub fn is_good(&self, share: f64) -> bool {
        self.report.good_share().is_none_or(|good| good >= share)
    }
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct RateSearch {
    /// Services that were run, by their rate.
    pub points: Vec<RatePoint>,
    /// Highest rate that was tried and kept within the limits; `None` if none was.
    pub best: Option<f64>,
    /// Lowest rate that was tried and exceeded the limits; `None` if none did.
    pub beyond: Option<f64>,
}

/// Runs a service at several rates.
pub fn at_rates(
    rates: &[f64],
    load: &dyn Fn(f64) -> Result<Load, ServeError>,
    config: &ServiceConfig,
    limits: &Limits,
    times: &mut dyn StepTimes,
) -> Result<Vec<RatePoint>, ServeError> {
    rates.iter().map(|&rate| point(rate, load, config, limits, times)).collect()
}

fn point(
    rate: f64,
    load: &dyn Fn(f64) -> Result<Load, ServeError>,
    config: &ServiceConfig,
    limits: &Limits,
    times: &mut dyn StepTimes,
) -> Result<RatePoint, ServeError> {
    let load = load(rate)?;
    let outcome = simulate(&load, config, times)?;
    Ok(RatePoint { rate, report: ServiceReport::new(&outcome, &load, config, limits) })
}

/// Searches the highest [sustained](RatePoint::is_sustained) rate at which a share `share` of the requests is within the
/// limits: from `start`, the rate is
/// doubled or halved until one rate is within the limits and another is not; then the interval between them is halved
/// until it is at most 2 % wide.
pub fn highest_rate(
    start: f64,
    share: f64,
    load: &dyn Fn(f64) -> Result<Load, ServeError>,
    config: &ServiceConfig,
    limits: &Limits,
    times: &mut dyn StepTimes,
) -> Result<RateSearch, ServeError> {
    let mut search = RateSearch { points: Vec::new(), best: None, beyond: None };
    let mut rate = start;
    for _ in 0..MOST_TRIES {
        let found = match point(rate, load, config, limits, times) {
            // So low a rate lasts longer than simulated time.
            Err(ServeError::OutOfTime) if search.best.is_none() && !search.points.is_empty() => {
                break;
            }
            found => found?,
        };
        let is_within = found.is_good(share) && found.is_sustained();
        search.points.push(found);
        let slot = if is_within { &mut search.best } else { &mut search.beyond };
        *slot = Some(rate);
        rate = match (search.best, search.beyond) {
            (Some(best), None) => best * 2.0,
            (None, beyond) => beyond.unwrap_or(rate) / 2.0,
            (Some(best), Some(beyond)) if beyond / best <= 1.02 => break,
            (Some(best), Some(beyond)) => f64::midpoint(best, beyond),
        };
    }
    search.points.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    Ok(search)
}
