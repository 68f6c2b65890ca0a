//! Runs a bench, and reports its time and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cubeyard_device::pe::OpUnit;
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Span;

use super::limit::{breakdown, limit};
use super::peaks::{self, dispatch, peak_bandwidth, peak_rate, recorded};
use super::phase::{self, Phase};
use super::{Bench, BenchError, Lab, Outcome, Parameter, RunLog, Value, Values, Work};
use crate::report::{self, Answer, RunReport, Traffic, UnitUse};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::program::Finding;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Topology of the simulated machine.
    pub topology: Topology,
    /// Parameter settings, as `name=value`.
    pub set: Vec<String>,
    /// Whether results are computed and checked.
    pub data: bool,
    /// Whether kernels are recorded or run live.
    pub mode: Mode,
    /// SIPs to use; if empty, all SIPs for benches that span SIPs, and the first for others.
    pub sips: Vec<SipId>,
    /// Whether every operation is recorded, for the timeline and the critical path.
    pub ops: bool,
}

/// Results of a run.
#[derive(Debug)]
pub struct Run {
    /// Times, bounds and critical path.
    pub report: RunReport,
    /// Defects found in kernels that ran to completion.
    pub findings: Vec<Finding>,
    /// Every operation, if they were recorded.
    pub log: Option<RunLog>,
    /// Everything on which the results depend.
    pub inputs: RunInputs,
    /// Hash of the order of all events of the machine until the end of its last launch.
    pub order_hash: u64,
}

/// Resolved inputs of a run, with the defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInputs {
    /// Name of the bench.
    pub bench: String,
    /// Values of the parameters, in the order of the parameters.
    pub values: Vec<(String, Value)>,
    /// Hash of the machine, from [`Topology::content_hash`].
    pub topology: String,
    /// Whether results were computed.
    pub data: bool,
    /// Whether kernels ran live.
    pub live: bool,
    /// SIPs on which the bench ran.
    pub sips: Vec<SipId>,
}

impl RunInputs {
    /// Resolves the inputs of a run, without running it.
    pub fn new(bench: &dyn Bench, config: &RunConfig) -> Result<Self, BenchError> {
        let parameters = bench.parameters();
        let values = Values::new(bench.name(), &parameters, &config.set)?;
        let value = |it: &Parameter| (it.name.to_string(), values.value(&it.name).clone());
        Ok(Self {
            bench: bench.name().to_owned(),
            values: parameters.iter().map(value).collect(),
            topology: config.topology.content_hash().to_string(),
            data: config.data,
            live: bench.needs_data() || config.mode == Mode::Live,
            sips: sips(bench, config),
        })
    }
}

impl Run {
    /// Draws the page of the report, with every operation if they were recorded.
    pub fn page(&self) -> String {
        self.page_with(None)
    }

    /// Draws the page with an answer first.
    pub fn page_with(&self, answer: Option<&Answer>) -> String {
        let timeline = self.log.as_ref().map(RunLog::timeline);
        report::page_with(&self.report, timeline.as_ref(), answer)
    }

    /// Returns whether there are no findings and no wrong results.
    pub fn is_well(&self) -> bool {
        let failed = self.report.assertions.as_ref().is_some_and(Result::is_err);
        self.findings.is_empty() && !failed && self.report.check.is_none_or(|check| check.passed())
    }
}

/// Rejects a run whose parameters imply more host memory than `limit`.
///
/// The estimate is a lower bound: a rejected run would not have fitted.
pub fn check_memory(bench: &dyn Bench, config: &RunConfig, limit: Bytes) -> Result<(), BenchError> {
    let values = Values::new(bench.name(), &bench.parameters(), &config.set)?;
    let sips = sips(bench, config).len() as u64;
    bench.needs(&values, &config.topology, sips).within(limit, config.data)?;
    Ok(())
}

/// Runs a bench on a new machine.
pub fn run(bench: &dyn Bench, config: &RunConfig) -> Result<Run, BenchError> {
    let parameters = bench.parameters();
    let values = Values::new(bench.name(), &parameters, &config.set)?;
    if bench.needs_data() && !config.data {
        return Err(BenchError::NeedsData(bench.name().to_owned()));
    }
    let inputs = RunInputs::new(bench, config)?;
    let (topology, data) = (config.topology.clone(), config.data);
    let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
    if config.ops {
        context.keep_ops();
    }
    let mode = if inputs.live { Mode::Live } else { Mode::Recorded };
    let launcher = Rc::new(Launcher::with_mode(&context, mode).keep_launched());
    let sips = inputs.sips.clone();
    let lab = Lab {
        context,
        launcher,
        has_data: data,
        sips,
        phases: Rc::default(),
        order_hash: Rc::default(),
        memories: Rc::default(),
    };
    let outcome = bench.run(&lab, &values)?;
    lab.settle()?;
    if lab.phases.borrow().is_empty() {
        return Err(BenchError::NothingLaunched(bench.name().to_owned()));
    }
    let findings = lab.launcher.findings();
    let mut report = report(&lab, &outcome, &config.topology);
    let log = config.ops.then(|| RunLog::take(&lab));
    explain(&mut report, log.as_ref());
    bench.name().clone_into(&mut report.bench);
    bench.summary().clone_into(&mut report.summary);
    report.parameters = values.shown(&parameters);
    Ok(Run { report, findings, log, inputs, order_hash: lab.order_hash.get() })
}

