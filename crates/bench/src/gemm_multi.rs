//! Matrix product over many PEs, split in three ways.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::shape::Shape;

use super::inputs::{F16_SUMS, at_least, core, fits_tcm, numbers, place};
use super::reference::{ordered, panel_order, product, size};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::gemm_multi;

pub(super) struct GemmMulti;

/// Parameters of a run.
#[derive(Clone, Copy)]
struct GemmMultiProblem {
    m: u64,
    k: u64,
    n: u64,
    cubes: u64,
    pes: u64,
    /// Splits of A, B and C over cubes, and over the PEs of a cube.
    splits: [[Split; 2]; 3],
    /// Replication factors of A and B over the PEs.
    copies: [u64; 2],
}

impl Bench for GemmMulti {
    fn name(&self) -> &'static str {
        "gemm-multi"
    }

    fn summary(&self) -> &'static str {
        "a matrix product over PEs and cubes, A resident in the TCM and B streamed"
    }

    fn parameters(&self) -> Vec<Parameter> {
        let (split, stream) = (&["rows", "columns", "grid"], &["panel", "tile"]);
        let of_split = "rows: of A and C, B copied; columns: of B and C, A copied; grid: rows by cube, columns by PE";
        vec![
            Parameter::whole("m", 512, (1, 1 << 20), "rows of A and C"),
            Parameter::whole("k", 1024, (1, 1 << 20), "columns of A, rows of B"),
            Parameter::whole("n", 1024, (1, 1 << 20), "columns of B and C"),
            Parameter::choice("split", split, of_split),
            Parameter::choice(
                "stream",
                stream,
                "unit of B per load: a panel of columns, or a tile of GEMM",
            ),
            Parameter::whole(
                "resident",
                64,
                (1, 1 << 20),
                "rows of A in the TCM at once; writes wait behind long loads, so more is not better",
            ),
            Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, topology: &Topology, _: u64) -> Needs {
        let [m, k, n] = values.wholes(["m", "k", "n"]);
        let matrices = [[m, k], [k, n], [m, n]].map(Needs::elements).into_iter().sum::<Needs>();
        matrices + Needs::tiles(topology, [m, k, n])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = GemmMultiProblem::new(values);
        let (GemmMultiProblem { m, k, n, .. }, width) = (problem, u64::from(core(lab).gemm.n));
        let resident = values.whole("resident");
        problem.check(lab, resident, width)?;
        let [over_a, over_b, over_c] =
            problem.splits.map(|[cube, pe]| lab.placement(cube, pe, problem.cubes, problem.pes));
        let (a, b) = (numbers(lab, m * k, 1), numbers(lab, k * n, 2));
        let stored_b = ordered(&b, &stored(lab, [k, n], &over_b, width)?);
        let tensors = [
            place(lab, &[m, k], DType::F16, &over_a, &a)?,
            place(lab, &[k, n], DType::F16, &over_b, &stored_b)?,
            lab.context.empty(&[m, n], DType::F16)?.to(&over_c)?,
        ];
        let by_panel = u64::from(values.choice("stream") == "panel");
        let numbers = vec![resident, width, by_panel];
        lab.launch(&gemm_multi(), tensors.iter().collect(), numbers, problem.cubes, problem.pes)?;
        let order = stored(lab, [m, n], &over_c, width)?;
        let check = lab.check(&tensors[2], F16_SUMS, || ordered(&product(&a, &b, k, n), &order))?;
        Ok(Outcome { work: problem.work(), check, ..Outcome::default() })
    }
}

impl GemmMultiProblem {
    fn new(values: &Values) -> Self {
        use Split::{ColumnWise, Replicate, RowWise};
        let [m, k, n, cubes, pes] = values.wholes(["m", "k", "n", "cubes", "pes"]);
        let all = cubes * pes;
        let (splits, copies) = match values.choice("split") {
            "rows" => ([[RowWise; 2], [Replicate; 2], [RowWise; 2]], [1, all]),
            "columns" => ([[Replicate; 2], [ColumnWise; 2], [ColumnWise; 2]], [all, 1]),
            _ => (
                [[RowWise, Replicate], [Replicate, ColumnWise], [RowWise, ColumnWise]],
                [pes, cubes],
            ),
        };
        Self { m, k, n, cubes, pes, splits, copies }
    }

    /// Returns the number of row parts and the number of column parts.
    fn parts(&self) -> (u64, u64) {
        let all = self.cubes * self.pes;
        (all / self.copies[0], all / self.copies[1])
    }

    fn check(&self, lab: &Lab, resident: u64, width: u64) -> Result<(), BenchError> {
        let (rows, columns) = self.parts();
        at_least("m", self.m, rows, "a row for each part")?;
        at_least("n", self.n, columns, "a column for each part")?;
        // While some rows are in use, the next rows are loaded.
        let held = self.m.div_ceil(rows).min(2 * resident);
        let what = format!("{held} rows of A and two panels of B with k={}", self.k);
        // Two output tiles are on their way to memory.
        let bytes = 2 * (held * self.k + 2 * width * (self.k + width));
        fits_tcm(lab, bytes, &what, "fewer resident rows, or a smaller k")
    }

    /// Returns the work: each PE reads its parts of A and B at least once, and writes its part of C.
    fn work(&self) -> Work {
        let Self { m, k, n, copies: [a, b], .. } = *self;
        let bytes = 2 * (a * m * k + b * k * n + m * n);
        let (gemm, largest) = (Some((DType::F16, 2 * m * k * n)), Some([m, k, n]));
        Work { gemm, largest, results: 2 * m * n, bytes, ..Work::default() }
    }
}

/// Returns the source index of each element of a matrix whose parts are stored panel by panel in each PE; empty
/// without data.
fn stored(
    lab: &Lab,
    shape: [u64; 2],
    over: &Placement,
    width: u64,
) -> Result<Vec<usize>, BenchError> {
    if !lab.has_data {
        return Ok(Vec::new());
    }
    let layout = lab.context.machine(|machine| {
        let shape =
            Shape::new(&shape).map_err(cubeyard_runtime::placement::PlacementError::from)?;
        over.resolve(shape, DType::F16, machine.topology())
    });
    let layout = layout.map_err(cubeyard_runtime::RuntimeError::from)?;
    let columns = size(shape[1]);
    let mut stored = vec![0; size(shape[0]) * columns];
    for part in layout.parts().map(|copies| &copies[0]) {
        let (rows, wide) = (part.rows.end - part.rows.start, part.columns.end - part.columns.start);
        let (first, each) =
            (size(part.rows.start) * columns + size(part.columns.start), size(wide));
        let place = |element: usize| first + element / each * columns + element % each;
        for (to, from) in panel_order(rows, wide, width).into_iter().enumerate() {
            stored[place(to)] = place(from);
        }
    }
    Ok(stored)
}
