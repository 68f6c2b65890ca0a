//! Matrices that lie panel by panel.
//!
//! Row by row, the tiles of a wide matrix have rows that are short and far apart: pieces of bursts, and with
//! a pitch of 2 KiB or a multiple of it all on one channel. So operands that are streamed are stored as
//! panels: some columns, row by row, then the next columns. A tile of a panel is one piece of memory.

use crate::tl::{Ref, Tl};

/// The panels of a matrix that is stored so, each of `width` columns, but for the last.
#[track_caller]
pub(super) fn panels(tl: &Tl, matrix: &Ref, width: u64) -> impl Iterator<Item = Ref> + use<> {
    let (matrix, count) = (matrix.clone(), tl.cdiv(matrix.dim(1), width));
    (0..count).map(move |index| {
        let (rows, first) = (matrix.dim(0), index * width);
        matrix.at(rows * first, &[rows, width.min(matrix.dim(1) - first)])
    })
}
