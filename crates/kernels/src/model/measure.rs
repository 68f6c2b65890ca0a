//! Measures a model: all of it is allocated, and one of its layers, which are all alike, is run.

use std::rc::Rc;

use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Span;

use super::bound::{Demand, Rates};
use super::cut::{Cut, Work};
use super::driver::{Driver, Part, Ran};
use super::error::ModelError;
use super::report::{ModelReport, PartReport};
use super::spec::ModelSpec;
use super::tensors::Tensors;
use crate::launch::Launcher;

/// At most so many positions of prefill are simulated; between them attention is taken to grow evenly.
const POSITIONS: u64 = 9;

/// What is measured.
#[derive(Clone, Debug)]
pub struct MeasureConfig {
    /// The model.
    pub spec: ModelSpec,
    /// What is done.
    pub work: Work,
    /// The machine.
    pub topology: Topology,
    /// How many layers are run, of all that there are; they are all alike, so one will do.
    pub layers: u64,
    /// At how many positions of prefill attention is run at most; 9 if nothing is said.
    pub positions: Option<u64>,
}

/// What was run: a step, with some of its layers.
struct Timeline {
    /// In the order of the step.
    ran: Vec<Ran>,
    /// From the beginning of the first layer until that of what comes behind the last, of each layer.
    layer: Span,
    /// What comes before the layers, until these begin.
    before: Span,
    /// What comes behind them.
    behind: Span,
}

/// Measures a model on a machine of its own. `progress` is told how many of how many launches are done.
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
    let mut driver = Driver::new(&context, &launcher, &cut, &tensors)?;
    let at = positions(cut.positions(), config.positions.unwrap_or(POSITIONS));
    progress(0, at.len());
    let timeline = timeline(&mut driver, &cut, config.layers.clamp(1, cut.spec.layers))?;
    let mut attention = vec![(0, span_of(&timeline.ran, Part::Attention))];
    for (done, &position) in at.iter().enumerate().skip(1) {
        progress(done, at.len());
        driver.order(Part::Attention, 0, position * cut.each)?;
        attention.push((position, span_of(&driver.finish()?, Part::Attention)));
    }
    progress(at.len(), at.len());
    let rates = Rates::new(&cut, &config.topology);
    let mut report = summed(&cut, &timeline, &attention, rates);
    report.memory = tensors.memory;
    Ok(report)
}

/// Runs a step at the first position.
fn timeline(driver: &mut Driver<'_>, cut: &Cut, layers: u64) -> Result<Timeline, ModelError> {
    driver.order(Part::Embedding, 0, 0)?;
    for layer in 0..layers {
        for part in Part::layer(cut.work.phase) {
            driver.order(part, layer, 0)?;
        }
    }
    driver.order(Part::Norm, 0, 0)?;
    driver.order(Part::Head, 0, 0)?;
    let ran = driver.finish()?;
    let (first, last) = (&ran[1], &ran[ran.len() - 2]);
    let layer = Span::from_ps((last.began - first.began).ps() / layers);
    let before = first.began - ran[0].began;
    let behind = ran[ran.len() - 1].ended - last.began;
    Ok(Timeline { layer, before, behind, ran })
}

fn span_of(ran: &[Ran], part: Part) -> Span {
    ran.iter().find(|ran| ran.part == part).map_or(Span::ZERO, Ran::span)
}

/// Some of so many positions, evenly spread, with the first and the last.
fn positions(all: u64, most: u64) -> Vec<u64> {
    let count = all.min(most.max(2));
    (0..count).map(|index| index * (all - 1) / (count - 1).max(1)).collect()
}

