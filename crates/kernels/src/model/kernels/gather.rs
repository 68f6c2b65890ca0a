//! What the PEs of a group have computed of some tokens, and who gets what of their attention.

use super::Here;
use crate::tl::{Ref, Tile};

impl Here {
    /// Q, K and V of some tokens of the step: a tile of tokens, heads and features, in which the heads of K and
    /// of V come behind those of Q. It is in argument 0, in parts, all of them in this cube.
    #[track_caller]
    pub(super) fn projected(&self, first: u64, count: u64) -> Tile {
        let (tl, cut) = (&self.tl, &self.cut);
        let (tokens, width, parts) = (cut.tokens(), cut.qkv(), cut.units());
        let all = self.args.tensor(0).whole().at(first * width, &[parts, count, width]);
        let parts = tl.load(&all.strided(&[tokens * width, width, 1]));
        let parts = if count == 1 { parts } else { tl.permute(&parts, &[1, 0, 2]) };
        tl.reshape(&parts, &[count, cut.spec.group() + 2, cut.spec.head_dim])
    }

    /// Some of the heads of what [`projected`](Self::projected) gives.
    #[track_caller]
    pub(super) fn heads(&self, tile: &Tile, first: u64, count: u64) -> Tile {
        let shape = [tile.dim(0), count, tile.dim(2)];
        self.tl.slice(tile, &[0, first, 0], &shape)
    }

    /// Gives each cube of the group its heads of a tile of rows, heads and features, and takes those of this
    /// cube from the other cubes' PEs at this position. `has` says of how many rows a unit has something.
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
