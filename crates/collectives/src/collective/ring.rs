//! A ring: pieces travel around it, each rank sending to the next.
//!
//! An all-reduce is a reduce-scatter and an all-gather. In the first, part `i` starts at rank `i + 1` and is
//! combined with the inputs on its way, until it is complete at rank `i`; in the second it travels around once
//! more. Each rank sends 2 (n − 1) / n of its input, the minimum for any algorithm.

use std::ops::Range;

use smallvec::smallvec;

use super::line::{Held, Line, Ranges};
use super::pieces::{Flat, Round, in_round, pieces};
use super::{
    Algorithm, Job, Operation, ReduceOp, Schedule, Stage, Wire, World, finish, join, kernel,
    rank_of,
};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Port, Tile, Tl};

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
}

async fn run(tl: Tl, args: Args, job: Job) {
    let [input, output] = Flat::buffers(&args);
    let rank = rank_of(&tl, &args);
    let ring = Around { tl, job, rank, input, output };
    match ring.job.operation {
        Operation::AllReduce(op) => ring.all_reduce(op),
        Operation::ReduceScatter(op) => ring.reduce_scatter(op),
        Operation::AllGather => ring.all_gather(),
        Operation::Broadcast(root) => ring.broadcast(root),
        Operation::Reduce(op, root) => ring.reduce(op, root),
        other => unreachable!("refused: {other}"),
    }
}

/// The state of one rank in the ring.
struct Around {
    tl: Tl,
    job: Job,
    rank: usize,
    input: Flat,
    output: Flat,
}

impl Around {
    fn ranks(&self) -> usize {
        self.job.world.ranks
    }

    fn pieces(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        pieces(range, self.job.piece)
    }

    fn line(&self) -> Line<'_> {
        let (place, count, piece) = (self.rank, self.ranks(), self.job.piece);
        Line { tl: &self.tl, next: NEXT, last: LAST, place, count, piece, like: &self.input }
    }

    /// Returns the share of a rank's part in a round.
    fn part(&self, rank: usize, (round, rounds): Round) -> Ranges {
        smallvec![in_round(&self.input.part(rank, self.ranks()), round, rounds)]
    }

    /// Returns the rounds of an operation that holds a part in the TCM.
    fn rounds(&self, part: u64) -> impl Iterator<Item = Round> + use<> {
        let rounds = self.input.rounds(&self.tl, part, self.job.piece);
        (0..rounds).map(move |round| (round, rounds))
    }

    /// Returns the length of the longest part, in elements.
    fn longest(&self) -> u64 {
        self.input.elements.div_ceil(self.ranks() as u64)
    }

    /// Returns this rank's part of the combined inputs, in one round.
    fn scatter(&self, op: ReduceOp, round: Round) -> Held {
        let load = |range: &Range<u64>| self.input.load(&self.tl, range);
        let end = |(range, tile)| (range, finish(&self.tl, op, self.ranks(), tile));
        let held = self.line().scatter(op, |rank| self.part(rank, round), load);
        held.into_iter().map(end).collect()
    }

    fn all_reduce(&self, op: ReduceOp) {
        self.rounds(self.longest()).for_each(|round| self.all_reduce_round(op, round));
    }

    fn all_reduce_round(&self, op: ReduceOp, round: Round) {
        let whole = self.scatter(op, round);
        for (range, tile) in &whole {
            self.output.store(&self.tl, range, tile);
        }
        let own = |range: &Range<u64>| {
            let its = whole.iter().find(|(at, _)| at == range);
            its.expect("the pieces of its part").1.clone()
        };
        let take = |range: &Range<u64>, tile: &Tile| self.output.store(&self.tl, range, tile);
        self.line().gather(|rank| self.part(rank, round), own, take);
    }

    fn reduce_scatter(&self, op: ReduceOp) {
        let start = self.input.part(self.rank, self.ranks()).start;
        for (range, tile) in self.rounds(self.longest()).flat_map(|round| self.scatter(op, round)) {
            let range = range.start - start..range.end - start;
            self.output.store(&self.tl, &range, &tile);
        }
    }

    fn all_gather(&self) {
        let whole = self.input.elements;
        let offset = self.rank as u64 * whole;
        let own = |range: &Range<u64>| {
            let tile = self.input.load(&self.tl, &(range.start - offset..range.end - offset));
            self.output.store(&self.tl, range, &tile);
            tile
        };
        if self.ranks() == 1 {
            return self.input.copy(&self.tl, &self.output, 0, self.job.piece);
        }
        let take = |range: &Range<u64>, tile: &Tile| self.output.store(&self.tl, range, tile);
        let slot = |rank: usize| rank as u64 * whole..(rank as u64 + 1) * whole;
        for (round, rounds) in self.rounds(whole) {
            self.line().gather(|rank| smallvec![in_round(&slot(rank), round, rounds)], own, take);
        }
    }

    /// Broadcasts from the root to its predecessor, pipelined by pieces.
    fn broadcast(&self, root: usize) {
        let place = (self.rank + self.ranks() - root) % self.ranks();
        for range in self.pieces(&(0..self.input.elements)) {
            let tile = match place {
                0 => self.input.load(&self.tl, &range),
                _ => self.input.receive(&self.tl, LAST, &range),
            };
            if place + 1 < self.ranks() {
                self.tl.send(NEXT, &tile);
            }
            self.output.store(&self.tl, &range, &tile);
        }
    }

    /// Reduces from the root's successor to the root, combining on the way.
    fn reduce(&self, op: ReduceOp, root: usize) {
        let place = (self.rank + self.ranks() - root - 1) % self.ranks();
        for range in self.pieces(&(0..self.input.elements)) {
            let mut tile = self.input.load(&self.tl, &range);
            if place > 0 {
                let come = self.input.receive(&self.tl, LAST, &range);
                tile = join(&self.tl, op, &tile, &come);
            }
            if place + 1 < self.ranks() {
                self.tl.send(NEXT, &tile);
            } else {
                let tile = finish(&self.tl, op, self.ranks(), tile);
                self.output.store(&self.tl, &range, &tile);
            }
        }
    }
}
