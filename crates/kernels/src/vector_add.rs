//! `z = x + y`, block by block.

use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};

/// Adds two tensors; each PE processes the part that it holds. Arguments: x, y, z, and the elements per block.
pub fn vector_add() -> Kernel {
    Kernel::new("vector_add", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let [x, y, z] = [0, 1, 2].map(|position| args.tensor(position).local());
    let block = args.whole(3);
    for index in 0..tl.cdiv(x.dim(0), block) {
        let (start, shape) = ([index * block], [block]);
        let mask = x.inside(&start, &shape);
        let left = tl.load_masked(&x.block(&start, &shape), &mask, 0.0);
        let right = tl.load_masked(&y.block(&start, &shape), &mask, 0.0);
        tl.store_masked(&z.block(&start, &shape), &(&left + &right), &mask);
    }
}
