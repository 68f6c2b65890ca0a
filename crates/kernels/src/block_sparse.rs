//! `C = A B` with a block-sparse A.

use super::ahead::ahead;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Tile, Tl};

/// Multiplies a block-sparse matrix by a dense one. Arguments: a flag per block, by row of blocks, that states whether
/// the block is present; A, with a row per row of blocks, stored block by block; B, of which each PE holds a copy; C,
/// with a row per row of blocks; and the edge length of a block.
///
/// The kernel loads and multiplies only the blocks that are present, and loads each needed part of B once. It runs
/// live, because it branches on loaded flags.
pub fn block_sparse() -> Kernel {
    Kernel::new("block_sparse", |tl, args| Box::pin(body(tl, args)))
}

async fn body(tl: Tl, args: Args) {
    let [there, a, b, c] = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let block = args.whole(4);
    let flags = tl.value(&tl.load(&there)).await;
    let places: Vec<u64> =
        (0_u64..).zip(flags).filter(|(_, flag)| *flag != 0.0).map(|(at, _)| at).collect();
    let load = |&place: &u64| tl.load(&a.at(place * block * block, &[block, block]));
    let mut blocks = ahead(places.iter().map(load));
    let mut dense = Dense { tl: tl.clone(), b, block, tiles: Vec::new() };
    for row in 0..c.dim(0) {
        let of_row = |place: &&u64| **place / there.dim(1) == row;
        let columns = places.iter().filter(of_row).map(|place| place % there.dim(1));
        let out = c.at(row * c.dim(1), &[block, dense.b.dim(1)]);
        let mut sum: Option<Tile> = None;
        for (column, tile) in columns.zip(&mut blocks) {
            sum = Some(dense.multiply(&tile, column, sum.as_ref()));
        }
        let sum = sum.map_or_else(
            || tl.zeros(&out.ty().shape, out.ty().dtype),
            |sum| tl.cast(&sum, out.ty().dtype),
        );
        tl.store(&out, &sum);
    }
}

/// The dense matrix, with the rows loaded so far.
struct Dense {
    tl: Tl,
    b: Ref,
    block: u64,
    tiles: Vec<(u64, Tile)>,
}

impl Dense {
    /// Multiplies a block by its rows of B, and adds the product to a sum, if given.
    fn multiply(&mut self, tile: &Tile, column: u64, sum: Option<&Tile>) -> Tile {
        let rows = self.rows(column);
        match sum {
            Some(sum) => self.tl.dot_add(tile, &rows, sum),
            None => self.tl.dot(tile, &rows),
        }
    }

    /// Returns the rows of B for a column of blocks, loaded on first use.
    fn rows(&mut self, column: u64) -> Tile {
        if let Some((_, tile)) = self.tiles.iter().find(|(known, _)| *known == column) {
            return tile.clone();
        }
        let (start, shape) = ([column * self.block, 0], [self.block, self.b.dim(1)]);
        let tile = self.tl.load(&self.b.block(&start, &shape));
        self.tiles.push((column, tile.clone()));
        tile
    }
}
