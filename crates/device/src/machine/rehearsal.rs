//! Latencies of accesses, measured on an idle machine.

use std::collections::BTreeMap;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{NodeId, Span};

use super::Machine;
use crate::message::Direction;
use crate::pe::{Command, Dependencies, Dma, Instruction, OpUnit, Program, Work};
use crate::request::{Outcome, PeRef, Request};
use crate::topology::Topology;

/// Measures unloaded latencies of PE accesses, including rows. Equal accesses are measured once.
#[derive(Debug)]
pub struct Rehearsal {
    machine: Machine,
    known: BTreeMap<Key, Option<Span>>,
}

/// All parameters that the latency depends on, including the channel of the first burst.
type Key = (PeRef, NodeId, u64, Direction, u64, Option<(u64, u64)>);

impl Rehearsal {
    /// Creates a rehearsal on a machine of this topology.
    pub fn new(topology: &Topology) -> Self {
        Self { machine: Machine::new(topology.clone()), known: BTreeMap::new() }
    }

    /// Returns the unloaded latency of an access to a physical address; `None` if the access is invalid.
    pub fn span(&mut self, pe: PeRef, dma: &Dma) -> Option<Span> {
        let address = PhysAddr::from_bits(dma.address).ok()?;
        let hbm = &self.machine.topology().spec().hbm;
        let place = dma.address % (hbm.burst.get() * u64::from(hbm.channels));
        let memory = self.machine.topology().resolve(address).ok()?;
        let rows = dma.rows.map(|rows| (rows.bytes, rows.pitch));
        let key = (pe, memory, place, dma.direction, dma.bytes, rows);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let span = self.measure(pe, dma);
        self.known.insert(key, span);
        span
    }

    fn measure(&mut self, pe: PeRef, dma: &Dma) -> Option<Span> {
        let kernel = "rehearsal".to_owned();
        let launch = Request::KernelLaunch { kernel, on: pe.into(), work: Span::ZERO };
        let launch = self.machine.submit(launch).ok()?;
        self.machine.load(launch, pe, Box::new(OneAccess(Some(*dma))));
        self.machine.run();
        let done = self.machine.completion(launch)?;
        let report = self.machine.view().core_report(launch, pe)?;
        self.machine.retire(launch);
        let unit = match dma.direction {
            Direction::Read => OpUnit::Load,
            Direction::Write => OpUnit::Store,
        };
        matches!(done.outcome, Outcome::Ran { .. }).then_some(report.busy[unit as usize])
    }
}

#[derive(Debug)]
struct OneAccess(Option<Dma>);

impl Program for OneAccess {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        let command = |dma| Command::new(Work::Dma(dma), Dependencies::default());
        Ok(self.0.take().map(|dma| Instruction::Command(command(dma))))
    }
}
