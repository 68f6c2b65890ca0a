//! Operations that move elements without changing them.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::tile::length;
use super::value::{Data, each, each_pair};
use super::{Array, NumericError, TileType, infer};

/// A strided view of a tile's elements. Dimensions of length 1 are left out, and neighbours with one common stride are
/// one dimension.
pub(super) struct Walk {
    /// Length and stride of each dimension before the last.
    outer: SmallVec<[(usize, usize); 4]>,
    /// Length and stride of the last dimension.
    last: (usize, usize),
    /// Offset of the first element.
    start: usize,
}

impl Walk {
    /// Creates the view of a shape that has elements.
    fn new(shape: &[u64], strides: &[usize], start: usize) -> Self {
        let mut outer: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        for (&size, &stride) in shape.iter().zip(strides).filter(|(size, _)| **size != 1) {
            let size = length(size);
            match outer.last_mut() {
                Some(last) if last.1 == stride * size => *last = (last.0 * size, stride),
                _ => outer.push((size, stride)),
            }
        }
        let last = outer.pop().unwrap_or((1, 1));
        Self { outer, last, start }
    }

    /// Calls `row` with the offset of each row along the last dimension.
    fn rows(&self, mut row: impl FnMut(usize)) {
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        let mut at = self.start;
        loop {
            row(at);
            let mut axis = self.outer.len();
            loop {
                let Some(next) = axis.checked_sub(1) else { return };
                axis = next;
                let (size, stride) = self.outer[axis];
                index[axis] += 1;
                at += stride;
                if index[axis] < size {
                    break;
                }
                at -= stride * size;
                index[axis] = 0;
            }
        }
    }

    /// Collects the elements of the view.
    fn gather<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let (count, stride) = self.last;
        let rows: usize = self.outer.iter().map(|(size, _)| size).product();
        let mut found = Vec::with_capacity(rows * count);
        self.rows(|at| match stride {
            0 => found.extend(std::iter::repeat_n(values[at], count)),
            1 => found.extend_from_slice(&values[at..at + count]),
            _ => found.extend(values[at..].iter().step_by(stride).take(count)),
        });
        found
    }

    /// Writes elements to the view; no two of them have the same place.
    fn scatter<T: Copy>(&self, from: &[T], into: &mut [T]) {
        let (count, stride) = self.last;
        let mut rows = from.chunks_exact(count);
        self.rows(|at| {
            let row = rows.next().expect("as many rows as there are places for");
            let places = into[at..].iter_mut().step_by(stride);
            places.zip(row).for_each(|(place, value)| *place = *value);
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
