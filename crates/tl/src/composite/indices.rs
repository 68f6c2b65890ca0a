//! Indices of the greatest or least elements of rows whose tiles arrive from left to right.

use cubeyard_runtime::dtype::DType;
use smallvec::smallvec;

use crate::numeric::{self, Array, Binary, NumericError, Reduce, Ternary, TileType};

/// The greatest or least element of each row, as a column, and a column of its index in the row.
#[derive(Clone, Debug)]
pub(super) struct Extremes {
    pub(super) indices: Array,
    pub(super) elements: Array,
}

/// Returns the reduction to the element whose index `reduce` finds; `None` if it finds no index.
pub(super) fn element_of(reduce: Reduce) -> Option<Reduce> {
    match reduce {
        Reduce::Argmax => Some(Reduce::Max),
        Reduce::Argmin => Some(Reduce::Min),
        Reduce::Sum | Reduce::Max | Reduce::Min | Reduce::Prod | Reduce::Xor => None,
    }
}

impl Extremes {
    /// Finds the extremes of a tile that begins at column `first` of its rows. `reduce` finds the indices and `element`
    /// the elements.
    pub(super) fn new(
        [reduce, element]: [Reduce; 2],
        tile: &Array,
        first: u64,
    ) -> Result<Self, NumericError> {
        let indices = numeric::reduce(reduce, tile, 1, true)?;
        let first = Array::full(TileType::scalar(indices.ty().dtype), first)?;
        let indices = numeric::binary(Binary::Add, &indices, &first)?;
        Ok(Self { indices, elements: numeric::reduce(element, tile, 1, true)? })
    }

    /// Joins them with the extremes of the columns to the right; of equal elements, the left one is kept.
    pub(super) fn join(&self, reduce: Reduce, right: &Self) -> Result<Self, NumericError> {
        let TileType { dtype, shape } = self.elements.ty();
        let mut pairs =
            Array::full(TileType { dtype: *dtype, shape: smallvec![shape[0], 2] }, 0.0)?;
        numeric::paste(&mut pairs, &[0, 0], &self.elements)?;
        numeric::paste(&mut pairs, &[0, 1], &right.elements)?;
        let is_right = numeric::cast(&numeric::reduce(reduce, &pairs, 1, true)?, DType::Bool)?;
        let choose =
            |right: &Array, left: &Array| numeric::ternary(Ternary::Where, &is_right, right, left);
        Ok(Self {
            indices: choose(&right.indices, &self.indices)?,
            elements: choose(&right.elements, &self.elements)?,
        })
    }
}
