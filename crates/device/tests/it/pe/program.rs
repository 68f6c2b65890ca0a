//! Random programs as data, for the machine and for the reference.

use std::collections::VecDeque;
use std::rc::Rc;

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{
    self, Command, Dma, Instruction, OpUnit, Pipeline, Program, Strips, Work,
};
use cubeyard_sim::Span;
use proptest::prelude::*;

/// Costs of a PE in picoseconds, and its numbers of engines for reads and for writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) dispatch: u64,
    pub(crate) overhead: u64,
    pub(crate) window: usize,
    pub(crate) engines: [usize; 2],
    /// Whether GEMM and MATH are two engines.
    pub(crate) separate: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Task(Task),
    Wait(usize),
    Fence,
    Calls(u32),
}

/// A command.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) work: TaskWork,
    pub(crate) after: Vec<usize>,
    /// Further commands that the computations and stores of a pipeline wait for.
    pub(crate) computes_after: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum TaskWork {
    Load(u64),
    Store(u64),
    Compute(Compute),
    Pipeline(Pipe),
}

/// Strips of a computation, their unit, and the duration of each stage in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compute {
    pub(crate) math: bool,
    pub(crate) count: u32,
    pub(crate) each: [u64; 3],
}

/// A tiled operation: output tiles of several steps, each with a number of loads, and optionally an epilogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipe {
    pub(crate) outs: usize,
    pub(crate) steps: usize,
    pub(crate) loads: usize,
    pub(crate) ahead: usize,
    pub(crate) stores: bool,
    pub(crate) bytes: u64,
    pub(crate) compute: Compute,
    pub(crate) epilogue: Option<Compute>,
}

impl Pipe {
    /// Returns the number of computations of an output tile.
    fn per_out(&self) -> usize {
        self.steps + usize::from(self.epilogue.is_some())
    }

    /// Returns the index of a step's computation among all output tiles.
    fn step(&self, step: usize) -> usize {
        step / self.steps * self.per_out() + step % self.steps
    }
}

/// A part of a command that is an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Load(usize),
    Store(usize),
}

impl Task {
    /// Returns the numbers of loads, computations and stores.
    pub(crate) fn counts(&self) -> [usize; 3] {
        match self.work {
            TaskWork::Load(_) => [1, 0, 0],
            TaskWork::Store(_) => [0, 0, 1],
            TaskWork::Compute(_) => [0, 1, 0],
            TaskWork::Pipeline(pipe @ Pipe { outs, steps, loads, stores, .. }) => {
                [outs * steps * loads, outs * pipe.per_out(), if stores { outs } else { 0 }]
            }
        }
    }

    pub(crate) fn compute(&self, index: usize) -> Compute {
        match self.work {
            TaskWork::Compute(compute) => compute,
            TaskWork::Pipeline(pipe) => {
                let is_step = index % pipe.per_out() < pipe.steps;
                pipe.epilogue.filter(|_| !is_step).unwrap_or(pipe.compute)
            }
            _ => unreachable!("an access computes nothing"),
        }
    }

    pub(crate) fn load_after(&self, index: usize) -> usize {
        match self.work {
            TaskWork::Pipeline(pipe) => {
                let steps = (index / pipe.loads + 1).saturating_sub(pipe.ahead);
                steps.checked_sub(1).map_or(0, |last| pipe.step(last) + 1)
            }
            _ => 0,
        }
    }

    pub(crate) fn compute_after(&self, index: usize) -> [usize; 2] {
        match self.work {
            TaskWork::Pipeline(pipe) => {
                let (out, step) = (index / pipe.per_out(), index % pipe.per_out());
                let stores = if pipe.stores { out.saturating_sub(1) } else { 0 };
                [(out * pipe.steps + (step + 1).min(pipe.steps)) * pipe.loads, stores]
            }
            _ => [0; 2],
        }
    }

    /// Returns the number of computations that must be done before one that needs the other engine: an epilogue waits for the
    /// steps of its tile, and a step until the epilogue of the tile before the previous one is done.
    pub(crate) fn compute_after_other(&self, index: usize) -> usize {
        match self.work {
            TaskWork::Pipeline(pipe) => {
                let (out, step) = (index / pipe.per_out(), index % pipe.per_out());
                if step == pipe.steps { index } else { out.saturating_sub(1) * pipe.per_out() }
            }
            _ => 0,
        }
    }

    pub(crate) fn store_after(&self, index: usize) -> usize {
        match self.work {
            TaskWork::Pipeline(pipe) => (index + 1) * pipe.per_out(),
            _ => 0,
        }
    }

    fn command(&self, address: u64) -> Command {
        let ids = |list: &[usize]| list.iter().map(|&id| small(id)).collect::<Vec<_>>();
        let dma = |direction, bytes| Work::Dma(Dma { direction, address, bytes, rows: None });
        let work = match self.work {
            TaskWork::Load(bytes) => dma(Direction::Read, bytes),
            TaskWork::Store(bytes) => dma(Direction::Write, bytes),
            TaskWork::Compute(compute) => Work::Compute(strips(compute)),
            TaskWork::Pipeline(_) => Work::Pipeline(Rc::new(Tiled { task: self.clone(), address })),
        };
        let (after, computes_after) = (ids(&self.after), ids(&self.computes_after));
        let (after, computes_after) = (after.as_slice().into(), computes_after.as_slice().into());
        match work {
            Work::Pipeline(pipeline) => Command::pipeline(pipeline, after, computes_after),
            work => Command::new(work, after),
        }
    }
}

/// Converts the number of a command or a part; programs are short.
fn small(number: usize) -> u32 {
    u32::try_from(number).expect("programs are short")
}

