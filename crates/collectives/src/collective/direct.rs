//! All-to-all wiring: each rank has a channel to every other.
//!
//! This algorithm takes the fewest steps, so short messages are fast. It supports every operation. Long messages
//! contend for links.

mod stages;

use std::ops::Range;

use super::member::Member;
use super::pieces::{Round, by_turns, shifted};
use super::{
    Algorithm, Job, Operation, Order, Orders, PePart, ReduceOp, Schedule, Wire, World, kernel,
};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Tile};

/// Messages directly between all pairs of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Algorithm for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn refuses(&self, _: Operation, _: &World) -> Option<String> {
        None
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        let pairs = (0..world.ranks).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.map(|(a, b)| Wire { ends: [(a, to(b)), (b, to(a))] }).collect()
    }

    fn kernel(&self, job: &Job) -> Kernel {
        kernel(self, job, run)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        Some(stages::schedule(operation, world))
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        let ranks = world.ranks;
        let others = |rank: usize| (1..ranks).map(move |step| Order::Rank((rank + step) % ranks));
        match operation {
            Operation::AllReduce(_) | Operation::ReduceScatter(_) => {
                Some(part.by_parts(ranks, |rank| Order::Rank(rank).then(others(rank).rev())))
            }
            Operation::Reduce(_, root) => Some(part.whole(Order::Rank(root).then(others(root)))),
            _ => None,
        }
    }
}

/// Returns the port to a rank.
pub fn to(rank: usize) -> Port {
    Port(u16::try_from(rank).expect("fewer than 2¹⁶ ranks"))
}

fn run(pe: &Member) {
    match pe.job.operation {
        Operation::AllReduce(op) => all_reduce(pe, op),
        Operation::Reduce(op, root) => reduce(pe, op, root),
        Operation::Broadcast(root) => broadcast(pe, root),
        Operation::AllGather => all_gather(pe),
        Operation::ReduceScatter(op) => reduce_scatter(pe, op),
        Operation::AllToAll => all_to_all(pe),
        Operation::Gather(root) => gather(pe, root),
        Operation::Scatter(root) => scatter(pe, root),
    }
}

/// Returns the other ranks, starting with the next one, so that ranks begin with different receivers.
fn others(pe: &Member) -> impl Iterator<Item = usize> + use<> {
    let (rank, ranks) = (pe.rank, pe.ranks());
    (1..ranks).map(move |step| (rank + step) % ranks)
}

/// Returns the other ranks in the order in which they send to this rank.
fn senders(pe: &Member) -> impl Iterator<Item = usize> + use<> {
    let (rank, ranks) = (pe.rank, pe.ranks());
    (1..ranks).map(move |step| (rank + ranks - step) % ranks)
}

/// Sends parts to other ranks and receives from them, alternating piece by piece.
///
/// `send` returns the range of the input that goes to a rank, `receive` the range that comes from one, and
/// `take` handles each piece that arrives.
fn exchange(
    pe: &Member,
    send: impl Fn(usize) -> Range<u64>,
    receive: impl Fn(usize) -> Range<u64>,
    mut take: impl FnMut(usize, Range<u64>, Tile),
) {
    for (target, source) in others(pe).zip(senders(pe)) {
        by_turns(
            pe.pieces(&send(target)),
            pe.pieces(&receive(source)),
            |range| pe.tl.send(to(target), &pe.load(&range)),
            |range| {
                let tile = pe.receive(to(source), &range);
                take(source, range, tile);
            },
        );
    }
}

/// Returns this rank's part of the combined inputs, in one round.
fn reduced(pe: &Member, op: ReduceOp, round: Round) -> Vec<(Range<u64>, Tile)> {
    let own = pe.pieces(&pe.part_in(pe.rank, round));
    let mut sums: Vec<_> = own.map(|range| (range.clone(), pe.load(&range))).collect();
    let mine = |_| pe.part_in(pe.rank, round);
    exchange(
        pe,
        |rank| pe.part_in(rank, round),
        mine,
        |_, range, tile| {
            let sum = sums.iter_mut().find(|(at, _)| *at == range).expect("a piece of its part");
            sum.1 = pe.join(op, &sum.1, &tile);
        },
    );
    sums.into_iter().map(|(range, tile)| (range, pe.finish(op, tile))).collect()
}

