//! Durations of the computations of a plan.

use cubeyard_device::pe::Strips;
use cubeyard_device::topology::CoreSpec;
use cubeyard_sim::Span;
use smallvec::smallvec;

use super::super::CompositeKind;
use super::{DotForm, Op, Plan, PlanOperand, PlanProblem};
use crate::numeric::TileType;

/// Durations of the computations, each for a full tile.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) step: Strips,
    /// Duration of writing an output tile to the TCM.
    pub(super) keep: Span,
    pub(super) epilogues: [Vec<Strips>; 3],
}

impl Plan {
    pub(super) fn costs(&self, core: &CoreSpec) -> Result<Costs, PlanProblem> {
        let [m, k, n] = self.grid.tile;
        let of = |index: usize| {
            let shape = self.tile_shape(index, [m, k, n]);
            let whole = &self.sources[index].ty();
            let shape = shape.iter().zip(&whole.shape).map(|(a, b)| *a.min(b)).collect();
            TileType { dtype: whole.dtype, shape }
        };
        let types: Vec<_> = (0..self.sources.len()).map(of).collect();
        let types: Vec<_> = types.iter().collect();
        let wrong = |error: crate::numeric::NumericError| PlanProblem::Text(error.to_string());
        let op = match &self.kind {
            CompositeKind::Gemm => Op::Dot(DotForm::default()),
            CompositeKind::Map(op) => op.clone(),
            CompositeKind::Reduce(reduce) => Op::Reduce(*reduce, 1, true),
        };
        let result = op.infer(&types).map_err(wrong)?;
        let step = op.cost(&types, &result, core).map_err(PlanProblem::NoRate)?;
        let out = TileType {
            dtype: self.output.dtype,
            shape: smallvec![m.min(self.output.shape[0]), n.min(self.output.shape[1])],
        };
        let registers = |ty: &TileType, rows: u64, columns: u64| TileType {
            dtype: ty.dtype,
            shape: smallvec![rows, columns],
        };
        let epilogues = [&self.epilogues[0], &self.epilogues[1], &self.epilogues[2]];
        let [steps, tiles, end] = epilogues.map(|list| {
            list.iter()
                .map(|(op, operand)| epilogue_cost(op, operand.as_ref(), &out, core))
                .collect()
        });
        let mut end: Vec<Strips> = end;
        let all = registers(&self.output, self.output.shape[0], self.output.shape[1]);
        for (strips, (op, operand)) in end.iter_mut().zip(&self.epilogues[2]) {
            // The final output lies in the TCM and passes through the vector unit once more.
            let operand = operand.as_ref().and_then(PlanOperand::ty);
            let inputs: Vec<_> = std::iter::once(&all).chain(operand).collect();
            *strips = op.cost(&inputs, &all, core).map_err(PlanProblem::NoRate)?;
        }
        Ok(Costs {
            step: Strips { store: Span::ZERO, ..step },
            keep: core.tcm_write.span(out.nbytes()),
            epilogues: [steps, tiles, end],
        })
    }
}

/// Returns the cost of an epilogue on registers: only its second operand is fetched.
fn epilogue_cost(
    op: &Op,
    operand: Option<&PlanOperand>,
    out: &TileType,
    core: &CoreSpec,
) -> Strips {
    let strips = op.cost(&[out], out, core);
    let strips = strips.expect("epilogues are for the vector unit, which has a rate for all types");
    let row = operand.and_then(PlanOperand::ty).map_or(0, |ty| {
        let rows = if ty.shape.len() == 2 { out.shape[0] } else { 1 };
        rows * out.shape[1] * ty.dtype.size()
    });
    let fetch = core.tcm_read.span(row.div_ceil(u64::from(strips.count)));
    Strips { fetch, store: Span::ZERO, ..strips }
}
