//! Times of a step, and lower bounds on them.

use cubeyard_sim::Span;
use cubeyard_units::text::{percent, span};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::cut::Cut;
use super::part::StepPart;

pub use super::bound::Demand;
pub use super::memory::{Memory, Use};

/// Resource whose bound is the largest of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiting {
    /// Memory bandwidth of all PEs.
    Hbm,
    /// Matrix units of all PEs.
    Gemm,
}

impl Limiting {
    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hbm => "HBM",
            Self::Gemm => "GEMM",
        }
    }
}

/// Times of one part of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartReport {
    /// Part of the step.
    pub part: StepPart,
    /// Number of runs of the part.
    pub count: u64,
    /// Total time of all runs, each from its start to the end of the last PE, as seen by the first SIP.
    pub total: Span,
    /// Demand of all runs together.
    pub demand: Demand,
    /// Minimum total times allowed by memory and by the matrix units.
    pub least: [Span; 2],
}

impl PartReport {
    /// Adds the runs of the same part for other sequences.
    pub(super) fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.total += more.total;
        self.demand.bytes = self.demand.bytes.saturating_add(more.demand.bytes);
        self.demand.flop = self.demand.flop.saturating_add(more.demand.flop);
        let [memory, gemm] = [0, 1].map(|bound| self.least[bound] + more.least[bound]);
        self.least = [memory, gemm];
    }

    /// Returns the mean time per run.
    pub fn each(&self) -> Span {
        Span::from_ps(self.total.ps() / self.count.max(1))
    }

    /// Returns the resource with the larger bound; `None` if there is no bound.
    pub fn limiting(&self) -> Option<Limiting> {
        let [memory, gemm] = self.least;
        let larger = if gemm > memory { Limiting::Gemm } else { Limiting::Hbm };
        (self.bound() > Span::ZERO).then_some(larger)
    }

    /// Returns the minimum total time.
    pub fn bound(&self) -> Span {
        self.least[0].max(self.least[1])
    }

    /// Returns the bound as a fraction of the time; `None` if there is no bound.
    pub fn share(&self) -> Option<f64> {
        let bound = self.bound().ps();
        (bound > 0).then(|| bound as f64 / self.total.ps().max(1) as f64)
    }
}

impl Serialize for PartReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let part = json!({
            "part": self.part.name(),
            "count": self.count,
            "each_ns": self.each().ns(),
            "total_ns": self.total.ns(),
            "bytes": self.demand.bytes,
            "flop": self.demand.flop,
            "limited_by": self.limiting().map(Limiting::name),
            "memory_bound_ns": self.least[0].ns(),
            "gemm_bound_ns": self.least[1].ns(),
            "share_of_bound": self.share(),
        });
        part.serialize(to)
    }
}

/// Report of `cubeyard model`: times and memory of a measured model.
#[derive(Clone, Debug)]
pub struct ModelReport {
    /// Distribution of the model over the machine.
    pub cut: Cut,
    /// Parts in the order of their first run.
    pub parts: Vec<PartReport>,
    /// Number of launches: one for each run of a part.
    pub launches: u64,
    /// Total time between the end of a part and the start of the next.
    pub launching: Span,
    /// Time from the start of the first part to the end of the last.
    pub total: Span,
    /// Minimum time to read all weights and caches from memory.
    pub bandwidth_bound: Span,
    /// Memory use of the model.
    pub memory: Memory,
    /// Number of positions at which attention was simulated, and total number of positions.
    pub positions: (u64, u64),
    /// Names of the all-reduce algorithms: one, and a second if the remaining sequences use another.
    pub all_reduces: Vec<&'static str>,
    /// Features of the model that are not simulated, one sentence each.
    pub notes: Vec<String>,
}

impl ModelReport {
    /// Returns the number of tokens processed or generated.
    pub fn tokens(&self) -> u64 {
        match self.cut.work.phase {
            super::Phase::Prefill => self.cut.work.batch * self.cut.work.context,
            super::Phase::Decode => self.cut.work.batch,
        }
    }

    /// Returns the time of the step, the share that its bounds explain, the longest part, and the part that loses most
    /// against its bound, as one sentence.
    pub fn verdict(&self) -> String {
        let step = match self.cut.work.phase {
            super::Phase::Decode => "A decode step",
            super::Phase::Prefill => "The prefill",
        };
        let launching = ("launches", self.launching, Span::ZERO);
        let parts = self.parts.iter().map(|it| (it.part.name(), it.total, it.bound()));
        let parts = || parts.clone().chain([launching]).rev();
        let lost = |total: Span, bound: Span| total.saturating_sub(bound);
        let longest = parts().max_by_key(|(_, total, _)| *total).unwrap_or(launching);
        let worst =
            parts().max_by_key(|&(_, total, bound)| lost(total, bound)).unwrap_or(launching);
        let share = |part: Span| percent(part.ps() as f64 / self.total.ps().max(1) as f64);
        let above = span(lost(worst.1, worst.2));
        let rest = if longest.0 == worst.0 {
            format!("and it also loses most, {above} above its bound")
        } else {
            format!("and `{}` loses most, {above} above its bound", worst.0)
        };
        format!(
            "{step} takes {}, of which the bounds of its parts explain {}; `{}` takes longest ({} of the step), {rest}.",
            span(self.total),
            percent(self.share()),
            longest.0,
            share(longest.1)
        )
    }

    /// Returns the tokens per second.
    pub fn rate(&self) -> f64 {
        self.tokens() as f64 / (self.total.ps().max(1) as f64 / 1e12)
    }

    /// Returns the minimum time of all parts, run one after the other.
    pub fn bound(&self) -> Span {
        self.parts.iter().map(PartReport::bound).sum()
    }

    /// Returns the memory bound as a fraction of the time.
    pub fn bandwidth_share(&self) -> f64 {
        self.bandwidth_bound.ps() as f64 / self.total.ps().max(1) as f64
    }

    /// Returns the sum of the parts' bounds as a fraction of the time.
    pub fn share(&self) -> f64 {
        self.bound().ps() as f64 / self.total.ps().max(1) as f64
    }
}

impl Serialize for ModelReport {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Cut { spec, work, sips, cubes, pes, .. } = &self.cut;
        let routing = self.cut.kinds().find_map(|cut| cut.routing);
        let report = json!({
            "model": spec.name,
            "parameters": spec.parameters(),
            "layers": spec.layers,
            "phase": work.phase,
            "batch": work.batch,
            "context": work.context,
            "dtype": work.dtype.name(),
            "weights": work.weights.name(),
            "kv_dtype": work.kv_type().name(),
            "experts_used": routing.map(|routing| routing.used),
            "expert_places": routing.map(|routing| routing.places),
            "sips": sips,
            "cubes": cubes,
            "pes": pes,
            "verdict": self.verdict(),
            "parts": self.parts,
            "launches": self.launches,
            "launching_ns": self.launching.ns(),
            "total_ns": self.total.ns(),
            "tokens": self.tokens(),
            "tokens_per_second": self.rate(),
            "bandwidth_bound_ns": self.bandwidth_bound.ns(),
            "share_of_bandwidth_bound": self.bandwidth_share(),
            "bound_ns": self.bound().ns(),
            "share_of_bound": self.share(),
            "positions_run": self.positions.0,
            "positions": self.positions.1,
            "all_reduces": self.all_reduces,
            "placement": self.cut.placement_notes(),
            "notes": self.notes,
            "memory_per_pe": self.memory,
        });
        report.serialize(to)
    }
}
