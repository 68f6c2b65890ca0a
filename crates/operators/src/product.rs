//! Matrix products.

mod grid;
mod local;
mod shape;

use crate::cost::{OperatorCost, Vector, Work};
use crate::error::{OperatorError, refused};
use crate::machine::OperatorMachine;
use crate::tensor::Tensor;
pub(crate) use shape::{Matrix, Shape};

impl OperatorMachine {
    /// Returns the cost of a product: `a [.., m, k]`, `b [.., k, n]` and, if given, a third operand that is added (a bias or
    /// C), to `c [.., m, n]`. `work` is the epilogue on each element of c.
    pub fn product(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        work: Vector,
    ) -> Result<OperatorCost, OperatorError> {
        let (Some(a), Some(b)) = (operands.first(), operands.get(1)) else {
            return refused(format!(
                "operands: expected a, b and perhaps a third, found {}",
                operands.len()
            ));
        };
        let [c] = results else {
            return refused(format!("results: expected one, found {}", results.len()));
        };
        if operands.len() > 3 {
            return refused(format!("operands: expected at most 3, found {}", operands.len()));
        }
        let shape = Shape::new([a, b, c], operands.get(2), work)?;
        let flops = 2 * shape.batch() * shape.m * shape.k * shape.n;
        let bytes = operands.iter().chain([c]).map(Tensor::bytes).sum();
        let elements = c.elements();
        let vector = [elements * work.simple, elements * work.special, 0];
        let work = Work { bytes, flops, factor: Some(shape.factor()), vector };
        let local = self.product_local(&shape)?;
        let (name, run) = match local {
            Some(local) => local,
            None => self.product_grid(&shape)?,
        };
        Ok(work.cost(self, name, &run))
    }
}
