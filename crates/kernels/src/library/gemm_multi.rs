//! `C = A B`, each PE its part, with A resident in the TCM and B streamed.

use super::ahead::ahead;
use super::panels::panels;
use crate::kernel::{Args, Kernel};
use crate::tl::{Ref, Tile, Tl};

/// Multiplies what each PE holds of two matrices. B and C lie panel by panel in each PE. Arguments: A, B, C;
/// the rows of A that are in the TCM at once; the columns of a panel; and 1 if B is loaded panel by panel, 0 if
/// tile by tile of the matrix engine.
pub fn gemm_multi() -> Kernel {
    Kernel::new("gemm_multi", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let [a, b, c] = [0, 1, 2].map(|position| args.tensor(position).local());
    let (rows, width, by_panel) = (args.whole(3), args.whole(4), args.whole(5) == 1);
    for block in 0..tl.cdiv(a.dim(0), rows) {
        let start = block * rows;
        let count = rows.min(a.dim(0) - start);
        let resident = tl.load(&a.block(&[start, 0], &[count, a.dim(1)]));
        let outs = panels(tl, &c, width);
        let outs = outs.map(|out| out.block(&[start, 0], &[count, out.dim(1)]));
        if by_panel {
            stream(tl, &resident, panels(tl, &b, width), outs);
        } else {
            for (panel, out) in panels(tl, &b, width).zip(outs) {
                tl.gemm(&resident, &panel).store(&out);
            }
        }
    }
}

/// Multiplies a matrix in the TCM with others, each of which is loaded while the one before is in use.
pub(super) fn stream(
    tl: &Tl,
    resident: &Tile,
    panels: impl Iterator<Item = Ref>,
    outs: impl Iterator<Item = Ref>,
) {
    for (panel, out) in ahead(panels.map(|panel| tl.load(&panel))).zip(outs) {
        tl.gemm(resident, &panel).store(&out);
    }
}
