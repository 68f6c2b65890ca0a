//! Sums of squares for a norm.

use cubeyard_runtime::dtype::DType;

use super::Here;
use cubeyard_kernels::square_sums;

/// Computes the sum of squares of a PE's features of each token. Arguments: the tokens, and the sums.
///
/// The norm itself is applied after the following product, which is cheaper: (x W) r is (x r) W. The weights of the
/// norm are included in W.
pub(super) fn norm(here: &Here) {
    let (tl, [x, sums]) = (&here.tl, [0, 1].map(|position| here.args.tensor(position).local()));
    for rows in here.row_blocks(x.dim(0)) {
        let count = rows.end - rows.start;
        let tile = tl.load(&x.block(&[rows.start, 0], &[count, x.dim(1)]));
        let sum = tl.eval(&square_sums(&tile.lazy().cast(DType::F32)));
        tl.store(&sums.block(&[rows.start, 0], &[count, 1]), &sum);
    }
}
