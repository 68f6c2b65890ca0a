//! Layer norm over the rows of a matrix, spread over PEs.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::inputs::{compare, core, place, spread, takes_turns};
use super::reference::sum_rounding;
use super::rows::{RowMatrix, needs, norm_work, parameters};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values};
use cubeyard_kernels::{EPSILON, layer_norm};
use cubeyard_tl::numeric::rounding;

pub(super) struct LayerNorm;

impl Bench for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn summary(&self) -> &'static str {
        "layer norm of each row of a matrix, each PE some rows"
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
        let numbers = [
            // The mean is not 0, so that subtracting it matters.
            spread(lab, rows * columns, dtype, 1, [-1.0, 2.0])?,
            spread(lab, columns, dtype, 2, [0.5, 1.5])?,
            spread(lab, columns, dtype, 3, [-1.0, 1.0])?,
        ];
        let x = place(lab, &[rows, columns], dtype, &over, &numbers[0])?;
        let gamma = place(lab, &[columns], dtype, &copies, &numbers[1])?;
        let beta = place(lab, &[columns], dtype, &copies, &numbers[2])?;
        let y = lab.context.empty(&[rows, columns], dtype)?.to(&over)?;
        lab.launch(
            &layer_norm(),
            vec![&x, &gamma, &beta, &y],
            vec![values.whole("tile")],
            cubes,
            pes,
        )?;
        let expected = || reference(&numbers[0], &numbers[1], &numbers[2]);
        // The result is rounded once, two sums in f32 once per term, and the rest a few times.
        let tolerance = rounding(dtype) + 2.0 * sum_rounding(columns + 8);
        let check = compare(lab, &y, tolerance, expected)?;
        // Each element is squared, multiplied by the deviation, and multiplied and added to gamma and beta. The sum for
        // the mean is not included, because the matrix unit can compute it.
        let work = norm_work(lab, rows * columns, dtype);
        Ok(Outcome { work, check, notes: notes(lab, columns, dtype), ..Outcome::default() })
    }
}

/// Explains why the vector unit's bound is not reached.
fn notes(lab: &Lab, columns: u64, dtype: DType) -> Vec<String> {
    let (strip, mut notes) = (u64::from(core(lab).math.strip), Vec::new());
    if columns > strip {
        notes.push(format!(
            "a row of {columns} elements is longer than a strip of MATH, {strip}: mean, deviation and result \
             are a pass each"
        ));
    }
    if dtype != DType::F32 && takes_turns(lab) {
        notes.push(
            "GEMM computes the mean; with pe.core.compute_engines=separate it does so beside MATH"
                .to_owned(),
        );
    }
    notes
}

/// Computes layer norm by its definition, in f64.
fn reference(x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
    let count = gamma.len() as f64;
    let row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let deviation = (variance + EPSILON).sqrt();
        let normal = row.iter().map(|value| (value - mean) / deviation);
        let scaled = normal.zip(gamma).zip(beta).map(|((value, gamma), beta)| value * gamma + beta);
        scaled.collect::<Vec<_>>()
    };
    x.chunks_exact(gamma.len()).flat_map(row).collect()
}
