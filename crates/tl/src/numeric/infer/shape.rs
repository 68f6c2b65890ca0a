//! Result types of operations that move elements without changing them.

use super::condition;
use crate::numeric::{Lengths, NumericError, TileType};

/// Returns the length of a tile along an axis.
pub(super) fn axis_of(
    operation: &'static str,
    tile: &TileType,
    axis: usize,
) -> Result<u64, NumericError> {
    let missing = || NumericError::Axis { operation, tile: tile.clone(), axis };
    tile.shape.get(axis).copied().ok_or_else(missing)
}

/// Returns the common broadcast shape, with the element type of `a`.
pub(super) fn broadcast(
    operation: &'static str,
    a: &TileType,
    b: &TileType,
) -> Result<TileType, NumericError> {
    let differ = || NumericError::NoBroadcast { operation, a: a.clone(), b: b.clone() };
    let rank = a.shape.len().max(b.shape.len());
    let lengths = (0..rank).map(|axis| {
        match (from_the_last(a, rank - 1 - axis), from_the_last(b, rank - 1 - axis)) {
            (length, other) if length == other => Some(length),
            (1, length) | (length, 1) => Some(length),
            _ => None,
        }
    });
    TileType::new(a.dtype, &lengths.collect::<Option<Lengths>>().ok_or_else(differ)?)
}

/// Returns the length of a dimension counted from the last; 1 beyond the first.
fn from_the_last(tile: &TileType, axis: usize) -> u64 {
    tile.shape.iter().rev().nth(axis).copied().unwrap_or(1)
}

/// Returns the result type of [`broadcast_to`](crate::numeric::broadcast_to).
pub fn broadcast_to(a: &TileType, shape: &[u64]) -> Result<TileType, NumericError> {
    let to = TileType::new(a.dtype, shape)?;
    match broadcast("broadcast", a, &to) {
        Ok(tile) if tile == to => Ok(to),
        _ => Err(NumericError::BroadcastTo { tile: a.clone(), shape: shape.to_vec() }),
    }
}

/// Returns the result type of [`reshape`](crate::numeric::reshape).
pub fn reshape(a: &TileType, shape: &[u64]) -> Result<TileType, NumericError> {
    let to = TileType::new(a.dtype, shape)?;
    if to.elements() == a.elements() {
        return Ok(to);
    }
    Err(NumericError::Reshape { tile: a.clone(), shape: shape.to_vec() })
}

/// Returns the result type of [`transpose`](crate::numeric::transpose).
pub fn transpose(a: &TileType) -> Result<TileType, NumericError> {
    let (mut tile, rank) = (a.clone().checked()?, a.shape.len());
    if rank < 2 {
        return Err(NumericError::Rank { operation: "transpose", tile, expected: "2 or more" });
    }
    tile.shape.swap(rank - 1, rank - 2);
    Ok(tile)
}

/// Returns the result type of [`permute`](crate::numeric::permute).
pub fn permute(a: &TileType, axes: &[usize]) -> Result<TileType, NumericError> {
    let tile = a.clone().checked()?;
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..tile.shape.len()) {
        return Err(NumericError::Permutation { tile, axes: axes.to_vec() });
    }
    let shape = axes.iter().map(|&axis| tile.shape[axis]).collect();
    Ok(TileType { dtype: tile.dtype, shape })
}

/// Returns the result type of [`slice`](crate::numeric::slice).
pub fn slice(a: &TileType, start: &[u64], shape: &[u64]) -> Result<TileType, NumericError> {
    let tile = a.clone().checked()?;
    within("slice", &tile, start, shape)?;
    Ok(TileType { dtype: tile.dtype, shape: shape.into() })
}

/// Returns the result type of [`paste`](crate::numeric::paste).
pub fn paste(into: &TileType, start: &[u64], tile: &TileType) -> Result<TileType, NumericError> {
    super::same_dtype("paste", into, tile)?;
    let into = into.clone().checked()?;
    within("paste", &into, start, &tile.shape)?;
    Ok(into)
}

/// Checks that a box is within the tile.
fn within(
    operation: &'static str,
    tile: &TileType,
    start: &[u64],
    shape: &[u64],
) -> Result<(), NumericError> {
    let mut sides = tile.shape.iter().zip(start).zip(shape);
    let fits = sides.all(|((&whole, &start), &length)| {
        start.checked_add(length).is_some_and(|end| end <= whole)
    });
    if fits && tile.shape.len() == start.len() && start.len() == shape.len() {
        return Ok(());
    }
    let (start, shape) = (start.to_vec(), shape.to_vec());
    Err(NumericError::Box { operation, tile: tile.clone(), start, shape })
}

/// Returns the result type of [`merge`](crate::numeric::merge).
pub fn merge(
    mask: &TileType,
    value: &TileType,
    other: &TileType,
) -> Result<TileType, NumericError> {
    condition("merge", mask)?;
    super::same_dtype("merge", value, other)?;
    for tile in [mask, other] {
        broadcast_to(tile, &value.shape)?;
    }
    Ok(value.clone())
}
