//! Softmax over the rows of a matrix, spread over PEs.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;

use super::inputs::{compare, core, place, special, spread};
use super::reference::sum_rounding;
use super::rows::{RowMatrix, needs, parameters};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::softmax;
use cubeyard_tl::numeric::rounding;

pub(super) struct Softmax;

impl Bench for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn summary(&self) -> &'static str {
        "softmax of each row of a matrix, each PE some rows"
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters(8)
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        needs(values)
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let RowMatrix { rows, columns, cubes, pes, dtype, over } =
            RowMatrix::new(self.name(), lab, values)?;
        // Exponentials range from nearly 0 to several thousand.
        let numbers = spread(lab, rows * columns, dtype, 1, [-8.0, 8.0])?;
        let x = place(lab, &[rows, columns], dtype, &over, &numbers)?;
        let y = lab.context.empty(&[rows, columns], dtype)?.to(&over)?;
        lab.launch(&softmax(), vec![&x, &y], vec![values.whole("tile")], cubes, pes)?;
        // The result is rounded once, the sum in f32 once per term, and powers and quotients a few times.
        let tolerance = rounding(dtype) + sum_rounding(columns + 8);
        let check = compare(lab, &y, tolerance, || reference(&numbers, columns))?;
        Ok(Outcome { work: work(lab, rows * columns, dtype), check, ..Outcome::default() })
    }
}

/// Returns the work of an overflow-safe softmax in its cheapest form: as one operation, two passes at the rate of
/// exponentials; as a chain, a maximum, a difference, an exponential and a product. The sum in a chain is not included,
/// because the matrix unit can compute it.
fn work(lab: &Lab, elements: u64, dtype: DType) -> Work {
    let (math, special) = (core(lab).math, special(lab));
    let maximum = math.simple.bytes_per_second() / math.reduce.bytes_per_second().max(1);
    let each = (2 * special).min(maximum + 1 + special + 1);
    let bytes = elements * dtype.size();
    Work { elements: elements * each, tcm: [bytes; 2], bytes: 2 * bytes, ..Work::default() }
}

/// Computes softmax by its definition, in f64, where these numbers cannot overflow.
fn reference(numbers: &[f64], columns: u64) -> Vec<f64> {
    let columns = usize::try_from(columns).expect("it fits memory");
    let row = |row: &[f64]| {
        let sum: f64 = row.iter().map(|value| value.exp()).sum();
        row.iter().map(|value| value.exp() / sum).collect::<Vec<_>>()
    };
    numbers.chunks_exact(columns).flat_map(row).collect()
}
