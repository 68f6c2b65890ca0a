//! Levers: the time of a workload if one resource of its machine were twice as fast.
//!
//! Each [group](cubeyard_device::topology::KeyGroup) of topology keys is a lever. The workload is simulated on the
//! machine, and on a machine with each lever, which the caller runs as it likes. If no lever saves much, pairs of the
//! best levers are tried: of two resources that limit a workload equally, neither saves time alone.

mod limit;
mod report;

use std::collections::BTreeSet;

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_device::topology::{GROUPS, KeyGroup, Scaled, Topology};

pub use limit::Limit;

/// Factor by which a lever makes its resource faster.
pub const FACTOR: f64 = 2.0;
/// Saved share of the time below which pairs are tried.
pub const LITTLE: f64 = 0.1;
/// Number of levers of which pairs are tried.
pub const PAIRED: usize = 4;

/// Record of a run on one machine, or the text of its error.
pub type Outcome = Result<Record, String>;

/// Lever with its measurement.
#[derive(Clone, Debug)]
pub struct Lever {
    /// Name of its group, or of two groups joined by `+`.
    pub name: String,
    /// Resources of its groups.
    pub resource: String,
    /// Keys of its groups that change.
    pub keys: Vec<&'static str>,
    /// Changed keys with their new values.
    pub changes: Vec<Scaled>,
    /// Record on the changed machine, or the text of an error.
    pub outcome: Outcome,
    /// Saved share of the time; negative if the workload takes longer. `None` if the run failed.
    pub saved: Option<f64>,
}

/// Levers of a workload. See the [module](self).
#[derive(Clone, Debug)]
pub struct Levers {
    /// Record on the machine without a lever.
    pub base: Record,
    /// Levers, from the largest saving to the smallest.
    pub levers: Vec<Lever>,
    /// Pairs of the best levers, from the largest saving to the smallest; empty if they were not tried.
    pub pairs: Vec<Lever>,
    /// Groups without a key that could change on this machine.
    pub absent: Vec<&'static str>,
}

impl Lever {
    /// Returns the lever as an override of a topology, such as `hbm.bandwidth=2x`.
    pub fn assignment(&self) -> String {
        format!("{}={FACTOR}x", self.name)
    }

    /// Returns the lever of groups that are joined by `+`, before it is measured.
    fn new(topology: &Topology, name: &str) -> Self {
        let groups = || name.split('+').filter_map(KeyGroup::find);
        let changes = topology.scaled(name, FACTOR).unwrap_or_default();
        let is_own = |key: &str, changed: &str| {
            changed.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_changed = |key: &&str| changes.iter().any(|(changed, _)| is_own(key, changed));
        let keys: BTreeSet<_> = groups().flat_map(KeyGroup::keys).filter(is_changed).collect();
        let resource = groups().map(|group| group.resource).collect::<Vec<_>>().join(", and ");
        let (name, outcome) = (name.to_owned(), Err(String::new()));
        Self { name, resource, keys: keys.into_iter().collect(), changes, outcome, saved: None }
    }

    /// Adds the outcome on the changed machine.
    fn measured(mut self, base: f64, outcome: Outcome) -> Self {
        let time = outcome.as_ref().ok().map(total_ns);
        self.saved = time.map(|time| if base > 0.0 { 1.0 - time / base } else { 0.0 });
        Self { outcome, ..self }
    }

    /// Returns the measured time in nanoseconds; the sum, if the workload has several.
    pub fn time_ns(&self) -> Option<f64> {
        self.outcome.as_ref().ok().map(total_ns)
    }

    /// Returns whether all keys of one lever are keys of the other.
    fn overlaps(&self, other: &Self) -> bool {
        let within = |one: &Self, all: &Self| one.keys.iter().all(|key| all.keys.contains(key));
        within(self, other) || within(other, self)
    }
}

impl Levers {
    /// Measures all levers of a machine, on which the workload has the record `base`. `run` returns the outcomes of the
    /// workload with each of the given overrides, in their order.
    pub fn measure(
        topology: &Topology,
        base: Record,
        mut run: impl FnMut(&[String]) -> Vec<Outcome>,
    ) -> Self {
        let time = total_ns(&base);
        let mut measured = |levers: Vec<Lever>| {
            let overrides: Vec<_> = levers.iter().map(Lever::assignment).collect();
            let outcomes = if overrides.is_empty() { Vec::new() } else { run(&overrides) };
            ranked(levers, outcomes, time)
        };
        let all = GROUPS.iter().map(|group| (group.name, Lever::new(topology, group.name)));
        let (levers, absent): (Vec<_>, Vec<_>) =
            all.partition(|(_, lever)| !lever.changes.is_empty());
        let levers = measured(levers.into_iter().map(|(_, lever)| lever).collect());
        let pairs = measured(pairs(topology, &levers));
        Self { base, levers, pairs, absent: absent.into_iter().map(|(name, _)| name).collect() }
    }

