//! Messages of the tree algorithm, for the cost model.

use std::collections::BTreeMap;

use super::{ancestors, distance, parent};
use crate::collective::schedule::there_and_back;
use crate::collective::{Operation, Schedule, Stage, World};

/// Returns the messages of an operation, if the algorithm supports it.
pub(super) fn schedule(operation: Operation, world: &World) -> Option<Schedule> {
    let stages = match operation {
        Operation::AllReduce(_) => there_and_back(upward(world.ranks, None)),
        Operation::Reduce(_, root) => upward(world.ranks, Some(root)),
        Operation::Broadcast(root) => {
            let up = upward(world.ranks, Some(root));
            up.iter().rev().map(Stage::reversed).collect()
        }
        _ => return None,
    };
    Some(Schedule::pipelined(stages))
}

/// Returns the stages toward the roots of both trees, the farthest ranks first.
fn upward(ranks: usize, root: Option<usize>) -> Vec<Stage> {
    let edges = [0, 1].into_iter().flat_map(|tree| {
        let top = ancestors(tree, 0, ranks).last().expect("itself at least");
        let root = root.unwrap_or(top);
        let from = move |rank| distance(tree, rank, root, ranks);
        let edge = move |rank: usize| {
            let up = parent(tree, rank, ranks)?;
            let (near, far) = if from(up) < from(rank) { (up, rank) } else { (rank, up) };
            Some((from(far), (far, near)))
        };
        (0..ranks).filter_map(edge).collect::<Vec<_>>()
    });
    let mut levels: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    edges.for_each(|(level, edge)| levels.entry(level).or_default().push(edge));
    levels.into_values().rev().map(|edges| Stage::of(edges, 0.5)).collect()
}
