//! Everything that the PEs did in a run, operation by operation.

mod lanes;
mod trace;

use std::collections::BTreeMap;

use cubeyard_device::pe::{CoreReport, OpLog, OpRecord};
use cubeyard_device::request::PeRef;
use cubeyard_sim::NodeId;

use super::Lab;
use super::path::Leg;
use super::phase::{Phase, legs};
use crate::launch::Ran;
use crate::program::Operation;

/// What the PEs did in a run, for timelines and traces.
#[derive(Debug)]
pub struct RunLog {
    ops: OpLog,
    ran: Ran,
    phases: Vec<Phase>,
    /// The PEs by their processors.
    pes: BTreeMap<NodeId, PeRef>,
}

impl RunLog {
    /// Takes what was kept.
    pub(super) fn take(lab: &Lab<'_>) -> Self {
        let (ops, ran) = (lab.context.take_ops(), lab.launcher.take_ran());
        let mut this = Self { ops, ran, phases: lab.phases.take(), pes: BTreeMap::new() };
        this.pes = lab.context.machine(|machine| {
            let node = |pe: PeRef| machine.topology().pe_cpu(pe.sip, pe.cube, pe.pe);
            this.cores().map(|&(pe, _)| (node(pe), pe)).collect()
        });
        this
    }

    /// What each PE did, launch by launch.
    fn cores(&self) -> impl DoubleEndedIterator<Item = &(PeRef, CoreReport)> {
        let launches = self.phases.iter().flat_map(|phase| &phase.launches);
        launches.flat_map(|(_, launch)| &launch.cores)
    }

    /// All operations, in the order in which they became known.
    pub fn ops(&self) -> &OpLog {
        &self.ops
    }

    /// What an operation was for; none for a dispatch after the last command.
    pub fn operation(&self, record: &OpRecord) -> Option<Operation> {
        self.ran.get(&(record.request, *self.pes.get(&record.pe)?))?.operation(record)
    }

    /// The steps that led to the end of the run.
    pub(super) fn legs(&self) -> Vec<Leg> {
        legs(&self.phases)
    }
}
