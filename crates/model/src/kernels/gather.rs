//! Collection of the group's projections of some tokens, and distribution of the attention output.

use super::Here;
use cubeyard_tl::{Ref, Tile};

impl Here {
    /// Loads Q, K and V of some tokens of the step as a tile of tokens, heads and features, in which the heads
    /// of K and of V follow those of Q. They are in argument 0, in parts, all of them in this cube.
    #[track_caller]
    pub(super) fn projected(&self, first: u64, count: u64) -> Tile {
        let (tl, cut) = (&self.tl, &self.cut);
        let (tokens, width, parts) = (cut.tokens(), cut.qkv(), cut.units());
        let all = self.args.tensor(0).whole().at(first * width, &[parts, count, width]);
        let parts = tl.load(&all.strided(&[tokens * width, width, 1]));
        let parts = if count == 1 { parts } else { tl.permute(&parts, &[1, 0, 2]) };
        tl.reshape(&parts, &[count, cut.spec.group() + 2, cut.spec.head_dim])
    }

    /// Returns some of the heads of a tile of [`projected`](Self::projected).
    #[track_caller]
    pub(super) fn heads(&self, tile: &Tile, first: u64, count: u64) -> Tile {
        let shape = [tile.dim(0), count, tile.dim(2)];
        self.tl.slice(tile, &[0, first, 0], &shape)
    }

    /// Sends each cube of the group its heads of a tile of rows, heads and features, and receives those of this
    /// cube from the other cubes' PEs at this position. `has` returns the number of rows that a unit has.
    #[track_caller]
    pub(super) fn deal(
        &self,
        out: &Ref,
        first: u64,
        tile: Option<&Tile>,
        has: impl Fn(u64) -> u64,
    ) {
        let (tl, cut) = (&self.tl, &self.cut);
        let heads = cut.spec.group() / cut.group_cubes;
        let width = out.dim(1);
        let place =
            |cube: u64, rows: u64| out.block(&[cube * cut.unit_rows() + first, 0], &[rows, width]);
        let of_cube = |tile: &Tile, cube: u64| {
            let mine = self.heads(tile, cube * heads, heads);
            tl.reshape(&mine, &[tile.dim(0), width])
        };
        if let Some(tile) = tile {
            self.others().for_each(|(cube, port)| tl.send(port, &of_cube(tile, cube)));
            tl.store(&place(self.cube, tile.dim(0)), &of_cube(tile, self.cube));
        }
        for (cube, port) in self.others() {
            let rows = has(self.pe * cut.group_cubes + cube);
            if rows > 0 {
                let come = tl.recv_async(port, &[rows, width], out.ty().dtype);
                tl.store(&place(cube, rows), &come);
            }
        }
    }
}
