//! Results of one trace under several policies.

use super::apart::Apart;
use super::measure::nanoseconds_per_operation;
use super::policy::{EXPANDABLE, PYTORCH, planned};
use super::{
    BlockMap, Doubt, Kind, Least, Make, MemoryUse, Outcome, ReplayPolicy, Setting, Target, doubt,
    refused, run, settings,
};
use crate::trace::{Lag, RecordedBy, Recording, Trace};
use cubeyard_units::Bytes;
use cubeyard_units::text::count;

/// Results of one trace under several policies.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the trace.
    pub trace: String,
    /// Properties of the recorded allocator, if the trace has them.
    pub recording: Option<Recording>,
    /// Bytes that the model of PyTorch, with the recorded settings, reserves for the trace; `None` unless the trace is
    /// a complete recording of PyTorch.
    pub modelled: Option<Bytes>,
    /// Memory at the peak of the live bytes; `None` if nothing was allocated.
    pub peak: Option<MemoryUse>,
    /// Memory at the first request that failed during recording.
    pub at_failure: Option<MemoryUse>,
    /// PyTorch settings: the current one, then others that save memory; empty before [`Report::find_least`].
    pub settings: Vec<Setting>,
    /// Blocks by address and time, for a page; empty before [`Report::map_blocks`].
    pub maps: Vec<BlockMap>,
    /// A row for each policy, in the order of presentation.
    pub rows: Vec<Row>,
    /// Number of streams that requested memory.
    pub streams: usize,
    /// Rule by which the work of the streams completes.
    pub lag: Lag,
}

/// Result of one trace under one policy.
#[derive(Clone, Debug)]
pub struct Row {
    /// Policy that was replayed.
    pub policy: ReplayPolicy,
    /// Memory that the policy needed.
    pub outcome: Outcome,
    /// Mean time of an allocation or free, in nanoseconds; `None` if the policy failed or was never called.
    pub ns_per_op: Option<f64>,
    /// Whether the policy would have served the first request that failed during recording; `None` if none failed or
    /// the available memory is unknown.
    pub fits: Option<bool>,
    /// Least memory in which the policy serves the trace; `None` unless [`Report::find_least`] has found it.
    pub least: Option<Least>,
}

/// Headings of the columns of [`Row::cells`].
pub const COLUMNS: [&str; 6] = ["policy", "events", "peak live", "peak reserved", "waste", "ns/op"];

impl Report {
    /// Creates a report on `trace` without rows.
    pub fn new(trace: &Trace) -> Self {
        Self {
            trace: trace.name.clone(),
            recording: trace.recording.clone(),
            modelled: doubt::modelled(trace),
            peak: MemoryUse::at_peak(trace),
            at_failure: MemoryUse::at_failure(trace),
            settings: Vec::new(),
            maps: Vec::new(),
            rows: Vec::new(),
            streams: trace.streams().len(),
            lag: trace.lag,
        }
    }

    /// Returns the peak of the bytes that the recorded allocator reserved, if it is recorded.
    pub fn recorded_reserved(&self) -> Option<Bytes> {
        self.recording.as_ref().and_then(|recording| recording.reserved)
    }

    /// Returns the name of the row with the recorded figures.
    pub(super) fn recorded_name(&self) -> String {
        let by = self.recording.as_ref().map_or(RecordedBy::PyTorch, |recording| recording.by);
        format!("{by}, as recorded")
    }

    /// Returns the reason why the figures yield no advice, if there is one.
    pub fn doubt(&self) -> Option<Doubt> {
        doubt::doubt(self.recording.as_ref()?, self.modelled)
    }

    /// Returns the best row among the policies that do not raise the least memory; `None` if there is a
    /// [`doubt`](Self::doubt).
    pub fn recommended(&self) -> Option<&Row> {
        self.best_of(|row| !self.raises_least(row)).filter(|_| self.doubt().is_none())
    }

    /// Returns the row that needs the least; of several, the one that reserved the least, and then the first of
    /// [`POLICIES`](super::POLICIES). A plan, which knows the future, counts only if there is no other row; a failed
    /// policy never counts.
    pub fn best(&self) -> Option<&Row> {
        self.best_of(|_| true)
    }

