//! Operations that move elements without changing them.

use std::borrow::Cow;

use super::tile::length;
use super::value::{Data, each, each_pair};
use super::{Array, MOST_DIMENSIONS, NumericError, TileType, infer};

/// A strided view of a tile's elements: lengths and strides of each dimension, and the offset of the first
/// element. Missing dimensions come first and have length 1.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    lengths: [usize; MOST_DIMENSIONS],
    strides: [usize; MOST_DIMENSIONS],
    start: usize,
}

impl Walk {
    fn new(shape: &[u64], strides: &[usize], start: usize) -> Self {
        let missing = MOST_DIMENSIONS - shape.len();
        let mut walk = Self { lengths: [1; 4], strides: [0; 4], start };
        for (axis, (&length_of, &stride)) in shape.iter().zip(strides).enumerate() {
            walk.lengths[missing + axis] = length(length_of);
            walk.strides[missing + axis] = stride;
        }
        walk
    }

    /// Calls `row` with the offset of each row along the last dimension.
    fn rows(&self, mut row: impl FnMut(usize)) {
        if self.lengths.contains(&0) {
            return;
        }
        for first in 0..self.lengths[0] {
            for second in 0..self.lengths[1] {
                for third in 0..self.lengths[2] {
                    let steps = [first, second, third].into_iter().zip(self.strides);
                    row(self.start + steps.map(|(index, stride)| index * stride).sum::<usize>());
                }
            }
        }
    }

    /// Collects the elements of the view.
    fn gather<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let [.., count] = self.lengths;
        let [.., stride] = self.strides;
        let mut found = Vec::with_capacity(self.lengths.iter().product());
        self.rows(|at| match stride {
            0 => found.extend(std::iter::repeat_n(values[at], count)),
            1 => found.extend_from_slice(&values[at..at + count]),
            _ => found.extend(values[at..].iter().step_by(stride).take(count)),
        });
        found
    }

    /// Writes elements to the view; the last dimension must be contiguous.
    fn scatter<T: Copy>(&self, from: &[T], into: &mut [T]) {
        let [.., count] = self.lengths;
        let mut rows = from.chunks_exact(count.max(1));
        self.rows(|at| {
            let row = rows.next().expect("as many rows as there are places for");
            into[at..at + count].copy_from_slice(row);
        });
    }
}

/// Returns the strides of a row-major tile.
fn strides(shape: &[u64]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        // A tile without elements can have any lengths, and its strides are never used.
        strides[axis - 1] = strides[axis].saturating_mul(length(shape[axis]));
    }
    strides
}

fn gathered(a: &Array, ty: TileType, strides: &[usize], start: usize) -> Array {
    if ty.elements() == 0 {
        return Array::new(ty, each!(a.data(), _values => Vec::new()));
    }
    let walk = Walk::new(&ty.shape, strides, start);
    Array::new(ty, each!(a.data(), values => walk.gather(values)))
}

/// Broadcasts the elements of a tile to a shape.
pub(super) fn spread<'a>(a: &'a Array, shape: &[u64]) -> Cow<'a, Data> {
    if *a.ty().shape == *shape {
        return Cow::Borrowed(a.data());
    }
    let (own, mut steps) = (&a.ty().shape, vec![0; shape.len() - a.ty().shape.len()]);
    let repeated =
        own.iter().zip(strides(own)).map(|(&length, stride)| if length == 1 { 0 } else { stride });
    steps.extend(repeated);
    let ty = TileType { dtype: a.ty().dtype, shape: shape.into() };
    Cow::Owned(gathered(a, ty, &steps, 0).into_data())
}

/// Broadcasts to a shape: repeats along dimensions of length 1 and along new leading dimensions.
pub fn broadcast_to(a: &Array, shape: &[u64]) -> Result<Array, NumericError> {
    let ty = infer::broadcast_to(a.ty(), shape)?;
    Ok(Array::new(ty, spread(a, shape).into_owned()))
}

/// Returns the same elements in the same order in another shape.
pub fn reshape(a: &Array, shape: &[u64]) -> Result<Array, NumericError> {
    Ok(Array::new(infer::reshape(a.ty(), shape)?, a.data().clone()))
}

/// Swaps the last two dimensions.
pub fn transpose(a: &Array) -> Result<Array, NumericError> {
    let ty = infer::transpose(a.ty())?;
    let mut strides = strides(&a.ty().shape);
    let rank = strides.len();
    strides.swap(rank - 1, rank - 2);
    Ok(gathered(a, ty, &strides, 0))
}

/// Permutes the dimensions: the first dimension of the result is dimension `axes[0]`.
pub fn permute(a: &Array, axes: &[usize]) -> Result<Array, NumericError> {
    let ty = infer::permute(a.ty(), axes)?;
    let strides = strides(&a.ty().shape);
    let permuted: Vec<usize> = axes.iter().map(|&axis| strides[axis]).collect();
    Ok(gathered(a, ty, &permuted, 0))
}

/// Returns the box of this shape that begins at `start`.
pub fn slice(a: &Array, start: &[u64], shape: &[u64]) -> Result<Array, NumericError> {
    let ty = infer::slice(a.ty(), start, shape)?;
    if ty.elements() == 0 {
        return Ok(gathered(a, ty, &[], 0));
    }
    let strides = strides(&a.ty().shape);
    let first = offset(start, &strides);
    Ok(gathered(a, ty, &strides, first))
}

/// Replaces the box that begins at `start` by a tile. Changes nothing if it fails.
pub fn paste(into: &mut Array, start: &[u64], tile: &Array) -> Result<(), NumericError> {
    infer::paste(into.ty(), start, tile.ty())?;
    if tile.ty().elements() == 0 {
        return Ok(());
    }
    let strides = strides(&into.ty().shape);
    let walk = Walk::new(&tile.ty().shape, &strides, offset(start, &strides));
    each_pair_in_place(into.data_mut(), tile.data(), &walk);
    Ok(())
}

fn each_pair_in_place(into: &mut Data, from: &Data, walk: &Walk) {
    let taken = std::mem::replace(into, Data::Truth(Vec::new()));
    *into = each_pair!(taken, from, (target, source) => {
        let mut target = target;
        walk.scatter(source, &mut target);
        target
    });
}

/// Returns the offset of an element in a tile that has elements.
fn offset(indices: &[u64], strides: &[usize]) -> usize {
    indices.iter().zip(strides).map(|(&index, &stride)| length(index) * stride).sum()
}
