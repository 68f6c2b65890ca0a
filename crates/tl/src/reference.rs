//! References to tiles in memory.

use std::ops::Range;

use cubeyard_device::message::{Direction, Rows};
use cubeyard_device::pe::Dma;
use cubeyard_runtime::dtype::DType;

use smallvec::SmallVec;

use super::layout::Layout;
use super::mask::{Mask, step};
use crate::numeric::TileType;

/// Accesses that move a tile, usually one.
pub(super) type Accesses = SmallVec<[Dma; 1]>;

/// Contiguous ranges of addresses.
type Runs = SmallVec<[Range<u64>; 1]>;

/// A tile in memory: address, type, shape and layout. Creating one costs nothing; see [`Tl::load`](super::Tl::load) and
/// [`Tl::store`](super::Tl::store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    address: u64,
    ty: TileType,
    layout: Layout,
}

impl Ref {
    /// References contiguous elements, row by row.
    pub fn new(address: u64, shape: &[u64], dtype: DType) -> Self {
        let ty = TileType { dtype, shape: shape.into() };
        Self { address, ty, layout: Layout::row_major(shape) }
    }

    /// References a matrix stored in tiles of the shape `tile`: each tile is row-major and contiguous, follows
    /// its left neighbour, and is padded to full size at the edges. [`pack`](super::pack) converts a row-major
    /// matrix to this layout.
    ///
    /// A tile is then one access without gaps, which uses all channels of the memory. The rows of a tile of a
    /// row-major matrix may all fall on one channel.
    pub fn packed(address: u64, shape: [u64; 2], dtype: DType, tile: [u64; 2]) -> Self {
        let ty = TileType { dtype, shape: shape.into() };
        Self { address, ty, layout: Layout::packed(shape, tile) }
    }

    /// Returns the same memory with other strides, in elements.
    #[must_use]
    pub fn strided(mut self, strides: &[u64]) -> Self {
        self.layout = Layout::Strided(strides.into());
        self
    }

    /// Returns the address of the first element.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns type and shape.
    pub fn ty(&self) -> &TileType {
        &self.ty
    }

    /// Returns the length of a dimension; 1 beyond the last.
    pub fn dim(&self, axis: usize) -> u64 {
        self.ty.shape.get(axis).copied().unwrap_or(1)
    }

    /// Returns the box of this shape that begins at `start`. It may extend beyond the edges; a mask must then
    /// exclude the elements outside.
    #[must_use]
    pub fn block(&self, start: &[u64], shape: &[u64]) -> Self {
        let (offset, layout) = self.layout.block(start, shape);
        Self {
            address: self.address + offset * self.ty.dtype.size(),
            ty: TileType { dtype: self.ty.dtype, shape: shape.into() },
            layout,
        }
    }

    /// Returns contiguous elements of this shape, starting at the row-major index `element`.
    #[must_use]
    pub fn at(&self, element: u64, shape: &[u64]) -> Self {
        Self::new(self.address + element * self.ty.dtype.size(), shape, self.ty.dtype)
    }

