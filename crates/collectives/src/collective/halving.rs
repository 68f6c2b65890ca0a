//! Recursive halving and doubling: partners exchange halves of ever smaller parts, then ever larger parts.
//!
//! An all-reduce takes 2 log₂ n steps, and sends no more than a ring. If the number of ranks is not a power of two,
//! each surplus rank passes its input to a partner and receives the result from the partner.

mod stages;

use std::collections::BTreeMap;
use std::ops::Range;

use super::member::Member;
use super::pieces::{Flat, Round, by_turns, shifted};
use super::{
    Algorithm, Job, Operation, Order, Orders, PePart, ReduceOp, Schedule, Wire, World, kernel,
};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Tile};

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

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        operation.op().filter(|_| self.refuses(operation, world).is_none())?;
        Some(part.by_parts(power(world.ranks), |rank| order(rank, 1, world.ranks)))
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

/// Returns the order of the values that a rank has combined once it has halved down to `bit`.
///
/// Above all bits, these are its own value and the value of its surplus rank.
fn order(rank: usize, bit: usize, ranks: usize) -> Order {
    let power = power(ranks);
    if bit < power {
        return Order::join(order(rank, 2 * bit, ranks), order(rank ^ bit, 2 * bit, ranks));
    }
    let surplus = Some(rank + power).filter(|&other| other < ranks);
    Order::Rank(rank).then(surplus.map(Order::Rank))
}

fn run(pe: &Member) {
    let halving = HalvingMember { pe, power: power(pe.ranks()) };
    match pe.job.operation {
        Operation::AllReduce(op) => halving.all_reduce(op),
        Operation::ReduceScatter(op) => halving.reduce_scatter(op),
        Operation::AllGather => halving.all_gather(),
        other => unreachable!("refused: {other}"),
    }
}

/// A PE of a rank that halves and doubles, or of a surplus rank.
struct HalvingMember<'p> {
    pe: &'p Member,
    /// Number of ranks that take part in halving and doubling.
    power: usize,
}

