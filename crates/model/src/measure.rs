//! Measurement of a model: the whole model is allocated, and one of its identical layers is run.

use std::rc::Rc;

use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig, RuntimeError};
use cubeyard_sim::{Span, Time};

use super::bound::{Demand, Rates};
use super::cut::{Cut, Ends, Workload};
use super::driver::Driver;
use super::error::ModelError;
use super::part::StepPart;
use super::report::{Memory, ModelReport, PartReport};
use super::spec::ModelSpec;
use super::tensors::Tensors;
use super::timeline::{Timeline, positions, sum_between};
use cubeyard_tl::Needs;
use cubeyard_tl::launch::Launcher;

/// Default maximum number of positions at which attention of prefill is run.
const POSITIONS: u64 = 9;

/// Parameters of a measurement.
#[derive(Clone, Debug)]
pub struct MeasureConfig {
    /// Model to measure.
    pub spec: ModelSpec,
    /// Workload of the model.
    pub work: Workload,
    /// Topology of the simulated machine.
    pub topology: Topology,
    /// Number of layers to run; one suffices, because all are identical.
    pub layers: u64,
    /// Maximum number of positions at which attention of prefill is run (default 9). Its time at other positions is
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
        // Each participating PE loads and stores at least once.
        Ok(Needs::commands([2, launches, cut.all()]))
    }
}

