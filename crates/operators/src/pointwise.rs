//! Element-wise operators, copies and changes of layout.

mod boxes;
mod flat;
mod pages;

pub(crate) use flat::flat;

use crate::cost::{OperatorCost, Vector, Work};
use crate::error::{OperatorError, refused};
use crate::machine::OperatorMachine;
use crate::nest::{Nest, same_shape};
use crate::tensor::Tensor;

/// Tensors of an element-wise operator: operands first, then results.
pub(crate) struct Streams {
    pub(crate) tensors: Vec<Tensor>,
    /// Number of operands.
    pub(crate) operands: usize,
    /// Storage of each tensor.
    pub(crate) places: Vec<usize>,
    pub(crate) work: Vector,
}

impl Streams {
    /// Returns the sizes of the storages, each tensor having its own.
    pub(crate) fn storages(&self) -> Vec<u64> {
        self.tensors.iter().map(Tensor::storage).collect()
    }
}

impl OperatorMachine {
    /// Returns the cost of an element-wise operator: operands of the first result's shape, with stride 0 where they are
    /// broadcast. Without operations it is a copy or a change of layout.
    pub fn pointwise(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        work: Vector,
    ) -> Result<OperatorCost, OperatorError> {
        let Some(first) = results.first() else { return refused("results: expected at least one") };
        same_shape(operands, &first.shape, "operand")?;
        same_shape(results, &first.shape, "result")?;
        let tensors: Vec<_> = operands.iter().chain(results).cloned().collect();
        let elements = first.elements();
        let bytes = tensors.iter().map(Tensor::bytes).sum();
        let vector = [elements * work.simple, elements * work.special, 0];
        let places = (0..tensors.len()).collect();
        let streams = Streams { tensors, operands: operands.len(), places, work };
        let (kernel, run) = self.streamed(streams)?;
        Ok(Work { bytes, vector, ..Work::default() }.cost(self, kernel, &run))
    }

    fn streamed(&self, streams: Streams) -> Result<(String, crate::cost::Measured), OperatorError> {
        let count = streams.tensors.len();
        let order: Vec<usize> = (streams.operands..count).chain(0..streams.operands).collect();
        let mut nest = Nest::new(&order.iter().map(|at| &streams.tensors[*at]).collect::<Vec<_>>());
        // Back to the order of the tensors.
        let mut strides = vec![Vec::new(); count];
        order.iter().zip(nest.strides).for_each(|(at, of)| strides[*at] = of);
        nest.strides = strides;
        match flat::regular(self, streams, &nest)? {
            Ok(run) => Ok(("pointwise pages".to_owned(), run)),
            Err(streams) => boxes::boxes(self, &streams, nest),
        }
    }
}
