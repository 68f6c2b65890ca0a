//! `y = (x - mean) / sqrt(variance + ε) * gamma + beta` of each row, some rows at a time.

use cubeyard_runtime::dtype::DType;

use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Tile, Tl};

/// Added to the variance, so that a row of equal elements does not divide by 0.
pub const EPSILON: f64 = 1e-5;

/// Normalises each row; each PE processes the rows that it holds, and holds gamma and beta. Arguments: x,
/// gamma, beta, y, and the rows per tile. Narrow types are computed in `f32`.
pub fn layer_norm() -> Kernel {
    Kernel::new("layer_norm", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let [x, gamma, beta, y] = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let (rows, columns, tile) = (x.dim(0), x.dim(1), args.whole(4));
    let [gamma, beta] = [gamma, beta].map(|row| wide(tl, tl.load(&row)));
    for index in 0..tl.cdiv(rows, tile) {
        let start = [index * tile, 0];
        let shape = [tile.min(rows - index * tile), columns];
        let normal = normalised(tl, &wide(tl, tl.load(&x.block(&start, &shape))));
        let scaled = tl.fma(&normal, &gamma, &beta);
        tl.store(&y.block(&start, &shape), &narrow(tl, scaled, y.ty().dtype));
    }
}

/// Scales each row to mean 0 and variance 1. The mean is subtracted before squares are summed, because the
/// difference of two large sums would be mostly rounding error.
fn normalised(tl: &Tl, x: &Tile) -> Tile {
    let each = 1.0 / x.dim(1) as f64;
    let mean = &tl.sum_keep(x, 1) * each;
    let centred = x - &mean;
    let variance = &tl.sum_keep(&(&centred * &centred), 1) * each;
    &centred * &tl.rsqrt(&(&variance + EPSILON))
}

fn wide(tl: &Tl, tile: Tile) -> Tile {
    narrow(tl, tile, DType::F32)
}

/// Casts a tile to a type; free if it has that type.
fn narrow(tl: &Tl, tile: Tile, dtype: DType) -> Tile {
    if tile.ty().dtype == dtype { tile } else { tl.cast(&tile, dtype) }
}
