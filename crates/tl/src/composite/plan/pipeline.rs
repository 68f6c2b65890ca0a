//! The plan as a pipeline: loads, computations and stores in order, and their dependencies.

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{Dma, Pipeline, Strips};
use cubeyard_sim::Span;

use super::{Plan, PlanSource};

/// Id of one computation of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::composite) enum PlanComputation {
    /// A step of an output tile.
    Step { out: u32, step: u32 },
    /// An epilogue after a step.
    AfterStep { out: u32, step: u32, number: usize },
    /// An epilogue after an output tile.
    AfterTile { out: u32, number: usize },
    /// A reduction of the rows of an output tile.
    Rows { out: u32, number: usize },
    /// An epilogue after the whole output.
    AtTheEnd { number: usize },
}

impl Plan {
    /// Returns the number of loads per step.
    fn loads_each(&self) -> u32 {
        u32::try_from(self.loaded.len()).expect("few operands")
    }

    /// Returns the number of epilogues per step (0), per output tile (1), or at the end (2).
    fn epilogues_at(&self, level: usize) -> u32 {
        u32::try_from(self.epilogues[level].len()).expect("few epilogues")
    }

    /// Returns the number of computations per step.
    fn per_step(&self) -> u32 {
        1 + self.epilogues_at(0)
    }

    fn per_out(&self) -> u32 {
        self.grid.steps * self.per_step()
            + self.epilogues_at(1)
            + u32::try_from(self.rows.len()).expect("few reductions")
    }

    pub(in crate::composite) fn computation(&self, index: u32) -> PlanComputation {
        let (out, rest) = (index / self.per_out(), index % self.per_out());
        if out >= self.outs() {
            return PlanComputation::AtTheEnd {
                number: (index - self.outs() * self.per_out()) as usize,
            };
        }
        let (step, number) = (rest / self.per_step(), rest % self.per_step());
        if step >= self.grid.steps {
            let number = (rest - self.grid.steps * self.per_step()) as usize;
            return match number.checked_sub(self.epilogues[1].len()) {
                Some(number) => PlanComputation::Rows { out, number },
                None => PlanComputation::AfterTile { out, number },
            };
        }
        match number {
            0 => PlanComputation::Step { out, step },
            _ => PlanComputation::AfterStep { out, step, number: number as usize - 1 },
        }
    }

    /// Returns the index of the computation of a step, counted over all output tiles.
    fn step_index(&self, step: u32) -> u32 {
        step / self.grid.steps * self.per_out() + step % self.grid.steps * self.per_step()
    }

    /// Returns operand, output tile and step of a load.
    pub(in crate::composite) fn load_of(&self, index: u32) -> (usize, u32, u32) {
        let loads = self.loads_each();
        let (step, which) = (index / loads, index % loads);
        (self.loaded[which as usize], step / self.grid.steps, step % self.grid.steps)
    }

    /// Returns the output tile that a computation completes, if any.
    pub(in crate::composite) fn ends_tile(&self, index: u32) -> Option<u32> {
        let (out, rest) = (index / self.per_out(), index % self.per_out());
        (out < self.outs() && rest + 1 == self.per_out()).then_some(out)
    }

    /// Returns whether an output tile is the last of its row of tiles.
    pub(in crate::composite) fn ends_row(&self, out: u32) -> bool {
        (out + 1).is_multiple_of(self.grid.columns)
    }
}

impl Pipeline for Plan {
    fn parts(&self) -> [u32; 3] {
        let loads = self.outs() * self.grid.steps * self.loads_each();
        let computations = self.outs() * self.per_out() + self.epilogues_at(2);
        [loads, computations, if self.to.is_some() { self.outs() } else { 0 }]
    }

    fn load(&self, index: u32) -> Dma {
        let (source, out, step) = self.load_of(index);
        let PlanSource::Memory(reference) = &self.sources[source] else {
            unreachable!("only operands in memory are loaded")
        };
        let (start, shape) = self.source_box(source, out, step);
        reference.box_access(Direction::Read, start, shape)
    }

    fn load_after(&self, index: u32) -> u32 {
        let step = index / self.loads_each();
        step.checked_sub(self.ahead).map_or(0, |earlier| self.step_index(earlier) + 1)
    }

    fn compute(&self, index: u32) -> Strips {
        let computation = self.computation(index);
        let mut strips = match computation {
            PlanComputation::Step { .. } => self.costs.step,
            PlanComputation::AfterStep { number, .. } => self.costs.epilogues[0][number],
            PlanComputation::AfterTile { number, .. } => self.costs.epilogues[1][number],
            PlanComputation::Rows { number, .. } => self.costs.rows[number],
            PlanComputation::AtTheEnd { number } => self.costs.epilogues[2][number],
        };
        let each = |span: Span| Span::from_ps(span.ps().div_ceil(strips.count.into()));
        let mut store = strips.store;
        if self.ends_tile(index).is_some() {
            store += each(self.costs.keep);
        }
        if let PlanComputation::Rows { out, .. } = computation
            && self.ends_row(out)
        {
            store += each(self.costs.column);
        }
        strips.store = store;
        strips
    }

    fn compute_after(&self, index: u32) -> [u32; 2] {
        let loads = self.loads_each();
        let all = self.outs() * self.grid.steps * loads;
        let (out, loads) = match self.computation(index) {
            PlanComputation::Step { out, step } | PlanComputation::AfterStep { out, step, .. } => {
                (out, (out * self.grid.steps + step + 1) * loads)
            }
            PlanComputation::AfterTile { out, .. } | PlanComputation::Rows { out, .. } => {
                (out, (out + 1) * self.grid.steps * loads)
            }
            PlanComputation::AtTheEnd { .. } => (self.outs() - 1, all),
        };
        let stores = if self.to.is_some() { out.saturating_sub(1) } else { 0 };
        [loads, stores]
    }

    /// An epilogue waits for the preceding steps, and a step for the epilogues of the previous step. There are two sets
    /// of registers: the steps of a tile wait until the tile two before it has left its set.
    fn compute_after_other(&self, index: u32) -> u32 {
        match self.computation(index) {
            PlanComputation::Step { step, .. } if step > 0 && self.per_step() > 1 => index,
            PlanComputation::Step { out, .. } if self.per_step() > 1 => {
                (out * self.grid.steps).checked_sub(1).map_or(0, |step| self.step_index(step))
            }
            PlanComputation::Step { out, .. } => out.saturating_sub(1) * self.per_out(),
            PlanComputation::AfterStep { out, step, .. } => {
                self.step_index(out * self.grid.steps + step) + 1
            }
            PlanComputation::AfterTile { out, .. } | PlanComputation::Rows { out, .. } => {
                self.step_index((out + 1) * self.grid.steps - 1) + 1
            }
            PlanComputation::AtTheEnd { .. } => {
                self.step_index(self.outs() * self.grid.steps - 1) + 1
            }
        }
    }

    fn store(&self, index: u32) -> Dma {
        let to = self.to.as_ref().expect("only outputs in memory are stored");
        let (start, shape) = self.output_box(index);
        to.box_access(Direction::Write, start, shape)
    }

    fn store_after(&self, index: u32) -> u32 {
        (index + 1) * self.per_out()
    }
}
