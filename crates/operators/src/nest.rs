//! Loops over the elements of several tensors of one shape.

use crate::error::{OperatorError, refused};
use crate::tensor::Tensor;

/// Loops from the slowest to the fastest, in the order of the first tensor's memory. Neighbouring loops that are one in all
/// tensors are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nest {
    pub(crate) sizes: Vec<u64>,
    /// Strides of each loop, by tensor.
    pub(crate) strides: Vec<Vec<u64>>,
}

impl Nest {
    /// Joins the loops over tensors, of which the first one gives the order.
    pub(crate) fn new(tensors: &[&Tensor]) -> Self {
        let lead = tensors[0];
        let mut axes: Vec<usize> =
            (0..lead.shape.len()).filter(|&axis| lead.shape[axis] != 1).collect();
        axes.sort_by_key(|&axis| (lead.strides[axis] != 0, std::cmp::Reverse(lead.strides[axis])));
        let mut sizes: Vec<u64> = Vec::new();
        let mut strides = vec![Vec::new(); tensors.len()];
        for axis in axes {
            let size = lead.shape[axis];
            let is_next = |(of, tensor): (&Vec<u64>, &&Tensor)| {
                of.last().is_some_and(|last| *last == tensor.strides[axis].saturating_mul(size))
            };
            if !sizes.is_empty() && strides.iter().zip(tensors).all(is_next) {
                *sizes.last_mut().expect("it has one") *= size;
                strides.iter_mut().zip(tensors).for_each(|(of, tensor)| {
                    *of.last_mut().expect("it has one") = tensor.strides[axis];
                });
            } else {
                sizes.push(size);
                strides
                    .iter_mut()
                    .zip(tensors)
                    .for_each(|(of, tensor)| of.push(tensor.strides[axis]));
            }
        }
        if sizes.is_empty() {
            sizes.push(1);
            strides.iter_mut().for_each(|of| of.push(1));
        }
        Self { sizes, strides }
    }
}

/// Checks that all tensors have the shape of the first result.
pub(crate) fn same_shape(
    tensors: &[Tensor],
    shape: &[u64],
    what: &str,
) -> Result<(), OperatorError> {
    for (at, tensor) in tensors.iter().enumerate() {
        if tensor.shape != shape {
            let found = &tensor.shape;
            return refused(format!(
                "{what} {at}: shape {found:?}, expected {shape:?} as the first result has"
            ));
        }
    }
    Ok(())
}
