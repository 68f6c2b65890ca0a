//! Measurements of a fabric, before they are text or JSON.

use cubeyard_device::explain::{Explainer, PathStep, explain};
use cubeyard_device::log::FlitLog;
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::RequestId;
use cubeyard_device::probe::{
    Case, CaseReport, Invariant, Pattern, PatternReport, REFERENCE_BYTES, RunError, invariants,
    measure,
};
use cubeyard_device::request::RequestError;
use cubeyard_device::topology::Topology;

/// Observer of a run whose every flit was kept, such as the writer of a trace.
pub type Watcher<'a, E> = &'a dyn Fn(&Machine<FlitLog>) -> Result<(), E>;

/// Critical path of a transfer, with its name.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) name: String,
    pub(super) steps: Vec<NamedStep>,
}

/// A step of a critical path, with the names of its cause and place.
#[derive(Debug)]
pub(super) struct NamedStep {
    pub(super) step: PathStep,
    pub(super) kind: &'static str,
    pub(super) place: String,
    pub(super) behind: Option<usize>,
}

/// Measurements of one case.
#[derive(Debug)]
pub struct ProbedCase {
    pub(super) report: CaseReport,
    pub(super) explained: Option<Explained>,
}

/// Measurements of cases, and the properties that they show.
#[derive(Debug)]
pub struct ProbedCases {
    pub(super) cases: Vec<ProbedCase>,
    pub(super) invariants: Vec<Invariant>,
}

/// Measurements of a pattern.
#[derive(Debug)]
pub struct ProbedPattern {
    pub(super) report: PatternReport,
    pub(super) explained: Vec<Explained>,
}

impl ProbedCase {
    /// Measures a case on fresh machines, and its critical path if `explains`. `watcher` sees the run at the reference
    /// size with every flit.
    ///
    /// # Panics
    /// If the run is interrupted: it takes milliseconds, so do that between cases.
    pub fn measure<E: From<RequestError>>(
        topology: &Topology,
        case: &Case,
        explains: bool,
        watcher: Option<Watcher<'_, E>>,
    ) -> Result<Self, E> {
        let report = measure(topology, case)?;
        if !explains && watcher.is_none() {
            return Ok(Self { report, explained: None });
        }
        let mut machine = MachineBuilder::new(topology.clone()).build_with_flits();
        let id = machine.submit(case.request(&machine, REFERENCE_BYTES)?)?;
        machine.run();
        let steps = named(&machine, &explain(&machine, id).unwrap_or_default());
        watcher.map_or(Ok(()), |watcher| watcher(&machine))?;
        let explained = explains.then(|| Explained { name: case.name.clone(), steps });
        Ok(Self { report, explained })
    }
}

impl ProbedCases {
    /// Checks the properties that cases on a machine of this topology must have.
    pub fn new(topology: &Topology, cases: Vec<ProbedCase>) -> Self {
        let reports: Vec<_> = cases.iter().map(|case| case.report.clone()).collect();
        Self { cases, invariants: invariants(topology, &reports) }
    }

    /// Returns whether all properties hold.
    pub fn holds(&self) -> bool {
        self.invariants.iter().all(|invariant| invariant.holds)
    }
}

impl ProbedPattern {
    /// Runs a pattern on a fresh machine of the topology that it was read for. `watcher` sees the run with every flit.
    pub fn run<E: From<RunError>>(
        topology: &Topology,
        pattern: &Pattern,
        explains: bool,
        watcher: Option<Watcher<'_, E>>,
    ) -> Result<Self, E> {
        let builder = MachineBuilder::new(topology.clone());
        if !explains && watcher.is_none() {
            let report = pattern.run(&mut builder.build())?;
            return Ok(Self { report, explained: Vec::new() });
        }
        let mut machine = builder.build_with_flits();
        let report = pattern.run(&mut machine)?;
        watcher.map_or(Ok(()), |watcher| watcher(&machine))?;
        let explained = if explains { steps_of(&machine, &report) } else { Vec::new() };
        Ok(Self { report, explained })
    }
}

fn steps_of(machine: &Machine<FlitLog>, report: &PatternReport) -> Vec<Explained> {
    let mut explainer = Explainer::new(machine);
    let transfers = report.transfers.iter().enumerate();
    let steps = transfers.map(|(number, transfer)| Explained {
        name: format!("transfer {number}"),
        steps: named(machine, &explainer.explain(transfer.request).unwrap_or_default()),
    });
    steps.collect()
}

/// Adds the names of causes, nodes and links to steps.
fn named(machine: &Machine<FlitLog>, steps: &[PathStep]) -> Vec<NamedStep> {
    let name = |step: &PathStep| {
        let (kind, place, behind) = step.cause.describe(machine);
        NamedStep { step: *step, kind, place, behind: behind.map(RequestId::index) }
    };
    steps.iter().map(name).collect()
}
