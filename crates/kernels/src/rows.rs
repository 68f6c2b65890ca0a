//! Parts of kernels that process each row of a matrix.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Lazy, Tile, Tl};

/// Returns a reduction of rows of `columns` elements that an expression can broadcast over the rows again: within the
/// same pass if a row fits in a strip of the vector unit, otherwise after a separate pass.
#[track_caller]
pub(super) fn of_rows(tl: &Tl, reduction: Lazy, columns: u64) -> Lazy {
    if columns <= tl.strip_elements() { reduction } else { tl.eval(&reduction).lazy() }
}

/// Casts a tile to `f32`, unless it already has that type.
#[track_caller]
pub(super) fn wide(tl: &Tl, tile: Tile) -> Tile {
    if tile.ty().dtype == DType::F32 { tile } else { tl.cast(&tile, DType::F32) }
}