/// Adds the critical path, if operations were recorded, and the limiting factor.
fn explain(report: &mut RunReport, log: Option<&RunLog>) {
    let legs = log.map(RunLog::legs).unwrap_or_default();
    report.limited_by = limit(report, &legs);
    report.critical = legs.into_iter().map(|leg| leg.step).collect();
    report.breakdown = breakdown(&report.critical);
    report.lanes = log.map(RunLog::lanes).unwrap_or_default();
}

/// Returns a SIP of a machine by its number; the error names the existing SIPs.
pub fn sip(topology: &Topology, number: u32) -> Result<SipId, String> {
    let there = topology.sips().count();
    topology
        .sips()
        .find(|sip| sip.number() == number)
        .ok_or_else(|| format!("the machine has no sip:{number}; it has {there}, from sip:0 on"))
}

/// Returns the selected SIPs, or the default of the bench.
pub(super) fn sips(bench: &dyn Bench, config: &RunConfig) -> Vec<SipId> {
    let count = if bench.spans_sips() { usize::MAX } else { 1 };
    if config.sips.is_empty() {
        config.topology.sips().take(count).collect()
    } else {
        config.sips.clone()
    }
}

fn report(lab: &Lab, outcome: &Outcome, topology: &Topology) -> RunReport {
    let phases = lab.phases.borrow();
    let kernel = phase::whole(&phases);
    let launches = || phases.iter().flat_map(|phase| &phase.launches);
    let cores = || launches().flat_map(|(_, launch)| &launch.cores);
    let pes = cores().map(|(pe, _)| *pe).collect::<BTreeSet<_>>().len();
    let traffic = Traffic {
        read: cores().map(|(_, core)| core.moved[0]).sum(),
        written: cores().map(|(_, core)| core.moved[1]).sum(),
    };
    let busiest = |unit| busy(&phases, unit).into_values().max();
    let (work, mut bounds) = match &outcome.work {
        stated if *stated != Work::default() => (stated.clone(), Vec::new()),
        _ => (moved(lab, &traffic, &phases), recorded(busiest)),
    };
    bounds.extend(peaks::bounds(&work, topology, pes as u64));
    bounds.extend(busiest(OpUnit::Cpu).and_then(dispatch));
    RunReport {
        machine: machine(topology),
        pes,
        kernel,
        host: phase::host(&phases),
        traffic,
        flop: work.gemm.map_or(work.elements, |(_, flop)| flop),
        peak_rate: peak_rate(&work, topology) * pes as f64,
        peak_bandwidth: peak_bandwidth(&work, topology, pes as u64),
        bounds,
        units: units(&phases, kernel),
        check: outcome.check,
        assertions: outcome.assertions.clone(),
        launches: phases.iter().map(|phase| (phase.name(), phase.span())).collect(),
        notes: [outcome.notes.clone(), idle(lab, &phases)].concat(),
        ..RunReport::default()
    }
}

/// Returns the bytes moved by kernels without messages, as the work of a bench that states none. Messages are counted
/// among these bytes, but need not enter or leave a memory.
fn moved(lab: &Lab, traffic: &Traffic, phases: &[Phase]) -> Work {
    let messages = [OpUnit::Send, OpUnit::Receive].into_iter().flat_map(|it| busy(phases, it));
    let bytes = match messages.map(|(_, busy)| busy).sum() {
        Span::ZERO => traffic.read + traffic.written,
        _ => 0,
    };
    Work { bytes, memories: Some(lab.memories.get()), ..Work::default() }
}

/// Returns remarks on the SIPs that were idle.
fn idle(lab: &Lab, phases: &[Phase]) -> Vec<String> {
    let launches = || phases.iter().flat_map(|phase| &phase.launches);
    let ran = |sip: &SipId| launches().any(|(_, it)| it.pes.iter().any(|(pe, _)| pe.sip == *sip));
    let idle = lab.sips.iter().filter(|sip| !ran(sip));
    idle.map(|sip| format!("{sip} has nothing to do in this bench")).collect()
}

/// Formats e.g. `2 SIPs × 16 cubes × 8 PEs`.
fn machine(topology: &Topology) -> String {
    let (sips, cubes, pes) =
        (topology.sips().count(), topology.cubes().count(), topology.pes().count());
    format!("{sips} SIPs × {cubes} cubes × {pes} PEs")
}

/// Returns the utilisation of the units of the PEs.
fn units(phases: &[Phase], kernel: Span) -> Vec<UnitUse> {
    let share = |busy: Span| {
        if kernel == Span::ZERO { 0.0 } else { busy.ps() as f64 / kernel.ps() as f64 }
    };
    let mut units = Vec::new();
    for unit in OpUnit::ALL {
        let by_pe = busy(phases, unit);
        let all: Span = by_pe.values().copied().sum();
        // The first of several equal PEs.
        let most = by_pe.iter().rev().max_by_key(|(_, busy)| **busy);
        let Some((busiest, most)) = most else { continue };
        if all > Span::ZERO {
            units.push(UnitUse {
                unit: unit.name().to_owned(),
                mean: share(all) / by_pe.len() as f64,
                max: share(*most),
                busiest: busiest.to_string(),
            });
        }
    }
    units
}

/// Returns the busy time of a unit of each PE, over all launches; a PE runs one launch at a time.
fn busy(phases: &[Phase], unit: OpUnit) -> BTreeMap<PeRef, Span> {
    let mut by_pe = BTreeMap::new();
    let launches = phases.iter().flat_map(|phase| &phase.launches);
    for (pe, core) in launches.flat_map(|(_, launch)| &launch.cores) {
        *by_pe.entry(*pe).or_insert(Span::ZERO) += core.busy[unit as usize];
    }
    by_pe
}
