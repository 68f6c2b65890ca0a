//! Masks: the elements of a tile that a load or store accesses.

use crate::numeric::TileType;

/// The elements of a tile that a load or store accesses. Like an address, a mask is known when the kernel is recorded,
/// so elements outside the mask cost nothing. To select by loaded values, use `tl.where_`.
///
/// ```
/// use cubeyard_tl::Mask;
///
/// // The last tile of 100 elements in tiles of 64 has 36.
/// let mask = Mask::below(&[64], &[36]);
/// assert_eq!(mask.count(), 36);
/// // Every second element.
/// let mask = Mask::new(&[64], |index| index[0] % 2 == 0);
/// assert_eq!(mask.count(), 32);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    shape: Vec<u64>,
    touched: Vec<bool>,
}

impl Mask {
    /// Selects the elements for which `choose` returns true, given their index.
    pub fn new(shape: &[u64], choose: impl Fn(&[u64]) -> bool) -> Self {
        let count: u64 = shape.iter().product();
        let mut index = vec![0; shape.len()];
        let mut touched = Vec::new();
        for _ in 0..count {
            touched.push(choose(&index));
            step(&mut index, shape);
        }
        Self { shape: shape.to_vec(), touched }
    }

    /// Selects the elements whose index is below `limits` in every dimension.
    pub fn below(shape: &[u64], limits: &[u64]) -> Self {
        Self::new(shape, |index| index.iter().zip(limits).all(|(at, limit)| at < limit))
    }

    /// Returns the mask of the tile whose dimension `i` is dimension `axes[i]` of this one.
    pub(super) fn permuted(&self, axes: &[usize]) -> Self {
        let shape: Vec<u64> = axes.iter().map(|&axis| self.shape[axis]).collect();
        let mut steps = vec![1; self.shape.len()];
        for axis in (1..steps.len()).rev() {
            steps[axis - 1] = steps[axis] * self.shape[axis];
        }
        Self::new(&shape, |index| {
            self.touches(index.iter().zip(axes).map(|(at, &axis)| at * steps[axis]).sum())
        })
    }

    /// Returns the shape of the masked tile.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the number of selected elements.
    pub fn count(&self) -> u64 {
        self.touched.iter().filter(|touched| **touched).count() as u64
    }

    /// Returns for each element in row-major order whether it is selected.
    pub fn touched(&self) -> &[bool] {
        &self.touched
    }

    /// Returns whether an element is selected, by its row-major index.
    pub(super) fn touches(&self, element: u64) -> bool {
        self.touched[usize::try_from(element).expect("it fits memory")]
    }

    /// Checks that the mask has the shape of a tile.
    pub(super) fn check(&self, ty: &TileType) -> Result<(), String> {
        if *self.shape == *ty.shape {
            return Ok(());
        }
        Err(format!("a mask of shape {:?} for {ty}: the shapes must be the same", self.shape))
    }
}

/// Advances an index in row-major order.
pub(super) fn step(index: &mut [u64], shape: &[u64]) {
    for (at, length) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *length {
            return;
        }
        *at = 0;
    }
}
