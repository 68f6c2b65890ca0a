//! Search for the fastest plan: all are enumerated, those that fit are ranked by their bounds, and the first are measured.

use cubeyard_sim::Span;
use cubeyard_units::text::{bytes, span};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::division::{Division, Objective, PlanConfig, period, pipelined};
use super::report::PlanReport;
use super::{Plan, PlanError, measure_plan};
use crate::cut::{Cut, Phase};
use crate::error::ModelError;

/// Outcome of a plan in a search.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The plan was measured.
    Measured(Box<PlanReport>),
    /// The plan was not measured, for this reason.
    Dropped(String),
}

/// Plan in a search.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Plan of the candidate.
    pub plan: Plan,
    /// Bytes of weights and caches of the fullest PE; `None` if the plan does not divide the model.
    pub held: Option<u64>,
    /// Lower bound on the quantity that is minimised; `None` if the plan does not divide the model.
    pub bound: Option<Span>,
    /// Result of the measurement, or the reason why there was none.
    pub outcome: Outcome,
}

impl Candidate {
    /// Returns the report, if the plan was measured.
    pub fn report(&self) -> Option<&PlanReport> {
        match &self.outcome {
            Outcome::Measured(report) => Some(report),
            Outcome::Dropped(_) => None,
        }
    }
}

impl Serialize for Candidate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let report = self.report();
        let dropped = match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Dropped(why) => Some(why),
        };
        let candidate = json!({
            "plan": self.plan,
            "held_bytes_of_a_pe": self.held,
            "bound_ns": self.bound.map(Span::ns),
            "latency_ns": report.map(|report| report.latency().ns()),
            "period_ns": report.map(|report| report.period().ns()),
            "tokens_per_second": report.map(PlanReport::rate),
            "most_bytes_of_a_pe": report.map(PlanReport::most_bytes),
            "dropped": dropped,
        });
        candidate.serialize(to)
    }
}

/// Result of a search: all plans, the measured ones first, from the fastest to the slowest.
#[derive(Clone, Debug)]
pub struct PlanSearch {
    /// Quantity that was minimised.
    pub objective: Objective,
    /// Plans; the first is the fastest.
    pub candidates: Vec<Candidate>,
    /// Report of the fastest plan.
    pub best: PlanReport,
}

/// Finds the fastest plan. At most `most` plans are measured, in the order of their bounds; a plan whose bound is not
/// below the time of a measured one cannot be faster, and is not measured. `progress` is called with the plan, the number
/// of measured plans, and the number of plans that may be measured.
pub fn search(
    config: &PlanConfig,
    most: usize,
    progress: &mut dyn FnMut(Plan, usize, usize),
) -> Result<PlanSearch, ModelError> {
    let capacity = config.measure.topology.spec().hbm.slice.get();
    let mut all: Vec<_> = Plan::all(config.sips())
        .into_iter()
        .map(|plan| candidate(config, plan, capacity))
        .collect::<Result<_, _>>()?;
    all.sort_by_key(|it| (it.bound.unwrap_or(Span::MAX), it.plan.sips(), it.plan));
    let open = |it: &Candidate| matches!(&it.outcome, Outcome::Dropped(why) if why.is_empty());
    let possible = all.iter().filter(|it| open(it)).count().min(most.max(1));
    let (mut best, mut done): (Option<PlanReport>, usize) = (None, 0);
    for it in all.iter_mut().filter(|it| open(it)) {
        let fastest = best.as_ref().map(|best| best.score(config.objective));
        it.outcome = if fastest.zip(it.bound).is_some_and(|(fastest, bound)| bound >= fastest) {
            Outcome::Dropped("its bound is not below the fastest time".to_owned())
        } else if done >= possible {
            Outcome::Dropped(format!("{possible} plans have lower bounds and were measured"))
        } else {
            progress(it.plan, done, possible);
            done += 1;
            measured(config, it.plan)?
        };
        let report = it.report().filter(|report| {
            fastest.is_none_or(|fastest| report.score(config.objective) < fastest)
        });
        best = report.cloned().or(best);
    }
    finished(config, all, best, capacity)
}

/// Measures a plan. Plans whose activations do not fit are dropped.
fn measured(config: &PlanConfig, plan: Plan) -> Result<Outcome, ModelError> {
    match measure_plan(config, plan, &mut |_, _| ()) {
        Ok(report) => Ok(Outcome::Measured(Box::new(report))),
        Err(error @ ModelError::DoesNotFit { .. }) => Ok(Outcome::Dropped(error.to_string())),
        Err(error) => Err(error),
    }
}