    /// Returns the same memory with the last two dimensions swapped.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut this = self.clone();
        this.layout.transpose();
        if let [.., row, column] = this.ty.shape.as_mut_slice() {
            std::mem::swap(row, column);
        }
        this
    }

    /// Returns the same memory with its dimensions permuted: dimension `axes[i]` becomes dimension `i`. The memory must
    /// have strides.
    pub(super) fn permuted(&self, axes: &[usize]) -> Self {
        let (mut this, Layout::Strided(strides)) = (self.clone(), &self.layout) else {
            unreachable!("only strides have an order");
        };
        this.ty.shape = axes.iter().map(|&axis| self.ty.shape[axis]).collect();
        this.layout = Layout::Strided(axes.iter().map(|&axis| strides[axis]).collect());
        this
    }

    /// Returns orders of the dimensions in which the last one is the fast axis of memory: one for each dimension that
    /// can come before it. Empty if the fast axis is the last one already, or if there are no strides. Empty also if
    /// elements of a store overlap, since the last of them stays.
    pub(super) fn orders_along_memory(&self, direction: Direction) -> Vec<Vec<usize>> {
        let Layout::Strided(strides) = &self.layout else { return Vec::new() };
        let mut axes: Vec<usize> =
            (0..strides.len()).filter(|&axis| self.ty.shape[axis] != 1).collect();
        axes.sort_by_key(|&axis| (strides[axis] != 0, std::cmp::Reverse(strides[axis])));
        let Some((&fast, slow)) = axes.split_last() else { return Vec::new() };
        let is_last = axes.iter().all(|&axis| axis <= fast);
        if is_last || direction == Direction::Write && self.overlaps(&axes) {
            return Vec::new();
        }
        let order = |&before: &usize| {
            let others = (0..strides.len()).filter(|&axis| axis != before && axis != fast);
            others.chain([before, fast]).collect()
        };
        slow.iter().map(order).collect()
    }

    /// Returns whether two elements may have the same address, given the dimensions by falling stride.
    fn overlaps(&self, axes: &[usize]) -> bool {
        let Layout::Strided(strides) = &self.layout else { return true };
        let extent = |axis: usize| strides[axis].saturating_mul(self.ty.shape[axis]);
        let is_apart = |pair: &[usize]| strides[pair[0]] >= extent(pair[1]);
        axes.iter().any(|&axis| strides[axis] == 0) || !axes.windows(2).all(is_apart)
    }

    /// Returns the same memory without a dimension, at its index 0; `None` if there is no such dimension, or if the
    /// matrix is [packed](Self::packed).
    pub fn without(&self, axis: usize) -> Option<Self> {
        let Layout::Strided(strides) = &self.layout else { return None };
        let (mut strides, mut ty) = (strides.clone(), self.ty.clone());
        if axis >= ty.shape.len() {
            return None;
        }
        strides.remove(axis);
        ty.shape.remove(axis);
        Some(Self { address: self.address, ty, layout: Layout::Strided(strides) })
    }

    /// Returns whether every box refers to the same bytes of memory in both.
    pub(super) fn is_same_memory(&self, other: &Self) -> bool {
        let sizes = [self, other].map(|each| each.ty.dtype.size());
        self.address == other.address
            && self.layout == other.layout
            && self.ty.shape == other.ty.shape
            && sizes[0] == sizes[1]
    }

    /// Returns a mask of the elements inside the edges, for the box of [`block`](Self::block).
    pub fn inside(&self, start: &[u64], shape: &[u64]) -> Mask {
        let limits: Vec<_> =
            self.ty.shape.iter().zip(start).map(|(all, at)| all.saturating_sub(*at)).collect();
        Mask::below(shape, &limits)
    }

    /// Returns the accesses that move the tile, in the order of its elements.
    pub(super) fn accesses(&self, direction: Direction, mask: Option<&Mask>) -> Accesses {
        let mut accesses = Accesses::new();
        for run in self.runs(mask) {
            let (address, bytes) = (run.start, run.end - run.start);
            if !accesses.last_mut().is_some_and(|last| join(last, address, bytes)) {
                accesses.push(Dma { direction, address, bytes, rows: None });
            }
        }
        accesses
    }

    /// Checks that each tile of a matrix is a single access; the error states why it is not.
    pub(super) fn check_tiles(&self, tile: [u64; 2]) -> Result<(), String> {
        let checked = self.layout.check_tiles(&self.ty.shape, tile);
        checked.map_err(|what| format!("{} in memory: {what}", self.ty))
    }

    /// Returns the contiguous address ranges.
    fn runs(&self, mask: Option<&Mask>) -> Runs {
        if self.ty.elements() == 0 {
            return Runs::new();
        }
        if mask.is_none() && self.layout == Layout::row_major(&self.ty.shape) {
            let all = self.address..self.address + self.ty.nbytes();
            return Runs::from_buf([all]);
        }
        let size = self.ty.dtype.size();
        let mut runs = Runs::new();
        let mut index = vec![0; self.ty.shape.len()];
        let mut element = 0;
        while element < self.ty.elements() {
            let from = self.address + self.layout.offset(&index) * size;
            let count = mask.map_or_else(|| self.layout.following(&index, &self.ty.shape), |_| 1);
            if mask.is_none_or(|mask| mask.touches(element)) {
                match runs.last_mut() {
                    Some(last) if last.end == from => last.end += count * size,
                    _ => runs.push(from..from + count * size),
                }
            }
            element += count;
            index.iter_mut().last().into_iter().for_each(|last| *last += count - 1);
            step(&mut index, &self.ty.shape);
        }
        runs
    }

    /// Returns the access of a box of a matrix in constant time. The box must lie within one tile of a packed
    /// matrix.
    pub(super) fn box_access(&self, direction: Direction, start: [u64; 2], shape: [u64; 2]) -> Dma {
        let size = self.ty.dtype.size();
        let (row, pitch) = (shape[1] * size, self.layout.pitch() * size);
        let rows = (shape[0] > 1 && pitch != row).then_some(Rows { bytes: row, pitch });
        let address = self.address + self.layout.offset(&start) * size;
        Dma { direction, address, bytes: shape[0] * row, rows }
    }
}

