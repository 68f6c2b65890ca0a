//! All operations of the PEs in a run.

mod lanes;
mod timeline;
mod trace;

use std::collections::BTreeMap;

use cubeyard_device::pe::{CoreReport, OpLog, OpRecord};
use cubeyard_device::request::PeRef;
use cubeyard_sim::{NodeId, Time};

use super::Lab;
use super::path::Leg;
use super::phase::{Phase, legs};
use cubeyard_tl::program::{OpDescription, Ran};

/// All operations of the PEs in a run, for timelines and traces.
#[derive(Debug)]
pub struct RunLog {
    ops: OpLog,
    ran: Ran,
    phases: Vec<Phase>,
    /// PEs by the node of their processor.
    pes: BTreeMap<NodeId, PeRef>,
}

impl RunLog {
    /// Takes the recorded operations.
    pub(super) fn take(lab: &Lab) -> Self {
        let (ops, ran) = (lab.context.take_ops(), lab.launcher.take_ran());
        let mut this = Self { ops, ran, phases: lab.phases.take(), pes: BTreeMap::new() };
        this.pes = lab.context.machine(|machine| {
            let node = |pe: PeRef| machine.topology().pe_cpu(pe);
            this.cores().map(|&(pe, _)| (node(pe), pe)).collect()
        });
        this
    }

    /// Returns the reports of all PEs, launch by launch.
    fn cores(&self) -> impl DoubleEndedIterator<Item = &(PeRef, CoreReport)> {
        let launches = self.phases.iter().flat_map(|phase| &phase.launches);
        launches.flat_map(|(_, launch)| &launch.cores)
    }

    /// Returns all operations in the order in which they were recorded.
    pub fn ops(&self) -> &OpLog {
        &self.ops
    }

    /// Describes an operation in terms of its kernel; `None` for a dispatch after the last command.
    pub fn operation(&self, record: &OpRecord) -> Option<OpDescription> {
        self.ran.get(&(record.request, *self.pes.get(&record.pe)?))?.operation(record)
    }

    /// Returns the start of the first launch.
    pub(super) fn started(&self) -> Time {
        self.phases.first().map_or(Time::ZERO, Phase::started)
    }

    /// Returns the PE of an operation.
    pub(super) fn pe(&self, record: &OpRecord) -> Option<PeRef> {
        self.pes.get(&record.pe).copied()
    }

    /// Returns the critical path of the run.
    pub(super) fn legs(&self) -> Vec<Leg> {
        legs(&self.phases)
    }
}
