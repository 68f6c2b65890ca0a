//! Projection of tokens to queries, keys and values, by heads.

use super::gemm_multi::stream;
use super::panels::panels;
use cubeyard_tl::kernel::{Args, Kernel, TensorArg};
use cubeyard_tl::{Ref, Tl};

/// Multiplies tokens by the weights of the heads that a PE holds. Arguments: the tokens, as rows;
/// the weights of Q, K and V, each with a row per head, stored panel by panel; Q, K and V, each with
/// a row per head, which is a matrix of tokens by head dimension; the tokens in the TCM at once;
/// the head dimension; and the columns of a panel.
pub fn qkv() -> Kernel {
    Kernel::new("qkv", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let x = args.tensor(0).local();
    let [block, size, width] = [7, 8, 9].map(|position| args.whole(position));
    let weights = [1, 2, 3].into_iter().flat_map(|position| heads(args, position, size));
    let outs = [4, 5, 6].into_iter().flat_map(|position| heads(args, position, size));
    let weights = weights.flat_map(|head| panels(tl, &head, width));
    let outs = outs.flat_map(|head| columns(tl, &head, width));
    stream(tl, &x, block, &weights.zip(outs).collect::<Vec<_>>(), true);
}

/// Returns the matrices of the heads of a tensor that this PE holds; empty if it holds none.
fn heads(args: &Args, position: usize, size: u64) -> Vec<Ref> {
    let tensor: TensorArg<'_> = args.tensor(position);
    let Some(local) = tensor.local_if_any() else { return Vec::new() };
    let rows = local.dim(1) / size.max(1);
    (0..local.dim(0)).map(|head| local.at(head * local.dim(1), &[rows, size])).collect()
}

/// Splits a row-major matrix into ranges of columns.
fn columns(tl: &Tl, matrix: &Ref, width: u64) -> impl Iterator<Item = Ref> + use<> {
    let (matrix, count) = (matrix.clone(), tl.cdiv(matrix.dim(1), width));
    (0..count).map(move |index| {
        let first = index * width;
        matrix.block(&[0, first], &[matrix.dim(0), width.min(matrix.dim(1) - first)])
    })
}
