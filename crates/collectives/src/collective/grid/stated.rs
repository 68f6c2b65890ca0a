//! The order in which the grid algorithm combines the values of ranks.

use super::{dimensions, nested, order as ring};
use crate::collective::{Operation, Order, Orders, PePart, World};

/// Returns the orders of a reduction, if the algorithm supports it.
pub(super) fn orders(operation: Operation, world: &World, part: PePart) -> Option<Orders> {
    let dimensions = dimensions(world.grid.len(), part.is_odd);
    let of_rank = |rank: usize| order(world, &dimensions, rank);
    match operation {
        Operation::ReduceScatter(_) => Some(part.by_parts(world.ranks, of_rank)),
        Operation::AllReduce(_) => {
            let held = |rank: usize| {
                let at = |dimension| world.coordinate(rank, dimension);
                (nested(world, &dimensions, 0..part.elements, at), rank)
            };
            let held = (0..world.ranks).map(held).filter(|(range, _)| !range.is_empty());
            let mut all: Orders = held.map(|(range, rank)| (range, of_rank(rank))).collect();
            all.sort_by_key(|(range, _)| range.start);
            Some(all)
        }
        _ => None,
    }
}

/// Returns the order of the values that a rank has combined after `dimensions`.
///
/// In the last dimension the values are combined around the ring, beginning with the successor of the rank.
fn order(world: &World, dimensions: &[usize], rank: usize) -> Order {
    let Some((&dimension, before)) = dimensions.split_last() else { return Order::Rank(rank) };
    let (places, stride) = (ring(world, dimension), world.stride(dimension));
    let here = world.coordinate(rank, dimension);
    let first = rank - here * stride;
    let begin = 1 + places.iter().position(|&at| at == here).expect("a place for each");
    let around = (0..places.len()).map(|step| places[(begin + step) % places.len()]);
    let values = around.map(|at| order(world, before, first + at * stride));
    Order::passed(values).expect("a ring has a place")
}
