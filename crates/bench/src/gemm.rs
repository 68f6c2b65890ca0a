//! Matrix product on one PE, with different staging of the operands.

use cubeyard_device::topology::Spec;
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{RuntimeError, Tensor};
use smallvec::smallvec;

use super::inputs::{compare, place, spread};
use super::reference::{product, sum_rounding};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_kernels::{OperandLayout, Staging, gemm, gemm_blocked};
use cubeyard_tl::numeric::{TileType, infer};
use cubeyard_tl::pack;

pub(super) struct Gemm;

const STAGINGS: &[&str] = &["blocked", "load-ref", "ref-ref", "load-load"];
const LAYOUTS: &[&str] = &["row-major", "tiled"];
const TYPES: &[DType] =
    &[DType::F16, DType::Bf16, DType::F32, DType::Fp8E4m3, DType::Fp8E5m2, DType::I8, DType::U8];

impl Bench for Gemm {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn summary(&self) -> &'static str {
        "a matrix product on one PE; the published one is m=32 k=3072 n=32 staging=load-ref"
    }

    fn parameters(&self) -> Vec<Parameter> {
        let length = |name, help| Parameter::whole(name, 512, (1, 1 << 16), help);
        vec![
            length("m", "rows of A and of the product"),
            length("k", "columns of A, rows of B"),
            length("n", "columns of B and of the product"),
            Parameter::choice("staging", STAGINGS, "blocked, or A and B preloaded or streamed"),
            Parameter::choice(
                "layout",
                LAYOUTS,
                "memory layout of streamed operands and of the product",
            ),
            Parameter::dtype("dtype", TYPES, "element type of A and B"),
            Parameter::whole("block-m", 128, (1, 1 << 16), "rows of a block, if blocked"),
            Parameter::whole("block-k", 512, (1, 1 << 16), "depth of a block, if blocked"),
            Parameter::whole("block-n", 1024, (1, 1 << 16), "columns of a block, if blocked"),
        ]
    }

    fn needs(&self, values: &Values, topology: &Topology, _: u64) -> Needs {
        let [m, k, n] = values.wholes(["m", "k", "n"]);
        let matrices = [[m, k], [k, n], [m, n]].map(Needs::elements).into_iter().sum::<Needs>();
        if values.choice("staging") != "blocked" {
            return matrices + Needs::tiles(topology, [m, k, n]);
        }
        let [of_m, of_k, of_n] = [(m, "block-m"), (k, "block-k"), (n, "block-n")]
            .map(|(length, block)| length.div_ceil(values.whole(block)));
        // Each step loads two blocks and multiplies them; the sum is stored.
        matrices + Needs::commands([3, of_m, of_k, of_n]) + Needs::commands([of_m, of_n])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let case = Case::of(lab, values)?;
        let [m, k, n] = case.shape;
        // Inputs are non-negative, so that nothing cancels and the error is bounded by the sum.
        let most = if case.dtype.is_float() { 1.0 } else { 3.0 };
        let left = spread(lab, m * k, case.dtype, 1, [0.0, most])?;
        let right = spread(lab, k * n, case.dtype, 2, [0.0, most])?;
        let product = case.launch(lab, &left, &right)?;
        // Products are exact in the accumulator's type; the sum is rounded at each term.
        let tolerance = if case.dtype.is_float() { sum_rounding(k) } else { 0.0 };
        let check = compare(lab, &product, tolerance, || case.expected(&left, &right))?;
        let results = m * n * case.output.size();
        let bytes = (m * k + k * n) * case.dtype.size() + results;
        let (gemm, largest) = (Some((case.dtype, 2 * m * k * n)), Some(case.shape));
        let work = Work { gemm, largest, results, bytes, ..Work::default() };
        Ok(Outcome { work, check, notes: case.notes(), ..Outcome::default() })
    }
}

/// Parameters of a run.
struct Case {
    shape: [u64; 3],
    block: [u64; 3],
    dtype: DType,
    output: DType,
    /// Staging of the operands; `None` for staging in blocks.
    staging: Option<Staging>,
    layout: OperandLayout,
    machine: Spec,
}

impl Case {
    fn of(lab: &Lab, values: &Values) -> Result<Self, BenchError> {
        let dtype = values.dtype("dtype");
        let staging = match values.choice("staging") {
            "load-ref" => Some(Staging::LoadRef),
            "ref-ref" => Some(Staging::RefRef),
            "load-load" => Some(Staging::LoadLoad),
            _ => None,
        };
        let layout = match values.choice("layout") {
            "tiled" => OperandLayout::Tiled,
            _ => OperandLayout::RowMajor,
        };
        let one = TileType { dtype, shape: smallvec![1, 1] };
        let output = infer::dot(&one, &one, None).map_or(dtype, |ty| ty.dtype);
        let case = Self {
            shape: values.wholes(["m", "k", "n"]),
            block: values.wholes(["block-m", "block-k", "block-n"]),
            dtype,
            output,
            staging,
            layout,
            machine: lab.context.machine(|machine| machine.topology().spec().clone()),
        };
        case.check()?;
        Ok(case)
    }

