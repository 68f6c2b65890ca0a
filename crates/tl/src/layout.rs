//! The layout of a tile's elements in memory.

use smallvec::smallvec;

use crate::numeric::Lengths;

/// Offsets of a tile's elements from its first element, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A stride for each dimension, in elements.
    Strided(Lengths),
    /// A matrix stored tile by tile.
    Packed(Packed),
}

/// Part of a matrix stored tile by tile: each tile is row-major and follows its left neighbour. Tiles at the edges are
/// padded to full size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    tile: [u64; 2],
    /// Number of tiles from left to right.
    across: u64,
    /// Row and column of the matrix at which the part begins.
    origin: [u64; 2],
    /// Whether rows and columns are swapped.
    is_transposed: bool,
}

impl Layout {
    /// Returns contiguous elements, row by row.
    pub(super) fn row_major(shape: &[u64]) -> Self {
        let mut strides = Lengths::from_elem(1, shape.len());
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
        }
        Self::Strided(strides)
    }

    /// Returns the layout of a matrix stored tile by tile.
    pub(super) fn packed(shape: [u64; 2], tile: [u64; 2]) -> Self {
        let tile = tile.map(|edge| edge.max(1));
        let across = shape[1].div_ceil(tile[1]);
        Self::Packed(Packed { tile, across, origin: [0; 2], is_transposed: false })
    }

    /// Returns the offset of an element from the first element of this layout, in elements.
    pub(super) fn offset(&self, index: &[u64]) -> u64 {
        match self {
            Self::Strided(strides) => index.iter().zip(strides).map(|(at, by)| at * by).sum(),
            Self::Packed(packed) => packed.offset([index[0], index[1]]),
        }
    }

    /// Returns the offset of a box, and the layout within the box.
    pub(super) fn block(&self, start: &[u64], shape: &[u64]) -> (u64, Self) {
        match self {
            Self::Strided(_) => (self.offset(start), self.clone()),
            Self::Packed(packed) => packed.block([start[0], start[1]], [shape[0], shape[1]]),
        }
    }

    /// Returns the number of contiguous elements of a row, starting at `index`, in a tile of this shape.
    pub(super) fn following(&self, index: &[u64], shape: &[u64]) -> u64 {
        let left = || shape[shape.len() - 1] - index[index.len() - 1];
        match self {
            Self::Strided(strides) if strides.last() == Some(&1) => left(),
            Self::Packed(packed) if !packed.is_transposed => {
                let column = packed.origin[1] + index[1];
                left().min(packed.tile[1] - column % packed.tile[1])
            }
            _ => 1,
        }
    }

    /// Returns the distance between rows of a matrix, in elements; within one tile for a packed matrix.
    pub(super) fn pitch(&self) -> u64 {
        match self {
            Self::Strided(strides) => strides[0],
            Self::Packed(packed) => packed.tile[1],
        }
    }

    /// Swaps the last two dimensions.
    pub(super) fn transpose(&mut self) {
        match self {
            Self::Strided(strides) => {
                if let [.., row, column] = strides.as_mut_slice() {
                    std::mem::swap(row, column);
                }
            }
            Self::Packed(packed) => packed.is_transposed = !packed.is_transposed,
        }
    }

    /// Checks that each tile of a matrix is a single access; the error states why it is not.
    pub(super) fn check_tiles(&self, shape: &[u64], tile: [u64; 2]) -> Result<(), String> {
        match self {
            Self::Strided(strides) => check_rows(strides, shape),
            Self::Packed(packed) => packed.check(tile),
        }
    }
}

impl Packed {
    /// Returns row and column in the whole matrix.
    fn place(&self, [row, column]: [u64; 2]) -> [u64; 2] {
        let [row, column] = if self.is_transposed { [column, row] } else { [row, column] };
        [self.origin[0] + row, self.origin[1] + column]
    }

    fn offset(&self, index: [u64; 2]) -> u64 {
        let ([row, column], [rows, columns]) = (self.place(index), self.tile);
        let tile = row / rows * self.across + column / columns;
        tile * rows * columns + row % rows * columns + column % columns
    }

    /// Returns strides for a box within one tile; any other box stays packed.
    fn block(&self, start: [u64; 2], shape: [u64; 2]) -> (u64, Layout) {
        let last = [0, 1].map(|axis| start[axis] + shape[axis].max(1) - 1);
        let [first, end] = [start, last].map(|index| {
            let place = self.place(index);
            [place[0] / self.tile[0], place[1] / self.tile[1]]
        });
        if first != end {
            let origin = self.place(start);
            return (0, Layout::Packed(Self { origin, ..self.clone() }));
        }
        let mut layout = Layout::Strided(smallvec![self.tile[1], 1]);
        if self.is_transposed {
            layout.transpose();
        }
        (self.offset(start), layout)
    }

