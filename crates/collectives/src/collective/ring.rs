//! A ring: pieces travel around it, each rank sending to the next.
//!
//! An all-reduce is a reduce-scatter and an all-gather. In the reduce-scatter, part `i` starts at rank `i + 1`, is
//! combined with the inputs on its way, and is complete at rank `i`. In the all-gather it travels around once more.
//! Each rank sends 2 (n − 1) / n of its input, the minimum for any algorithm.

use std::ops::Range;

use smallvec::smallvec;

use super::line::{Held, Line};
use super::member::Member;
use super::pieces::{Round, in_round, shifted};
use super::{
    Algorithm, Job, Operation, Order, Orders, PePart, ReduceOp, Schedule, Stage, Wire, World,
    kernel,
};
use cubeyard_tl::Port;
use cubeyard_tl::kernel::Kernel;

/// Port to the next rank.
const NEXT: Port = Port::E;
/// Port to the previous rank.
const LAST: Port = Port::W;

/// A ring, in pieces and pipelined.
#[derive(Clone, Copy, Debug)]
pub struct Ring;

impl Algorithm for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn refuses(&self, operation: Operation, _: &World) -> Option<String> {
        match operation {
            Operation::AllReduce(_)
            | Operation::ReduceScatter(_)
            | Operation::AllGather
            | Operation::Broadcast(_)
            | Operation::Reduce(..) => None,
            other => Some(format!("{} is not supported; use direct", other.name())),
        }
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        let ranks = world.ranks;
        if ranks < 2 {
            return Vec::new();
        }
        (0..ranks).map(|rank| Wire { ends: [(rank, NEXT), ((rank + 1) % ranks, LAST)] }).collect()
    }

    fn kernel(&self, job: &Job) -> Kernel {
        kernel(self, job, run)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        let ranks = world.ranks;
        let around = |times: usize| {
            let pairs = (0..ranks).map(|rank| (rank, (rank + 1) % ranks));
            Schedule::in_turn(vec![Stage::repeated(times, pairs, 1.0 / ranks as f64)])
        };
        // From the first rank to the last, pipelined by pieces.
        let along = |first: usize| {
            let hops = (0..ranks - 1).map(|step| (first + step) % ranks);
            let stage = |rank: usize| Stage::of([(rank, (rank + 1) % ranks)], 1.0);
            Schedule::pipelined(hops.map(stage).collect())
        };
        match operation {
            Operation::AllReduce(_) => Some(around(2 * (ranks - 1))),
            Operation::ReduceScatter(_) | Operation::AllGather => Some(around(ranks - 1)),
            Operation::Broadcast(root) => Some(along(root)),
            Operation::Reduce(_, root) => Some(along(root + 1)),
            _ => None,
        }
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        let ranks = world.ranks;
        let to = |last: usize| {
            let around = (1..=ranks).map(|step| Order::Rank((last + step) % ranks));
            Order::passed(around).expect("a world has a rank")
        };
        match operation {
            Operation::AllReduce(_) | Operation::ReduceScatter(_) => Some(part.by_parts(ranks, to)),
            Operation::Reduce(_, root) => Some(part.whole(to(root))),
            _ => None,
        }
    }
}

fn run(pe: &Member) {
    match pe.job.operation {
        Operation::AllReduce(op) => all_reduce(pe, op),
        Operation::ReduceScatter(op) => reduce_scatter(pe, op),
        Operation::AllGather => all_gather(pe),
        Operation::Broadcast(root) => broadcast(pe, root),
        Operation::Reduce(op, root) => reduce(pe, op, root),
        other => unreachable!("refused: {other}"),
    }
}

fn line(pe: &Member) -> Line<'_> {
    Line { pe, next: NEXT, last: LAST, place: pe.rank, count: pe.ranks() }
}

/// Returns this rank's part of the combined inputs, in one round.
fn scatter(pe: &Member, op: ReduceOp, round: Round) -> Held {
    let part = |rank| smallvec![pe.part_in(rank, round)];
    let held = line(pe).scatter(op, part, |range| pe.load(range));
    held.into_iter().map(|(range, tile)| (range, pe.finish(op, tile))).collect()
}

fn all_reduce(pe: &Member, op: ReduceOp) {
    pe.rounds(pe.longest_part()).for_each(|round| all_reduce_round(pe, op, round));
}

fn all_reduce_round(pe: &Member, op: ReduceOp, round: Round) {
    let whole = scatter(pe, op, round);
    for (range, tile) in &whole {
        pe.store(range, tile);
    }
    let own = |range: &Range<u64>| {
        let its = whole.iter().find(|(at, _)| at == range);
        its.expect("the pieces of its part").1.clone()
    };
    let part = |rank| smallvec![pe.part_in(rank, round)];
    line(pe).gather(part, own, |range, tile| pe.store(range, tile));
}

fn reduce_scatter(pe: &Member, op: ReduceOp) {
    let start = pe.part(pe.rank).start;
    for (range, tile) in pe.rounds(pe.longest_part()).flat_map(|round| scatter(pe, op, round)) {
        pe.store(&shifted(&range, start, 0), &tile);
    }
}

fn all_gather(pe: &Member) {
    let own = |range: &Range<u64>| {
        let tile = pe.load(&shifted(range, pe.slot(pe.rank).start, 0));
        pe.store(range, &tile);
        tile
    };
    if pe.ranks() == 1 {
        return pe.copy(&pe.whole(), 0);
    }
    for round in pe.rounds(pe.input.elements) {
        let slot = |rank| smallvec![in_round(&pe.slot(rank), round)];
        line(pe).gather(slot, own, |range, tile| pe.store(range, tile));
    }
}

/// Broadcasts from the root to its predecessor, pipelined by pieces.
fn broadcast(pe: &Member, root: usize) {
    let place = (pe.rank + pe.ranks() - root) % pe.ranks();
    for range in pe.pieces(&pe.whole()) {
        let tile = match place {
            0 => pe.load(&range),
            _ => pe.receive(LAST, &range),
        };
        if place + 1 < pe.ranks() {
            pe.tl.send(NEXT, &tile);
        }
        pe.store(&range, &tile);
    }
}

/// Reduces from the root's successor to the root, combining on the way.
fn reduce(pe: &Member, op: ReduceOp, root: usize) {
    let place = (pe.rank + pe.ranks() - root - 1) % pe.ranks();
    for range in pe.pieces(&pe.whole()) {
        let mut tile = pe.load(&range);
        if place > 0 {
            tile = pe.join(op, &tile, &pe.receive(LAST, &range));
        }
        if place + 1 < pe.ranks() {
            pe.tl.send(NEXT, &tile);
        } else {
            pe.store(&range, &pe.finish(op, tile));
        }
    }
}
