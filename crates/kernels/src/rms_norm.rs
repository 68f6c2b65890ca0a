//! `y = x / sqrt(mean of x² + ε) * gamma` of each row, a few rows at a time.

use cubeyard_runtime::dtype::DType;

use super::ahead::ahead;
use super::layer_norm::EPSILON;
use super::rows::{of_rows, wide};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Lazy, Tl};

/// Divides each row by the root of the mean of its squares; each PE processes the rows that it holds, and holds gamma.
/// Arguments: x, gamma, y, and the rows per tile. Narrow types are computed in `f32`.
pub fn rms_norm() -> Kernel {
    Kernel::new("rms_norm", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// The next rows are loaded while the current ones are normalised, in one pass.
fn body(tl: &Tl, args: &Args) {
    let [x, gamma, y] = [0, 1, 2].map(|position| args.tensor(position).local());
    let (rows, columns, tile) = (x.dim(0), x.dim(1), args.whole(3));
    let gamma = wide(tl, tl.load(&gamma));
    let tiles = (0..tl.cdiv(rows, tile)).map(|index| {
        let (start, shape) = ([index * tile, 0], [tile.min(rows - index * tile), columns]);
        (tl.load(&x.block(&start, &shape)), y.block(&start, &shape))
    });
    for (x, y) in ahead(tiles) {
        let x = x.lazy().cast(DType::F32);
        let factor = of_rows(tl, rms_factor(square_sums(&x), columns), columns);
        tl.store(&y, &tl.eval(&(x * &factor * &gamma).cast(y.ty().dtype)));
    }
}

/// Returns the sum of the squares of each row.
#[track_caller]
pub fn square_sums(x: &Lazy) -> Lazy {
    (x * x).sum_keep(1)
}

/// Returns the scale factor of rows of `columns` elements, given the sums of their squares.
#[track_caller]
pub fn rms_factor(square_sums: Lazy, columns: u64) -> Lazy {
    (square_sums * (1.0 / columns as f64) + EPSILON).rsqrt()
}