impl HalvingMember<'_> {
    fn pieces(&self, ranges: &[Range<u64>]) -> std::vec::IntoIter<Range<u64>> {
        let all = ranges.iter().flat_map(|range| self.pe.pieces(range));
        all.collect::<Vec<_>>().into_iter()
    }

    /// Returns the partner of a surplus rank, or the surplus rank of a partner.
    fn folded(&self) -> Option<usize> {
        let other = self.pe.rank ^ self.power;
        (other < self.pe.ranks()).then_some(other)
    }

    fn is_beyond(&self) -> bool {
        self.pe.rank >= self.power
    }

    fn send(&self, port: Port, from: &Flat, range: &Range<u64>) {
        self.pe.tl.send(port, &from.load(&self.pe.tl, range));
    }

    fn send_all(&self, port: Port, from: &Flat, ranges: &[Range<u64>]) {
        self.pieces(ranges).for_each(|range| self.send(port, from, &range));
    }

    fn take(&self, port: Port, range: &Range<u64>) {
        let tile = self.pe.receive(port, range);
        self.pe.store(range, &tile);
    }

    fn take_all(&self, port: Port, ranges: &[Range<u64>]) {
        self.pieces(ranges).for_each(|range| self.take(port, &range));
    }

    /// Returns the combined part of the ranks that agree with `rank` in all bits from `bit` up.
    fn parts(&self, rank: usize, bit: usize) -> Range<u64> {
        let first = rank & !(bit - 1);
        let part = |rank| self.pe.input.part(rank, self.power);
        part(first).start..part(first + bit - 1).end
    }

    /// Performs an all-reduce. Partial sums are stored in the output between steps.
    fn all_reduce(&self, op: ReduceOp) {
        let (pe, whole) = (self.pe, [self.pe.whole()]);
        if self.is_beyond() {
            self.send_all(FOLD, &pe.input, &whole);
            return self.take_all(FOLD, &whole);
        }
        let mut from = &pe.input;
        if self.folded().is_some() {
            self.pieces(&whole).for_each(|range| self.join(op, from, FOLD, &range));
            from = &pe.output;
        }
        for bit in bits(self.power).rev() {
            self.halve(op, from, bit);
            from = &pe.output;
        }
        self.complete(op, from);
        for bit in bits(self.power) {
            let other = pe.rank ^ bit;
            self.double(bit, &[self.parts(pe.rank, bit)], &[self.parts(other, bit)]);
        }
        if self.folded().is_some() {
            self.send_all(FOLD, &pe.output, &whole);
        }
    }

    /// Combines a received piece with the local one.
    fn join(&self, op: ReduceOp, from: &Flat, port: Port, range: &Range<u64>) {
        let own = from.load(&self.pe.tl, range);
        let come = self.pe.receive(port, range);
        self.pe.store(range, &self.pe.join(op, &own, &come));
    }

    /// Sends the other half of the current range, and combines this half.
    fn halve(&self, op: ReduceOp, from: &Flat, bit: usize) {
        let mine = self.pieces(&[self.parts(self.pe.rank, bit)]);
        let others = self.pieces(&[self.parts(self.pe.rank ^ bit, bit)]);
        let send = |range| self.send(to(bit), from, &range);
        by_turns(others, mine, send, |range| self.join(op, from, to(bit), &range));
    }

    /// Divides an average by the number of ranks; copies the input of a lone rank to the output.
    fn complete(&self, op: ReduceOp, from: &Flat) {
        if self.pe.ranks() > 1 && op != ReduceOp::Avg {
            return;
        }
        for range in self.pieces(&[self.parts(self.pe.rank, 1)]) {
            let tile = self.pe.finish(op, from.load(&self.pe.tl, &range));
            self.pe.store(&range, &tile);
        }
    }

    /// Exchanges the ranges that this rank and its partner hold.
    fn double(&self, bit: usize, mine: &[Range<u64>], others: &[Range<u64>]) {
        let send = |range| self.send(to(bit), &self.pe.output, &range);
        let take = |range| self.take(to(bit), &range);
        by_turns(self.pieces(mine), self.pieces(others), send, take);
    }

    /// Performs a reduce-scatter. The output has room only for the rank's own part, so partial sums stay in the
    /// TCM. Each of their pieces belongs to one part.
    fn reduce_scatter(&self, op: ReduceOp) {
        let rounds = self.pe.rounds(self.pe.input.elements.div_ceil(2));
        rounds.for_each(|round| self.reduce_scatter_round(op, round));
    }

    fn reduce_scatter_round(&self, op: ReduceOp, round: Round) {
        let pe = self.pe;
        let mut held: BTreeMap<u64, Tile> = BTreeMap::new();
        let parts = |rank: usize, bit: usize| {
            let first = rank & !(bit - 1);
            let parts = (first..first + bit).map(|rank| pe.part_in(rank, round));
            self.pieces(&parts.collect::<Vec<_>>())
        };
        for bit in bits(self.power).rev() {
            let own = |range: &Range<u64>| {
                held.get(&range.start).cloned().unwrap_or_else(|| pe.load(range))
            };
            let mut joined = BTreeMap::new();
            by_turns(
                parts(pe.rank ^ bit, bit),
                parts(pe.rank, bit),
                |range| pe.tl.send(to(bit), &own(&range)),
                |range| {
                    let mine = own(&range);
                    let come = pe.receive(to(bit), &range);
                    joined.insert(range.start, pe.join(op, &mine, &come));
                },
            );
            held = joined;
        }
        let start = pe.part(pe.rank).start;
        for range in parts(pe.rank, 1) {
            let tile = held.get(&range.start).cloned().unwrap_or_else(|| pe.load(&range));
            pe.store(&shifted(&range, start, 0), &pe.finish(op, tile));
        }
    }

    fn all_gather(&self) {
        let (pe, slot) = (self.pe, |rank: usize| self.pe.slot(rank));
        pe.copy(&pe.whole(), slot(pe.rank).start);
        let all = 0..slot(pe.ranks()).start;
        if self.is_beyond() {
            self.send_all(FOLD, &pe.output, &[slot(pe.rank)]);
            let (before, after) = (0..slot(pe.rank).start, slot(pe.rank).end..all.end);
            return self.take_all(FOLD, &[before, after]);
        }
        if let Some(other) = self.folded() {
            self.take_all(FOLD, &[slot(other)]);
        }
        for bit in bits(self.power) {
            // The slots of a run of ranks and of their surplus ranks.
            let of = |rank: usize| {
                let first = rank & !(bit - 1);
                let run = |first: usize| first.min(pe.ranks())..(first + bit).min(pe.ranks());
                let slots = |run: Range<usize>| slot(run.start).start..slot(run.end).start;
                [slots(run(first)), slots(run(first + self.power))]
            };
            self.double(bit, &of(pe.rank), &of(pe.rank ^ bit));
        }
        if let Some(other) = self.folded() {
            let (before, after) = (0..slot(other).start, slot(other).end..all.end);
            self.send_all(FOLD, &pe.output, &[before, after]);
        }
    }
}