fn all_reduce(pe: &Member, op: ReduceOp) {
    pe.rounds(pe.longest_part()).for_each(|round| all_reduce_round(pe, op, round));
}

fn all_reduce_round(pe: &Member, op: ReduceOp, round: Round) {
    let own = reduced(pe, op, round);
    for (range, tile) in &own {
        pe.store(range, tile);
    }
    for (target, source) in others(pe).zip(senders(pe)) {
        by_turns(
            own.iter(),
            pe.pieces(&pe.part_in(source, round)),
            |(_, tile)| pe.tl.send(to(target), tile),
            |range| {
                let tile = pe.receive(to(source), &range);
                pe.store(&range, &tile);
            },
        );
    }
}

fn reduce_scatter(pe: &Member, op: ReduceOp) {
    let start = pe.part(pe.rank).start;
    for (range, tile) in pe.rounds(pe.longest_part()).flat_map(|round| reduced(pe, op, round)) {
        pe.store(&shifted(&range, start, 0), &tile);
    }
}

fn all_gather(pe: &Member) {
    pe.copy(&pe.whole(), pe.slot(pe.rank).start);
    let whole = |_| pe.whole();
    exchange(pe, whole, whole, |source, range, tile| {
        pe.store(&shifted(&range, 0, pe.slot(source).start), &tile);
    });
}

fn all_to_all(pe: &Member) {
    // Parts may differ by one element, so received parts are stored one after the other.
    let mine = pe.part(pe.rank);
    let place = |rank: usize| rank as u64 * (mine.end - mine.start);
    pe.copy(&mine, place(pe.rank));
    exchange(
        pe,
        |rank| pe.part(rank),
        |_| mine.clone(),
        |source, range, tile| pe.store(&shifted(&range, mine.start, place(source)), &tile),
    );
}

fn broadcast(pe: &Member, root: usize) {
    for range in pe.pieces(&pe.whole()) {
        let tile = if pe.rank == root {
            let tile = pe.load(&range);
            others(pe).for_each(|rank| pe.tl.send(to(rank), &tile));
            tile
        } else {
            pe.receive(to(root), &range)
        };
        pe.store(&range, &tile);
    }
}

fn reduce(pe: &Member, op: ReduceOp, root: usize) {
    for range in pe.pieces(&pe.whole()) {
        let mut tile = pe.load(&range);
        if pe.rank != root {
            pe.tl.send(to(root), &tile);
            continue;
        }
        for rank in others(pe) {
            tile = pe.join(op, &tile, &pe.receive(to(rank), &range));
        }
        pe.store(&range, &pe.finish(op, tile));
    }
}

fn gather(pe: &Member, root: usize) {
    if pe.rank != root {
        for range in pe.pieces(&pe.whole()) {
            pe.tl.send(to(root), &pe.load(&range));
        }
        return;
    }
    pe.copy(&pe.whole(), pe.slot(root).start);
    for range in pe.pieces(&pe.whole()) {
        for rank in others(pe) {
            let tile = pe.receive(to(rank), &range);
            pe.store(&shifted(&range, 0, pe.slot(rank).start), &tile);
        }
    }
}

fn scatter(pe: &Member, root: usize) {
    let mine = pe.part(pe.rank);
    if pe.rank == root {
        pe.copy(&mine, 0);
        for rank in others(pe) {
            for range in pe.pieces(&pe.part(rank)) {
                pe.tl.send(to(rank), &pe.load(&range));
            }
        }
        return;
    }
    for range in pe.pieces(&mine) {
        let tile = pe.receive(to(root), &range);
        pe.store(&shifted(&range, mine.start, 0), &tile);
    }
}
