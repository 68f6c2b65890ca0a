//! Division of layers and sequences by a plan.

use cubeyard_memory::address::SipId;

use super::world::{Place, World};
use super::{Plan, PlanError};
use crate::cut::{Cut, Ends, Phase};
use crate::error::ModelError;
use crate::measure::MeasureConfig;
use crate::spec::ModelSpec;

/// Quantity that a plan minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Time of a token, or to the first token.
    #[default]
    Latency,
    /// Time per token of all sequences together.
    Throughput,
}

impl Objective {
    /// All objectives with their names.
    pub const NAMES: [(&'static str, Self); 2] =
        [("latency", Self::Latency), ("throughput", Self::Throughput)];

    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Throughput => "throughput",
        }
    }
}

/// Parameters of the measurement of plans.
#[derive(Clone, Debug)]
pub struct PlanConfig {
    /// Model, workload and machine. Its batch is the number of sequences of all replicas.
    pub measure: MeasureConfig,
    /// Number of machines, and the network between them.
    pub world: World,
    /// Number of micro-batches into which the sequences of a replica are divided; by default 1, or with the objective
    /// throughput one for each stage.
    pub microbatches: Option<u64>,
    /// Quantity to minimise.
    pub objective: Objective,
}

/// Sequences of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Number of sequences of the largest replica.
    pub(super) share: u64,
    /// Number of micro-batches of a replica.
    pub(super) microbatches: u64,
    /// Number of sequences of the largest micro-batch.
    pub(super) micro: u64,
}

impl PlanConfig {
    /// Creates the parameters for one machine.
    pub fn new(measure: MeasureConfig) -> Self {
        let (world, objective) = (World::default(), Objective::default());
        Self { measure, world, microbatches: None, objective }
    }

    /// Returns the number of SIPs of all machines.
    pub fn sips(&self) -> u64 {
        self.of_machine().len() as u64 * self.world.nodes
    }

    /// Returns the SIPs of a machine.
    fn of_machine(&self) -> Vec<SipId> {
        self.measure.topology.sips().collect()
    }

    /// Divides the sequences, and checks that all SIPs, stages and replicas have something to do.
    pub(super) fn division(&self, plan: Plan) -> Result<Division, PlanError> {
        let (layers, batch) = (self.measure.spec.layers, self.measure.work.batch);
        let (sips, machine) = (self.sips(), self.of_machine().len() as u64);
        if plan.sips() > sips {
            return Err(plan.too_large(sips));
        }
        if self.world.nodes > 1 && !machine.is_multiple_of(plan.tp) {
            return Err(PlanError::Group { tp: plan.tp, sips: machine });
        }
        if plan.pp > layers {
            return Err(PlanError::Stages { pp: plan.pp, layers });
        }
        if plan.pp > 1 && !self.measure.spec.others.is_empty() {
            let model = self.measure.spec.name.clone();
            return Err(PlanError::Kinds { pp: plan.pp, model });
        }
        if plan.dp > batch.max(1) {
            return Err(PlanError::Replicas { dp: plan.dp, batch });
        }
        let share = batch.div_ceil(plan.dp);
        let microbatches = self.microbatches.unwrap_or(match self.objective {
            Objective::Latency => 1,
            Objective::Throughput => plan.pp.min(share.max(1)),
        });
        if microbatches == 0 || microbatches > share.max(1) {
            return Err(PlanError::Microbatches { microbatches, share });
        }
        Ok(Division { share, microbatches, micro: share.div_ceil(microbatches) })
    }

    /// Returns the SIPs of a stage of a replica.
    pub(super) fn place(&self, plan: Plan, replica: u64, stage: u64) -> Place {
        Place::new(plan.first_sip(replica, stage), plan.tp, &self.of_machine())
    }

    /// Returns the parameters of the measurement of a stage with some sequences.
    pub(super) fn of_stage(&self, plan: Plan, stage: u64, batch: u64) -> MeasureConfig {
        let measure = &self.measure;
        let layers = plan.layers_of(stage, measure.spec.layers);
        let mut config = measure.clone();
        config.spec = ModelSpec { layers, ..measure.spec.clone() };
        config.work.batch = batch;
        config
    }

    /// Returns the distribution of a stage with some sequences.
    pub(super) fn cut(&self, plan: Plan, stage: u64, batch: u64) -> Result<Cut, ModelError> {
        let MeasureConfig { spec, work, topology, .. } = self.of_stage(plan, stage, batch);
        Ok(Cut::new(&spec, work, &topology, plan.tp)?.with_ends(Ends::of_stage(stage, plan.pp)))
    }
}

/// Returns the time that `batches` batches need for a pipeline, of which each passes all stages in order. `stages` has
/// the time of each stage for all `units` steps of a batch, and the time of its transfers for one step.
///
/// The steps of all batches follow each other at the pace of the slowest stage:
///
/// ```text
/// Σ t_s / u + (n − 1) max (t_s / u + x_s) + boundaries,   n = batches × u
/// ```
pub(super) fn pipelined(stages: &[(u64, u64)], units: u64, batches: u64, boundaries: u64) -> u64 {
    let units = u128::from(units.max(1));
    let later = (u128::from(batches) * units).saturating_sub(1);
    let pace = |&(time, transfer): &(u64, u64)| u128::from(time) + u128::from(transfer) * units;
    let slowest = stages.iter().max_by_key(|stage| pace(stage)).copied().unwrap_or_default();
    let first: u128 = stages.iter().map(|&(time, _)| u128::from(time)).sum();
    let steps = (first + later * u128::from(slowest.0)) / units;
    let all = steps + later * u128::from(slowest.1) + u128::from(boundaries);
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Returns the time from one token of a sequence to the next, or of the whole prefill.
pub(super) fn period(phase: Phase, latency: u64, microbatches: u64, slowest: u64) -> u64 {
    match phase {
        Phase::Decode => latency.max(microbatches.saturating_mul(slowest)),
        Phase::Prefill => latency,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stages_take_the_time_of_the_closed_form() {
        // (m + p − 1) t for m batches and p stages; the bubble is (p − 1) / m of the ideal time.
        for (stages, batches) in [(1, 1), (4, 1), (4, 8), (3, 5)] {
            let all = vec![(100, 0); stages];
            let expected = (batches + stages as u64 - 1) * 100;
            assert_eq!(pipelined(&all, 1, batches, 0), expected);
        }
        // One stage takes exactly its time, whatever its number of steps.
        assert_eq!(pipelined(&[(1001, 0)], 7, 1, 0), 1001);
    }

    #[test]
    fn decode_waits_for_the_pipeline_or_for_the_slowest_stage() {
        // max(m, p) t: a sequence waits for its own token, or for the other micro-batches.
        let latency = pipelined(&[(100, 0); 4], 1, 1, 0);
        for (microbatches, expected) in [(1, 400), (4, 400), (6, 600)] {
            assert_eq!(period(Phase::Decode, latency, microbatches, 100), expected);
        }
    }
}
