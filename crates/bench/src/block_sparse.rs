//! Product of a block-sparse matrix and a dense matrix.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Split;

use super::inputs::{F16_SUMS, at_least, fits_tcm, multiple, numbers, place};
use super::reference::{product, size};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::block_sparse;

pub(super) struct BlockSparse;

/// Parameters of a run.
struct SparseProblem {
    /// Number of block rows and block columns.
    rows: u64,
    columns: u64,
    /// Edge length of a block, in elements.
    block: u64,
    /// Number of columns of the dense matrix.
    n: u64,
    cubes: u64,
    pes: u64,
    /// Percentage of blocks that are present.
    density: u64,
}

impl Bench for BlockSparse {
    fn name(&self) -> &'static str {
        "block-sparse"
    }

    fn summary(&self) -> &'static str {
        "a block-sparse matrix times a dense one, touching only blocks that are present"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("m", 4096, (1, 1 << 20), "rows of the sparse matrix"),
            Parameter::whole("k", 1024, (1, 1 << 20), "columns of the sparse matrix"),
            Parameter::whole("n", 256, (1, 1 << 16), "columns of the dense matrix"),
            Parameter::whole("block", 64, (1, 1024), "edge length of a block"),
            Parameter::whole("density", 25, (0, 100), "percentage of blocks that are present"),
            Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs_data(&self) -> bool {
        true
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [m, k, n, block, density] = values.wholes(["m", "k", "n", "block", "density"]);
        let (rows, columns) = (m.div_ceil(block), k.div_ceil(block));
        // A present block is loaded and multiplied; each block row is stored.
        let there = rows * columns * density / 100;
        let matrices = [[m, k], [k, n], [m, n]].map(Needs::elements).into_iter().sum::<Needs>();
        matrices + Needs::commands([2, rows + there])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = SparseProblem::new(lab, values)?;
        let SparseProblem { rows, columns, block, n, cubes, pes, .. } = problem;
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let everywhere = lab.placement(Split::Replicate, Split::Replicate, cubes, pes);
        let there = problem.there(&numbers(lab, rows * columns, 1));
        let a = numbers(lab, rows * columns * block * block, 2);
        let b = numbers(lab, columns * block * n, 3);
        let tensors = [
            place(lab, &[rows, columns], DType::U8, &over, &there)?,
            place(lab, &[rows, columns * block * block], DType::F16, &over, &a)?,
            place(lab, &[columns * block, n], DType::F16, &everywhere, &b)?,
            lab.context.empty(&[rows, block * n], DType::F16)?.to(&over)?,
        ];
        lab.launch(&block_sparse(), tensors.iter().collect(), vec![block], cubes, pes)?;
        let check = lab.check(&tensors[3], F16_SUMS, || problem.expected(&there, &a, &b))?;
        let blocks = there.iter().filter(|flag| **flag != 0.0).count() as u64;
        let notes = vec![format!("{blocks} of {} blocks are present", rows * columns)];
        Ok(Outcome { work: problem.work(blocks), check, notes, ..Outcome::default() })
    }
}

impl SparseProblem {
    fn new(lab: &Lab, values: &Values) -> Result<Self, BenchError> {
        let [m, k, n, block] = values.wholes(["m", "k", "n", "block"]);
        let [density, cubes, pes] = values.wholes(["density", "cubes", "pes"]);
        multiple("m", m, block, "the rows of a block")?;
        multiple("k", k, block, "the columns of a block")?;
        let (rows, columns) = (m / block, k / block);
        at_least("m / block", rows, cubes * pes, "one for each PE; or set cubes or pes")?;
        let what =
            format!("all of the dense matrix with k={k} and n={n}, two blocks and their sums");
        // Two sums in f32, and one in f16 on its way to memory.
        let bytes = 2 * (k * n + 2 * block * block) + 10 * block * n;
        fits_tcm(lab, bytes, &what, "a smaller k, n or block")?;
        Ok(Self { rows, columns, block, n, cubes, pes, density })
    }

    /// Returns for each block whether it is present, given numbers from -1 to 1.
    fn there(&self, numbers: &[f64]) -> Vec<f64> {
        let least = 1.0 - self.density as f64 / 50.0;
        numbers.iter().map(|&number| if number >= least { 1.0 } else { 0.0 }).collect()
    }

    fn expected(&self, there: &[f64], a: &[f64], b: &[f64]) -> Vec<f64> {
        let (block, columns) = (size(self.block), size(self.columns));
        let mut all = Vec::new();
        for row in 0..size(self.rows) {
            let mut sums = vec![0.0; block * size(self.n)];
            for column in (0..columns).filter(|column| there[row * columns + column] != 0.0) {
                let a = &a[(row * columns + column) * block * block..][..block * block];
                let b = &b[column * block * size(self.n)..][..block * size(self.n)];
                let part = product(a, b, self.block, self.n);
                sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            all.extend(sums);
        }
        all
    }

    /// Returns the work: present blocks are read and multiplied. Each PE reads the rows of the dense matrix that its
    /// blocks use: at least the rows of one block column.
    fn work(&self, blocks: u64) -> Work {
        let Self { rows, columns, block, n, .. } = *self;
        let dense = if blocks == 0 { 0 } else { block * n };
        let bytes = rows * columns + 2 * (blocks * block * block + dense + rows * block * n);
        let gemm = Some((DType::F16, 2 * blocks * block * block * n));
        // All blocks of a column share rows of the dense matrix. Rows without blocks are also stored, as zeros.
        let (largest, results) = (Some([rows * block, columns * block, n]), 2 * rows * block * n);
        Work { gemm, largest, results, bytes, ..Work::default() }
    }
}
