//! Sum of two vectors, spread over PEs.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::vector_add;
use cubeyard_tl::numeric::rounding;

pub(super) struct VectorAdd;

const TYPES: &[DType] = &[DType::F16, DType::Bf16, DType::F32, DType::F64, DType::I32, DType::I64];

impl Bench for VectorAdd {
    fn name(&self) -> &'static str {
        "vector-add"
    }

    fn summary(&self) -> &'static str {
        "the sum of two vectors, each PE its part"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("elements", 1 << 22, (1, 1 << 36), "elements per vector"),
            Parameter::whole("block", 16384, (1, 1 << 24), "elements per load"),
            Parameter::dtype("dtype", TYPES, "element type"),
            Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [elements, block] = values.wholes(["elements", "block"]);
        Needs::elements([3, elements]) + Needs::commands([4, elements.div_ceil(block)])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let (elements, dtype) = (values.whole("elements"), values.dtype("dtype"));
        let (cubes, pes) = (values.whole("cubes"), values.whole("pes"));
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let x = lab.context.rand(&[elements], dtype, 1)?.to(&over)?;
        let y = lab.context.rand(&[elements], dtype, 2)?.to(&over)?;
        let z = lab.context.empty(&[elements], dtype)?.to(&over)?;
        lab.launch(&vector_add(), vec![&x, &y, &z], vec![values.whole("block")], cubes, pes)?;
        let (left, right) = (lab.values(&x)?, lab.values(&y)?);
        let pairs = || left.iter().flatten().zip(right.iter().flatten());
        let sum = || pairs().map(|(left, right)| left + right).collect();
        // Half a unit in the last place, for a sum of at most 2.
        let check = lab.check(&z, 2.0 * rounding(dtype), sum)?;
        let tcm = [2, 1].map(|times| times * elements * dtype.size());
        let work = Work { elements, tcm, bytes: 3 * elements * dtype.size(), ..Work::default() };
        Ok(Outcome { work, check, ..Outcome::default() })
    }
}
