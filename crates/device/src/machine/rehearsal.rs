//! Accesses that are tried out on a machine that has nothing else to do.

use std::collections::BTreeMap;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{NodeId, Span};

use super::Machine;
use crate::message::Direction;
use crate::pe::{Command, Dependencies, Dma, Instruction, OpUnit, Program, Work};
use crate::request::{Outcome, PeRef, Request};
use crate::topology::Topology;

/// Finds out what accesses of PEs take alone, rows and all. Those that are alike are tried once.
#[derive(Debug)]
pub struct Rehearsal {
    machine: Machine,
    known: BTreeMap<Key, Option<Span>>,
}

/// What the time of an access depends on: whose it is, the memory, and where it begins among the channels.
type Key = (PeRef, NodeId, u64, Direction, u64, Option<(u64, u64)>);

impl Rehearsal {
    /// On machines such as this.
    pub fn new(topology: &Topology) -> Self {
        Self { machine: Machine::new(topology.clone()), known: BTreeMap::new() }
    }

    /// How long an access takes that has the machine for itself, at a physical address; none if it is not
    /// one that can be made.
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
        let PeRef { sip, cube, pe: number } = pe;
        let (cubes, pes) = (vec![cube], vec![number]);
        let kernel = "rehearsal".to_owned();
        let launch = Request::KernelLaunch { kernel, sip, cubes, pes, work: Span::ZERO };
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

/// A program of one access.
#[derive(Debug)]
struct OneAccess(Option<Dma>);

impl Program for OneAccess {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        let (after, loads_after) = (Dependencies::default(), Dependencies::default());
        let command = |dma| Command { work: Work::Dma(dma), after, loads_after };
        Ok(self.0.take().map(|dma| Instruction::Command(command(dma))))
    }
}
