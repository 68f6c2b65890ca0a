//! `y = f(W x)`, each PE with its rows of W: a linear layer whose input has a row per feature and a column per
//! token.

use cubeyard_runtime::dtype::DType;

use super::ahead::ahead;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Lazy, Tile, Tl};

/// Activation function of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// The sums unchanged.
    Identity,
    /// The sigmoid linear unit x · sigmoid(x).
    Silu,
    /// GELU as in GPT-2: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).
    Gelu,
}

impl Activation {
    /// Returns the name used in parameters and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Silu => "silu",
            Self::Gelu => "gelu",
        }
    }

    /// Applies the function to a number.
    pub fn of(self, x: f64) -> f64 {
        match self {
            Self::Identity => x,
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Gelu => 0.5 * x * (1.0 + (GELU[0] * (x + GELU[1] * x * x * x)).tanh()),
        }
    }

    /// Applies the function to the elements of a tile and casts them, in one pass; there is no pass if nothing changes.
    #[track_caller]
    pub(super) fn tile(self, tl: &Tl, x: &Tile, dtype: DType) -> Tile {
        match self {
            Self::Identity if x.ty().dtype == dtype => x.clone(),
            _ => tl.eval(&self.lazy(&x.lazy()).cast(dtype)),
        }
    }

    #[track_caller]
    fn lazy(self, x: &Lazy) -> Lazy {
        match self {
            Self::Identity => x.clone(),
            Self::Silu => x * &x.sigmoid(),
            Self::Gelu => {
                let slope = (x * x).fma(GELU[0] * GELU[1], GELU[0]);
                let half = x * 0.5;
                half.fma(&(&slope * x).tanh(), &half)
            }
        }
    }
}

/// The constants of GELU: √(2/π), and the factor of x³.
const GELU: [f64; 2] = [0.797_884_560_802_865_4, 0.044_715];

/// Multiplies the rows of W that each PE holds. Arguments: W; x, whose rows may be on any PE; y, with its rows placed
/// like the rows of W; the rows of W in the TCM at once; and the offset in rows of x between consecutive cubes, if each
/// cube uses only a part of x.
pub fn linear(activation: Activation) -> Kernel {
    let name = format!("linear {}", activation.name());
    Kernel::new(&name, move |tl, args| Box::pin(async move { body(activation, &tl, &args) }))
}

fn body(activation: Activation, tl: &Tl, args: &Args) {
    let (w, x, y) = (args.tensor(0).local(), args.tensor(1).whole(), args.tensor(2).local());
    let (block, each) = (args.whole(3).max(1), args.whole(4));
    let input = tl.load(&x.block(&[tl.program_id(1) * each, 0], &[w.dim(1), x.dim(1)]));
    let loads = (0..tl.cdiv(w.dim(0), block)).map(|index| {
        let (start, rows) = (index * block, block.min(w.dim(0) - index * block));
        (start, rows, tl.load(&w.block(&[start, 0], &[rows, w.dim(1)])))
    });
    let sums = ahead(loads).map(|(start, rows, weights)| (start, rows, tl.dot(&weights, &input)));
    for (start, rows, sum) in ahead(sums) {
        let sum = activation.tile(tl, &sum, y.ty().dtype);
        tl.store(&y.block(&[start, 0], &[rows, y.dim(1)]), &sum);
    }
}
