//! Times, messages and memory of a plan.

use cubeyard_sim::Span;
use cubeyard_units::text::{percent, significant, span};

use super::Plan;
use super::division::{period, pipelined};
use crate::cut::{Cut, Phase};
use crate::memory::Memory;
use crate::part::StepPart;
use crate::report::ModelReport;
use crate::timeline::per_layer;

/// Stage of a pipeline.
#[derive(Clone, Debug)]
pub struct StageReport {
    /// Index of the stage.
    pub stage: u64,
    /// Index of its first layer.
    pub first_layer: u64,
    /// Number of its layers.
    pub layers: u64,
    /// Number of its first SIP in the first replica, counted over all machines.
    pub first_sip: u64,
    /// Times of the stage for a micro-batch.
    pub report: ModelReport,
    /// Memory of the stage for all sequences of a replica.
    pub memory: Memory,
}

impl StageReport {
    /// Returns the bytes that each cube sends in the all-reduces of a step: 2 (n − 1) / n of the features of all tokens,
    /// for each of n cubes.
    pub fn all_reduce_bytes(&self) -> u64 {
        let cut = &self.report.cut;
        let ranks = cut.sips * cut.cubes;
        let each = cut.tokens() * cut.hidden() * cut.work.dtype.size();
        let count = per_layer(StepPart::AllReduce, cut) * self.layers;
        count * (2 * (ranks - 1) * each / ranks)
    }

    fn steps(&self) -> u64 {
        let cut = &self.report.cut;
        cut.steps() + cut.rest.as_deref().map_or(0, Cut::steps)
    }
}

/// Transfer of tokens from a stage to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryReport {
    /// Index of the sending stage.
    pub stage: u64,
    /// Whether the transfer leaves the machine.
    pub is_network: bool,
    /// Bytes of the features of all tokens of a step.
    pub bytes: u64,
    /// Bytes sent: inside a machine, each cube of the stage sends its copy of the features.
    pub sent: u64,
    /// Time from the launch of the transfer to the launch of the next stage.
    pub time: Span,
}

/// Report of a plan: its stages, and the transfers between them.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// Plan that was measured.
    pub plan: Plan,
    /// Number of SIPs of all machines.
    pub sips: u64,
    /// Number of sequences of all replicas.
    pub batch: u64,
    /// Number of sequences of the largest replica.
    pub share: u64,
    /// Number of micro-batches of a replica.
    pub microbatches: u64,
    /// Number of sequences of the largest micro-batch, to which all times belong.
    pub micro: u64,
    /// Stages in order.
    pub stages: Vec<StageReport>,
    /// Transfers between stages, in order.
    pub boundaries: Vec<BoundaryReport>,
}

impl PlanReport {
    /// Returns the distribution of the first stage.
    pub fn cut(&self) -> &Cut {
        &self.stages[0].report.cut
    }

    /// Returns the phase of inference.
    pub fn phase(&self) -> Phase {
        self.cut().work.phase
    }

    /// Returns the sum of the transfers of a step.
    pub fn boundary_time(&self) -> Span {
        self.boundaries.iter().map(|boundary| boundary.time).sum()
    }

    /// Returns the time for which a stage is busy with a step of a micro-batch: its own time, and its transfers.
    pub fn busy(&self, stage: usize) -> Span {
        let Some(it) = self.stages.get(stage) else { return Span::ZERO };
        Span::from_ps(it.report.total.ps() / it.steps().max(1)) + self.transfers(stage)
    }

    /// Returns the time of the transfers of a stage: to it and from it.
    fn transfers(&self, stage: usize) -> Span {
        let of = |index: Option<usize>| index.and_then(|index| self.boundaries.get(index));
        let both = [of(stage.checked_sub(1)), of(Some(stage))];
        both.into_iter().flatten().map(|boundary| boundary.time).sum()
    }

    /// Returns the index of the stage that is busy longest; of several, the first.
    pub fn slowest(&self) -> usize {
        (0..self.stages.len()).rev().max_by_key(|&stage| self.busy(stage)).unwrap_or(0)
    }

    /// Returns the time of a token of a micro-batch, from its first part to its last. In prefill, the time of all
    /// sequences of a replica, whose steps follow each other through the stages.
    pub fn latency(&self) -> Span {
        let steps = self.stages[0].steps();
        let batches = if self.phase() == Phase::Decode { 1 } else { self.microbatches };
        let stages = (0..self.stages.len())
            .map(|stage| (self.stages[stage].report.total.ps(), self.transfers(stage).ps()));
        let stages: Vec<_> = stages.collect();
        Span::from_ps(pipelined(&stages, steps, batches, self.boundary_time().ps()))
    }

    /// Returns the time from one token of a sequence to the next: the latency, or longer if a stage has not yet computed
    /// the tokens of the other micro-batches. In prefill, the latency.
    pub fn period(&self) -> Span {
        let slowest = self.busy(self.slowest()).ps();
        let period = period(self.phase(), self.latency().ps(), self.microbatches, slowest);
        Span::from_ps(period)
    }

