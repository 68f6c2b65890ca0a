//! Measurements with critical paths.

use cubeyard_sim::{Span, Time};
use serde::Serialize;

use super::{Case, CaseReport, Pattern, PatternReport, REFERENCE_BYTES, RunError, measure};
use crate::explain::{Explainer, PathStep, explain};
use crate::log::FlitLog;
use crate::machine::{Machine, MachineBuilder};
use crate::message::RequestId;
use crate::request::RequestError;
use crate::serial::{at_ns, ns};
use crate::topology::Topology;

/// Observer of a run with a complete flit log, such as a trace writer.
pub type Watcher<'a, E> = &'a dyn Fn(&Machine<FlitLog>) -> Result<(), E>;

/// Step of a critical path, with the names of its cause and place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedStep {
    /// Beginning of the step.
    #[serde(rename = "start_ns", serialize_with = "at_ns")]
    pub start: Time,
    /// Duration of the step.
    #[serde(rename = "duration_ns", serialize_with = "ns")]
    pub duration: Span,
    /// Cause of the delay, such as `wire`.
    #[serde(rename = "what")]
    pub kind: &'static str,
    /// Node or link of the delay.
    #[serde(rename = "where")]
    pub place: String,
    /// Number of the transfer that caused the wait.
    pub behind: Option<usize>,
}

impl CaseReport {
    /// Measures a case on fresh machines, and finds its critical path if `explains` is set. `watcher` sees the run at
    /// the reference size with every flit.
    ///
    /// # Panics
    /// If the run is interrupted. It takes milliseconds, so interrupt between cases instead.
    pub fn measure<E: From<RequestError>>(
        topology: &Topology,
        case: &Case,
        explains: bool,
        watcher: Option<Watcher<'_, E>>,
    ) -> Result<Self, E> {
        let report = measure(topology, case)?;
        if !explains && watcher.is_none() {
            return Ok(report);
        }
        let mut machine = MachineBuilder::new(topology.clone()).build_with_flits();
        let id = machine.submit(case.request(&machine, REFERENCE_BYTES)?)?;
        machine.run();
        watcher.map_or(Ok(()), |watcher| watcher(&machine))?;
        let steps = explains.then(|| named(&machine, explain(&machine, id)));
        Ok(Self { steps, ..report })
    }
}

impl PatternReport {
    /// Runs a pattern on a fresh machine of the topology that it was read for, and finds critical paths if `explains`
    /// is set. `watcher` sees the run with every flit.
    pub fn measure<E: From<RunError>>(
        topology: &Topology,
        pattern: &Pattern,
        explains: bool,
        watcher: Option<Watcher<'_, E>>,
    ) -> Result<Self, E> {
        let builder = MachineBuilder::new(topology.clone());
        if !explains && watcher.is_none() {
            return Ok(pattern.run(&mut builder.build())?);
        }
        let mut machine = builder.build_with_flits();
        let mut report = pattern.run(&mut machine)?;
        watcher.map_or(Ok(()), |watcher| watcher(&machine))?;
        if explains {
            let mut explainer = Explainer::new(&machine);
            for transfer in &mut report.transfers {
                transfer.steps = Some(named(&machine, explainer.explain(transfer.request)));
            }
        }
        Ok(report)
    }
}

/// Adds the names of causes, nodes and links to steps.
fn named(machine: &Machine<FlitLog>, steps: Option<Vec<PathStep>>) -> Vec<NamedStep> {
    let name = |PathStep { start, end, cause }: PathStep| {
        let (kind, place, behind) = cause.describe(machine);
        let behind = behind.map(RequestId::index);
        NamedStep { start, duration: end - start, kind, place, behind }
    };
    steps.unwrap_or_default().into_iter().map(name).collect()
}
