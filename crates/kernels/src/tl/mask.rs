//! Which elements of a tile a load or store touches.

use crate::numeric::TileType;

/// Which elements are touched. It is known when the kernel is written down, like the address, so that
/// what is not touched costs nothing; a choice that depends on loaded values is `tl.where_`.
///
/// ```
/// use cubeyard_kernels::tl::Mask;
///
/// // The last tile of 100 elements, if tiles have 64: 36 are there.
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
    /// The elements that a function of their index chooses.
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

    /// The elements whose index is below these limits in every dimension.
    pub fn below(shape: &[u64], limits: &[u64]) -> Self {
        Self::new(shape, |index| index.iter().zip(limits).all(|(at, limit)| at < limit))
    }

    /// What it is a mask of.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// How many elements are touched.
    pub fn count(&self) -> u64 {
        self.touched.iter().filter(|touched| **touched).count() as u64
    }

    /// Whether each element is touched, in order.
    pub fn touched(&self) -> &[bool] {
        &self.touched
    }

    /// Whether an element is touched, counted in order.
    pub(super) fn touches(&self, element: u64) -> bool {
        self.touched[usize::try_from(element).expect("it fits memory")]
    }

    /// Why it is none for a tile, if it is not.
    pub(super) fn check(&self, ty: &TileType) -> Result<(), String> {
        if *self.shape == *ty.shape {
            return Ok(());
        }
        Err(format!("a mask of shape {:?} for {ty}: the shapes must be the same", self.shape))
    }
}

/// The next index, row by row.
pub(super) fn step(index: &mut [u64], shape: &[u64]) {
    for (at, length) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *length {
            return;
        }
        *at = 0;
    }
}
