//! Measurement of a model: all of it is allocated, and one of its identical layers is run.

use std::rc::Rc;

use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig, RuntimeError};
use cubeyard_sim::{Span, Time};

use super::bound::{Demand, Rates};
use super::cut::{Cut, Workload};
use super::driver::Driver;
use super::error::ModelError;
use super::part::StepPart;
use super::report::{Memory, ModelReport, PartReport};
use super::spec::ModelSpec;
use super::tensors::Tensors;
use super::timeline::{Timeline, per_layer, positions, sum_between};
use cubeyard_tl::Needs;
use cubeyard_tl::launch::Launcher;

/// Default maximum number of positions at which attention of prefill is run.
const POSITIONS: u64 = 9;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct MeasureConfig {
    /// The measured model.
    pub spec: ModelSpec,
    /// Workload of the model.
    pub work: Workload,
    /// The simulated machine.
    pub topology: Topology,
    /// Number of layers to run; since all are identical, one suffices.
    pub layers: u64,
    /// Maximum number of positions at which attention of prefill is run (default 9). Between them its time is
    /// interpolated linearly.
    pub positions: Option<u64>,
    /// Features of the model that are not simulated, one sentence each; the report repeats them.
    pub notes: Vec<String>,
}

impl MeasureConfig {
    /// Returns the minimum host memory of the measurement.
    pub fn needs(&self) -> Result<Needs, ModelError> {
        let sips = self.topology.sips().count() as u64;
        let cut = Cut::new(&self.spec, self.work, &self.topology, sips)?;
        let positions = cut.positions().min(self.positions.unwrap_or(POSITIONS));
        let layers = self.layers.clamp(1, cut.spec.layers);
        let launches = StepPart::layer(&cut).len() as u64 * layers + positions;
        // Each PE that takes part loads and stores at least once.
        Ok(Needs::commands([2, launches, cut.all()]))
    }
}

/// Measures a model on a machine of its own. `progress` is called with the number of runs done and in all.
pub fn measure(
    config: &MeasureConfig,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ModelReport, ModelError> {
    let topology = config.topology.clone();
    let sips: Vec<SipId> = topology.sips().collect();
    let cut = Rc::new(Cut::new(&config.spec, config.work, &topology, sips.len() as u64)?);
    let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
    let tensors = Tensors::new(&context, &cut, &sips, None)?;
    let launcher = Launcher::new(&context);
    let mut driver = Driver::new(&launcher, &cut, &tensors)?;
    let at = positions(cut.positions(), config.positions.unwrap_or(POSITIONS));
    progress(0, at.len());
    let timeline = step(&mut driver, &cut, config.layers.clamp(1, cut.spec.layers))?;
    let mut attention = vec![(0, timeline.in_layer(StepPart::Attention))];
    for (done, &position) in at.iter().enumerate().skip(1) {
        progress(done, at.len());
        attention.push((position, attention_at(&mut driver, position * cut.each)?));
    }
    progress(at.len(), at.len());
    let rates = Rates::new(&cut, &config.topology);
    let report = Measured { cut: &cut, timeline, attention, rates }.report(tensors.memory)?;
    Ok(ModelReport { notes: config.notes.clone(), ..report })
}

/// Runs a step at the first position, with some of its layers.
fn step(driver: &mut Driver<'_>, cut: &Cut, layers: u64) -> Result<Timeline, ModelError> {
    driver.order(StepPart::Embedding, 0, 0)?;
    for layer in 0..layers {
        for part in StepPart::layer(cut) {
            driver.order(part, layer, 0)?;
        }
    }
    driver.order(StepPart::Norm, 0, 0)?;
    driver.order(StepPart::Head, 0, 0)?;
    Ok(Timeline::new(&driver.finish()?, layers))
}

/// Runs attention alone, at another position.
fn attention_at(driver: &mut Driver<'_>, position: u64) -> Result<Span, ModelError> {
    driver.order(StepPart::Attention, 0, position)?;
    let ran = driver.finish()?;
    Ok(ran[0].launches[0].max())
}

/// Measured times, to be summed up.
struct Measured<'a> {
    cut: &'a Cut,
    timeline: Timeline,
    /// Time of attention at each position that was run.
    attention: Vec<(u64, Span)>,
    rates: Rates,
}

