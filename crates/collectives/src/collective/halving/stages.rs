//! Messages of halving and doubling, for the cost model.

use super::{bits, power};
use crate::collective::schedule::there_and_back;
use crate::collective::{Operation, Schedule, Stage, World};

/// Returns the messages of an operation, if the algorithm supports it.
pub(super) fn schedule(operation: Operation, world: &World) -> Option<Schedule> {
    let (ranks, power) = (world.ranks, power(world.ranks));
    let pairs = |bit: usize| (0..power).map(move |rank| (rank, rank ^ bit));
    // Each stage loads what the previous one stored.
    let stage =
        |bit: usize| Stage { messages: 2, ..Stage::of(pairs(bit), bit as f64 / power as f64) };
    let fold = |share: f64| Stage::of((power..ranks).map(|rank| (rank, rank - power)), share);
    let halve: Vec<_> = bits(power).rev().map(stage).collect();
    let stages = match operation {
        Operation::AllReduce(_) => there_and_back([vec![fold(1.0)], halve].concat()),
        Operation::AllGather => {
            let double: Vec<_> = halve.iter().rev().map(Stage::reversed).collect();
            let part = 1.0 / ranks as f64;
            [vec![fold(part)], double, vec![fold(1.0 - part).reversed()]].concat()
        }
        Operation::ReduceScatter(_) if ranks == power => halve,
        _ => return None,
    };
    let is_used = |stage: &Stage| !stage.flows.is_empty();
    Some(Schedule::in_turn(stages.into_iter().filter(is_used).collect()))
}
