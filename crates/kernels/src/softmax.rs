//! `y = softmax(x)` of each row, a few rows at a time.

use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};

/// Applies softmax to each row; each PE processes the rows that it holds. Arguments: x, y, and the rows per
/// tile.
pub fn softmax() -> Kernel {
    Kernel::new("softmax", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let [x, y] = [0, 1].map(|position| args.tensor(position).local());
    let (rows, columns, tile) = (x.dim(0), x.dim(1), args.whole(2));
    for index in 0..tl.cdiv(rows, tile) {
        let start = [index * tile, 0];
        let shape = [tile.min(rows - index * tile), columns];
        let powers = tl.softmax(&tl.load(&x.block(&start, &shape)), 1);
        tl.store(&y.block(&start, &shape), &powers);
    }
}
