//! Matrices stored panel by panel.
//!
//! In a wide row-major matrix, the rows of a tile are short and far apart: they are parts of bursts, and with a pitch
//! of a multiple of 2 KiB they all fall on one channel. Streamed operands are therefore stored as panels: a range of
//! columns, row by row, then the next columns. A tile of a panel is contiguous.

use cubeyard_tl::{Ref, Tl};

/// Returns the panels of a matrix that is stored as panels; each has `width` columns, the last may have fewer.
#[track_caller]
pub(super) fn panels(tl: &Tl, matrix: &Ref, width: u64) -> impl Iterator<Item = Ref> + use<> {
    let (matrix, count) = (matrix.clone(), tl.cdiv(matrix.dim(1), width));
    (0..count).map(move |index| {
        let (rows, first) = (matrix.dim(0), index * width);
        matrix.at(rows * first, &[rows, width.min(matrix.dim(1) - first)])
    })
}