/// Appends a run to an access if it continues the pattern of rows; returns whether it does.
fn join(last: &mut Dma, address: u64, bytes: u64) -> bool {
    match last.rows {
        None if last.bytes == bytes && address > last.address + bytes => {
            last.rows = Some(Rows { bytes, pitch: address - last.address });
        }
        Some(rows)
            if rows.bytes == bytes
                && address == last.address + last.bytes / rows.bytes * rows.pitch => {}
        _ => return false,
    }
    last.bytes += bytes;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    type Access = (u64, u64, Option<(u64, u64)>);

    fn rows(reference: &Ref, mask: Option<&Mask>) -> Vec<Access> {
        let accesses = reference.accesses(Direction::Read, mask).into_iter();
        let rows = |dma: &Dma| dma.rows.map(|rows| (rows.bytes, rows.pitch));
        accesses.map(|dma| (dma.address, dma.bytes, rows(&dma))).collect()
    }

    #[test]
    fn a_tile_of_a_matrix_is_one_access_of_rows() {
        let matrix = Ref::new(1000, &[128, 256], DType::F16);
        assert_eq!(rows(&matrix, None), [(1000, 65536, None)]);
        let tile = matrix.block(&[2, 64], &[32, 64]);
        let from = 1000 + (2 * 256 + 64) * 2;
        assert_eq!(rows(&tile, None), [(from, 4096, Some((128, 512)))]);
        assert_eq!(rows(&matrix.block(&[3, 0], &[2, 256]), None), [(1000 + 3 * 512, 1024, None)]);
        let column = matrix.transposed().block(&[5, 0], &[1, 128]);
        assert_eq!(rows(&column, None), [(1010, 256, Some((2, 512)))]);
    }

    #[test]
    fn a_row_and_a_column_of_a_matrix_have_one_dimension() {
        let matrix = Ref::new(1000, &[128, 256], DType::F16);
        let row = matrix.block(&[3, 0], &[1, 256]).without(0).unwrap();
        assert_eq!(row, Ref::new(1000 + 3 * 512, &[256], DType::F16));
        let column = matrix.block(&[0, 5], &[128, 1]).without(1).unwrap();
        assert_eq!(column.ty().shape.as_slice(), [128]);
        assert_eq!(rows(&column, None), [(1010, 256, Some((2, 512)))]);
        assert_eq!(row.without(1), None);
        assert_eq!(Ref::packed(0, [64, 64], DType::F16, [32, 32]).without(0), None);
    }

    #[test]
    fn a_tile_across_the_fast_axis_has_an_order_for_each_axis_before_it() {
        let orders = |shape: &[u64], strides: &[u64], direction| {
            Ref::new(0, shape, DType::F32).strided(strides).orders_along_memory(direction)
        };
        let (read, write) = (Direction::Read, Direction::Write);
        assert_eq!(orders(&[8, 4], &[1, 8], read), [[1, 0]]);
        assert!(orders(&[8, 4], &[4, 1], read).is_empty());
        assert!(orders(&[8, 1], &[1, 8], read).is_empty());
        assert_eq!(orders(&[4, 4, 32], &[65, 1, 321], write), [[0, 2, 1], [2, 0, 1]]);
        // Rows that overlap: a store must keep the order of the elements.
        assert_eq!(orders(&[8, 4], &[1, 2], read), [[1, 0]]);
        assert!(orders(&[8, 4], &[1, 2], write).is_empty());
        assert_eq!(orders(&[8, 4], &[1, 0], read), [[1, 0]]);
        assert!(orders(&[8, 4], &[1, 0], write).is_empty());
        let turned = Ref::new(0, &[4, 4, 32], DType::I64).strided(&[65, 1, 321]);
        let count = |axes: &[usize]| turned.permuted(axes).accesses(write, None).len();
        assert_eq!([&[0, 1, 2], &[0, 2, 1], &[2, 0, 1]].map(|axes| count(axes)), [16, 4, 32]);
    }

    #[test]
    fn what_a_mask_leaves_out_is_not_touched() {
        let vector = Ref::new(0, &[100], DType::F32);
        let mask = vector.inside(&[64], &[64]);
        assert_eq!(rows(&vector.block(&[64], &[64]), Some(&mask)), [(256, 144, None)]);
        let odd = Mask::new(&[4, 4], |index| index[1] != 1);
        let tile = Ref::new(0, &[4, 4], DType::I8);
        // Each row except the first and last continues into the next.
        assert_eq!(rows(&tile, Some(&odd)), [(0, 1, None), (2, 9, Some((3, 4))), (14, 2, None)]);
        let none = Mask::new(&[4, 4], |_| false);
        assert_eq!(rows(&tile, Some(&none)), []);
        assert_eq!(rows(&Ref::new(0, &[0, 4], DType::I8), None), []);
        assert_eq!(rows(&tile.block(&[1, 1], &[2, 0]), None), []);
    }
}
