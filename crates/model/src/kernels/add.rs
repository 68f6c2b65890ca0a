//! Addition of normalised results to the residual tokens.

use cubeyard_runtime::dtype::DType;

use super::{Here, Pick};

/// Normalises the result of attention or of the feed-forward part, and adds it to the tokens. Arguments: the result,
/// its sums of squares, the tokens, the weights of these norms, and the row of the weights to use.
pub(super) fn add(here: &Here) {
    let (tl, slice) = (&here.tl, here.cut.slice());
    let [result, tokens, norms] = [0, 2, 3].map(|position| here.args.tensor(position).local());
    let weights = tl.load(&norms.at(here.args.whole(4) * slice, &[1, slice]));
    for rows in here.row_blocks(here.cut.tokens()) {
        let shape = [rows.end - rows.start, slice];
        let place = |of: &cubeyard_tl::Ref| of.block(&[rows.start, 0], &shape);
        let [result, before] =
            [&result, &tokens].map(|of| tl.load(&place(of)).lazy().cast(DType::F32));
        let scale = here.scale(&Pick::ALL, &rows);
        let sum = result * &scale * &weights.lazy().cast(DType::F32) + &before;
        tl.store(&place(&tokens), &here.narrow(&sum));
    }
}
