//! Shared parts of benches that process each row of a matrix.

use cubeyard_runtime::dtype::DType;

use super::{BenchError, Parameter};

const TYPES: &[DType] = &[DType::F16, DType::Bf16, DType::F32];

/// Returns their parameters, with a default number of rows per load.
pub(super) fn parameters(tile: u64) -> Vec<Parameter> {
    vec![
        Parameter::whole("rows", 512, (1, 1 << 30), "rows of the matrix"),
        Parameter::whole("columns", 1024, (1, 1 << 20), "columns of the matrix"),
        Parameter::whole("tile", tile, (1, 1 << 20), "rows per load"),
        Parameter::dtype("dtype", TYPES, "element type"),
        Parameter::whole("cubes", 1, (1, 64), "number of cubes"),
        Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
    ]
}

/// Checks that every PE has a row.
pub(super) fn at_least(bench: &str, rows: u64, pes: u64) -> Result<(), BenchError> {
    if rows >= pes {
        return Ok(());
    }
    let what = format!("{bench}: rows={rows}: expected at least one for each of {pes} PEs");
    Err(BenchError::Unfit(what))
}