/// Measures a model on a new machine. `progress` is called with the number of completed runs and the total number.
pub fn measure(
    config: &MeasureConfig,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ModelReport, ModelError> {
    let sips: Vec<SipId> = config.topology.sips().collect();
    measure_stage(config, &sips, Ends::WHOLE, progress)
}

/// Measures a stage, whose layers are those of `config.spec`, on some of the SIPs of a new machine.
pub(super) fn measure_stage(
    config: &MeasureConfig,
    sips: &[SipId],
    ends: Ends,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ModelReport, ModelError> {
    let topology = config.topology.clone();
    let cut = Cut::new(&config.spec, config.work, &topology, sips.len() as u64)?;
    let cut = Rc::new(cut.with_ends(ends));
    let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
    let tensors = Tensors::new(&context, &cut, sips, None)?;
    let launcher = Launcher::new(&context);
    let at = |cut: &Cut| positions(cut.positions(), config.positions.unwrap_or(POSITIONS));
    let rest = cut.rest.as_deref().map(|rest| Rc::new(rest.clone()));
    let all = at(&cut).len() + rest.as_ref().map_or(0, |rest| at(rest).len());
    let mut done = 0;
    let mut run = |cut: &Rc<Cut>, tensors| -> Result<Measured, ModelError> {
        let mut driver = Driver::over(&launcher, cut, tensors)?;
        let told = &mut || {
            progress(done, all);
            done += 1;
        };
        Measured::new(&mut driver, cut, config, &at(cut), told)
    };
    let mut measured = vec![run(&cut, &tensors.sips)?];
    if let Some(rest) = &rest {
        measured.push(run(rest, &tensors.rest)?);
    }
    progress(all, all);
    let notes = config.notes.clone();
    Ok(ModelReport { notes, ..report(&cut, &measured, tensors.memory)? })
}

/// Runs a step at the first position, with some of its layers. A norm ends the layers of every stage: without a head
/// it stands for the launch that follows.
fn step(driver: &mut Driver<'_>, cut: &Cut, layers: u64) -> Result<Timeline, ModelError> {
    if cut.ends.has_embedding {
        driver.order(StepPart::Embedding, 0, 0)?;
    }
    for layer in 0..layers {
        for part in StepPart::layer(cut) {
            driver.order(part, layer, 0)?;
        }
    }
    driver.order(StepPart::Norm, 0, 0)?;
    if cut.ends.has_head {
        driver.order(StepPart::Head, 0, 0)?;
    }
    Ok(Timeline::new(&driver.finish()?, layers, cut.ends))
}

/// Runs attention alone, at another position.
fn attention_at(driver: &mut Driver<'_>, position: u64) -> Result<Span, ModelError> {
    driver.order(StepPart::Attention, 0, position)?;
    let ran = driver.finish()?;
    Ok(ran[0].launches[0].max())
}

/// Measured times of the sequences of one distribution.
struct Measured {
    cut: Rc<Cut>,
    timeline: Timeline,
    /// Time of attention at each simulated position.
    attention: Vec<(u64, Span)>,
    rates: Rates,
    /// Name of the all-reduce algorithm.
    all_reduce: &'static str,
}

/// Adds up the times of all sequences: of the first distribution, and of the remaining sequences, if any.
fn report(cut: &Cut, measured: &[Measured], memory: Memory) -> Result<ModelReport, ModelError> {
    let mut parts: Vec<PartReport> = Vec::new();
    for part in measured.iter().flat_map(Measured::parts) {
        match parts.iter_mut().find(|known| known.part == part.part) {
            Some(known) => known.add(&part),
            None => parts.push(part),
        }
    }
    let total: Span = measured.iter().map(Measured::total).sum();
    if Time::ZERO + total > Time::HORIZON {
        return Err(RuntimeError::OutOfTime.into());
    }
    let kernels: Span = parts.iter().map(|part| part.total).sum();
    let bytes: u64 = parts.iter().map(|part| part.demand.bytes).sum();
    let [bandwidth_bound, _] = measured[0].rates.least(Demand { bytes, flop: 0 });
    let run = measured.iter().map(|of| of.attention.len() as u64).sum();
    let mut all_reduces: Vec<_> = measured.iter().map(|of| of.all_reduce).collect();
    all_reduces.dedup();
    Ok(ModelReport {
        cut: cut.clone(),
        launches: parts.iter().map(|part| part.count).sum(),
        launching: total - kernels,
        parts,
        total,
        bandwidth_bound,
        memory,
        positions: (run, measured.iter().map(|of| of.cut.positions()).sum()),
        all_reduces,
        notes: Vec::new(),
    })
}

impl Measured {
    /// Runs a step at the first position, and attention at the others. `told` is called before each run.
    fn new(
        driver: &mut Driver<'_>,
        cut: &Rc<Cut>,
        config: &MeasureConfig,
        positions: &[u64],
        told: &mut dyn FnMut(),
    ) -> Result<Self, ModelError> {
        told();
        let timeline = step(driver, cut, config.layers.clamp(1, cut.spec.layers))?;
        let mut attention = vec![(0, timeline.in_layer(StepPart::Attention))];
        for &position in positions.iter().skip(1) {
            told();
            attention.push((position, attention_at(driver, position * cut.each)?));
        }
        let (rates, all_reduce) = (Rates::new(cut, &config.topology), driver.algorithm());
        Ok(Self { cut: Rc::clone(cut), timeline, attention, rates, all_reduce })
    }

    fn parts(&self) -> Vec<PartReport> {
        self.cut.kinds().into_iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: StepPart) -> PartReport {
        let (cut, layers) = (&self.cut, self.cut.spec.layers * self.cut.steps());
        let outside = cut.runs_outside(part);
        let in_layers = match part {
            StepPart::Attention => self.attention(),
            _ => times(self.timeline.in_layer(part), layers),
        };
        let total = in_layers + times(self.timeline.outside(part), outside);
        let (count, demand) = (cut.runs(part), cut.all_demand(part));
        PartReport { part, count, total, demand, least: self.rates.least(demand) }
    }

    /// Returns the time of attention at all positions, in all layers.
    fn attention(&self) -> Span {
        times(sum_between(&self.attention), self.cut.spec.layers * self.cut.rounds())
    }

    /// Returns the total time. All steps take as long as the first, except for attention.
    fn total(&self) -> Span {
        let (timeline, layers) = (&self.timeline, self.cut.spec.layers * self.cut.steps());
        let without = timeline.layer() - timeline.in_layer(StepPart::Attention);
        times(timeline.before(), self.cut.steps())
            + times(without, layers)
            + self.attention()
            + times(timeline.behind(), self.cut.rounds())
    }
}

fn times(span: Span, count: u64) -> Span {
    span * count
}
