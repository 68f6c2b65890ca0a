//! Lookup of the features of tokens in the embedding table.

use super::Here;

/// Stride that spreads tokens over the table; odd, so that it has no common divisor with most sizes.
const STRIDE: u64 = 2_654_435_761;

/// Loads a PE's features of each token from the table, whichever PE holds them. Only their location affects the time,
/// so tokens are spread over the table. Arguments: the table, and the tokens.
pub(super) fn embed(here: &Here) {
    let (tl, slice) = (&here.tl, here.cut.slice());
    let (table, out) = (here.args.tensor(0).whole(), here.args.tensor(1).local());
    for token in 0..out.dim(0) {
        let word = token * STRIDE % here.cut.spec.vocab;
        let row = tl.load(&table.block(&[word, here.pe * slice], &[1, slice]));
        tl.store(&out.block(&[token, 0], &[1, slice]), &row);
    }
}
