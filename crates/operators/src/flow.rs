//! Load of links and memories by the accesses of a kernel's PEs.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_device::message::{Direction, Rows};
use cubeyard_device::pe::{Dma, Work};
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{DealOrder, LinkId, Topology};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_tl::Tape;

use crate::places::storage_of;

/// Links of ways, by PE, memory and whether data go to the memory.
type KnownWays = BTreeMap<(usize, usize, bool), Rc<[usize]>>;

/// Links between the PEs and memories of a SIP.
#[derive(Debug)]
pub(crate) struct Ways {
    topology: Topology,
    pes: Vec<PeRef>,
    /// Links of each way that was asked for, by PE, memory and direction.
    known: RefCell<KnownWays>,
    across: OnceCell<u64>,
}

/// Most phases of a kernel.
const PHASES: usize = 16;

/// Accesses of all PEs in phases: PEs begin together, and do as many accesses in a phase as each other.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    phases: Vec<Phase>,
    /// Accesses of each PE, by turn.
    accesses: Vec<(usize, Vec<Dma>)>,
    pes: usize,
    page: u64,
    burst: u64,
}

/// Bytes of the accesses of a phase, by direction, PE and memory, and the bursts of each memory.
#[derive(Clone, Debug)]
struct Phase {
    bytes: Vec<u64>,
    bursts: Vec<u64>,
}

impl Ways {
    pub(crate) fn new(topology: &Topology, sip: SipId) -> Self {
        let spec = topology.spec();
        let (cubes, each) = (spec.cube_count(), spec.pe_count());
        let pe = |turn: u32| {
            let (cube, pe) = match spec.hbm.deal {
                DealOrder::Pes => (turn / each, turn % each),
                DealOrder::Cubes => (turn % cubes, turn / cubes),
            };
            Some(PeRef { sip, cube: CubeId::new(cube).ok()?, pe: PeId::new(pe).ok()? })
        };
        let pes = (0..cubes * each).filter_map(pe).collect();
        Self { topology: topology.clone(), pes, known: RefCell::default(), across: OnceCell::new() }
    }

    pub(crate) fn flow(&self) -> Flow {
        let hbm = &self.topology.spec().hbm;
        let (phases, accesses) = (Vec::new(), Vec::new());
        Flow { phases, accesses, pes: self.pes.len(), page: hbm.page.get(), burst: hbm.burst.get() }
    }

    /// Returns the links of the data from a memory to a PE, or back.
    fn links(&self, pe: usize, memory: usize, writes: bool) -> Rc<[usize]> {
        let mut known = self.known.borrow_mut();
        let find = || {
            let ends = [self.topology.hbm(self.pes[memory]), self.topology.pe_dma(self.pes[pe])];
            let [from, to] = if writes { [ends[1], ends[0]] } else { ends };
            let route = self.topology.route(from, to).unwrap_or_default();
            route.into_iter().map(LinkId::index).collect()
        };
        Rc::clone(known.entry((pe, memory, writes)).or_insert_with(find))
    }

    /// Returns the time of a kernel in picoseconds whose PEs take `alone` without the others. A phase takes an equal part of
    /// that, or as long as its busiest link or memory.
    pub(crate) fn time(&self, flow: &Flow, alone: u64) -> u64 {
        let part = alone / (flow.phases.len() as u64).max(1);
        alone
            + flow
                .phases
                .iter()
                .map(|phase| self.busiest(flow, phase).saturating_sub(part))
                .sum::<u64>()
    }

    /// Returns the time of the busiest link or memory in a phase.
    fn busiest(&self, flow: &Flow, phase: &Phase) -> u64 {
        let links = self.topology.links();
        let mut loads = vec![0_u64; links.len()];
        for (pe, memory, writes, bytes) in phase.pairs(flow.pes) {
            self.links(pe, memory, writes).iter().for_each(|&link| loads[link] += bytes);
        }
        let time = |(link, bytes): (usize, &u64)| links[link].bandwidth.span(*bytes).ps();
        let wires = loads.iter().enumerate().map(time).max().unwrap_or(0);
        let hbm = &self.topology.spec().hbm;
        let rounds = |bursts: &u64| {
            hbm.channel_bandwidth.span(hbm.burst.get()).ps() * bursts.div_ceil(hbm.channels.into())
        };
        wires.max(phase.bursts.iter().map(rounds).max().unwrap_or(0))
    }

