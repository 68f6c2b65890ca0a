//! Durations of the computations of a plan.

use cubeyard_device::pe::Strips;
use cubeyard_device::topology::CoreSpec;
use cubeyard_sim::Span;
use smallvec::smallvec;

use super::super::CompositeKind;
use super::{DotForm, Op, Plan, PlanEpilogue, PlanProblem, spread};
use crate::numeric::{Reduce, TileType};

/// Durations of the computations, each for a full tile.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) step: Strips,
    /// Duration of writing an output tile to the TCM.
    pub(super) keep: Span,
    pub(super) epilogues: [Vec<Strips>; 3],
    /// Durations of the row reductions of an output tile, which is in registers.
    pub(super) rows: Vec<Strips>,
    /// Duration of writing the column of a row of output tiles to the TCM.
    pub(super) column: Span,
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
        let [steps, tiles, mut end] = epilogues
            .map(|list| list.iter().map(|of| epilogue_cost(of, &out, core)).collect::<Vec<_>>());
        let all = registers(&self.output, self.output.shape[0], self.output.shape[1]);
        for (strips, epilogue) in end.iter_mut().zip(&self.epilogues[2]) {
            // The final output lies in the TCM and passes through the vector unit once more.
            let inputs: Vec<_> = std::iter::once(&all).chain(epilogue.types()).collect();
            *strips = epilogue.op.cost(&inputs, &all, core).map_err(PlanProblem::NoRate)?;
        }
        let width = self.columns.first().map_or(0, |ty| ty.dtype.size());
        Ok(Costs {
            step: Strips { store: Span::ZERO, ..step },
            keep: core.tcm_write.span(out.nbytes()),
            epilogues: [steps, tiles, end],
            rows: self.rows.iter().map(|reduce| rows_cost(*reduce, &out, core)).collect(),
            column: core.tcm_write.span(out.shape[0] * width),
        })
    }
}

/// Returns the cost of a row reduction on registers.
fn rows_cost(reduce: Reduce, out: &TileType, core: &CoreSpec) -> Strips {
    let strips = Op::Reduce(reduce, 1, true).cost(&[out], out, core);
    let strips =
        strips.expect("reductions are for the vector unit, which has a rate for all types");
    Strips { fetch: Span::ZERO, store: Span::ZERO, ..strips }
}

/// Returns the cost of an epilogue on registers: only the epilogue's own tiles are fetched.
fn epilogue_cost(epilogue: &PlanEpilogue, out: &TileType, core: &CoreSpec) -> Strips {
    let strips = epilogue.op.cost(&[out], out, core);
    let strips = strips.expect("epilogues are for the vector unit, which has a rate for all types");
    let part = |ty: &TileType| {
        let [rows, columns] = spread(ty);
        let length = |whole: u64, is: bool| if is { whole } else { 1 };
        length(out.shape[0], rows) * length(out.shape[1], columns) * ty.dtype.size()
    };
    let bytes: u64 = epilogue.types().map(part).sum();
    let fetch = core.tcm_read.span(bytes.div_ceil(u64::from(strips.count)));
    Strips { fetch, store: Span::ZERO, ..strips }
}
