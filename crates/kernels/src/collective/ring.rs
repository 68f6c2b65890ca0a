//! A ring: everything goes around it piece by piece, each rank to the next.
//!
//! An all-reduce is a reduce-scatter and an all-gather. In the first, part `i` starts at rank `i + 1` and
//! is joined with what each rank on its way holds, until it is whole at rank `i`; in the second it goes around
//! once more. Each rank sends 2 (n − 1) / n of its input, which no algorithm can do with less.

use std::ops::Range;

use cubeyard_sim::Span;

use super::line::{Held, Line};
use super::pieces::{Flat, pieces};
use super::{
    Algorithm, Job, Operation, ReduceOp, Wire, World, finish, join, kernel, rank_of, steps,
};
use crate::kernel::{Args, Kernel};
use crate::tl::{Port, Tile, Tl};

/// To the next rank.
const NEXT: Port = Port::E;
/// From the one before.
const LAST: Port = Port::W;

/// Each rank to the next, chunked and pipelined.
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
            other => Some(format!("{} does not go around a ring; use direct", other.name())),
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

    fn estimate(
        &self,
        operation: Operation,
        world: &World,
        bytes: u64,
        alpha: Span,
        beta: f64,
    ) -> Option<Span> {
        let rounds = world.ranks.saturating_sub(1);
        let passed = bytes as f64 * rounds as f64 / world.ranks.max(1) as f64;
        match operation {
            Operation::AllReduce(_) => steps(2 * rounds, 2.0 * passed, alpha, beta),
            Operation::ReduceScatter(_) | Operation::AllGather => {
                steps(rounds, passed, alpha, beta)
            }
            // Piece follows piece, so only the first pays for every step.
            Operation::Broadcast(_) | Operation::Reduce(..) => {
                steps(rounds, bytes as f64, alpha, beta)
            }
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

/// One rank of a ring.
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

    fn part(&self, rank: usize) -> Vec<Range<u64>> {
        vec![self.input.part(rank, self.ranks())]
    }

    /// This rank's part of what joins all inputs.
    fn scatter(&self, op: ReduceOp) -> Held {
        let load = |range: &Range<u64>| self.input.load(&self.tl, range);
        let end = |(range, tile)| (range, finish(&self.tl, op, self.ranks(), tile));
        self.line().scatter(op, |rank| self.part(rank), load).into_iter().map(end).collect()
    }

    fn all_reduce(&self, op: ReduceOp) {
        let whole = self.scatter(op);
        for (range, tile) in &whole {
            self.output.store(&self.tl, range, tile);
        }
        let own = |range: &Range<u64>| {
            let its = whole.iter().find(|(at, _)| at == range);
            its.expect("the pieces of its part").1.clone()
        };
        let take = |range: &Range<u64>, tile: &Tile| self.output.store(&self.tl, range, tile);
        self.line().gather(|rank| self.part(rank), own, take);
    }

    fn reduce_scatter(&self, op: ReduceOp) {
        let start = self.input.part(self.rank, self.ranks()).start;
        for (range, tile) in self.scatter(op) {
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
        let parts = |rank: usize| vec![slot(rank)];
        self.line().gather(parts, own, take);
    }

    /// From the root to the one before it, piece after piece.
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

    /// From the one after the root to the root, joined on the way.
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