    fn check(&self) -> Result<(), BenchError> {
        if self.staging.is_some() || self.layout == OperandLayout::RowMajor {
            return Ok(());
        }
        let what =
            "gemm: layout=tiled with staging=blocked: expected another staging, as blocks are rows";
        Err(BenchError::Unfit(what.to_owned()))
    }

    /// Runs the kernel and returns the product.
    fn launch(&self, lab: &Lab, left: &[f64], right: &[f64]) -> Result<Tensor, RuntimeError> {
        let [m, k, n] = self.shape;
        let [tile_m, tile_k, tile_n] = self.tile();
        let (a_by_tile, b_by_tile) = self.by_tile();
        let left_tile = a_by_tile.then_some([tile_m, tile_k]);
        let left = self.input(lab, [m, k], left, left_tile)?;
        let right_tile = b_by_tile.then_some([tile_k, tile_n]);
        let right = self.input(lab, [k, n], right, right_tile)?;
        let tile = self.staging.map(|_| [tile_m, tile_n]);
        let dimensions = self.dimensions([m, n], tile);
        let product =
            lab.context.empty(&dimensions, self.output)?.to(&Placement::one(lab.sips[0]))?;
        let (kernel, numbers) = match self.staging {
            Some(staging) => (gemm(staging, self.layout), self.shape),
            None => (gemm_blocked(), self.block),
        };
        lab.launch(&kernel, vec![&left, &right, &product], numbers.to_vec(), 1, 1)?;
        Ok(product)
    }

    fn tile(&self) -> [u64; 3] {
        let gemm = &self.machine.pe.core.gemm;
        [gemm.m, gemm.k, gemm.n].map(u64::from)
    }

    /// Returns whether A and B are loaded tile by tile.
    fn by_tile(&self) -> (bool, bool) {
        let is_b = matches!(self.staging, Some(Staging::RefRef | Staging::LoadRef));
        (self.staging == Some(Staging::RefRef), is_b)
    }

    /// Returns the dimensions of a matrix in memory: one if it is moved by tiles in a tiled layout.
    fn dimensions(&self, shape: [u64; 2], tile: Option<[u64; 2]>) -> Vec<u64> {
        match self.tiled(tile) {
            None => shape.to_vec(),
            Some(tile) => {
                vec![shape[0].next_multiple_of(tile[0]) * shape[1].next_multiple_of(tile[1])]
            }
        }
    }

    fn tiled(&self, tile: Option<[u64; 2]>) -> Option<[u64; 2]> {
        tile.filter(|_| self.layout == OperandLayout::Tiled)
    }

    /// Places an operand in memory.
    fn input(
        &self,
        lab: &Lab,
        shape: [u64; 2],
        values: &[f64],
        tile: Option<[u64; 2]>,
    ) -> Result<Tensor, RuntimeError> {
        let tiles = self.tiled(tile).filter(|_| lab.has_data);
        let stored = tiles.map_or_else(|| values.to_vec(), |tile| pack(values, shape, tile));
        let over = Placement::one(lab.sips[0]);
        place(lab, &self.dimensions(shape, tile), self.dtype, &over, &stored)
    }

    /// Returns the expected product in its memory layout.
    fn expected(&self, left: &[f64], right: &[f64]) -> Vec<f64> {
        let ([m, k, n], [tile_m, _, tile_n]) = (self.shape, self.tile());
        let product = product(left, right, k, n);
        match self.layout {
            OperandLayout::RowMajor => product,
            OperandLayout::Tiled => pack(&product, [m, n], [tile_m, tile_n]),
        }
    }

    fn notes(&self) -> Vec<String> {
        let by_rows = self.layout == OperandLayout::RowMajor;
        if by_rows && self.by_tile().1 { vec![self.channels_note()] } else { Vec::new() }
    }

    /// Returns a note on the number of memory channels that the rows of a tile of B use.
    fn channels_note(&self) -> String {
        let ([_, k, n], [_, tile_k, tile_n]) = (self.shape, self.tile());
        let (burst, channels) =
            (self.machine.hbm.burst.get(), u64::from(self.machine.hbm.channels));
        let (pitch, row) = (n * self.dtype.size(), n.min(tile_n) * self.dtype.size());
        let mut used: Vec<_> = (0..k.min(tile_k))
            .flat_map(|index| index * pitch / burst..(index * pitch + row).div_ceil(burst))
            .map(|at| at % channels)
            .collect();
        used.sort_unstable();
        used.dedup();
        format!(
            "a tile of B is {} rows of {row} bytes, {pitch} apart: they lie on {} of the {channels} \
             channels of the memory, at a burst of {burst} bytes or more each; layout=tiled has each tile \
             in one piece",
            k.min(tile_k),
            used.len()
        )
    }
}