    /// Returns the time without a lever in nanoseconds; the sum, if the workload has several.
    pub fn time_ns(&self) -> f64 {
        total_ns(&self.base)
    }

    /// Returns the lever that saves most; `None` if none saves time.
    pub fn best(&self) -> Option<&Lever> {
        self.levers.first().filter(|lever| lever.saved.is_some_and(|saved| saved > 0.0))
    }

    /// Returns the pair that saves most, if it saves more than the best lever.
    pub fn best_pair(&self) -> Option<&Lever> {
        let alone = self.best().and_then(|lever| lever.saved).unwrap_or(0.0);
        self.pairs.first().filter(|pair| pair.saved.is_some_and(|saved| saved > alone))
    }

    /// Returns the lever that saves most of the time at index `row` of the workload, with its time in nanoseconds.
    pub fn best_of_row(&self, row: usize) -> Option<(&Lever, f64)> {
        let base = Measured::all(&self.base).get(row)?.time_ns;
        let time = |lever: &Lever| {
            let rows = Measured::all(lever.outcome.as_ref().ok()?);
            rows.get(row).map(|row| row.time_ns)
        };
        let faster = self.levers.iter().filter_map(|lever| Some((lever, time(lever)?)));
        faster.filter(|(_, time)| *time < base).min_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// Returns the sum of all times of a record, in nanoseconds.
fn total_ns(record: &Record) -> f64 {
    Measured::all(record).iter().map(|row| row.time_ns).sum()
}

/// Adds the outcomes to levers, and sorts them by saving. Equal ones keep their order; failed ones come last.
fn ranked(levers: Vec<Lever>, outcomes: Vec<Outcome>, base: f64) -> Vec<Lever> {
    let measured = levers.into_iter().zip(outcomes);
    let mut levers: Vec<_> =
        measured.map(|(lever, outcome)| lever.measured(base, outcome)).collect();
    levers.sort_by(|one, other| match (one.saved, other.saved) {
        (Some(one), Some(other)) => other.total_cmp(&one),
        (one, other) => one.is_none().cmp(&other.is_none()),
    });
    levers
}

/// Returns the pairs to try: none if the best lever saves enough. Levers without any effect are not paired, because the
/// workload does not use their resources.
fn pairs(topology: &Topology, levers: &[Lever]) -> Vec<Lever> {
    if levers.first().and_then(|lever| lever.saved).is_none_or(|saved| saved >= LITTLE) {
        return Vec::new();
    }
    let has_effect = |lever: &&Lever| lever.saved.is_some_and(|saved| saved != 0.0);
    let best: Vec<_> = levers.iter().filter(has_effect).take(PAIRED).collect();
    let mut pairs = Vec::new();
    for (place, one) in best.iter().enumerate() {
        let others = best[place + 1..].iter().filter(|other| !one.overlaps(other));
        let pair = |other: &&Lever| Lever::new(topology, &format!("{}+{}", one.name, other.name));
        pairs.extend(others.map(pair));
    }
    pairs
}