fn strips(compute: Compute) -> Strips {
    let [fetch, work, store] = compute.each.map(Span::from_ps);
    let unit = if compute.math { OpUnit::Math } else { OpUnit::Gemm };
    Strips { unit, count: compute.count, fetch, work, store }
}

/// A pipeline in the form of the machine.
#[derive(Debug)]
struct Tiled {
    task: Task,
    address: u64,
}

impl Tiled {
    fn dma(&self, direction: Direction) -> Dma {
        let TaskWork::Pipeline(pipe) = self.task.work else { unreachable!("a pipeline") };
        Dma { direction, address: self.address, bytes: pipe.bytes, rows: None }
    }
}

impl Pipeline for Tiled {
    fn parts(&self) -> [u32; 3] {
        self.task.counts().map(small)
    }

    fn load(&self, _: u32) -> Dma {
        self.dma(Direction::Read)
    }

    fn load_after(&self, index: u32) -> u32 {
        small(self.task.load_after(index as usize))
    }

    fn compute(&self, index: u32) -> Strips {
        strips(self.task.compute(index as usize))
    }

    fn compute_after(&self, index: u32) -> [u32; 2] {
        self.task.compute_after(index as usize).map(small)
    }

    fn compute_after_other(&self, index: u32) -> u32 {
        small(self.task.compute_after_other(index as usize))
    }

    fn store(&self, _: u32) -> Dma {
        self.dma(Direction::Write)
    }

    fn store_after(&self, index: u32) -> u32 {
        small(self.task.store_after(index as usize))
    }
}

/// A program in the form of the machine, whose accesses share one memory range.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(crate) steps: VecDeque<Step>,
    pub(crate) address: u64,
}

impl Program for Steps {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        Ok(self.steps.pop_front().map(|step| match step {
            Step::Task(task) => Instruction::Command(task.command(self.address)),
            Step::Wait(id) => Instruction::Wait(small(id)),
            Step::Fence => Instruction::Fence,
            Step::Calls(count) => Instruction::Dispatch(count),
        }))
    }
}

/// Returns the part of a command that a log record describes, if it is an access.
pub(crate) fn access_of(part: pe::CommandPart, unit: OpUnit) -> Option<Part> {
    match (part, unit) {
        (pe::CommandPart::Load(index), OpUnit::Load) => Some(Part::Load(index as usize)),
        (pe::CommandPart::Store(index), OpUnit::Store) => Some(Part::Store(index as usize)),
        _ => None,
    }
}

pub(crate) fn specs() -> impl Strategy<Value = Spec> {
    (0..4_u64, 0..4_u64, 1..6_usize, 1..4_usize, 1..3_usize, any::<bool>()).prop_map(
        |(dispatch, overhead, window, reads, writes, separate)| {
            let (dispatch, overhead) = (dispatch * 1000, overhead * 1000);
            Spec { dispatch, overhead, window, engines: [reads, writes], separate }
        },
    )
}

fn computes() -> impl Strategy<Value = Compute> {
    (any::<bool>(), 1..6_u32, [0..20_000_u64, 0..20_000, 0..20_000])
        .prop_map(|(math, count, each)| Compute { math, count, each })
}

fn pipes(writes: bool) -> impl Strategy<Value = Pipe> {
    let shape = (1..5_usize, 1..4_usize, 0..3_usize, 1..4_usize, any::<bool>());
    let computations = (computes(), proptest::option::of(computes()));
    (shape, 1..20_u64, computations).prop_map(
        move |((outs, steps, loads, ahead, stores), flits, (compute, epilogue))| {
            // A load takes the place of another: without loads there is nothing to be ahead of.
            let (stores, bytes) = (stores && writes, flits * 100);
            Pipe { outs, steps, loads, ahead, stores, bytes, compute, epilogue }
        },
    )
}

fn works(writes: bool) -> impl Strategy<Value = TaskWork> {
    let bytes = 1..8192_u64;
    prop_oneof![
        3 => bytes.clone().prop_map(TaskWork::Load),
        2 => bytes.prop_map(move |bytes| if writes { TaskWork::Store(bytes) } else { TaskWork::Load(bytes) }),
        3 => computes().prop_map(TaskWork::Compute),
        2 => pipes(writes).prop_map(TaskWork::Pipeline),
    ]
}

/// Draws programs; without writes, accesses do not overlap.
pub(crate) fn programs(writes: bool) -> impl Strategy<Value = Vec<Step>> {
    let picks = proptest::collection::vec(any::<prop::sample::Index>(), 0..4);
    let step = (0..12_u8, works(writes), picks.clone(), picks);
    proptest::collection::vec(step, 1..25).prop_map(|raw| {
        let mut count = 0;
        let mut steps = Vec::new();
        for (kind, work, after, computes_after) in raw {
            let pick = |list: Vec<prop::sample::Index>| {
                list.iter().filter(|_| count > 0).map(|pick| pick.index(count)).collect()
            };
            match kind {
                0 if count > 0 => {
                    steps.push(Step::Wait(after.first().map_or(0, |pick| pick.index(count))));
                }
                11 => steps.push(Step::Fence),
                1 => steps.push(Step::Calls(u32::from(kind) + small(after.len()))),
                _ => {
                    let is_pipeline = matches!(work, TaskWork::Pipeline(_));
                    let more = if is_pipeline { pick(computes_after) } else { Vec::new() };
                    let after = pick(after);
                    steps.push(Step::Task(Task { work, after, computes_after: more }));
                    count += 1;
                }
            }
        }
        steps
    })
}
