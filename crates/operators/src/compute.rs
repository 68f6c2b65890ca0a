//! Computations of a tile that stand for those of an operator.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Lazy, Tile, Tl};

use crate::cost::Vector;

/// Returns the widest type of tiles and results.
pub(crate) fn widest(types: impl IntoIterator<Item = DType>) -> DType {
    types.into_iter().max_by_key(|dtype| dtype.size()).unwrap_or(DType::F32)
}

/// Casts an expression, unless it has the type.
pub(crate) fn cast(x: Lazy, dtype: DType) -> Lazy {
    if x.ty().dtype == dtype { x } else { x.cast(dtype) }
}

/// Adds all tiles in one type, and counts the additions.
pub(crate) fn sum(tiles: &[Tile], dtype: DType) -> Option<(Lazy, u64)> {
    let (first, rest) = tiles.split_first()?;
    let sum =
        rest.iter().fold(cast(first.lazy(), dtype), |sum, tile| sum + &cast(tile.lazy(), dtype));
    Some((sum, rest.len() as u64))
}

/// Applies operations to an expression, of which `done` simple ones are part of it.
pub(crate) fn apply(mut x: Lazy, work: Vector, done: u64) -> Lazy {
    for _ in done..work.simple {
        x = x + 1.0;
    }
    for _ in 0..work.special {
        x = x.exp();
    }
    x
}

/// Returns result tiles of a shape from operand tiles that broadcast to it: one pass, or none for a plain copy.
pub(crate) fn pass(
    tl: &Tl,
    tiles: &[Tile],
    shape: &[u64],
    work: Vector,
    results: &[DType],
) -> Vec<Tile> {
    let Some((sum, done)) =
        sum(tiles, widest(tiles.iter().map(|tile| tile.ty().dtype).chain(results.iter().copied())))
    else {
        return results.iter().map(|dtype| tl.full(shape, 0, *dtype)).collect();
    };
    let is_copy = tiles.len() == 1 && work == Vector::default();
    if is_copy
        && *tiles[0].ty().shape == *shape
        && results.iter().all(|dtype| *dtype == tiles[0].ty().dtype)
    {
        return results.iter().map(|_| tiles[0].clone()).collect();
    }
    let mut x = apply(sum, work, done);
    if *x.ty().shape != *shape {
        let whole = tl.broadcast_to(&value(tl, &x), shape);
        x = whole.lazy();
    }
    let outs: Vec<_> = results.iter().map(|dtype| cast(x.clone(), *dtype)).collect();
    evaluated(tl, &outs)
}

/// Computes an expression. One without an operation is its tile.
pub(crate) fn value(tl: &Tl, x: &Lazy) -> Tile {
    x.as_tile().cloned().unwrap_or_else(|| tl.eval(x))
}

/// Computes expressions in one pass. Those without an operation are their tiles.
pub(crate) fn evaluated(tl: &Tl, outs: &[Lazy]) -> Vec<Tile> {
    let computed: Vec<_> = outs.iter().filter(|x| x.as_tile().is_none()).collect();
    if computed.is_empty() {
        return outs.iter().filter_map(Lazy::as_tile).cloned().collect();
    }
    let mut computed = tl.eval_each(&computed).into_iter();
    outs.iter().filter_map(|x| x.as_tile().cloned().or_else(|| computed.next())).collect()
}
