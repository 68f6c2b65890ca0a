//! Reductions over dimensions.

mod columns;

use crate::cost::{Measured, OperatorCost, Vector, Work};
use crate::error::{OperatorError, refused};
use crate::machine::OperatorMachine;
use crate::rows::RowWork;
use crate::tensor::Tensor;
use cubeyard_runtime::dtype::DType;

/// Runs of dimensions in the order of memory that are all kept or all reduced, with their sizes.
type Runs = Vec<(bool, u64)>;

impl OperatorMachine {
    /// Returns the cost of a reduction of operands of one shape over dimensions, after operations on each element.
    ///
    /// Reduced dimensions are reduced from the inner to the outer: inner ones row by row, outer ones as sums of rows whose
    /// partial results are summed in a second stage.
    pub fn reduce(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        dims: &[i64],
        work: Vector,
    ) -> Result<OperatorCost, OperatorError> {
        let Some(first) = operands.first() else {
            return refused("operands: expected at least one");
        };
        if results.is_empty() {
            return refused("results: expected at least one");
        }
        crate::nest::same_shape(operands, &first.shape, "operand")?;
        let runs = runs(first, &reduced(first, dims)?);
        let elements = first.elements();
        let all = operands.iter().chain(results);
        let bytes = all.map(Tensor::bytes).sum();
        let bound = Work {
            bytes,
            vector: [elements * work.simple, elements * work.special, elements],
            ..Work::default()
        };
        let (name, run) = self.reduce_runs(operands, results, runs, work)?;
        Ok(bound.cost(self, name, &run))
    }

    fn reduce_runs(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        mut runs: Runs,
        work: Vector,
    ) -> Result<(String, Measured), OperatorError> {
        let dtypes: Vec<_> = operands.iter().map(|tensor| tensor.dtype).collect();
        let mut sources: Vec<_> = dtypes;
        let (mut work, mut total, mut names) = (work, Measured::default(), Vec::new());
        while let Some(at) = runs.iter().rposition(|(is_reduced, _)| *is_reduced) {
            let size = runs[at].1;
            let inner: u64 = runs[at + 1..].iter().map(|(_, size)| size).product();
            let outer: u64 = runs[..at].iter().map(|(_, size)| size).product();
            let is_last = !runs[..at].iter().any(|(is_reduced, _)| *is_reduced);
            let outs: Vec<_> =
                results.iter().map(|of| if is_last { of.dtype } else { DType::F32 }).collect();
            let (name, run) = if inner == 1 {
                self.reduce_rows(&sources, &outs, [outer, size], work)?
            } else {
                self.reduce_columns(&sources, &outs, [outer, size, inner], work)?
            };
            total = total.then(run);
            names.push(name);
            runs.remove(at);
            (sources, work) = (outs, Vector::default());
        }
        if names.is_empty() {
            return refused("dims: expected at least one dimension with more than one element");
        }
        Ok((format!("reduce: {}", names.join(", ")), total))
    }

    fn reduce_rows(
        &self,
        sources: &[DType],
        outs: &[DType],
        [rows, columns]: [u64; 2],
        work: Vector,
    ) -> Result<(String, Measured), OperatorError> {
        if rows < self.pes() && columns > 2 * self.page() {
            return self.reduce_long(sources, outs, [rows, columns], work);
        }
        let of = |dtype: &DType| Tensor::contiguous(&[rows, columns], *dtype);
        let operands: Vec<_> = sources.iter().map(of).collect();
        let results: Vec<_> =
            outs.iter().map(|dtype| Tensor::contiguous(&[rows, 1], *dtype)).collect();
        let cost = self.measure_rows(
            &operands,
            &results,
            [rows, columns],
            RowWork { columns, vector: work, reduces: 1 },
        )?;
        Ok(cost)
    }

    /// Reduces few long rows: parts of the rows first, then the parts of each row.
    fn reduce_long(
        &self,
        sources: &[DType],
        outs: &[DType],
        [rows, columns]: [u64; 2],
        work: Vector,
    ) -> Result<(String, Measured), OperatorError> {
        let part = (self.page() / 2).max(1);
        let parts = columns.div_ceil(part);
        let partial = vec![DType::F32; outs.len()];
        let (name, first) = self.reduce_rows(sources, &partial, [rows * parts, part], work)?;
        let (_, second) = self.reduce_rows(&partial, outs, [rows, parts], Vector::default())?;
        Ok((format!("{name} in {parts} parts"), first.then(second)))
    }
}

/// Returns which dimensions are reduced; without any named, all are.
fn reduced(tensor: &Tensor, dims: &[i64]) -> Result<Vec<bool>, OperatorError> {
    let rank = tensor.shape.len();
    let mut reduced = vec![dims.is_empty(); rank];
    for dim in dims {
        let from_end = if *dim < 0 { dim + i64::try_from(rank).unwrap_or(i64::MAX) } else { *dim };
        match usize::try_from(from_end).ok().filter(|at| *at < rank) {
            Some(at) => reduced[at] = true,
            None => {
                return refused(format!("dims: {dim}, expected a dimension of {:?}", tensor.shape));
            }
        }
    }
    Ok(reduced)
}

/// Joins neighbouring dimensions of one kind, in the order of memory.
fn runs(tensor: &Tensor, reduced: &[bool]) -> Runs {
    let mut axes: Vec<usize> =
        (0..tensor.shape.len()).filter(|&axis| tensor.shape[axis] > 1).collect();
    axes.sort_by_key(|&axis| std::cmp::Reverse(tensor.strides[axis]));
    let mut runs = Runs::new();
    for axis in axes {
        match runs.last_mut() {
            Some((kind, size)) if *kind == reduced[axis] => *size *= tensor.shape[axis],
            _ => runs.push((reduced[axis], tensor.shape[axis])),
        }
    }
    if !runs.iter().any(|(is_reduced, _)| *is_reduced) {
        runs.push((true, 1));
    }
    runs
}
