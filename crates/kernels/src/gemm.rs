//! `c = a b` on one PE, with different staging of the operands.

use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Tile, Tl};

/// Staging of the operands before the product begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    /// Both operands stay in memory; each step loads a tile of each.
    RefRef,
    /// `a` is loaded whole before the product begins, `b` tile by tile.
    LoadRef,
    /// Both operands are loaded whole before the product begins.
    LoadLoad,
}

/// Memory layout of streamed operands and of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandLayout {
    /// Row by row.
    RowMajor,
    /// In contiguous tiles of the matrix unit; see [`Ref::packed`].
    Tiled,
}

/// Multiplies by one tiled operation. Arguments: a, b, c, and M, K and N. Operands that are loaded whole are
/// always row-major.
pub fn gemm(staging: Staging, layout: OperandLayout) -> Kernel {
    let name = format!("gemm {staging:?} {layout:?}");
    Kernel::new(&name, move |tl, args| Box::pin(async move { tiled(staging, layout, &tl, &args) }))
}

fn tiled(staging: Staging, layout: OperandLayout, tl: &Tl, args: &Args) {
    let [m, k, n] = [3, 4, 5].map(|position| args.whole(position));
    let [tile_m, tile_k, tile_n] = tl.gemm_tile();
    let matrix = |position: usize, shape: [u64; 2], tile: [u64; 2]| {
        let local = args.tensor(position).local();
        match layout {
            OperandLayout::RowMajor => local,
            OperandLayout::Tiled => Ref::packed(local.address(), shape, local.ty().dtype, tile),
        }
    };
    let left = || matrix(0, [m, k], [tile_m, tile_k]);
    let right = || matrix(1, [k, n], [tile_k, tile_n]);
    let loaded = |position: usize| tl.load(&args.tensor(position).local());
    let product = match staging {
        Staging::RefRef => tl.gemm(&left(), &right()),
        Staging::LoadRef => tl.gemm(&loaded(0), &right()),
        Staging::LoadLoad => tl.gemm(&loaded(0), &loaded(1)),
    };
    product.store(&matrix(2, [m, n], [tile_m, tile_n]));
}

/// Multiplies block by block: blocks of both operands are loaded while the previous ones are multiplied, and the sum
/// stays in the TCM until it is complete. Arguments: a, b, c, and M, K and N of a block.
pub fn gemm_blocked() -> Kernel {
    Kernel::new("gemm blocked", |tl, args| Box::pin(async move { blocked(&tl, &args) }))
}

fn blocked(tl: &Tl, args: &Args) {
    let [left, right, product] = [0, 1, 2].map(|position| args.tensor(position).local());
    let [m, k, n] = [3, 4, 5].map(|position| args.whole(position));
    for row in 0..tl.cdiv(left.dim(0), m) {
        for column in 0..tl.cdiv(right.dim(1), n) {
            let mut sum: Option<Tile> = None;
            for step in 0..tl.cdiv(left.dim(1), k) {
                let left_block = tl.load(&clipped(&left, [row * m, step * k], [m, k]));
                let right_block = tl.load(&clipped(&right, [step * k, column * n], [k, n]));
                sum = Some(added(tl, &left_block, &right_block, sum.as_ref()));
            }
            if let Some(sum) = sum {
                tl.store(&clipped(&product, [row * m, column * n], [m, n]), &sum);
            }
        }
    }
}

fn added(tl: &Tl, a: &Tile, b: &Tile, sum: Option<&Tile>) -> Tile {
    match sum {
        Some(sum) => tl.dot_add(a, b, sum),
        None => tl.dot(a, b),
    }
}

/// Returns a block of a matrix, clipped at the edges.
fn clipped(matrix: &Ref, start: [u64; 2], shape: [u64; 2]) -> Ref {
    let left = |axis: usize| shape[axis].min(matrix.dim(axis) - start[axis]);
    matrix.block(&start, &[left(0), left(1)])
}
