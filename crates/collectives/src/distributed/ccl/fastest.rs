//! Choice of the fastest algorithm: those with close estimates are simulated, each on a machine of its own.

use std::rc::Rc;

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Span;

use super::Resolved;
use crate::collective::Operation;
use crate::distributed::alone::Alone;
use crate::distributed::config::Ranks;
use crate::distributed::error::DistError;
use crate::distributed::group::{CollectiveReport, Group};
use crate::distributed::shape::PeElements;
use cubeyard_tl::launch::Launcher;

/// Limit on the channels of an algorithm; above it, estimates decide, because a simulation takes seconds.
const MOST_CHANNELS: usize = 5_000;

/// Largest simulated operation: sum of the sizes of all ranks, in bytes. Larger operations use the algorithm that is
/// fastest at this sum.
const MOST_BYTES: u64 = 16 << 20;

/// Returns the percentage of the shortest estimate up to which an algorithm may be the fastest.
///
/// Between SIPs flights are long, and estimates include them. Among PEs the ends of messages take longer than flights.
const fn close_percent(ranks: Ranks) -> u64 {
    match ranks {
        Ranks::Sip => 150,
        Ranks::Cube => 200,
        Ranks::Pe => 300,
    }
}

/// Returns whether an estimate is close to the shortest estimate. An unknown estimate is not close.
pub(super) fn is_close(ranks: Ranks, estimate: Option<Span>, shortest: Option<Span>) -> bool {
    let percent = close_percent(ranks);
    estimate.zip(shortest).is_some_and(|(estimate, shortest)| estimate * 100 <= shortest * percent)
}

/// Returns the fastest of `all` algorithms for an operation of `bytes` bytes. Each of them supports the operation.
pub(super) fn fastest(
    topology: &Topology,
    mut all: Vec<Resolved>,
    (operation, dtype, bytes): (Operation, DType, u64),
) -> Result<Option<Resolved>, DistError> {
    all.sort_by_key(|one| one.estimate.unwrap_or(Span::MAX));
    let shortest = all.first().and_then(|one| one.estimate);
    let close =
        all.iter().take_while(|one| is_close(one.config.ranks, one.estimate, shortest)).count();
    let mut contest = Contest { topology, operation, dtype, bytes, best: None };
    if close > 1 && !crowded(topology, &all[..close])? {
        for (place, one) in all[..close].iter().enumerate() {
            contest.enter(place, one)?;
        }
    }
    let place = contest.best.map_or(0, |(place, _)| place);
    Ok((place < all.len()).then(|| all.swap_remove(place)))
}

/// Returns whether any of the algorithms has too many channels for a simulation.
fn crowded(topology: &Topology, all: &[Resolved]) -> Result<bool, DistError> {
    let channels = all.iter().map(|one| one.channels(topology)).collect::<Result<Vec<_>, _>>()?;
    Ok(channels.into_iter().any(|count| count > MOST_CHANNELS))
}

/// A comparison of simulated times.
struct Contest<'a> {
    topology: &'a Topology,
    operation: Operation,
    dtype: DType,
    bytes: u64,
    /// Index and report of the fastest algorithm so far.
    best: Option<(usize, CollectiveReport)>,
}

impl Contest<'_> {
    /// Simulates an algorithm until it ends or is slower than the fastest so far. An algorithm for which the machine
    /// has no memory does not take part.
    fn enter(&mut self, place: usize, one: &Resolved) -> Result<(), DistError> {
        let report = match self.report(one) {
            Err(DistError::Runtime(error)) if error.is_exhausted() => None,
            other => other?,
        };
        let least = self.best.as_ref().map(|(_, report)| report.kernel);
        let is_less = |report: &CollectiveReport| least.is_none_or(|least| report.kernel < least);
        if let Some(report) = report.filter(is_less) {
            self.best = Some((place, report));
        }
        Ok(())
    }

    fn report(&self, one: &Resolved) -> Result<Option<CollectiveReport>, DistError> {
        let topology = self.topology.clone();
        let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
        let group = Group::new(&context, &one.config, Box::new(Rc::clone(&one.algorithm)), 0)?;
        let bytes = self.bytes.min(MOST_BYTES / group.world().ranks as u64);
        let shape = PeElements::new(self.operation, self.dtype, group.rank_map(), bytes);
        let alone = Alone::new(context, group, self.dtype, shape, |_, _| Ok(None))?;
        let launcher = Launcher::new(&alone.context);
        let pending = alone.group.begin(&launcher, self.operation, &alone.pairs())?;
        // Launches and completions take about as long for all algorithms; an eighth covers the difference.
        let limit = |host: Span| Span::from_ps(host.ps() + host.ps() / 8);
        match &self.best {
            Some((_, best)) => pending.wait_within(limit(best.host)),
            None => pending.wait().map(Some),
        }
    }
}
