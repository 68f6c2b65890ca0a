//! Measurement of a plan: each stage on its own SIPs, and the transfers between stages.

use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Span;

use super::division::{Division, PlanConfig};
use super::report::{BoundaryReport, PlanReport, StageReport};
use super::routes::{GroupForm, RouteForm, form, group_form};
use super::world::Place;
use super::{Plan, boundary};
use crate::cut::Ends;
use crate::error::ModelError;
use crate::measure::measure_stage;
use crate::memory::Memory;
use crate::report::ModelReport;
use crate::tensors::Tensors;

/// Measures a plan: its stages and the transfers between them, each on new machines. `progress` is called with the
/// number of completed stages and their total number.
pub fn measure_plan(
    config: &PlanConfig,
    plan: Plan,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<PlanReport, ModelError> {
    let division = config.division(plan)?;
    let mut run = PlanRun { config, plan, division, stages: Vec::new(), transfers: Vec::new() };
    let (mut stages, mut boundaries) = (Vec::new(), Vec::new());
    let all = usize::try_from(plan.pp).unwrap_or(usize::MAX);
    for stage in 0..plan.pp {
        progress(stages.len(), all);
        stages.push(run.stage(stage)?);
    }
    for stage in 1..plan.pp {
        boundaries.push(run.boundary(stage - 1)?);
    }
    progress(all, all);
    let Division { share, microbatches, micro } = division;
    let (batch, sips) = (config.measure.work.batch, config.sips());
    Ok(PlanReport { plan, sips, batch, share, microbatches, micro, stages, boundaries })
}

/// Properties of a stage that determine its time and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StageKey {
    layers: u64,
    ends: Ends,
    group: Result<GroupForm, Vec<SipId>>,
}

struct PlanRun<'a> {
    config: &'a PlanConfig,
    plan: Plan,
    division: Division,
    /// Stages measured so far.
    stages: Vec<(StageKey, ModelReport, Memory)>,
    /// Transfers simulated so far.
    transfers: Vec<(RouteForm, Span)>,
}