/// The sum over all positions of what is known at some, and grows evenly between them.
fn sum_between(known: &[(u64, Span)]) -> Span {
    let mut sum: u64 = known.first().map_or(0, |(_, span)| span.ps());
    for pair in known.windows(2) {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let steps = to - from;
        let rise = high.ps() as f64 - low.ps() as f64;
        // Steps 1 to all of them: the mean of their first and last, each.
        let mean = low.ps() as f64 + rise * (steps as f64 + 1.0) / (2.0 * steps as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let these = (mean * steps as f64).round() as u64;
        sum += these;
    }
    Span::from_ps(sum)
}

/// What the whole takes, from one step and the attention at other positions.
fn summed(cut: &Cut, timeline: &Timeline, attention: &[(u64, Span)], rates: Rates) -> ModelReport {
    let (layers, steps) = (cut.spec.layers, cut.steps());
    let rounds = steps / cut.positions();
    let layer = Part::layer(cut.work.phase);
    let mut parts = Vec::new();
    let mut part = |part: Part, count: u64, total: Span, demand: Demand| {
        parts.push(PartReport { part, count, total, demand, least: rates.least(demand) });
    };
    let times = |span: Span, count: u64| Span::from_ps(span.ps() * count);
    let often = |demand: Demand, count: u64| Demand {
        bytes: demand.bytes * count,
        flop: demand.flop * count,
    };
    let ran = |part| span_of(&timeline.ran, part);
    part(Part::Embedding, steps, times(ran(Part::Embedding), steps), often(cut.demand(Part::Embedding, 0), steps));
    let mut seen = Vec::new();
    for &kind in &layer {
        if seen.contains(&kind) {
            continue;
        }
        seen.push(kind);
        let per_layer = layer.iter().filter(|other| **other == kind).count() as u64;
        // The last norm comes with the head.
        let last = if kind == Part::Norm { rounds } else { 0 };
        let count = per_layer * layers * steps + last;
        let of_layers = in_layers(timeline, kind);
        match kind {
            Part::Attention => {
                let total = times(sum_between(attention), layers * rounds);
                let all = (0..cut.positions()).map(|at| cut.demand(kind, at * cut.each));
                let all = all.fold(Demand::default(), |sum, one| Demand {
                    bytes: sum.bytes + one.bytes,
                    flop: sum.flop + one.flop,
                });
                part(kind, count, total, often(all, layers * rounds));
            }
            _ => {
                let total = times(of_layers, layers * steps) + times(ran(kind), last);
                part(kind, count, total, often(cut.demand(kind, 0), count));
            }
        }
    }
    part(Part::Head, rounds, times(ran(Part::Head), rounds), often(cut.demand(Part::Head, 0), rounds));
    let first = span_of(&timeline.ran, Part::Attention);
    let growth = times(sum_between(attention), layers * rounds).ps()
        - times(first, layers * steps).ps().min(times(sum_between(attention), layers * rounds).ps());
    let total = times(timeline.before, steps)
        + times(timeline.layer, layers * steps)
        + times(timeline.behind, rounds)
        + Span::from_ps(growth);
    let kernels: Span = parts.iter().map(|part| part.total).sum();
    let bytes: u64 = parts.iter().map(|part| part.demand.bytes).sum();
    let [bandwidth_bound, _] = rates.least(Demand { bytes, flop: 0 });
    ModelReport {
        cut: cut.clone(),
        launches: parts.iter().map(|part| part.count).sum(),
        launching: Span::from_ps(total.ps().saturating_sub(kernels.ps())),
        parts,
        total,
        bandwidth_bound,
        memory: super::report::Memory::default(),
        positions: (attention.len() as u64, cut.positions()),
    }
}

/// What a part takes in each layer that was run: all of its kind in it together.
fn in_layers(timeline: &Timeline, part: Part) -> Span {
    let ran = &timeline.ran[1..timeline.ran.len() - 2];
    let layers = ran.iter().filter(|ran| ran.part == Part::Qkv).count() as u64;
    let all: Span = ran.iter().filter(|ran| ran.part == part).map(Ran::span).sum();
    Span::from_ps(all.ps() / layers.max(1))
}
