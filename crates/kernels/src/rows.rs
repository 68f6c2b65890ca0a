//! Parts of kernels that process each row of a matrix.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Lazy, Tile, Tl};

/// Returns a reduction of rows of `columns` elements so that an expression can spread it over the rows again: within the
/// same pass if a row fits in a strip of the vector unit, else after a pass of its own.
#[track_caller]
pub(super) fn of_rows(tl: &Tl, reduction: Lazy, columns: u64) -> Lazy {
    if columns <= tl.strip_elements() { reduction } else { tl.eval(&reduction).lazy() }
}

/// Casts a tile to `f32`, unless it is that already.
#[track_caller]
pub(super) fn wide(tl: &Tl, tile: Tile) -> Tile {
    if tile.ty().dtype == DType::F32 { tile } else { tl.cast(&tile, DType::F32) }
}
