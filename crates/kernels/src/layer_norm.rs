//! `y = (x - mean) / sqrt(variance + ε) * gamma + beta` of each row, a few rows at a time.

use cubeyard_runtime::dtype::DType;

use super::ahead::ahead;
use super::rows::{of_rows, wide};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Lazy, Tile, Tl};

/// Term added to the variance, so that a row of equal elements does not divide by 0.
pub const EPSILON: f64 = 1e-5;

/// Normalises each row; each PE processes the rows that it holds, and holds gamma and beta. Arguments: x,
/// gamma, beta, y, and the rows per tile. Narrow types are computed in `f32`.
pub fn layer_norm() -> Kernel {
    Kernel::new("layer_norm", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// The mean of the next rows is computed before the current ones are normalised, in one pass.
fn body(tl: &Tl, args: &Args) {
    let [x, gamma, beta, y] = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let (rows, columns, tile) = (x.dim(0), x.dim(1), args.whole(4));
    let [gamma, beta] = [gamma, beta].map(|row| wide(tl, tl.load(&row)));
    let sums = RowSums::new(tl, x.ty().dtype, columns);
    let tiles = (0..tl.cdiv(rows, tile)).map(|index| {
        let (start, shape) = ([index * tile, 0], [tile.min(rows - index * tile), columns]);
        let x = tl.load(&x.block(&start, &shape));
        let mean = sums.of(tl, &x) * (1.0 / columns as f64);
        (x, mean, y.block(&start, &shape))
    });
    for (x, mean, y) in ahead(tiles) {
        let scaled = normalised(tl, &x, mean).fma(&gamma, &beta);
        tl.store(&y, &tl.eval(&scaled.cast(y.ty().dtype)));
    }
}

/// Scales each row to mean 0 and variance 1. The mean is subtracted before squares are summed, because the
/// difference of two large sums would be mostly rounding error.
fn normalised(tl: &Tl, x: &Tile, mean: Lazy) -> Lazy {
    let (columns, x) = (x.dim(1), x.lazy().cast(DType::F32));
    let centred = x - &of_rows(tl, mean, columns);
    let variance = (&centred * &centred).sum_keep(1) * (1.0 / columns as f64);
    centred * &of_rows(tl, (variance + EPSILON).rsqrt(), columns)
}

/// Row sums in `f32`. For narrow types, they are a product with a column of ones, which the matrix unit computes while
/// the vector unit normalises other rows; for other types, a reduction.
struct RowSums {
    ones: Option<Tile>,
}

impl RowSums {
    fn new(tl: &Tl, dtype: DType, columns: u64) -> Self {
        let is_narrow = matches!(dtype, DType::F16 | DType::Bf16);
        Self { ones: is_narrow.then(|| tl.full(&[columns, 1], 1.0, dtype)) }
    }

    fn of(&self, tl: &Tl, x: &Tile) -> Lazy {
        match &self.ones {
            Some(ones) => tl.dot(x, ones).lazy(),
            None => x.lazy().cast(DType::F32).sum_keep(1),
        }
    }
}
