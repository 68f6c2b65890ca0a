//! Names of the parts of a tiled operation.

use cubeyard_device::pe::CommandPart;

use super::CompositeKind;
use super::plan::{Plan, PlanComputation};

impl Plan {
    /// Names a part: `A[0:32, 64:128]` for a load, `tile (0, 1), step 3` for a computation.
    pub fn part(&self, part: CommandPart) -> String {
        match part {
            CommandPart::Load(index) => {
                let (source, out, step) = self.load_of(index);
                format!("{}{}", self.source_name(source), shown(self.source_box(source, out, step)))
            }
            CommandPart::Compute(index) => self.computation_name(self.computation(index)),
            CommandPart::Store(index) => {
                let name = if self.kind == CompositeKind::Gemm { "C" } else { "y" };
                format!("{name}{}", shown(self.output_box(index)))
            }
        }
    }

    pub(super) fn source_name(&self, source: usize) -> String {
        match (&self.kind, self.sources.len()) {
            (CompositeKind::Gemm, _) => ["A", "B"][source].to_owned(),
            (_, 1) => "x".to_owned(),
            _ => format!("x{source}"),
        }
    }

    fn computation_name(&self, computation: PlanComputation) -> String {
        let tile = |out: u32| {
            let (row, column) = (out / self.grid.columns, out % self.grid.columns);
            format!("tile ({row}, {column})")
        };
        let step = |out: u32, step: u32| match self.grid.steps {
            1 => tile(out),
            _ => format!("{}, step {step}", tile(out)),
        };
        let epilogue = |scope: usize, number: usize| self.epilogues[scope][number].op.name();
        match computation {
            PlanComputation::Step { out, step: number } => step(out, number),
            PlanComputation::AfterStep { out, step: of, number } => {
                format!("{}, {}", step(out, of), epilogue(0, number))
            }
            PlanComputation::AfterTile { out, number } => {
                format!("{}, {}", tile(out), epilogue(1, number))
            }
            PlanComputation::Rows { out, number } => {
                format!("{}, {} of rows", tile(out), self.rows[number].name())
            }
            PlanComputation::AtTheEnd { number } => format!("{} at the end", epilogue(2, number)),
        }
    }
}

/// Formats a box as a NumPy slice.
fn shown((start, shape): ([u64; 2], [u64; 2])) -> String {
    let [rows, columns] =
        [0, 1].map(|axis| format!("{}:{}", start[axis], start[axis] + shape[axis]));
    format!("[{rows}, {columns}]")
}
