//! Recursive halving and doubling: partners exchange halves of ever smaller parts, then ever larger parts.
//!
//! It takes 2 log₂ n steps, and sends no more than a ring. If the number of ranks is not a power of two, each
//! surplus rank passes its input to a partner and receives the result from it.

mod stages;

use std::collections::BTreeMap;
use std::ops::Range;

use super::pieces::{Flat, by_turns, in_round, pieces};
use super::{
    Algorithm, Job, Operation, ReduceOp, Schedule, Wire, World, finish, join, kernel, rank_of,
};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Port, Tile, Tl};

/// Recursive halving and doubling.
#[derive(Clone, Copy, Debug)]
pub struct HalvingDoubling;

impl Algorithm for HalvingDoubling {
    fn name(&self) -> &'static str {
        "halving-doubling"
    }

    fn refuses(&self, operation: Operation, world: &World) -> Option<String> {
        let name = operation.name();
        match operation {
            Operation::AllReduce(_) | Operation::AllGather => None,
            Operation::ReduceScatter(_) if world.ranks.is_power_of_two() => None,
            Operation::ReduceScatter(_) => {
                Some(format!("{name} of {} ranks: expected a power of two", world.ranks))
            }
            _ => Some(format!("{name} is not supported; use direct")),
        }
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        let power = power(world.ranks);
        let pairs = bits(power).flat_map(|bit| {
            let lower = (0..power).filter(move |rank| rank & bit == 0);
            lower.map(move |rank| Wire { ends: [(rank, to(bit)), (rank + bit, to(bit))] })
        });
        let wire = |rank| Wire { ends: [(rank, FOLD), (rank - power, FOLD)] };
        pairs.chain((power..world.ranks).map(wire)).collect()
    }

    fn kernel(&self, job: &Job) -> Kernel {
        kernel(self, job, run)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        stages::schedule(operation, world)
    }
}

/// The port between a surplus rank and its partner.
const FOLD: Port = Port(0);

/// Returns the port to the rank whose number differs in one bit.
fn to(bit: usize) -> Port {
    Port(u16::try_from(bit.trailing_zeros() + 1).expect("at most the bits of a number"))
}

/// Returns the greatest power of two that is at most `ranks`.
fn power(ranks: usize) -> usize {
    1 << ranks.ilog2()
}

/// Returns the bits of numbers below a power of two, lowest first.
fn bits(power: usize) -> impl DoubleEndedIterator<Item = usize> {
    (0..power.ilog2()).map(|place| 1 << place)
}

async fn run(tl: Tl, args: Args, job: Job) {
    let [input, output] = Flat::buffers(&args);
    let (rank, ranks) = (rank_of(&tl, &args), job.world.ranks);
    let node = Node { tl, rank, ranks, power: power(ranks), piece: job.piece, input, output };
    match job.operation {
        Operation::AllReduce(op) => node.all_reduce(op),
        Operation::ReduceScatter(op) => node.reduce_scatter(op),
        Operation::AllGather => node.all_gather(),
        other => unreachable!("refused: {other}"),
    }
}

/// The state of one rank.
struct Node {
    tl: Tl,
    rank: usize,
    ranks: usize,
    /// Number of ranks that take part in halving and doubling.
    power: usize,
    piece: u64,
    input: Flat,
    output: Flat,
}

impl Node {
    fn pieces(&self, ranges: &[Range<u64>]) -> std::vec::IntoIter<Range<u64>> {
        let all = ranges.iter().flat_map(|range| pieces(range, self.piece));
        all.collect::<Vec<_>>().into_iter()
    }

    /// Returns the partner of a surplus rank, or the surplus rank of a partner.
    fn folded(&self) -> Option<usize> {
        let other = self.rank ^ self.power;
        (other < self.ranks).then_some(other)
    }

    fn is_beyond(&self) -> bool {
        self.rank >= self.power
    }

    fn send(&self, port: Port, from: &Flat, ranges: &[Range<u64>]) {
        self.pieces(ranges).for_each(|range| self.tl.send(port, &from.load(&self.tl, &range)));
    }

    fn take(&self, port: Port, ranges: &[Range<u64>]) {
        for range in self.pieces(ranges) {
            let tile = self.input.receive(&self.tl, port, &range);
            self.output.store(&self.tl, &range, &tile);
        }
    }

    /// Returns the combined part of the ranks that agree with `rank` in all bits from `bit` up.
    fn parts(&self, rank: usize, bit: usize) -> Range<u64> {
        let first = rank & !(bit - 1);
        let part = |rank| self.input.part(rank, self.power);
        part(first).start..part(first + bit - 1).end
    }

    /// Performs an all-reduce. Partial sums are stored in the output between steps.
    fn all_reduce(&self, op: ReduceOp) {
        let whole = [self.input.part(0, 1)];
        if self.is_beyond() {
            self.send(FOLD, &self.input, &whole);
            return self.take(FOLD, &whole);
        }
        let mut from = &self.input;
        if self.folded().is_some() {
            self.pieces(&whole).for_each(|range| self.join(op, from, FOLD, &range));
            from = &self.output;
        }
        for bit in bits(self.power).rev() {
            self.halve(op, from, bit);
            from = &self.output;
        }
        self.complete(op, from);
        for bit in bits(self.power) {
            let other = self.rank ^ bit;
            self.double(bit, &[self.parts(self.rank, bit)], &[self.parts(other, bit)]);
        }
        if self.folded().is_some() {
            self.send(FOLD, &self.output, &whole);
        }
    }

