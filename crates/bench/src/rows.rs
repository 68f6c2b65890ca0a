//! Shared parts of benches that process each row of a matrix.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};

use super::inputs::core;
use super::{BenchError, Lab, Needs, Parameter, Values, Work};

const TYPES: &[DType] = &[DType::F16, DType::Bf16, DType::F32];

/// Returns the parameters of these benches, with a default number of rows per load.
pub(super) fn parameters(tile: u64) -> Vec<Parameter> {
    vec![
        Parameter::whole("rows", 4096, (1, 1 << 30), "rows of the matrix"),
        Parameter::whole("columns", 1024, (1, 1 << 20), "columns of the matrix"),
        Parameter::whole("tile", tile, (1, 1 << 20), "rows per load"),
        Parameter::dtype("dtype", TYPES, "element type"),
        Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
        Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
    ]
}

/// Returns the needs of a run: a tile is loaded, computed in a pass, and stored.
pub(super) fn needs(values: &Values) -> Needs {
    let [rows, columns, tile] = values.wholes(["rows", "columns", "tile"]);
    Needs::elements([2, rows, columns]) + Needs::commands([3, rows.div_ceil(tile)])
}

/// Returns the work of a norm that computes a sum and three simple operations per element; narrower types are cast to
/// f32 before, and back afterwards.
pub(super) fn norm_work(lab: &Lab, elements: u64, dtype: DType) -> Work {
    let math = core(lab).math;
    let sum = math.simple.bytes_per_second() / math.reduce.bytes_per_second().max(1);
    let casts = if dtype == DType::F32 { 0 } else { 2 };
    let bytes = elements * dtype.size();
    let elements = elements * (sum + 3 + casts);
    Work { elements, tcm: [bytes; 2], bytes: 2 * bytes, ..Work::default() }
}

/// Matrix whose rows are spread over PEs.
pub(super) struct RowMatrix {
    pub(super) rows: u64,
    pub(super) columns: u64,
    pub(super) cubes: u64,
    pub(super) pes: u64,
    pub(super) dtype: DType,
    pub(super) over: Placement,
}

impl RowMatrix {
    /// Reads the [`parameters`] of a bench, and checks that every PE has a row.
    pub(super) fn new(bench: &str, lab: &Lab, values: &Values) -> Result<Self, BenchError> {
        let [rows, columns, cubes, pes] = values.wholes(["rows", "columns", "cubes", "pes"]);
        at_least(bench, rows, cubes * pes)?;
        let over = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        Ok(Self { rows, columns, cubes, pes, dtype: values.dtype("dtype"), over })
    }
}

/// Checks that every PE has a row.
fn at_least(bench: &str, rows: u64, pes: u64) -> Result<(), BenchError> {
    if rows >= pes {
        return Ok(());
    }
    let what = format!("{bench}: rows={rows}: expected at least one for each of {pes} PEs");
    Err(BenchError::Unfit(what))
}