    /// Returns the bytes per second of all PEs together if each reads as much from each memory. Every third PE stands for all.
    pub(crate) fn across(&self) -> u64 {
        const BYTES: u64 = 1 << 20;
        *self.across.get_or_init(|| {
            let some = || (0..self.pes.len()).step_by(3);
            let mut phase = Phase {
                bytes: vec![0; 2 * self.pes.len().pow(2)],
                bursts: vec![0; self.pes.len()],
            };
            some().for_each(|pe| {
                some().for_each(|memory| phase.bytes[pe * self.pes.len() + memory] = BYTES);
            });
            let total = BYTES * (some().count() as u64).pow(2);
            let time = self.busiest(&self.flow(), &phase).max(1);
            u64::try_from(u128::from(total) * 1_000_000_000_000 / u128::from(time))
                .unwrap_or(u64::MAX)
                .max(1)
        })
    }

    /// Returns the flits of a flow times the links that each crosses, as a measure of the work to simulate it.
    pub(crate) fn hops(&self, flow: &Flow) -> u64 {
        let flit = self.topology.spec().flit.get();
        let all = flow.phases.iter().flat_map(|phase| phase.pairs(flow.pes));
        all.map(|(pe, memory, writes, bytes)| {
            bytes.div_ceil(flit) * self.links(pe, memory, writes).len() as u64
        })
        .sum()
    }
}

impl Phase {
    /// Returns PE, memory, whether it writes, and bytes of all pairs that exchange some.
    fn pairs(&self, pes: usize) -> impl Iterator<Item = (usize, usize, bool, u64)> {
        let pair =
            move |(at, bytes): (usize, &u64)| (at / pes % pes, at % pes, at >= pes * pes, *bytes);
        self.bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0).map(pair)
    }

    fn add(&mut self, turn: usize, dma: &Dma, [page, burst]: [u64; 2]) {
        let pes = self.bursts.len();
        let rows = dma.rows.unwrap_or(Rows { bytes: dma.bytes, pitch: dma.bytes });
        let (start, writes) =
            (storage_of(dma.address), usize::from(dma.direction == Direction::Write));
        for (offset, bytes) in rows.segments(0, dma.bytes) {
            let (mut at, end) =
                (dma.address + offset - start, dma.address + offset + bytes - start);
            while at < end {
                let next = ((at / page + 1) * page).min(end);
                let memory = usize::try_from(at / page % pes as u64).unwrap_or(0);
                self.bytes[(writes * pes + turn) * pes + memory] += next - at;
                self.bursts[memory] += next.div_ceil(burst) - at / burst;
                at = next;
            }
        }
    }
}

impl Flow {
    /// Returns the bytes moved in the PEs' own memories, and in all.
    pub(crate) fn moved(&self) -> [u64; 2] {
        let all = self.phases.iter().flat_map(|phase| phase.pairs(self.pes));
        all.fold([0, 0], |[own, all], (pe, memory, _, bytes)| {
            [own + if pe == memory { bytes } else { 0 }, all + bytes]
        })
    }

    /// Adds the accesses of a PE's commands.
    pub(crate) fn add_tape(&mut self, turn: usize, tape: &Tape) {
        let mut accesses = Vec::new();
        for command in 0..tape.commands() {
            match tape.work(u32::try_from(command).unwrap_or(u32::MAX)) {
                Work::Dma(dma) => accesses.push(dma),
                Work::Pipeline(pipeline) => {
                    let [loads, _, stores] = pipeline.parts();
                    accesses.extend((0..loads).map(|at| pipeline.load(at)));
                    accesses.extend((0..stores).map(|at| pipeline.store(at)));
                }
                _ => {}
            }
        }
        self.accesses.push((turn, accesses));
    }

    /// Divides the accesses into phases.
    pub(crate) fn end(&mut self) {
        let most = self.accesses.iter().map(|(_, accesses)| accesses.len()).max().unwrap_or(0);
        let phases = most.min(PHASES);
        let phase = || Phase { bytes: vec![0; 2 * self.pes * self.pes], bursts: vec![0; self.pes] };
        self.phases = (0..phases).map(|_| phase()).collect();
        for (turn, accesses) in std::mem::take(&mut self.accesses) {
            for (at, dma) in accesses.iter().enumerate() {
                self.phases[at * phases / most].add(turn, dma, [self.page, self.burst]);
            }
        }
    }
}