fn finished(
    config: &PlanConfig,
    mut candidates: Vec<Candidate>,
    best: Option<PlanReport>,
    capacity: u64,
) -> Result<PlanSearch, ModelError> {
    let Some(best) = best else { return Err(none_fits(config, &candidates, capacity).into()) };
    let objective = config.objective;
    candidates.sort_by_key(|it| it.report().map_or(Span::MAX, |report| report.score(objective)));
    Ok(PlanSearch { objective, candidates, best })
}

fn none_fits(config: &PlanConfig, candidates: &[Candidate], capacity: u64) -> PlanError {
    let least = candidates.iter().filter_map(|it| Some((it.held?, it.plan))).min();
    let one = Plan { tp: config.sips(), pp: 1, dp: 1 };
    let (needed, plan) = least.unwrap_or((0, one));
    let plan = plan.to_string();
    PlanError::NoneFits { sips: config.sips(), plan, needed, capacity }
}

/// Returns a plan with its memory and its bound. The reason why it is dropped is empty if it may be measured.
fn candidate(config: &PlanConfig, plan: Plan, capacity: u64) -> Result<Candidate, ModelError> {
    let dropped =
        |held, bound, why: String| Candidate { plan, held, bound, outcome: Outcome::Dropped(why) };
    let division = match config.division(plan) {
        Ok(division) => division,
        Err(error) => return Ok(dropped(None, None, error.to_string())),
    };
    let cuts = |batch| -> Result<Vec<Cut>, ModelError> {
        (0..plan.pp).map(|stage| config.cut(plan, stage, batch)).collect()
    };
    let held = cuts(division.share)?.iter().map(Cut::held_bytes).max().unwrap_or(0);
    let bound = bound(config, &cuts(division.micro)?, division);
    let why = if held > capacity {
        format!("does not fit: {} of {}", bytes(held), bytes(capacity))
    } else {
        String::new()
    };
    Ok(dropped(Some(held), Some(bound), why))
}

/// Returns the minimum of the objective: of each part its own bound, and no time for transfers.
fn bound(config: &PlanConfig, cuts: &[Cut], division: Division) -> Span {
    let stages = cuts.iter().map(|cut| (cut.bound(&config.measure.topology).ps(), 0));
    let stages: Vec<_> = stages.collect();
    let steps = |cut: &Cut| cut.steps() + cut.rest.as_deref().map_or(0, Cut::steps);
    let (units, phase) = (cuts.first().map_or(1, steps), config.measure.work.phase);
    let batches = if phase == Phase::Decode { 1 } else { division.microbatches };
    let latency = pipelined(&stages, units, batches, 0);
    let slowest = stages.iter().map(|(time, _)| *time).max().unwrap_or(0) / units.max(1);
    Span::from_ps(match config.objective {
        Objective::Latency => latency,
        Objective::Throughput => period(phase, latency, division.microbatches, slowest),
    })
}

impl PlanSearch {
    /// Returns the plans that were measured, from the fastest to the slowest.
    pub fn measured(&self) -> impl Iterator<Item = &PlanReport> {
        self.candidates.iter().filter_map(Candidate::report)
    }

    /// Returns the reason why the fastest plan is faster than the second: the part or the link that takes longer there.
    pub fn why(&self) -> String {
        let (best, objective) = (&self.best, self.objective);
        let plan = best.plan;
        let Some(second) = self.measured().nth(1) else {
            return format!("{plan} is the only plan that was measured.");
        };
        let less = second.score(objective).saturating_sub(best.score(objective));
        let [here, there] = [best, second].map(|report| shares(report, objective));
        let of = |name: &str| here.iter().find(|(known, _)| *known == name).map(|it| it.1);
        let longer = there
            .iter()
            .map(|&(name, time)| (time.saturating_sub(of(name).unwrap_or_default()), name, time));
        let longer = longer.rev().max_by_key(|(longer, ..)| *longer);
        let (more, name, time) = longer.unwrap_or((Span::ZERO, "launches", Span::ZERO));
        format!(
            "{plan} is {} faster than {}, the second: there `{name}` takes {}, {} longer.",
            span(less),
            second.plan,
            span(time),
            span(more)
        )
    }
}

/// Returns the parts that make up the objective: of the way of a step, or of the slowest stage for all micro-batches if
/// it sets the pace.
fn shares(report: &PlanReport, objective: Objective) -> Vec<(&'static str, Span)> {
    let is_paced = objective == Objective::Throughput && report.period() > report.latency();
    if !is_paced {
        return report.path();
    }
    let all = report.slowest_path().into_iter();
    all.map(|(name, time)| (name, time * report.microbatches)).collect()
}

impl Serialize for PlanSearch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let search = json!({
            "objective": self.objective.name(),
            "measured": self.measured().count(),
            "why": self.why(),
            "plans": self.candidates,
            "best": self.best,
        });
        search.serialize(to)
    }
}
