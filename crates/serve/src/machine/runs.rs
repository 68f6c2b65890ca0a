//! Simulations of parts of a step.

use std::rc::Rc;

use cubeyard_model::report::{Memory, ModelReport};
use cubeyard_model::spec::LayerKind;
use cubeyard_model::{
    Cut, Driver, MeasureConfig, ModelError, Phase, StepPart, Tensors, Workload, measure,
};
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_tl::launch::Launcher;
use cubeyard_units::Span;

use super::ServedModel;

/// Context with which the parts of a decode step are simulated that do not depend on it.
const CONTEXT: u64 = 2048;

/// Times of a simulated step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base {
    /// Time of all parts but attention and head, with the launches between them.
    pub(super) rest: Span,
    /// Time of attention in all layers.
    pub(super) attention: Span,
    /// Time of the head.
    pub(super) head: Span,
    /// Mean time between the end of a part and the start of the next.
    pub(super) gap: Span,
}

impl Base {
    fn of(report: &ModelReport) -> Self {
        let part =
            |part| report.parts.iter().find(|it| it.part == part).map_or(Span::ZERO, |it| it.total);
        let (attention, head) = (part(StepPart::Attention), part(StepPart::Head));
        let gap = Span::from_ps(report.launching.ps() / report.launches.max(1));
        Self { rest: report.total - attention - head, attention, head, gap }
    }
}

/// Simulations of a model on a machine.
pub(super) struct Runs<'a> {
    model: &'a ServedModel,
    count: u64,
    /// Number of PEs that share a prompt, or 0 before it is known.
    unit: u64,
}

impl<'a> Runs<'a> {
    pub(super) fn new(model: &'a ServedModel) -> Self {
        Self { model, count: 0, unit: 0 }
    }

    /// Returns the model.
    pub(super) fn model(&self) -> &'a ServedModel {
        self.model
    }

    /// Returns the number of simulations so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of layers.
    pub(super) fn layers(&self) -> u64 {
        self.model.spec.layers
    }

    /// Returns the number of PEs that share a prompt. The tokens of a part of a prompt are padded to a multiple of it.
    pub(super) fn unit(&mut self) -> Result<u64, ModelError> {
        if self.unit == 0 {
            let model = self.model;
            let sips = model.topology.sips().count() as u64;
            let work = model.work(Phase::Decode, 1, 1);
            self.unit = Cut::new(&model.spec, work, &model.topology, sips)?.units();
        }
        Ok(self.unit)
    }

    /// Simulates a decode step.
    pub(super) fn decode(&mut self, batch: u64) -> Result<Base, ModelError> {
        self.step(self.model.work(Phase::Decode, batch, CONTEXT)).map(|report| Base::of(&report))
    }

    /// Simulates a step with the beginning of a prompt, whose tokens are a multiple of [`unit`](Self::unit).
    pub(super) fn prefill(&mut self, tokens: u64) -> Result<Base, ModelError> {
        let report = self.step(self.model.work(Phase::Prefill, 1, tokens))?;
        Ok(Base::of(&report))
    }

    /// Allocates the model for a step with this many tokens of a prompt, and returns its memory use.
    pub(super) fn memory(&self, tokens: u64) -> Result<Memory, ModelError> {
        let topology = self.model.topology.clone();
        let sips: Vec<_> = topology.sips().collect();
        let work = self.model.work(Phase::Prefill, 1, tokens);
        let cut = Cut::new(&self.model.spec, work, &topology, sips.len() as u64)?;
        let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
        Ok(Tensors::new(&context, &cut, &sips, None)?.memory)
    }

    fn step(&mut self, work: Workload) -> Result<ModelReport, ModelError> {
        let config = MeasureConfig {
            spec: self.model.spec.clone(),
            work,
            topology: self.model.topology.clone(),
            layers: 1,
            positions: None,
            notes: Vec::new(),
        };
        self.count += 1;
        measure(&config, &mut |_, _| ())
    }

    /// Simulates attention of one layer of each kind, and returns its time in all layers: of `count` sequences with
    /// `length` tokens each, or of `count` tokens of a prompt after `length` others, which are a multiple of `count`.
    pub(super) fn attention(
        &mut self,
        phase: Phase,
        count: u64,
        length: u64,
    ) -> Result<Span, ModelError> {
        let (work, position) = match phase {
            Phase::Decode => (self.model.work(phase, count, length), 0),
            Phase::Prefill => {
                let work = self.model.work(phase, 1, length + count);
                (Workload { chunk: count, ..work }, length)
            }
        };
        let topology = self.model.topology.clone();
        let sips: Vec<_> = topology.sips().collect();
        // One layer of each kind is allocated and run.
        let kinds = self.model.spec.kinds(work.context);
        let single: Vec<_> = kinds.iter().map(|kind| LayerKind { layers: 1, ..*kind }).collect();
        let spec = self.model.spec.of_kinds(&single);
        let cut = Rc::new(Cut::new(&spec, work, &topology, sips.len() as u64)?);
        let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
        let tensors = Tensors::new(&context, &cut, &sips, None)?;
        let launcher = Launcher::new(&context);
        let mut driver = Driver::new(&launcher, &cut, &tensors)?;
        let mut all = Span::ZERO;
        for (index, kind) in kinds.iter().enumerate() {
            driver.use_kind(index);
            driver.order(StepPart::Attention, 0, position)?;
            let ran = driver.finish()?;
            all += ran[0].launches[0].max() * kind.layers;
        }
        self.count += 1;
        Ok(all)
    }
}
