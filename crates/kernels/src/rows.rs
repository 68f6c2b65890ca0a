//! Reductions of rows within a pass.

use cubeyard_tl::{Lazy, Tl};

/// Returns a reduction of rows of `columns` elements so that an expression can spread it over the rows again: within the
/// same pass if a row fits in a strip of the vector unit, else after a pass of its own.
#[track_caller]
pub(super) fn of_rows(tl: &Tl, reduction: Lazy, columns: u64) -> Lazy {
    if columns <= tl.strip_elements() { reduction } else { tl.eval(&reduction).lazy() }
}