impl Measured<'_> {
    fn report(&self, memory: Memory) -> Result<ModelReport, ModelError> {
        let parts = self.parts();
        let total = self.total();
        if Time::ZERO + total > Time::HORIZON {
            return Err(RuntimeError::OutOfTime.into());
        }
        let kernels: Span = parts.iter().map(|part| part.total).sum();
        let bytes: u64 = parts.iter().map(|part| part.demand.bytes).sum();
        let [bandwidth_bound, _] = self.rates.least(Demand { bytes, flop: 0 });
        Ok(ModelReport {
            cut: self.cut.clone(),
            launches: parts.iter().map(|part| part.count).sum(),
            launching: total - kernels,
            parts,
            total,
            bandwidth_bound,
            memory,
            positions: (self.attention.len() as u64, self.cut.positions()),
            notes: Vec::new(),
        })
    }

    /// Returns the number of passes over all positions, each with a subset of the sequences; each pass ends
    /// with a head.
    fn rounds(&self) -> u64 {
        self.cut.steps() / self.cut.positions()
    }

    fn parts(&self) -> Vec<PartReport> {
        let mut kinds = vec![StepPart::Embedding];
        for part in StepPart::layer(self.cut).into_iter().chain([StepPart::Head]) {
            if !kinds.contains(&part) {
                kinds.push(part);
            }
        }
        kinds.into_iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: StepPart) -> PartReport {
        let (cut, layers) = (self.cut, self.cut.spec.layers * self.cut.steps());
        let outside = match part {
            StepPart::Embedding => cut.steps(),
            StepPart::Norm | StepPart::Head => self.rounds(),
            _ => 0,
        };
        let in_layers = match part {
            StepPart::Attention => self.attention(),
            _ => times(self.timeline.in_layer(part), layers),
        };
        let total = in_layers + times(self.timeline.outside(part), outside);
        let count = per_layer(part, cut) * layers + outside;
        let demand = self.demand(part, count);
        PartReport { part, count, total, demand, least: self.rates.least(demand) }
    }

    /// Returns the demand of all runs of a part. Only attention depends on the position of a step.
    fn demand(&self, part: StepPart, count: u64) -> Demand {
        let (cut, positions) = (self.cut, self.cut.positions());
        if part != StepPart::Attention {
            let Demand { bytes, flop } = cut.demand(part, 0);
            return Demand { bytes: bytes.saturating_mul(count), flop: flop.saturating_mul(count) };
        }
        let demands = (0..positions).map(|at| cut.demand(part, at * cut.each));
        let (bytes, flop) = demands.fold((0, 0), |(bytes, flop): (u64, u64), demand| {
            (bytes.saturating_add(demand.bytes), flop.saturating_add(demand.flop))
        });
        let each = count / positions;
        Demand { bytes: bytes.saturating_mul(each), flop: flop.saturating_mul(each) }
    }

    /// Returns the time of attention at all positions, in all layers.
    fn attention(&self) -> Span {
        times(sum_between(&self.attention), self.cut.spec.layers * self.rounds())
    }

    /// Returns the total time: all steps are like the first, except for attention.
    fn total(&self) -> Span {
        let (timeline, layers) = (&self.timeline, self.cut.spec.layers * self.cut.steps());
        let without = timeline.layer() - timeline.in_layer(StepPart::Attention);
        times(timeline.before(), self.cut.steps())
            + times(without, layers)
            + self.attention()
            + times(timeline.behind(), self.rounds())
    }
}

fn times(span: Span, count: u64) -> Span {
    span * count
}