    fn check(&self, tile: [u64; 2]) -> Result<(), String> {
        let [rows, columns] = self.tile;
        let fits = |axis: usize| {
            self.tile[axis].is_multiple_of(tile[axis])
                && self.origin[axis].is_multiple_of(tile[axis])
        };
        if !self.is_transposed && fits(0) && fits(1) {
            return Ok(());
        }
        let of = if self.is_transposed { "transposed tiles" } else { "tiles" };
        let [height, width] = tile;
        Err(format!("{of} of {rows} × {columns} in memory: a step takes {height} × {width} of one"))
    }
}

/// Checks that each row is contiguous and that rows do not overlap.
fn check_rows(strides: &[u64], shape: &[u64]) -> Result<(), String> {
    let (&[pitch, step], &[rows, columns]) = (strides, shape) else {
        return Err(format!("strides of {strides:?} for a matrix of {shape:?}"));
    };
    if (step == 1 || columns == 1) && (pitch >= columns || rows == 1) {
        return Ok(());
    }
    Err("its rows are not contiguous: load it and use the tile, or trans() of it".to_owned())
}

/// Packs a row-major matrix for [`Ref::packed`](super::Ref::packed): tile by tile, with zeros where tiles at
/// the edges extend beyond it.
///
/// # Panics
/// If the number of elements does not match the shape.
pub fn pack<T: Copy + Default>(elements: &[T], shape: [u64; 2], tile: [u64; 2]) -> Vec<T> {
    let layout = Layout::packed(shape, tile);
    let size = |number: u64| usize::try_from(number).expect("it fits memory");
    let area = |axis: usize| shape[axis].next_multiple_of(tile[axis].max(1));
    let mut packed = vec![T::default(); size(area(0) * area(1))];
    assert_eq!(elements.len() as u64, shape[0] * shape[1], "a matrix of {shape:?}");
    let places = (0..shape[0]).flat_map(|row| (0..shape[1]).map(move |column| [row, column]));
    for (place, element) in places.zip(elements) {
        packed[size(layout.offset(&place))] = *element;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_puts_each_element_where_the_layout_looks_for_it() {
        let elements: Vec<u64> = (1..=5 * 7).collect();
        let packed = pack(&elements, [5, 7], [2, 3]);
        assert_eq!(packed.len(), 6 * 9);
        assert_eq!(packed[..12], [1, 2, 3, 8, 9, 10, 4, 5, 6, 11, 12, 13]);
        let layout = Layout::packed([5, 7], [2, 3]);
        for (place, element) in elements.iter().enumerate() {
            let [row, column] = [place / 7, place % 7].map(|at| at as u64);
            assert_eq!(packed[usize::try_from(layout.offset(&[row, column])).unwrap()], *element);
        }
    }

    #[test]
    fn a_box_lies_where_its_elements_do_whatever_it_is_a_box_of() {
        let whole = Layout::packed([12, 12], [4, 6]);
        let mut turned = whole.clone();
        turned.transpose();
        for (layout, is_turned) in [(&whole, false), (&turned, true)] {
            for (start, shape) in [([1, 1], [2, 4]), ([1, 1], [2, 7]), ([3, 2], [6, 6])] {
                let (from, block) = layout.block(&start, &shape);
                for (row, column) in [(0, 0), (1, 3), (shape[0] - 1, shape[1] - 1)] {
                    let at = [start[0] + row, start[1] + column];
                    let found = from + block.offset(&[row, column]);
                    assert_eq!(found, layout.offset(&at), "{start:?} {shape:?} {is_turned}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_one_access_for_each_tile_is_refused() {
        let by_rows = Layout::row_major(&[64, 64]);
        assert_eq!(by_rows.check_tiles(&[64, 64], [32, 32]), Ok(()));
        let mut turned = by_rows;
        turned.transpose();
        assert!(turned.check_tiles(&[64, 64], [32, 32]).is_err());
        let same_row = Layout::Strided(smallvec![0, 1]);
        assert!(same_row.check_tiles(&[64, 64], [32, 32]).is_err());
        let packed = Layout::packed([64, 64], [32, 64]);
        assert_eq!(packed.check_tiles(&[64, 64], [32, 32]), Ok(()));
        let error = packed.check_tiles(&[64, 64], [64, 32]).unwrap_err();
        assert_eq!(error, "tiles of 32 × 64 in memory: a step takes 64 × 32 of one");
    }
}
