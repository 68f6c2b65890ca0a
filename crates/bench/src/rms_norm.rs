//! RMS norm over the rows of a matrix, spread over PEs.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::placement::Split;

use super::inputs::{compare, core, place, spread};
use super::reference::sum_rounding;
use super::rows::{RowMatrix, needs, norm_work, parameters};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values};
use cubeyard_kernels::{EPSILON, rms_norm};
use cubeyard_tl::numeric::rounding;

pub(super) struct RmsNorm;

impl Bench for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn summary(&self) -> &'static str {
        "RMS norm of each row of a matrix, each PE some rows"
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters(32)
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        needs(values)
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let RowMatrix { rows, columns, cubes, pes, dtype, over } =
            RowMatrix::new(self.name(), lab, values)?;
        let copies = lab.placement(Split::Replicate, Split::Replicate, cubes, pes);
        let numbers = spread(lab, rows * columns, dtype, 1, [-1.0, 2.0])?;
        let factors = spread(lab, columns, dtype, 2, [0.5, 1.5])?;
        let x = place(lab, &[rows, columns], dtype, &over, &numbers)?;
        let gamma = place(lab, &[columns], dtype, &copies, &factors)?;
        let y = lab.context.empty(&[rows, columns], dtype)?.to(&over)?;
        let (tensors, tile) = (vec![&x, &gamma, &y], values.whole("tile"));
        lab.launch(&rms_norm(), tensors, vec![tile], cubes, pes)?;
        // The result is rounded once, the sum in f32 once per term, and the rest a few times.
        let tolerance = rounding(dtype) + sum_rounding(columns + 8);
        let check = compare(lab, &y, tolerance, || reference(&numbers, &factors))?;
        // Each element is squared, and multiplied by the factor of its row and by gamma.
        let work = norm_work(lab, rows * columns, dtype);
        Ok(Outcome { work, check, notes: notes(lab, columns), ..Outcome::default() })
    }
}

/// Explains why the vector unit's bound is not reached.
fn notes(lab: &Lab, columns: u64) -> Vec<String> {
    let strip = u64::from(core(lab).math.strip);
    let note = format!(
        "a row of {columns} elements is longer than a strip of MATH, {strip}: the sum of its squares and the \
         result are a pass each"
    );
    (columns > strip).then_some(note).into_iter().collect()
}

/// Computes RMS norm by its definition, in f64.
fn reference(x: &[f64], gamma: &[f64]) -> Vec<f64> {
    let row = |row: &[f64]| {
        let mean = row.iter().map(|value| value * value).sum::<f64>() / gamma.len() as f64;
        let root = (mean + EPSILON).sqrt();
        row.iter().zip(gamma).map(|(value, gamma)| value / root * gamma).collect::<Vec<_>>()
    };
    x.chunks_exact(gamma.len()).flat_map(row).collect()
}
