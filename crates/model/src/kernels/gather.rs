//! Gathers the group's projections of some tokens, and distributes the attention output.

use super::Here;
use cubeyard_tl::{Ref, Tile};

impl Here {
    /// Loads Q, K and V of some tokens of the step as a tile of tokens, heads and features, in which the heads of K and
    /// V follow the heads of Q. Argument 0 contains them in parts, all of them in this cube.
    #[track_caller]
    pub(super) fn projected(&self, first: u64, count: u64) -> Tile {
        let (tl, cut) = (&self.tl, &self.cut);
        let (tokens, width, parts) = (cut.tokens(), cut.qkv(), cut.units());
        let all = self.args.tensor(0).whole().at(first * width, &[parts, count, width]);
        let loaded = tl.load(&all.strided(&[tokens * width, width, 1]));
        let mut rows = if count == 1 { loaded } else { tl.permute(&loaded, &[1, 0, 2]) };
        let (heads, size) = (cut.heads.projected(), cut.spec.head_dim);
        if parts * width > heads * size {
            // The last columns are padding.
            rows = tl.reshape(&rows, &[count, parts * width]);
            rows = tl.slice(&rows, &[0, 0], &[count, heads * size]);
        }
        tl.reshape(&rows, &[count, heads, size])
    }

    /// Returns the heads of Q, K and V of a slot, from a tile of [`projected`](Self::projected).
    #[track_caller]
    pub(super) fn slot_heads(&self, tile: &Tile, slot: u64) -> [Tile; 3] {
        let (first, queries) = (slot * self.cut.heads.of_slot(), self.cut.heads.queries);
        [(0, queries), (queries, 1), (queries + 1, 1)]
            .map(|(head, count)| self.heads(tile, first + head, count))
    }

    /// Joins tiles of rows, heads and features into one tile with all heads.
    #[track_caller]
    pub(super) fn concat(&self, tiles: Vec<Tile>) -> Tile {
        let [rows, heads, size] = [0, 1, 2].map(|axis| tiles[0].dim(axis));
        let count = tiles.len() as u64;
        self.joined_along_heads(tiles, [rows, heads * count, size])
    }

    /// Pastes tiles side by side into a tile of a shape, padded with zeros; a single tile of that shape stays as it is.
    #[track_caller]
    fn joined_along_heads(&self, tiles: Vec<Tile>, shape: [u64; 3]) -> Tile {
        if tiles.len() == 1 && tiles[0].dim(1) == shape[1] {
            return tiles[0].clone();
        }
        let mut all = self.tl.zeros(&shape, tiles[0].ty().dtype);
        let mut head = 0;
        for tile in tiles {
            all = self.tl.paste(&all, &[0, head, 0], &tile);
            head += tile.dim(1);
        }
        all
    }

    /// Divides the heads of a tile into the pieces that the cubes of the group share. The tile has rows, heads and
    /// features, or one number for each head.
    #[track_caller]
    fn divided(&self, tile: &Tile) -> Tile {
        let (tl, heads) = (&self.tl, &self.cut.heads);
        let all = heads.share * self.cut.group_cubes;
        let [rows, size] = [tile.dim(0), tile.dim(2)];
        let padded = self.joined_along_heads(vec![tile.clone()], [rows, all / heads.pieces, size]);
        if heads.pieces == 1 {
            return padded;
        }
        let is_number = size == 1 && self.cut.spec.head_dim > 1;
        let (padded, size) = if is_number {
            (tl.broadcast_to(&padded, &[rows, all / heads.pieces, heads.pieces]), 1)
        } else {
            (padded, heads.piece)
        };
        tl.reshape(&padded, &[rows, all, size])
    }

    /// Returns some of the heads of a tile of [`projected`](Self::projected).
    #[track_caller]
    pub(super) fn heads(&self, tile: &Tile, first: u64, count: u64) -> Tile {
        let shape = [tile.dim(0), count, tile.dim(2)];
        self.tl.slice(tile, &[0, first, 0], &shape)
    }

    /// Sends each cube of the group its heads of a tile of rows, heads and features, and receives this cube's heads
    /// from the other cubes' PEs at this position. `has` returns the number of rows of a unit.
    #[track_caller]
    pub(super) fn deal(
        &self,
        out: &Ref,
        first: u64,
        tile: Option<&Tile>,
        has: impl Fn(u64) -> u64,
    ) {
        let (tl, cut) = (&self.tl, &self.cut);
        let (share, width) = (cut.heads.share, out.dim(1));
        let place =
            |cube: u64, rows: u64| out.block(&[cube * cut.unit_rows() + first, 0], &[rows, width]);
        let of_cube = |tile: &Tile, cube: u64| {
            let mine = self.heads(tile, cube * share, share);
            tl.reshape(&mine, &[tile.dim(0), width])
        };
        if let Some(tile) = tile.map(|tile| self.divided(tile)) {
            let tile = &tile;
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