    /// Combines a received piece with the local one.
    fn join(&self, op: ReduceOp, from: &Flat, port: Port, range: &Range<u64>) {
        let own = from.load(&self.tl, range);
        let come = self.input.receive(&self.tl, port, range);
        self.output.store(&self.tl, range, &join(&self.tl, op, &own, &come));
    }

    /// Sends the other half of the current range, and combines this half.
    fn halve(&self, op: ReduceOp, from: &Flat, bit: usize) {
        let mine = self.pieces(&[self.parts(self.rank, bit)]);
        let others = self.pieces(&[self.parts(self.rank ^ bit, bit)]);
        let send = |range: Range<u64>| self.tl.send(to(bit), &from.load(&self.tl, &range));
        by_turns(others, mine, send, |range| self.join(op, from, to(bit), &range));
    }

    /// Finishes this rank's part once it combines all ranks.
    fn complete(&self, op: ReduceOp, from: &Flat) {
        if self.ranks > 1 && op != ReduceOp::Avg {
            return;
        }
        for range in self.pieces(&[self.parts(self.rank, 1)]) {
            let tile = finish(&self.tl, op, self.ranks, from.load(&self.tl, &range));
            self.output.store(&self.tl, &range, &tile);
        }
    }

    /// Exchanges the ranges that both have.
    fn double(&self, bit: usize, mine: &[Range<u64>], others: &[Range<u64>]) {
        let send = |range: Range<u64>| self.tl.send(to(bit), &self.output.load(&self.tl, &range));
        by_turns(self.pieces(mine), self.pieces(others), send, |range| {
            let tile = self.input.receive(&self.tl, to(bit), &range);
            self.output.store(&self.tl, &range, &tile);
        });
    }

    /// Performs a reduce-scatter. The output has room only for the rank's own part, so partial sums stay in the
    /// TCM, in pieces of a part each.
    fn reduce_scatter(&self, op: ReduceOp) {
        let rounds = self.input.rounds(&self.tl, self.input.elements.div_ceil(2), self.piece);
        (0..rounds).for_each(|round| self.reduce_scatter_round(op, round, rounds));
    }

    fn reduce_scatter_round(&self, op: ReduceOp, round: usize, rounds: usize) {
        let mut held: BTreeMap<u64, Tile> = BTreeMap::new();
        let part = |rank| in_round(&self.input.part(rank, self.power), round, rounds);
        let parts = |rank: usize, bit: usize| {
            let first = rank & !(bit - 1);
            let parts = (first..first + bit).map(part);
            self.pieces(&parts.collect::<Vec<_>>())
        };
        for bit in bits(self.power).rev() {
            let own = |range: &Range<u64>| {
                held.get(&range.start).cloned().unwrap_or_else(|| self.input.load(&self.tl, range))
            };
            let mut joined = BTreeMap::new();
            by_turns(
                parts(self.rank ^ bit, bit),
                parts(self.rank, bit),
                |range| self.tl.send(to(bit), &own(&range)),
                |range| {
                    let mine = own(&range);
                    let come = self.input.receive(&self.tl, to(bit), &range);
                    joined.insert(range.start, join(&self.tl, op, &mine, &come));
                },
            );
            held = joined;
        }
        let start = self.input.part(self.rank, self.power).start;
        for range in parts(self.rank, 1) {
            let load = || self.input.load(&self.tl, &range);
            let tile = held.get(&range.start).cloned().unwrap_or_else(load);
            let tile = finish(&self.tl, op, self.ranks, tile);
            self.output.store(&self.tl, &(range.start - start..range.end - start), &tile);
        }
    }

    fn all_gather(&self) {
        let whole = self.input.elements;
        let slot = |rank: usize| rank as u64 * whole..(rank as u64 + 1) * whole;
        self.input.copy(&self.tl, &self.output, slot(self.rank).start, self.piece);
        let all = 0..self.ranks as u64 * whole;
        if self.is_beyond() {
            self.send(FOLD, &self.output, &[slot(self.rank)]);
            let (before, after) = (0..slot(self.rank).start, slot(self.rank).end..all.end);
            return self.take(FOLD, &[before, after]);
        }
        if let Some(other) = self.folded() {
            self.take(FOLD, &[slot(other)]);
        }
        for bit in bits(self.power) {
            // The slots of a run of ranks, and of the surplus ranks of which they are partners.
            let of = |rank: usize| {
                let first = rank & !(bit - 1);
                let run = |first: usize| first.min(self.ranks)..(first + bit).min(self.ranks);
                let slots = |run: Range<usize>| slot(run.start).start..slot(run.end).start;
                [slots(run(first)), slots(run(first + self.power))]
            };
            self.double(bit, &of(self.rank), &of(self.rank ^ bit));
        }
        if let Some(other) = self.folded() {
            let (before, after) = (0..slot(other).start, slot(other).end..all.end);
            self.send(FOLD, &self.output, &[before, after]);
        }
    }
}
