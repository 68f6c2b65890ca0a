//! `cubeyard model --plan`: a step of a model divided over SIPs by a plan, or the fastest plan.

pub(super) mod page;
pub(super) mod table;

use anyhow::{Result, anyhow};
use clap::Args;
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_model::plan::{
    Network, Objective, PlanChoice, PlanConfig, PlanReport, PlanRequest, PlanSearch, World,
    measure_plan, search,
};
use cubeyard_model::{MeasureConfig, ModelError};
use cubeyard_sim::Span;
use serde::Serialize;
use serde_json::json;

use crate::memory;
use crate::progress::Progress;

/// Maximum number of plans that a search measures.
const MOST: usize = 6;

/// Division of the SIPs.
#[derive(Args, Debug)]
pub(super) struct PlanOptions {
    /// Division of the SIPs, such as `tp=2,pp=4,dp=2`: SIPs of a tensor-parallel group, pipeline stages, data-parallel
    /// replicas, and with `ep` places of experts. Without tp, groups share all SIPs evenly. `auto` finds the fastest
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanChoice>,
    /// Quantity that --plan auto minimises: time of a token (latency) or of all tokens together (throughput)
    #[arg(long, value_name = "NAME", default_value = "latency", value_parser = objective)]
    #[arg(requires = "plan")]
    objective: Objective,
    /// Number of micro-batches into which the sequences of a replica are divided; 1, or the number of stages with
    /// --objective throughput
    #[arg(long, value_name = "M", requires = "plan")]
    microbatches: Option<u64>,
    /// Number of machines, joined by --network
    #[arg(long, value_name = "N", default_value_t = 1, requires = "plan")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1024))]
    nodes: u64,
    /// Network between machines: a message of n bytes takes alpha + n / beta
    #[arg(long, value_name = "MODEL", default_value = "alpha=2us,beta=50GB/s", requires = "plan")]
    network: Network,
}

/// Parses an objective.
fn objective(text: &str) -> Result<Objective, String> {
    let found = Objective::NAMES.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, it)| it).ok_or_else(|| "expected latency or throughput".to_owned())
}

impl PlanOptions {
    /// Returns whether a plan was given.
    pub(super) fn is_given(&self) -> bool {
        self.plan.is_some()
    }
}

/// Result of `--plan`: the report of a plan, and the search that found it.
pub(super) struct Planned {
    pub(super) measure: MeasureConfig,
    pub(super) report: PlanReport,
    pub(super) search: Option<PlanSearch>,
}

impl Serialize for Planned {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.search {
            Some(search) => search.serialize(to),
            None => self.report.serialize(to),
        }
    }
}

/// Measures the given plan, or finds the fastest.
pub(super) fn planned(
    options: &PlanOptions,
    measure: MeasureConfig,
    quiet: bool,
) -> Result<Planned> {
    let refused = |error: &ModelError, config: &PlanConfig| match error {
        ModelError::Plan(error) if !matches!(error, cubeyard_model::PlanError::NoneFits { .. }) => {
            anyhow!(
                "--{error}\n  help: --plan auto tries all plans; docs/model.md#plans has the rules"
            )
        }
        error => super::refused(error, &config.measure),
    };
    let needs = measure.needs().map_err(|error| super::refused(&error, &measure))?;
    needs.within(memory::limit(), false).map_err(|error| memory::refuse(&error))?;
    let &PlanOptions { objective, microbatches, nodes, network, .. } = options;
    let world = World { nodes, network };
    let mut config = PlanConfig { measure, world, microbatches, objective };
    let progress = Progress::new(quiet);
    let found = match options.plan {
        Some(PlanChoice::Given(request)) => given(&mut config, request, &progress),
        _ => automatic(&config, &progress),
    };
    progress.finish();
    let (report, search) = found.map_err(|error| refused(&error, &config))?;
    Ok(Planned { measure: config.measure, report, search })
}

type Found = Result<(PlanReport, Option<PlanSearch>), ModelError>;

fn given(config: &mut PlanConfig, request: PlanRequest, progress: &Progress) -> Found {
    let plan = request.plan(config.sips())?;
    let cubes = config.measure.topology.cubes().count() as u64;
    let experts = request.placement(&config.measure.spec, plan, cubes)?;
    config.measure.work.experts = experts.unwrap_or(config.measure.work.experts);
    let mut known = 0;
    let report = measure_plan(config, plan, &mut |done, all| {
        progress.expect(all);
        progress.turn_to(format!("{plan}, stage {} of {all}", (done + 1).min(all)));
        progress.advance(done - known);
        known = done;
    })?;
    Ok((report, None))
}

fn automatic(config: &PlanConfig, progress: &Progress) -> Found {
    let mut known = 0;
    let found = search(config, MOST, &mut |plan, done, all| {
        progress.expect(all);
        progress.turn_to(format!("{plan}, {} of at most {all} plans", done + 1));
        progress.advance(done - known);
        known = done;
    })?;
    Ok((found.best.clone(), Some(found)))
}

/// Returns the record of a plan. Its parts, launches and boundaries follow each other on the way of a step.
pub(super) fn saved(planned: &Planned) -> Record {
    let Planned { measure, report, search } = planned;
    let mut record = super::record_of(measure);
    let more = [
        ("plan", json!(report.plan.to_string())),
        ("microbatches", json!(report.microbatches)),
        ("objective", json!(search.as_ref().map(|search| search.objective.name()))),
    ];
    record.inputs.extend(more.map(|(name, value)| (name.to_owned(), value)));
    let path = |(name, time): (&str, Span)| (name.to_owned(), time.ns());
    let share = |span: Span| span.ps() as f64 / report.latency().ps().max(1) as f64;
    let bound = report.bound();
    let step = Measured {
        name: "step".to_owned(),
        time_ns: report.latency().ns(),
        path_ns: report.path().into_iter().map(path).collect(),
        utilisation: [("parts".to_owned(), share(bound))].into(),
        bounds_ns: [("parts, each its own bound".to_owned(), bound.ns())].into(),
        limited_by: None,
    };
    Record { figures: Some(Measured::figures(&[step])), ..record }
}