    /// Returns the quantity that an objective minimises.
    pub fn score(&self, objective: super::Objective) -> Span {
        match objective {
            super::Objective::Latency => self.latency(),
            super::Objective::Throughput => self.period(),
        }
    }

    /// Returns the number of tokens of a period, over all replicas.
    pub fn tokens(&self) -> u64 {
        match self.phase() {
            Phase::Decode => self.batch,
            Phase::Prefill => self.batch * self.cut().work.context,
        }
    }

    /// Returns the tokens per second of all replicas.
    pub fn rate(&self) -> f64 {
        self.tokens() as f64 / (self.period().ps().max(1) as f64 / 1e12)
    }

    /// Returns the fraction of a period for which stages compute, on average.
    pub fn utilisation(&self) -> f64 {
        let all: u64 = self.stages.iter().map(|stage| stage.report.total.ps()).sum();
        let possible = self.period().ps().max(1) as f64 * self.stages.len() as f64;
        self.microbatches as f64 * all as f64 / possible
    }

    /// Returns the memory use of the fullest PE of all stages.
    pub fn most_bytes(&self) -> u64 {
        self.stages.iter().map(|stage| stage.memory.total.most).max().unwrap_or(0)
    }

    /// Returns the minimum latency that the bounds of all parts allow; transfers have none.
    pub fn bound(&self) -> Span {
        let steps = self.stages[0].steps();
        let batches = if self.phase() == Phase::Decode { 1 } else { self.microbatches };
        let stages = self.stages.iter().map(|stage| (stage.report.bound().ps(), 0));
        Span::from_ps(pipelined(&stages.collect::<Vec<_>>(), steps, batches, 0))
    }

    /// Returns the time of each kind of part over all stages, of the launches, and of the boundaries.
    pub fn path(&self) -> Vec<(&'static str, Span)> {
        path(&self.stages.iter().collect::<Vec<_>>(), self.boundary_time())
    }

    /// Returns the same for the slowest stage alone.
    pub(super) fn slowest_path(&self) -> Vec<(&'static str, Span)> {
        let slowest = self.slowest();
        path(&[&self.stages[slowest]], self.transfers(slowest))
    }

    /// Returns statements on shares that are uneven, and on idle SIPs.
    pub fn notes(&self) -> Vec<String> {
        let Plan { pp, dp, .. } = self.plan;
        let mut notes = Vec::new();
        let used = self.plan.sips();
        if used < self.sips {
            notes.push(format!("SIPs: {used} of {} used, the others are idle", self.sips));
        }
        let share = |what: &str, all: u64, over: u64, of: &str| {
            let text = format!(
                "{what}: {all} over {over} {of}, at most {}; times are those of the largest share",
                all.div_ceil(over)
            );
            (!all.is_multiple_of(over)).then_some(text)
        };
        notes.extend(share("sequences", self.batch, dp, "replicas"));
        notes.extend(share(
            "sequences of a replica",
            self.share,
            self.microbatches,
            "micro-batches",
        ));
        let layers: u64 = self.stages.iter().map(|stage| stage.layers).sum();
        if !layers.is_multiple_of(pp) {
            let (most, least) = (layers.div_ceil(pp), layers / pp);
            notes.push(format!(
                "layers: {layers} over {pp} stages, {most} in the first, then {least}"
            ));
        }
        if self.boundaries.iter().any(|boundary| boundary.is_network) {
            notes.push("transfers between machines: α + bytes / β, not simulated".to_owned());
        }
        notes
    }

    /// Returns the time of the plan, its slowest stage and its use, as one sentence.
    pub fn verdict(&self) -> String {
        let slowest = self.slowest();
        let what = match self.phase() {
            Phase::Decode => "A token takes",
            Phase::Prefill => "The prefill takes",
        };
        let time = format!("{what} {}", span(self.latency()));
        let rate = format!("{} tokens a second in all", significant(self.rate()));
        if self.stages.len() == 1 {
            return format!("{time} with {}, {rate}.", self.plan);
        }
        let transfers = self.boundary_time().ps() as f64 / self.latency().ps().max(1) as f64;
        format!(
            "{time} with {}, {rate}; stage {slowest} is the slowest with {} a step, stages compute {} of the time, \
             and transfers between them are {} of the way of a step.",
            self.plan,
            span(self.busy(slowest)),
            percent(self.utilisation()),
            percent(transfers)
        )
    }
}

/// Adds up the parts of stages by name, and appends launches and boundaries.
fn path(stages: &[&StageReport], boundaries: Span) -> Vec<(&'static str, Span)> {
    let mut path: Vec<(&'static str, Span)> = Vec::new();
    for part in stages.iter().flat_map(|stage| &stage.report.parts) {
        let name = part.part.name();
        match path.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += part.total,
            None => path.push((name, part.total)),
        }
    }
    path.push(("launches", stages.iter().map(|stage| stage.report.launching).sum()));
    path.push(("boundaries", boundaries));
    path
}
