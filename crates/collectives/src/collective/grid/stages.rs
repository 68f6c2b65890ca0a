//! Messages of the grid algorithm, for the cost model.

use super::{dimensions, wires_along};
use crate::collective::{Flow, Operation, Schedule, Stage, World};

/// Returns the messages of an operation, if the algorithm supports it.
pub(super) fn schedule(operation: Operation, world: &World) -> Option<Schedule> {
    let depths = 0..world.grid.len();
    let is_whole = matches!(operation, Operation::AllReduce(_));
    let scatter = depths.clone().flat_map(|depth| {
        let reload = (is_whole && depth > 0).then(reload);
        reload.into_iter().chain([stage(world, depth, is_whole)])
    });
    let gather = depths.rev().flat_map(|depth| {
        let is_alone = is_whole || behind(world, depth) == 1;
        let reload = (is_alone && world.grid[depth] > 1).then(reload);
        reload.into_iter().chain([stage(world, depth, is_whole)])
    });
    match operation {
        Operation::AllReduce(_) => Some(Schedule::in_turn(scatter.chain(gather).collect())),
        Operation::ReduceScatter(_) => Some(Schedule::in_turn(scatter.collect())),
        Operation::AllGather => Some(Schedule::in_turn(gather.collect())),
        _ => None,
    }
}

/// Returns a stage without messages, in which a PE reloads the data that it stored in the previous stage.
///
/// An all-reduce reloads partial sums between dimensions, an all-gather the parts to pass on. A stage of several
/// messages hides the reload.
fn reload() -> Stage {
    Stage { times: 1, messages: 2, flows: Vec::new() }
}

/// Returns the number of ranks in all dimensions after `depth`. The part of each of them is a separate message.
fn behind(world: &World, depth: usize) -> usize {
    world.grid[depth + 1..].iter().product()
}

/// Returns the messages at a depth: half of the positions use one dimension and half another.
///
/// Ranks of one PE all use the first dimension; the cost model ignores this. The part for a place is contiguous if
/// `is_whole`, else split by the ranks of the later dimensions ([`behind`]).
fn stage(world: &World, depth: usize, is_whole: bool) -> Stage {
    let orders = [false, true].map(|swapped| dimensions(world.grid.len(), swapped));
    // Both halves share the steps of the longer dimension.
    let times = orders.iter().map(|order| world.grid[order[depth]] - 1).max().unwrap_or(0);
    let along = |order: &Vec<usize>| {
        let dimension = order[depth];
        let within: usize = order[..=depth].iter().map(|&inner| world.grid[inner]).product();
        let all = (world.grid[dimension] - 1) as f64 / within as f64;
        let share = all / 2.0 / times.max(1) as f64;
        let ends = wires_along(world, dimension).into_iter().map(|wire| wire.ends);
        ends.map(move |[(from, _), (to, _)]| Flow { from, to, share }).collect::<Vec<_>>()
    };
    let messages = if is_whole { 1 } else { behind(world, depth) };
    Stage { times, messages, flows: orders.iter().flat_map(along).collect() }
}
