//! Messages of the direct algorithm, for the cost model.

use crate::collective::{Operation, Schedule, Stage, World};

/// Returns the messages of an operation.
pub(super) fn schedule(operation: Operation, world: &World) -> Schedule {
    let ranks = world.ranks;
    let others = move |rank: usize| (0..ranks).filter(move |&other| other != rank);
    let all = || (0..ranks).flat_map(move |rank| others(rank).map(move |other| (rank, other)));
    let part = 1.0 / ranks as f64;
    // No message waits for another, so all messages of a phase are one stage.
    let messages = ranks - 1;
    let everybody = || Stage { messages, ..Stage::of(all(), part) };
    let from = |root: usize, share: f64| Stage::of(others(root).map(|rank| (root, rank)), share);
    Schedule::in_turn(match operation {
        Operation::AllReduce(_) => vec![everybody(), everybody()],
        Operation::ReduceScatter(_) | Operation::AllGather | Operation::AllToAll => {
            vec![everybody()]
        }
        Operation::Broadcast(root) => vec![from(root, 1.0)],
        Operation::Reduce(_, root) => vec![from(root, 1.0).reversed()],
        Operation::Scatter(root) => vec![Stage { messages, ..from(root, part) }],
        Operation::Gather(root) => vec![Stage { messages, ..from(root, part).reversed() }],
    })
}
