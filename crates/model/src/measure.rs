//! Measurement of a model: the whole model is allocated, and one of its identical layers is run, or one of each kind.

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
use super::spec::{ModelSpec, Window};
use super::tensors::Tensors;
use super::timeline::{Timeline, between, positions, sum_between};
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
    /// Number of layers to run of each kind; one suffices, because they are identical.
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
        let of_kind = |cut: &Cut| {
            StepPart::layer(cut).len() as u64 * self.layers.clamp(1, cut.layers) + positions
        };
        let launches = cut.kinds().map(of_kind).sum();
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

/// Measures a stage with the layers of `config.spec` on some of the SIPs of a new machine.
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
    let rest = cut.rest.as_deref().map(|rest| Rc::new(rest.clone()));
    let all = runs(&cut, config) + rest.as_ref().map_or(0, |rest| runs(rest, config));
    let mut done = 0;
    let mut run = |cut: &Rc<Cut>, is_rest| -> Result<Measured, ModelError> {
        let mut driver = Driver::over(&launcher, cut, &tensors.kinds(is_rest))?;
        let told = &mut || {
            progress(done, all);
            done += 1;
        };
        Measured::new(&mut driver, cut, config, told)
    };
    let mut measured = vec![run(&cut, false)?];
    if let Some(rest) = &rest {
        measured.push(run(rest, true)?);
    }
    progress(all, all);
    let notes = config.notes.clone();
    Ok(ModelReport { notes, ..report(&cut, &measured, tensors.memory)? })
}

/// Returns the positions at which attention of a kind of layers is run. The attention of chunks repeats.
fn run_positions(cut: &Cut, config: &MeasureConfig) -> Vec<u64> {
    let all = match cut.window {
        Some(Window::Chunked(tokens)) => cut.positions().min(tokens.div_ceil(cut.each)),
        _ => cut.positions(),
    };
    positions(all, config.positions.unwrap_or(POSITIONS))
}

/// Returns the number of runs: a step, and attention alone at all positions but the first.
fn runs(cut: &Cut, config: &MeasureConfig) -> usize {
    1 + cut.kinds().map(|cut| run_positions(cut, config).len() - 1).sum::<usize>()
}

/// Runs a step at the first position, with some of the layers of each kind. A norm ends the layers of every stage:
/// without a head it stands for the launch that follows.
fn step(driver: &mut Driver<'_>, cut: &Cut, layers: u64) -> Result<Timeline, ModelError> {
    let ends = cut.ends;
    if ends.has_embedding {
        driver.order(StepPart::Embedding, 0, 0)?;
    }
    let mut ran = Vec::new();
    for (kind, cut) in cut.kinds().enumerate() {
        driver.use_kind(kind);
        let (layers, parts) = (layers.clamp(1, cut.layers), StepPart::layer(cut));
        for layer in 0..layers {
            for &part in &parts {
                driver.order(part, layer, 0)?;
            }
        }
        ran.push((layers, parts.len()));
    }
    driver.use_kind(0);
    driver.order(StepPart::Norm, 0, 0)?;
    if ends.has_head {
        driver.order(StepPart::Head, 0, 0)?;
    }
    Ok(Timeline::new(&driver.finish()?, &ran, ends))
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
    /// Time of attention at each simulated position, for each kind of layers.
    attention: Vec<Vec<(u64, Span)>>,
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
    // Kinds of layers may have parts of their own.
    parts.sort_by_key(|part| part.part);
    let total: Span = measured.iter().map(Measured::total).sum();
    if Time::ZERO + total > Time::HORIZON {
        return Err(RuntimeError::OutOfTime.into());
    }
    let kernels: Span = parts.iter().map(|part| part.total).sum();
    let bytes: u64 = parts.iter().map(|part| part.demand.bytes).sum();
    let [bandwidth_bound, _] = measured[0].rates.least(Demand { bytes, flop: 0 });
    let run = measured.iter().flat_map(|of| &of.attention).map(|known| known.len() as u64).sum();
    let positions = |of: &Measured| of.attention.len() as u64 * of.cut.positions();
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
        positions: (run, measured.iter().map(positions).sum()),
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
        told: &mut dyn FnMut(),
    ) -> Result<Self, ModelError> {
        told();
        let timeline = step(driver, cut, config.layers)?;
        let mut attention = Vec::new();
        for (kind, cut) in cut.kinds().enumerate() {
            driver.use_kind(kind);
            let mut known = vec![(0, timeline.in_layer(kind, StepPart::Attention))];
            for position in run_positions(cut, config).into_iter().skip(1) {
                told();
                known.push((position, attention_at(driver, position * cut.each)?));
            }
            attention.push(known);
        }
        let (rates, all_reduce) = (Rates::new(cut, &config.topology), driver.algorithm());
        Ok(Self { cut: Rc::clone(cut), timeline, attention, rates, all_reduce })
    }

    /// Returns the parts of all kinds of layers, each kind's apart.
    fn parts(&self) -> Vec<PartReport> {
        self.cut
            .part_runs()
            .into_iter()
            .map(|(kind, part, count)| self.part(kind, part, count))
            .collect()
    }

    /// Returns the distribution of a kind of layers.
    fn of_kind(&self, kind: usize) -> &Cut {
        if kind == 0 { &self.cut } else { &self.cut.others[kind - 1] }
    }

    fn part(&self, kind: usize, part: StepPart, count: u64) -> PartReport {
        let cut = self.of_kind(kind);
        let layers = cut.layers * cut.steps();
        let outside = if kind == 0 { cut.runs_outside(part) } else { 0 };
        let in_layers = match part {
            StepPart::Attention => self.attention(kind),
            _ => times(self.timeline.in_layer(kind, part), layers),
        };
        let total = in_layers + times(self.timeline.outside(part), outside);
        let demand = cut.all_demand(part, count);
        PartReport { part, count, total, demand, least: self.rates.least_of(part, demand) }
    }

    /// Returns the time of attention at all positions, in all layers of a kind.
    fn attention(&self, kind: usize) -> Span {
        let (cut, known) = (self.of_kind(kind), &self.attention[kind]);
        let at_all = match cut.window {
            Some(Window::Chunked(tokens)) => {
                let of_chunk = |at: u64| between(known, at * cut.each % tokens, cut.each);
                (0..cut.positions()).map(of_chunk).sum()
            }
            _ => sum_between(known),
        };
        times(at_all, cut.layers * cut.rounds())
    }

    /// Returns the total time. All steps take as long as the first, except for attention.
    fn total(&self) -> Span {
        let (timeline, cut) = (&self.timeline, &self.cut);
        let of_kind = |(kind, cut): (usize, &Cut)| {
            let without = timeline.layer(kind) - timeline.in_layer(kind, StepPart::Attention);
            times(without, cut.layers * cut.steps()) + self.attention(kind)
        };
        let layers: Span = cut.kinds().enumerate().map(of_kind).sum();
        times(timeline.before(), cut.steps()) + layers + times(timeline.behind(), cut.rounds())
    }
}

fn times(span: Span, count: u64) -> Span {
    span * count
}
