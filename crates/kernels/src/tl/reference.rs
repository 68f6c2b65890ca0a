//! References to memory: where a tile lies, without moving it.

use std::ops::Range;

use cubeyard_device::message::{Direction, Rows};
use cubeyard_device::pe::Dma;
use cubeyard_runtime::dtype::DType;

use super::mask::{Mask, step};
use crate::numeric::TileType;

/// A tile in memory: address, type, shape and the distances between its elements. It costs nothing; see
/// [`Tl::load`](super::Tl::load) and [`Tl::store`](super::Tl::store).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    address: u64,
    ty: TileType,
    /// In elements, for each dimension.
    strides: Vec<u64>,
}

impl Ref {
    /// Elements that follow each other, row by row.
    pub fn new(address: u64, shape: &[u64], dtype: DType) -> Self {
        let mut strides = vec![1_u64; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
        }
        Self { address, ty: TileType { dtype, shape: shape.to_vec() }, strides }
    }

    /// The same memory with other distances between the elements of each dimension, in elements.
    #[must_use]
    pub fn strided(mut self, strides: &[u64]) -> Self {
        self.strides = strides.to_vec();
        self
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its type and shape.
    pub fn ty(&self) -> &TileType {
        &self.ty
    }

    /// How long it is in a dimension; 1 beyond its last.
    pub fn dim(&self, axis: usize) -> u64 {
        self.ty.shape.get(axis).copied().unwrap_or(1)
    }

    /// The box that begins at an index, of this shape. It may go beyond the edges: then a mask must leave
    /// out what is not there.
    #[must_use]
    pub fn block(&self, start: &[u64], shape: &[u64]) -> Self {
        let offset: u64 = start.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum();
        Self {
            address: self.address + offset * self.ty.dtype.size(),
            ty: TileType { dtype: self.ty.dtype, shape: shape.to_vec() },
            strides: self.strides.clone(),
        }
    }

    /// The elements from one on that follow each other in memory, of this shape.
    #[must_use]
    pub fn at(&self, element: u64, shape: &[u64]) -> Self {
        Self::new(self.address + element * self.ty.dtype.size(), shape, self.ty.dtype)
    }

    /// The same memory with the last two dimensions in each other's place.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut this = self.clone();
        if let [.., row, column] = this.strides.as_mut_slice() {
            std::mem::swap(row, column);
        }
        if let [.., row, column] = this.ty.shape.as_mut_slice() {
            std::mem::swap(row, column);
        }
        this
    }

    /// What of the box of [`block`](Self::block) is there: a mask that leaves out what is beyond the edges.
    pub fn inside(&self, start: &[u64], shape: &[u64]) -> Mask {
        let limits: Vec<_> =
            self.ty.shape.iter().zip(start).map(|(all, at)| all.saturating_sub(*at)).collect();
        Mask::below(shape, &limits)
    }

    /// The accesses that move it, in the order of its elements.
    pub(super) fn accesses(&self, direction: Direction, mask: Option<&Mask>) -> Vec<Dma> {
        let mut accesses: Vec<Dma> = Vec::new();
        for run in self.runs(mask) {
            let (address, bytes) = (run.start, run.end - run.start);
            if !accesses.last_mut().is_some_and(|last| join(last, address, bytes)) {
                accesses.push(Dma { direction, address, bytes, rows: None });
            }
        }
        accesses
    }

    /// The ranges of addresses that follow each other without a gap.
    fn runs(&self, mask: Option<&Mask>) -> Vec<Range<u64>> {
        let size = self.ty.dtype.size();
        if mask.is_none() && self.is_contiguous() {
            return vec![self.address..self.address + self.ty.nbytes()];
        }
        if mask.is_none() && self.has_rows() {
            return self.row_runs();
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut index = vec![0; self.ty.shape.len()];
        for element in 0..self.ty.elements() {
            let offset: u64 = index.iter().zip(&self.strides).map(|(at, by)| at * by).sum();
            step(&mut index, &self.ty.shape);
            let place = usize::try_from(element).expect("it fits memory");
            if mask.is_some_and(|mask| !mask.touched()[place]) {
                continue;
            }
            let from = self.address + offset * size;
            match runs.last_mut() {
                Some(last) if last.end == from => last.end += size,
                _ => runs.push(from..from + size),
            }
        }
        runs
    }

    /// Whether the elements of the last dimension follow each other.
    pub(super) fn has_rows(&self) -> bool {
        matches!((self.ty.shape.last(), self.strides.last()), (Some(1), _) | (_, Some(1)))
    }

    /// As [`runs`](Self::runs), of a tile that has rows.
    fn row_runs(&self) -> Vec<Range<u64>> {
        let (rows, row) = self.ty.shape.split_at(self.ty.shape.len() - 1);
        let (size, count) = (self.ty.dtype.size(), rows.iter().product::<u64>());
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut index = vec![0; rows.len()];
        for _ in 0..if row[0] > 0 { count } else { 0 } {
            let offset: u64 = index.iter().zip(&self.strides).map(|(at, by)| at * by).sum();
            step(&mut index, rows);
            let from = self.address + offset * size;
            match runs.last_mut() {
                Some(last) if last.end == from => last.end += row[0] * size,
                _ => runs.push(from..from + row[0] * size),
            }
        }
        runs
    }

    /// The access of a box of a matrix that has rows, without a detour.
    pub(super) fn box_access(&self, direction: Direction, start: [u64; 2], shape: [u64; 2]) -> Dma {
        let (size, pitch) = (self.ty.dtype.size(), self.strides[0] * self.ty.dtype.size());
        let address = self.address + start[0] * pitch + start[1] * self.strides[1] * size;
        let row = shape[1] * size;
        let rows = (shape[0] > 1 && pitch != row).then_some(Rows { bytes: row, pitch });
        Dma { direction, address, bytes: shape[0] * row, rows }
    }

    fn is_contiguous(&self) -> bool {
        let dimensions = self.ty.shape.iter().zip(&self.strides).rev();
        let mut next = 1_u64;
        dimensions.into_iter().all(|(length, stride)| {
            let follows = *stride == next;
            next = next.saturating_mul(*length);
            follows
        }) && self.strides.len() == self.ty.shape.len()
    }
}

/// Adds a run to an access, if it goes on as its rows do.
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

    fn rows(reference: &Ref, mask: Option<&Mask>) -> Vec<(u64, u64, Option<(u64, u64)>)> {
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
    fn what_a_mask_leaves_out_is_not_touched() {
        let vector = Ref::new(0, &[100], DType::F32);
        let mask = vector.inside(&[64], &[64]);
        assert_eq!(rows(&vector.block(&[64], &[64]), Some(&mask)), [(256, 144, None)]);
        let odd = Mask::new(&[4, 4], |index| index[1] != 1);
        let tile = Ref::new(0, &[4, 4], DType::I8);
        // Of each row but the first and last, what is left touches the next row's beginning.
        assert_eq!(rows(&tile, Some(&odd)), [(0, 1, None), (2, 9, Some((3, 4))), (14, 2, None)]);
        let none = Mask::new(&[4, 4], |_| false);
        assert_eq!(rows(&tile, Some(&none)), []);
    }
}
