//! Arithmetic of reductions: combines values in a stated order, with the same bits as a simulated machine.

use std::ops::Range;

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::numeric::{Array, Binary, TileType, binary};

use super::{Order, Orders, ReduceOp};

/// Number of elements combined at once; operands and results of a block fit in the host's cache.
const BLOCK: u64 = 1 << 13;

/// Combines the bytes of all ranks' inputs in stated orders, with the arithmetic of the engines of a PE.
///
/// # Panics
/// If the operator is not defined for the type, or inputs differ in length.
pub fn combine(op: ReduceOp, dtype: DType, orders: &Orders, inputs: &[&[u8]]) -> Vec<u8> {
    let Some((first, others)) = inputs.split_first() else { return Vec::new() };
    // The mean of one rank is still a division, which may change the bits of a NaN.
    if others.is_empty() && op != ReduceOp::Avg {
        return first.to_vec();
    }
    let mut combined = Vec::with_capacity(first.len());
    for (range, order) in orders {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + BLOCK);
            combined.extend(block(op, dtype, order, inputs, start..end));
            start = end;
        }
    }
    assert_eq!(combined.len(), first.len(), "orders are complete");
    combined
}

/// Combines a range of elements that has one order.
fn block(
    op: ReduceOp,
    dtype: DType,
    order: &Order,
    inputs: &[&[u8]],
    elements: Range<u64>,
) -> Vec<u8> {
    const DEFINED: &str = "the operator is defined for the type";
    let ty = TileType::new(dtype, &[elements.end - elements.start]).expect("a small tile");
    let [start, end] = [elements.start, elements.end]
        .map(|element| usize::try_from(element * dtype.size()).expect("within an input in memory"));
    let input = |rank: usize| Array::from_bytes(&ty, &inputs[rank][start..end]).expect(DEFINED);
    let join = |a: Array, b: Array| binary(op.binary(), &a, &b).expect(DEFINED);
    let mut combined = order.evaluate(&input, &join);
    if op == ReduceOp::Avg {
        let ranks = Array::full(ty.clone(), inputs.len() as f64).expect(DEFINED);
        combined = binary(Binary::Div, &combined, &ranks).expect(DEFINED);
    }
    combined.to_bytes()
}
