//! Layer norm over the rows of a matrix, spread over PEs.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;
use cubeyard_sim::Bandwidth;

use super::inputs::{compare, core, place, spread};
use super::reference::sum_rounding;
use super::rows::{RowMatrix, parameters};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
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
        let [rows, columns, tile] = values.wholes(["rows", "columns", "tile"]);
        // Ten operations on a tile that is loaded and stored.
        Needs::elements([2, rows, columns]) + Needs::commands([12, rows.div_ceil(tile)])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let RowMatrix { rows, columns, cubes, pes, dtype, over } =
            RowMatrix::new(self.name(), lab, values)?;
        let copies = lab.placement(Split::Replicate, Split::Replicate, cubes, pes);
        let numbers = [
            // A mean other than 0, so that it matters.
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
        // The result is rounded once, two sums in f32 at each term, and the rest a few times.
        let tolerance = rounding(dtype) + 2.0 * sum_rounding(columns + 8);
        let check = compare(lab, &y, tolerance, expected)?;
        let work = work(lab, rows, columns, dtype);
        Ok(Outcome { work, check, notes: vec![note(lab)], ..Outcome::default() })
    }
}

/// Returns the work: each element is summed twice, plain and squared, and takes part in at least three
/// operations: the square, the product with deviation and mean, and that with gamma and beta. For both sums and
/// the last product it comes from the TCM in f32, to which narrower types are cast first.
fn work(lab: &Lab, rows: u64, columns: u64, dtype: DType) -> Work {
    let math = lab.context.machine(|machine| machine.topology().spec().pe.core.math);
    let sum = math.simple.bytes_per_second() / math.reduce.bytes_per_second().max(1);
    let elements = rows * columns * (2 * sum + 3);
    let (wide, narrow) = (DType::F32.size(), dtype.size());
    let cast = if dtype == DType::F32 { [0, 0] } else { [narrow, wide] };
    let tcm = [cast[0] + 3 * wide, cast[1] + narrow].map(|bytes| bytes * rows * columns);
    Work { elements, tcm, bytes: 2 * rows * columns * narrow, ..Work::default() }
}

/// Explains why the bound of the vector engine is not reached.
fn note(lab: &Lab) -> String {
    let core = core(lab);
    let giga = |rate: Bandwidth| rate.bytes_per_second() / 1_000_000_000;
    format!(
        "it is computed in f32, of which the TCM feeds {} elements a ns where the vector engine could take \
         {}, and an operation begins when the one that it needs has ended",
        giga(core.tcm_read) / DType::F32.size(),
        giga(core.math.simple)
    )
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
