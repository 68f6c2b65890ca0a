//! Rotary position embedding, and the norms of heads before it.

use cubeyard_runtime::dtype::DType;

use super::Here;
use cubeyard_kernels::rms_factor;
use cubeyard_tl::Tile;

/// Position of the weights of the head norms among the arguments.
const NORMS: usize = 8;

impl Here {
    /// Loads the cosines and sines of some of the step's positions, as rows, from argument `position`.
    #[track_caller]
    pub(super) fn angles(&self, position: usize, first: u64, count: u64) -> [Tile; 2] {
        let (table, half) = (self.args.tensor(position).local(), self.cut.spec.head_dim / 2);
        let all = self.cut.each;
        [0, all].map(|start| self.tl.load(&table.block(&[start + first, 0], &[count, half])))
    }

    /// Rotates pairs of features, one from each half, by the angles of their tokens. The tile has
    /// tokens, heads and features.
    #[track_caller]
    pub(super) fn turned(&self, tile: &Tile, [cosines, sines]: &[Tile; 2]) -> Tile {
        let (tl, half) = (&self.tl, self.cut.spec.head_dim / 2);
        let (tokens, heads) = (tile.dim(0), tile.dim(1));
        let angle = |tile: &Tile| tl.reshape(tile, &[tokens, 1, half]);
        let (cosines, sines) = (angle(cosines), angle(sines));
        let side = |first: u64| {
            tl.slice(tile, &[0, 0, first], &[tokens, heads, half]).lazy().cast(DType::F32)
        };
        let (a, b) = (side(0), side(half));
        let turned_a = (&a * &cosines - &(&b * &sines)).cast(tile.ty().dtype);
        let turned_b = (&b * &cosines + &(&a * &sines)).cast(tile.ty().dtype);
        let [turned_a, turned_b] = tl.eval_all([&turned_a, &turned_b]);
        let both = tl.paste(tile, &[0, 0, 0], &turned_a);
        tl.paste(&both, &[0, 0, half], &turned_b)
    }

    /// Normalises heads of Q, if the model has head norms.
    #[track_caller]
    pub(super) fn query_norm(&self, tile: &Tile) -> Tile {
        self.head_norm(tile, 0)
    }

    /// Normalises a head of K, if the model has head norms.
    #[track_caller]
    pub(super) fn key_norm(&self, tile: &Tile) -> Tile {
        self.head_norm(tile, 1)
    }

    /// Normalises the features of each head of a tile of tokens, heads and features.
    #[track_caller]
    fn head_norm(&self, tile: &Tile, which: u64) -> Tile {
        let (tl, size) = (&self.tl, self.cut.spec.head_dim);
        if !self.cut.spec.family.has_qk_norm {
            return tile.clone();
        }
        let row = 2 * self.args.whole(6) + which;
        let weights = tl.load(&self.args.tensor(NORMS).local().at(row * size, &[1, 1, size]));
        let wide = tile.lazy().cast(DType::F32);
        let factor = tl.eval(&rms_factor((&wide * &wide).sum_keep(2), size));
        self.narrow(&(wide * &factor * &weights.lazy().cast(DType::F32)))
    }
}
