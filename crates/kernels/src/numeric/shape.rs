//! Tiles whose elements stay as they are, in other places.

use std::borrow::Cow;

use super::tile::length;
use super::value::{Data, each, each_pair};
use super::{Array, MOST_DIMENSIONS, NumericError, TileType, infer};

/// Where the elements of a tile are found among others: lengths, how far apart neighbours are in each
/// dimension, and where the first is. Dimensions that are missing come first and have length 1.
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

    /// Calls `row` with where each row along the last dimension begins.
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

    /// The elements found.
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

    /// Puts elements where they would be found, with neighbours in the last dimension side by side.
    fn scatter<T: Copy>(&self, from: &[T], into: &mut [T]) {
        let [.., count] = self.lengths;
        let mut rows = from.chunks_exact(count.max(1));
        self.rows(|at| {
            let row = rows.next().expect("as many rows as there are places for");
            into[at..at + count].copy_from_slice(row);
        });
    }
}

/// How far apart neighbours are in each dimension of a row-major tile.
fn strides(shape: &[u64]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        // A tile without elements can have any lengths, and its distances lead nowhere.
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

/// The elements of a tile repeated so that they have a shape.
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

/// Repeated along dimensions of length 1 and along new first ones, so that it has this shape.
pub fn broadcast_to(a: &Array, shape: &[u64]) -> Result<Array, NumericError> {
    let ty = infer::broadcast_to(a.ty(), shape)?;
    Ok(Array::new(ty, spread(a, shape).into_owned()))
}

/// The same elements in the same order in another shape.
pub fn reshape(a: &Array, shape: &[u64]) -> Result<Array, NumericError> {
    Ok(Array::new(infer::reshape(a.ty(), shape)?, a.data().clone()))
}

/// With the last two dimensions exchanged.
pub fn transpose(a: &Array) -> Result<Array, NumericError> {
    let ty = infer::transpose(a.ty())?;
    let mut strides = strides(&a.ty().shape);
    let rank = strides.len();
    strides.swap(rank - 1, rank - 2);
    Ok(gathered(a, ty, &strides, 0))
}

/// With the dimensions in another order: the first one of the result is the dimension `axes[0]`.
pub fn permute(a: &Array, axes: &[usize]) -> Result<Array, NumericError> {
    let ty = infer::permute(a.ty(), axes)?;
    let strides = strides(&a.ty().shape);
    let permuted: Vec<usize> = axes.iter().map(|&axis| strides[axis]).collect();
    Ok(gathered(a, ty, &permuted, 0))
}

/// The box of this shape that begins at `start`.
pub fn slice(a: &Array, start: &[u64], shape: &[u64]) -> Result<Array, NumericError> {
    let ty = infer::slice(a.ty(), start, shape)?;
    if ty.elements() == 0 {
        return Ok(gathered(a, ty, &[], 0));
    }
    let strides = strides(&a.ty().shape);
    let first = offset(start, &strides);
    Ok(gathered(a, ty, &strides, first))
}

/// Replaces the box that begins at `start` with a tile. After an error nothing is replaced.
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

/// How far into a tile that has elements the element with these indices is.
fn offset(indices: &[u64], strides: &[usize]) -> usize {
    indices.iter().zip(strides).map(|(&index, &stride)| length(index) * stride).sum()
}
