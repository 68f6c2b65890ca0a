//! Tensors and machines of the tests.

use cubeyard_device::topology::Topology;
use cubeyard_operators::{OperatorCost, OperatorError, OperatorMachine, Tensor, Vector};

pub(crate) const NONE: Vector = Vector { simple: 0, special: 0 };
pub(crate) const ONE: Vector = Vector { simple: 1, special: 0 };

/// A machine of one cube with 8 PEs, on which every run is simulated whole.
pub(crate) fn small() -> OperatorMachine {
    machine("sips: {count: 1}\ncubes: {w: 1, h: 1}\n")
}

pub(crate) fn machine(text: &str) -> OperatorMachine {
    OperatorMachine::new(&Topology::read("test.yaml", text).unwrap()).unwrap()
}

pub(crate) fn strided(shape: &[i64], strides: &[i64]) -> Tensor {
    Tensor::new("x", shape, strides, "float16", 2).unwrap()
}

pub(crate) fn dense(shape: &[i64]) -> Tensor {
    typed(shape, "float16", 2)
}

pub(crate) fn typed(shape: &[i64], dtype: &str, bytes: u64) -> Tensor {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    Tensor::new("x", shape, &strides, dtype, bytes).unwrap()
}

/// Returns the transpose of a contiguous matrix, seen as a matrix of this shape.
pub(crate) fn turned([rows, columns]: [i64; 2]) -> Tensor {
    strided(&[rows, columns], &[1, rows])
}

pub(crate) fn product(
    machine: &OperatorMachine,
    a: Tensor,
    b: Tensor,
    [m, n]: [i64; 2],
) -> Result<OperatorCost, OperatorError> {
    machine.product(&[a, b], &[dense(&[m, n])], NONE)
}