    fn best_of(&self, counts: impl Fn(&Row) -> bool) -> Option<&Row> {
        let served = self.rows.iter().filter(|row| row.outcome.failed.is_none() && counts(row));
        served.min_by_key(|row| row.rank())
    }

    /// Returns the least memory of PyTorch with the recorded settings, or with its defaults; `None` if another
    /// allocator was recorded, or if [`find_least`](Self::find_least) has not found it.
    pub(super) fn present_least(&self) -> Option<Bytes> {
        let recording = self.recording.as_ref();
        if recording.is_some_and(|recording| recording.by == RecordedBy::Cubeyard) {
            return None;
        }
        let expandable = recording.is_some_and(|recording| recording.expandable);
        let present = self.served(if expandable { EXPANDABLE } else { PYTORCH })?;
        present.least.map(|least| least.memory())
    }

    /// Returns whether a policy needs more memory than PyTorch under a limit. If the least memory of a policy was not
    /// determined, its reserved bytes count instead.
    pub(super) fn raises_least(&self, row: &Row) -> bool {
        let needed = row.needs();
        self.present_least().is_some_and(|present| needed > present)
    }

    /// Finds the least memory in which PyTorch's models, and the best of the other policies, serve the trace, and the
    /// PyTorch settings that save memory. Requests that failed during recording must be served too.
    pub fn find_least(&mut self, trace: &Trace) {
        let served = refused::served(trace);
        let ours = self.rows.iter().filter(|row| row.policy.kind == Kind::Online);
        let ours = ours.filter(|row| row.outcome.failed.is_none());
        let best = ours.min_by_key(|row| (row.outcome.peak_reserved, row.policy.place()));
        let best = best.map(|row| row.policy.name);
        for row in &mut self.rows {
            if row.policy.kind == Kind::PyTorch || best == Some(row.policy.name) {
                row.least = match &served {
                    Some(served) => row.policy.least_of(served),
                    None => row.policy.least(trace, &row.outcome),
                };
            }
        }
        let least = |policy: &str| self.served(policy)?.least;
        self.settings = settings::settings(least, served.as_ref().unwrap_or(trace));
    }

    /// Returns a remark on the trace for which the least memory was found, if requests failed during recording.
    pub fn least_remark(&self) -> Option<&'static str> {
        match self.recording.as_ref()?.out_of_memory[..] {
            [] => None,
            [_] => Some("The request that failed is served here, and freed at once."),
            _ => Some("The requests that failed are served here, and each is freed at once."),
        }
    }

    /// Maps the blocks of the trace under PyTorch, with the recorded settings, and under the best policy.
    pub fn map_blocks(&mut self, trace: &Trace) {
        let present = self.peak.as_ref().map(|peak| peak.cache.policy);
        let present = self.rows.iter().find(|row| Some(row.policy.name) == present);
        let rows = present.into_iter().chain(self.best());
        let mut policies: Vec<_> = rows.map(|row| row.policy).collect();
        policies.dedup_by_key(|policy| policy.name);
        self.maps = policies.iter().filter_map(|policy| BlockMap::new(policy, trace)).collect();
    }

    /// Returns the row of the policy with this name, unless the policy failed.
    pub(super) fn served(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.policy.name == name && row.outcome.failed.is_none())
    }

    /// Returns the recorded figures in the form of [`Row::cells`], if they are recorded.
    pub fn recorded_cells(&self) -> Option<[String; 6]> {
        let recorded = self.recorded_reserved()?;
        let live = self.rows.iter().map(|row| row.outcome.peak_live).max().unwrap_or_default();
        let waste = (!live.is_zero()).then(|| recorded.get() as f64 / live.get() as f64);
        let waste = waste.map(significant).unwrap_or_default();
        let none = String::new;
        Some([self.recorded_name(), none(), none(), recorded.to_string(), waste, none()])
    }
}

/// Returns a function unchanged; its type could not be inferred otherwise.
fn maker<F: for<'a> Fn(&'a Trace) -> Box<dyn Target + 'a>>(make: F) -> F {
    make
}