impl PlanRun<'_> {
    /// Measures a stage of all replicas; the slowest stands for all.
    fn stage(&mut self, stage: u64) -> Result<StageReport, ModelError> {
        let mut slowest: Option<usize> = None;
        // Replicas on the same SIPs of different machines are equal.
        let mut seen: Vec<Vec<SipId>> = Vec::new();
        for replica in 0..self.plan.dp {
            let place = self.config.place(self.plan, replica, stage);
            if seen.contains(&place.sips) {
                continue;
            }
            let known = self.measured(stage, &place)?;
            seen.push(place.sips);
            let total = |index: usize| self.stages[index].1.total;
            if slowest.is_none_or(|index| total(index) < total(known)) {
                slowest = Some(known);
            }
        }
        let (_, report, memory) = &self.stages[slowest.unwrap_or(0)];
        let layers = |of| self.plan.layers_of(of, self.config.measure.spec.layers);
        Ok(StageReport {
            stage,
            first_layer: (0..stage).map(layers).sum(),
            layers: layers(stage),
            first_sip: self.plan.first_sip(0, stage),
            report: report.clone(),
            memory: *memory,
        })
    }

    /// Returns the index of the measurement of a stage, which is simulated unless an equal one is known.
    fn measured(&mut self, stage: u64, place: &Place) -> Result<usize, ModelError> {
        let (config, plan, ends) = (self.config, self.plan, Ends::of_stage(stage, self.plan.pp));
        let group = group_form(&config.measure.topology, &place.sips);
        let group = group.ok_or_else(|| place.sips.clone());
        let layers = plan.layers_of(stage, config.measure.spec.layers);
        let key = StageKey { layers, ends, group };
        if let Some(known) = self.stages.iter().position(|(known, ..)| *known == key) {
            return Ok(known);
        }
        let Division { share, microbatches, micro } = self.division;
        let whole = (microbatches > 1).then(|| self.memory(stage, share, place)).transpose()?;
        let measure = config.of_stage(plan, stage, micro);
        let report = measure_stage(&measure, &place.sips, ends, &mut |_, _| ())?;
        let memory = whole.unwrap_or(report.memory);
        self.stages.push((key, report, memory));
        Ok(self.stages.len() - 1)
    }

    /// Returns the memory of a stage with all sequences of a replica.
    fn memory(&self, stage: u64, share: u64, place: &Place) -> Result<Memory, ModelError> {
        let topology = self.config.measure.topology.clone();
        let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
        let cut = self.config.cut(self.plan, stage, share)?;
        Ok(Tensors::new(&context, &cut, &place.sips, None)?.memory)
    }

    /// Returns the transfer after a stage; the slowest of all replicas stands for all.
    fn boundary(&mut self, stage: u64) -> Result<BoundaryReport, ModelError> {
        let cut = Rc::new(self.config.cut(self.plan, stage, self.division.micro)?);
        let element = cut.work.dtype.size();
        let bytes = cut.tokens() * cut.spec.hidden * element;
        let link = self.plan.tp * cut.cubes * cut.tokens() * cut.hidden() * element;
        let mut slowest =
            BoundaryReport { stage, is_network: false, bytes, sent: 0, time: Span::ZERO };
        for replica in 0..self.plan.dp {
            let [from, to] =
                [stage, stage + 1].map(|stage| self.config.place(self.plan, replica, stage));
            let is_network = from.node != to.node;
            let time = if is_network {
                self.config.world.network.time(bytes)
            } else {
                let pairs: Vec<_> = from.sips.into_iter().zip(to.sips).collect();
                self.transfer(&cut, &pairs)?
            };
            if time > slowest.time {
                let sent = if is_network { bytes } else { link };
                slowest = BoundaryReport { is_network, sent, time, ..slowest };
            }
        }
        Ok(slowest)
    }

    /// Returns the time of a transfer, which is simulated unless the time of equal routes is known. All transfers of a
    /// plan have equally many tokens.
    fn transfer(
        &mut self,
        cut: &Rc<crate::Cut>,
        pairs: &[(SipId, SipId)],
    ) -> Result<Span, ModelError> {
        let topology = &self.config.measure.topology;
        let routes = form(topology, pairs);
        let known = self.transfers.iter().find(|(known, _)| Some(known) == routes.as_ref());
        if let Some((_, time)) = known {
            return Ok(*time);
        }
        let time = boundary::transfer(topology, cut, pairs)?;
        self.transfers.extend(routes.map(|routes| (routes, time)));
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use cubeyard_device::topology::Topology;
    use cubeyard_runtime::dtype::DType;

    use super::*;
    use crate::cut::{ExpertPlacement, Phase, Workload};
    use crate::measure::MeasureConfig;
    use crate::spec::ModelSpec;

    /// Stages and transfers with equal routes are simulated once. This simulates all of them.
    #[test]
    fn groups_with_routes_of_one_form_take_equally_long() {
        for sips in [
            "topology: ring_1d",
            "topology: torus_2d, w: 3, h: 2",
            "topology: mesh_2d_no_wrap, w: 3, h: 2",
        ] {
            let text = format!(
                "sips: {{count: 6, {sips}}}\ncubes: {{w: 2, h: 1}}\npe: {{routers: [r0c0, r0c1]}}\n"
            );
            let topology = Topology::read("six", &text).unwrap();
            let all: Vec<_> = topology.sips().collect();
            let mut known: Vec<((GroupForm, RouteForm), Span, Span)> = Vec::new();
            for first in 0..4 {
                let (here, next) = (&all[first..first + 2], [all[first + 1], all[first + 2]]);
                let pair: Vec<_> = here.iter().copied().zip(next).take(1).collect();
                let (time, transfer) = times(&topology, here, &pair);
                let group = group_form(&topology, here).unwrap();
                let form = (group, form(&topology, &pair).unwrap());
                match known.iter().find(|(known, ..)| *known == form) {
                    Some((_, a, b)) => assert_eq!((*a, *b), (time, transfer), "{sips} {first}"),
                    None => known.push((form, time, transfer)),
                }
            }
            assert!(known.len() < 4, "{sips}: some groups have equal routes");
        }
    }

    fn times(topology: &Topology, sips: &[SipId], pair: &[(SipId, SipId)]) -> (Span, Span) {
        let work = Workload {
            phase: Phase::Decode,
            batch: 3,
            context: 24,
            chunk: 32,
            dtype: DType::F16,
            weights: DType::F16,
            experts: ExpertPlacement::Split,
            kv: None,
        };
        let text = b"{name: tiny, layers: 2, hidden: 256, ffn: 512, heads: 8, kv_heads: 2, head_dim: 32, vocab: 64}";
        let spec = ModelSpec::read_bytes("tiny", text).unwrap();
        let (topology, notes) = (topology.clone(), Vec::new());
        let config = MeasureConfig { spec, work, topology, layers: 1, positions: None, notes };
        let report = measure_stage(&config, sips, Ends::WHOLE, &mut |_, _| ()).unwrap();
        let cut = Rc::new(report.cut);
        (report.total, boundary::transfer(&config.topology, &cut, pair).unwrap())
    }
}
