//! The log of operations covers the time of any program without a gap.

use std::collections::VecDeque;
use std::rc::Rc;

use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::Direction;
use cubeyard_device::pe::{
    Command, CommandId, CoreReport, Dma, Instruction, OpLog, OpUnit, Pipeline, Program, Strips,
    Work,
};
use cubeyard_device::request::Request;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{Span, Stop};
use proptest::prelude::*;

/// One step of a random program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Load(u64),
    Store(u64),
    Compute([u64; 4]),
    Pipeline { parts: u32, ahead: u32, work: [u64; 4] },
    Wait(u32),
    Call,
}

#[derive(Debug)]
struct Script {
    steps: VecDeque<(Step, Vec<u32>)>,
    next: CommandId,
    /// Memory of the PE, and of another PE.
    memories: [PhysAddr; 2],
}

impl Script {
    /// Returns the commands at these distances before the next one.
    fn before(&self, distances: &[u32]) -> Vec<CommandId> {
        let mut ids: Vec<_> =
            distances.iter().filter_map(|distance| self.next.checked_sub(distance + 1)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

impl Program for Script {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        let Some((step, distances)) = self.steps.pop_front() else { return Ok(None) };
        let after = self.before(&distances);
        let work = match step {
            Step::Load(bytes) => Work::Dma(dma(Direction::Read, self.memories, bytes)),
            Step::Store(bytes) => Work::Dma(dma(Direction::Write, self.memories, bytes)),
            Step::Compute(work) => Work::Compute(strips(work)),
            Step::Pipeline { parts, ahead, work } => {
                Work::Pipeline(Rc::new(Tiles { parts, ahead, work, memories: self.memories }))
            }
            Step::Wait(distance) => {
                let Some(&id) = self.before(&[distance]).first() else {
                    return Ok(Some(Instruction::Dispatch(1)));
                };
                return Ok(Some(Instruction::Wait(id)));
            }
            Step::Call => return Ok(Some(Instruction::Dispatch(2))),
        };
        self.next += 1;
        Ok(Some(Instruction::Command(match work {
            Work::Pipeline(pipeline) => {
                let (computations, all) = after.split_at(after.len() / 2);
                Command::pipeline(pipeline, all.into(), computations.into())
            }
            work => Command::new(work, after.as_slice().into()),
        })))
    }
}

fn dma(direction: Direction, memories: [PhysAddr; 2], bytes: u64) -> Dma {
    let address = memories[usize::from(bytes.is_multiple_of(3))].to_bits();
    Dma { direction, address, bytes: bytes + 1, rows: None }
}

fn strips([count, fetch, work, store]: [u64; 4]) -> Strips {
    let [fetch, work, store] = [fetch, work, store].map(|ns| Span::from_ps(ns * 1000));
    let unit = if work.ps() > 9000 { OpUnit::Gemm } else { OpUnit::Math };
    Strips { unit, count: u32::try_from(count).unwrap() + 1, fetch, work, store }
}

/// Two loads for each computation, a store for every other.
#[derive(Debug)]
struct Tiles {
    parts: u32,
    ahead: u32,
    work: [u64; 4],
    memories: [PhysAddr; 2],
}

impl Pipeline for Tiles {
    fn parts(&self) -> [u32; 3] {
        [2 * self.parts, self.parts, self.parts / 2]
    }

    fn load(&self, index: u32) -> Dma {
        dma(Direction::Read, self.memories, 512 * u64::from(index % 5) + 255)
    }

    fn load_after(&self, index: u32) -> u32 {
        (index / 2).saturating_sub(self.ahead)
    }

    fn compute(&self, index: u32) -> Strips {
        let [count, fetch, work, store] = self.work;
        let strips = strips([count, fetch, work, if index % 2 == 1 { store } else { 0 }]);
        if index % 3 == 2 { Strips { unit: OpUnit::Math, ..strips } } else { strips }
    }

    fn compute_after(&self, index: u32) -> [u32; 2] {
        [2 * (index + 1), (index / 2).saturating_sub(1)]
    }

    fn compute_after_other(&self, index: u32) -> u32 {
        index
    }

    fn store(&self, index: u32) -> Dma {
        dma(Direction::Write, self.memories, 256 * u64::from(index % 3) + 100)
    }

    fn store_after(&self, index: u32) -> u32 {
        2 * (index + 1)
    }
}

fn machine(engines: u32, compute: &str) -> Machine {
    let core = format!(
        "{{window: 6, dma_read_engines: {engines}, dma_write_engines: {engines}, compute_engines: {compute}}}"
    );
    let topology = Topology::read("test", &format!("pe: {{core: {core}}}")).unwrap();
    let machine = MachineBuilder::new(topology).build();
    machine.keep_ops();
    machine
}

fn run(machine: &mut Machine, steps: &[(Step, Vec<u32>)]) -> CoreReport {
    let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
    let (kernel, work) = ("random".into(), Span::ZERO);
    let request = Request::KernelLaunch { kernel, on: pe.into(), work };
    let other = machine.view().pe("sip0.cube1.pe3").unwrap();
    let memories = [pe, other].map(|pe| machine.view().hbm_address(pe, 0).unwrap());
    let launch = machine.submit(request).unwrap();
    let script = Script { steps: steps.iter().cloned().collect(), next: 0, memories };
    machine.load(launch, pe, Box::new(script));
    assert_eq!(machine.run(), Stop::Idle);
    machine.view().core_report(launch, pe).unwrap()
}

/// Checks that the cause of each wait ended when the operation began, or one scheduler nanosecond earlier, or is the
/// previous stage of the same computation.
fn check_reasons(log: &OpLog) {
    for record in log.records() {
        for (at, reason) in [(record.start, record.began), (record.from, record.ended)] {
            let Some(before) = reason.before else {
                assert_eq!(record.unit, OpUnit::Cpu, "only the first dispatch waits for nothing");
                continue;
            };
            let before = log.records()[before as usize];
            let same = (before.command, before.part) == (record.command, record.part);
            let overhead = at.ps().saturating_sub(before.end.ps());
            assert!(overhead == 0 || overhead == 1000, "{record:?} after {before:?}");
            assert!(before.end <= at || same && before.start < at, "{record:?} after {before:?}");
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, Vec<u32>)>> {
    let work = || [0..6_u64, 0..20_u64, 0..20_u64, 0..20_u64];
    let step = prop_oneof![
        (0..20_000_u64).prop_map(Step::Load),
        (0..20_000_u64).prop_map(Step::Store),
        work().prop_map(Step::Compute),
        (1..90_u32, 1..4_u32, work()).prop_map(|(parts, ahead, work)| Step::Pipeline {
            parts,
            ahead,
            work
        }),
        (0..4_u32).prop_map(Step::Wait),
        Just(Step::Call),
    ];
    proptest::collection::vec((step, proptest::collection::vec(0..9_u32, 0..3)), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_time_to_the_end_of_a_program_has_no_gap(
        engines in 1..4_u32,
        compute in prop_oneof![Just("shared"), Just("separate")],
        steps in steps(),
    ) {
        let mut machine = machine(engines, compute);
        let report = run(&mut machine, &steps);
        let log = machine.view().ops();
        check_reasons(&log);
        let last = log.last(|_| true).unwrap();
        let mut at = report.ended;
        for stretch in log.path(last, report.ended) {
            prop_assert_eq!(stretch.end, at);
            prop_assert!(stretch.start < stretch.end);
            at = stretch.start;
        }
        prop_assert_eq!(at, report.started);
    }
}
