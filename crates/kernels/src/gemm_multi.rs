//! `C = A B` on many PEs, with A resident in the TCM and B streamed.

use super::ahead::ahead;
use super::panels::panels;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Source, Tl};

/// Multiplies the parts of two matrices that each PE holds. B and C are stored panel by panel in each PE. Arguments: A,
/// B, C; the rows of A in the TCM at once; the columns of a panel; and 1 if B is loaded panel by panel, 0 if by tiles
/// of the matrix unit.
pub fn gemm_multi() -> Kernel {
    Kernel::new("gemm_multi", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let [a, b, c] = [0, 1, 2].map(|position| args.tensor(position).local());
    let (rows, width, by_panel) = (args.whole(3), args.whole(4), args.whole(5) == 1);
    let products: Vec<_> = panels(tl, &b, width).zip(panels(tl, &c, width)).collect();
    stream(tl, &a, rows, &products, by_panel);
}

/// Multiplies a matrix with panels, one block of rows after another. A panel is loaded while its predecessor is in use,
/// or tile by tile by the product itself. The order of panels alternates, so that the panel at each turn is loaded
/// once.
pub(super) fn stream(tl: &Tl, a: &Ref, rows: u64, products: &[(Ref, Ref)], by_panel: bool) {
    let (mut held, mut panel) = (None, None);
    let steps =
        (0..tl.cdiv(a.dim(0), rows)).flat_map(|block| back_and_forth(block, products.len()));
    let loads = steps.map(|(block, index)| {
        let (start, (b, out)) = (block * rows, &products[index]);
        let shape = [rows.min(a.dim(0) - start), a.dim(1)];
        let a = keep(&mut held, block, || tl.load(&a.block(&[start, 0], &shape)));
        let load = || Source::from(&tl.load(b));
        let b = if by_panel { keep(&mut panel, index, load) } else { Source::from(b) };
        (a, b, out.block(&[start, 0], &[shape[0], out.dim(1)]))
    });
    for (a, b, out) in ahead(loads) {
        tl.gemm(&a, b).store(&out);
    }
}

/// Returns the panels for a block of rows, alternately forwards and backwards.
fn back_and_forth(block: u64, count: usize) -> impl Iterator<Item = (u64, usize)> {
    let index = move |at| if block.is_multiple_of(2) { at } else { count - 1 - at };
    (0..count).map(move |at| (block, index(at)))
}

/// Returns the held value if it has this key, else replaces it by a new one.
fn keep<K: PartialEq, T: Clone>(held: &mut Option<(K, T)>, key: K, new: impl FnOnce() -> T) -> T {
    let same = held.take().filter(|(known, _)| *known == key);
    held.insert(same.unwrap_or_else(|| (key, new()))).1.clone()
}
