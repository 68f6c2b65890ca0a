//! The order in which LRAB combines the values of ranks.

use super::branches::Branches;
use super::{cube_dimensions, is_ring, middle};
use crate::collective::{Order, World};

/// Returns the order of the values that a rank has combined after the first `depth` dimensions.
///
/// The rank is in the middle of each of these dimensions that is a dimension of cubes.
pub(super) fn order(world: &World, depth: usize, rank: usize) -> Order {
    let Some(dimension) = depth.checked_sub(1) else { return Order::Rank(rank) };
    let stride = world.stride(dimension);
    let first = rank - world.coordinate(rank, dimension) * stride;
    let value = |at: usize| order(world, dimension, first + at * stride);
    let count = world.grid[dimension];
    if is_ring(world, dimension) {
        return around(count, value);
    }
    let is_of_cubes = dimension < cube_dimensions(world);
    toward(count, if is_of_cubes { middle(world, dimension) } else { count - 1 }, value)
}

/// Returns the order of a reduction along a line toward a place, from both sides.
fn toward(count: usize, root: usize, value: impl Fn(usize) -> Order) -> Order {
    let lower = Order::passed((0..root).map(&value));
    let upper = Order::passed((root + 1..count).rev().map(&value));
    value(root).then(lower.into_iter().chain(upper))
}

/// Returns the order of the tree over the places of a ring.
fn around(count: usize, value: impl Fn(usize) -> Order) -> Order {
    let mut branches = Branches::new(count);
    let join = |a: &Order, b: &Order| Order::join(a.clone(), b.clone());
    let added = (0..count).map(|place| branches.add(place, value(place), join));
    added.last().flatten().expect("complete with the last place")
}