impl ReplayPolicy {
    /// Replays a trace, once to count bytes and then again to measure time.
    ///
    /// `clock` returns nanoseconds of processor time, so that other processes have no effect. `progress` is called as
    /// by [`run`], for twice the events of the trace in total unless the policy fails.
    pub fn replay(
        &self,
        trace: &Trace,
        clock: &mut dyn FnMut() -> u64,
        progress: &mut dyn FnMut(usize),
    ) -> Row {
        if self.kind == Kind::Planned {
            // Planning takes far longer than following a plan. A trace with failed requests is another trace, with its
            // own plan.
            let known = planned(trace);
            let make = maker(move |given| {
                let is_same = std::ptr::eq(given, trace);
                Box::new(if is_same { known.clone() } else { planned(given) })
            });
            return self.replay_over(&make, trace, clock, progress);
        }
        let make = maker(|trace| {
            self.target(trace).expect("a policy of a front is replayed over its targets")
        });
        self.replay_over(&make, trace, clock, progress)
    }

    /// Replays a trace like [`replay`](Self::replay), over targets that `make` creates: for policies that are not
    /// functions, such as the policies of a front end. A front end's policy has a target for each stream of the trace,
    /// so that no target gives memory of one stream to another.
    pub fn replay_over(
        &self,
        make: &dyn Fn(&Trace) -> Box<dyn Target + '_>,
        trace: &Trace,
        clock: &mut dyn FnMut() -> u64,
        progress: &mut dyn FnMut(usize),
    ) -> Row {
        let apart = maker(|trace| Box::new(Apart::new(trace, make)));
        let is_front = matches!(self.make, Make::Front);
        let make = if is_front && trace.streams().len() > 1 { &apart } else { make };
        let outcome = run(trace, &mut *make(trace), progress);
        let ns_per_op = match outcome.failed {
            Some(_) => None,
            None => nanoseconds_per_operation(trace, make, clock, progress),
        };
        let fits = refused::fits(self.name, make, trace);
        Row { policy: *self, outcome, ns_per_op, fits, least: None }
    }
}

/// Headings of the columns of [`Row::least_cells`].
pub const LEAST_COLUMNS: [&str; 6] =
    ["least memory", "no limit", "needs", "÷ live", "retries", "limit"];

impl Row {
    /// Returns the memory that the policy needs: the least memory in which it serves the trace, or the bytes that it
    /// reserved if the least memory was not determined.
    pub fn needs(&self) -> Bytes {
        self.least.map_or(self.outcome.peak_reserved, |least| least.memory())
    }

    /// Returns a key by which the best policy comes first, in any order of the rows.
    pub(super) fn rank(&self) -> impl Ord {
        let is_planned = self.policy.kind == Kind::Planned;
        (is_planned, self.needs(), self.outcome.peak_reserved, self.policy.place())
    }

    /// Formats the least memory for the columns of [`LEAST_COLUMNS`], if it was found.
    pub fn least_cells(&self) -> Option<[String; 6]> {
        let least = self.least?;
        let ratio = least.memory().get() as f64 / least.live.get().max(1) as f64;
        Some([
            self.policy.name.to_owned(),
            least.unlimited.to_string(),
            least.memory().to_string(),
            significant(ratio),
            count(least.retries),
            least.runs.to_string(),
        ])
    }

    /// Formats the row for the columns of [`COLUMNS`].
    pub fn cells(&self) -> [String; 6] {
        let outcome = &self.outcome;
        let missing =
            || if outcome.failed.is_some() { "failed".to_owned() } else { "–".to_owned() };
        [
            self.policy.name.to_owned(),
            count(outcome.events as u64),
            outcome.peak_live.to_string(),
            outcome.peak_reserved.to_string(),
            outcome.waste().map_or_else(missing, significant),
            self.ns_per_op.map_or_else(|| "–".to_owned(), |time| format!("{time:.1}")),
        ]
    }
}

/// Formats a ratio with at most three decimals; fewer for large ratios.
pub(super) fn significant(ratio: f64) -> String {
    let decimals = match ratio {
        ..10.0 => 3,
        ..100.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ratios_have_few_decimals() {
        for (ratio, text) in
            [(1.0, "1.000"), (12.345, "12.35"), (123.45, "123.5"), (16384.0, "16384")]
        {
            assert_eq!(significant(ratio), text);
        }
    }
}
