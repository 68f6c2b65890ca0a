//! Everything that the PEs did in a run, operation by operation.

mod lanes;
mod trace;

use std::collections::BTreeMap;

use cubeyard_device::pe::{OpLog, OpRecord};
use cubeyard_device::request::PeRef;
use cubeyard_runtime::LaunchReport;
use cubeyard_sim::{NodeId, Span};

use super::Lab;
use super::path::Leg;
use crate::launch::Ran;
use crate::program::Operation;
use crate::report::Step;

/// What the PEs did in a run, for timelines and traces.
#[derive(Debug)]
pub struct RunLog {
    ops: OpLog,
    ran: Ran,
    launches: Vec<Launched>,
    /// The PEs by their processors.
    pes: BTreeMap<NodeId, PeRef>,
}

/// A launch and what led to its end.
#[derive(Debug)]
struct Launched {
    kernel: String,
    report: LaunchReport,
    legs: Vec<Leg>,
    /// From the first launch's start to this one's, if they followed each other at once.
    offset: Span,
}

impl RunLog {
    /// Takes what was kept.
    pub(super) fn take(lab: &Lab<'_>) -> Self {
        let mut offset = Span::ZERO;
        let mut launches = Vec::new();
        let done = lab.launches.borrow();
        for ((kernel, report), legs) in done.iter().zip(lab.paths.take()) {
            let (kernel, report) = (kernel.clone(), report.clone());
            let took = report.max();
            launches.push(Launched { kernel, report, legs, offset });
            offset += took;
        }
        let cores = launches.iter().flat_map(|launch| &launch.report.cores);
        let pes = lab.context.machine(|machine| {
            let node = |pe: PeRef| machine.topology().pe_cpu(pe.sip, pe.cube, pe.pe);
            cores.map(|&(pe, _)| (node(pe), pe)).collect()
        });
        Self { ops: lab.context.take_ops(), ran: lab.launcher.take_ran(), launches, pes }
    }

    /// All operations, in the order in which they became known.
    pub fn ops(&self) -> &OpLog {
        &self.ops
    }

    /// What an operation was for; none for a dispatch after the last command.
    pub fn operation(&self, record: &OpRecord) -> Option<Operation> {
        self.ran.get(&(record.request, *self.pes.get(&record.pe)?))?.operation(record)
    }

    /// The steps that led to the end of the run, one launch after the other.
    pub(super) fn legs(&self) -> Vec<Leg> {
        let legs = |launch: &Launched| {
            let offset = launch.offset;
            let shifted = move |leg: &Leg| {
                let step = leg.step.clone();
                let step = Step { start: step.start + offset, end: step.end + offset, ..step };
                Leg { step, ..leg.clone() }
            };
            launch.legs.iter().map(shifted).collect::<Vec<_>>()
        };
        self.launches.iter().flat_map(legs).collect()
    }
}
