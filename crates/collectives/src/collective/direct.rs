//! All-to-all wiring: each rank has a channel to every other.
//!
//! It takes the fewest steps, so it is fast for short messages, and it supports every operation. Long messages
//! contend for links.

mod stages;

use std::ops::Range;

use super::pieces::{Flat, Round, by_turns, in_round, pieces};
use super::{
    Algorithm, Job, Operation, ReduceOp, Schedule, Wire, World, finish, join, kernel, rank_of,
};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Port, Tile, Tl};

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
}

/// Returns the port to a rank.
pub fn to(rank: usize) -> Port {
    Port(u16::try_from(rank).expect("fewer than 2¹⁶ ranks"))
}

async fn run(tl: Tl, args: Args, job: Job) {
    let [input, output] = Flat::buffers(&args);
    let rank = rank_of(&tl, &args);
    let this = Member { tl, rank, ranks: job.world.ranks, piece: job.piece, input, output };
    match job.operation {
        Operation::AllReduce(op) => this.all_reduce(op),
        Operation::Reduce(op, root) => this.reduce(op, root),
        Operation::Broadcast(root) => this.broadcast(root),
        Operation::AllGather => this.all_gather(),
        Operation::ReduceScatter(op) => this.reduce_scatter(op),
        Operation::AllToAll => this.all_to_all(),
        Operation::Gather(root) => this.gather(root),
        Operation::Scatter(root) => this.scatter(root),
    }
}

struct Member {
    tl: Tl,
    rank: usize,
    ranks: usize,
    piece: u64,
    input: Flat,
    output: Flat,
}

impl Member {
    /// Returns the other ranks, starting with the next, so that not all ranks send to the same one first.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.rank, self.ranks);
        (1..ranks).map(move |step| (rank + step) % ranks)
    }

    /// Returns the other ranks in the order in which they send to this one.
    fn senders(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.rank, self.ranks);
        (1..ranks).map(move |step| (rank + ranks - step) % ranks)
    }

    fn part(&self, rank: usize) -> Range<u64> {
        self.input.part(rank, self.ranks)
    }

    /// Returns the range of a rank's data in an output of all ranks.
    fn slot(&self, rank: usize) -> Range<u64> {
        let whole = self.input.elements;
        rank as u64 * whole..(rank as u64 + 1) * whole
    }

    fn pieces(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        pieces(range, self.piece).collect()
    }

    /// Sends parts to other ranks and receives from them, alternating piece by piece.
    ///
    /// `send` returns the range of the input that goes to a rank, `receive` the range that comes from one, and
    /// `take` handles each piece that arrives.
    fn exchange(
        &self,
        send: impl Fn(usize) -> Range<u64>,
        receive: impl Fn(usize) -> Range<u64>,
        mut take: impl FnMut(usize, Range<u64>, Tile),
    ) {
        for (target, source) in self.others().zip(self.senders()) {
            by_turns(
                self.pieces(&send(target)).into_iter(),
                self.pieces(&receive(source)).into_iter(),
                |range| self.tl.send(to(target), &self.input.load(&self.tl, &range)),
                |range| {
                    let tile = self.input.receive(&self.tl, to(source), &range);
                    take(source, range, tile);
                },
            );
        }
    }

    /// Returns the rounds of an operation that holds a part in the TCM.
    fn rounds(&self) -> impl Iterator<Item = Round> + use<> {
        let longest = self.input.elements.div_ceil(self.ranks as u64);
        let rounds = self.input.rounds(&self.tl, longest, self.piece);
        (0..rounds).map(move |round| (round, rounds))
    }

    /// Returns the share of a rank's part in a round.
    fn part_in(&self, rank: usize, (round, rounds): Round) -> Range<u64> {
        in_round(&self.part(rank), round, rounds)
    }

    /// Returns this rank's part of the combined inputs, in one round.
    fn reduced(&self, op: ReduceOp, round: Round) -> Vec<(Range<u64>, Tile)> {
        let own = self.pieces(&self.part_in(self.rank, round)).into_iter();
        let own = own.map(|range| (range.clone(), self.input.load(&self.tl, &range)));
        let mut sums: Vec<_> = own.collect();
        let mine = |_| self.part_in(self.rank, round);
        self.exchange(
            |rank| self.part_in(rank, round),
            mine,
            |_, range, tile| {
                let sum =
                    sums.iter_mut().find(|(at, _)| *at == range).expect("a piece of its part");
                sum.1 = join(&self.tl, op, &sum.1, &tile);
            },
        );
        let end = |(range, tile)| (range, finish(&self.tl, op, self.ranks, tile));
        sums.into_iter().map(end).collect()
    }

    fn all_reduce(&self, op: ReduceOp) {
        self.rounds().for_each(|round| self.all_reduce_round(op, round));
    }

    fn all_reduce_round(&self, op: ReduceOp, round: Round) {
        let own = self.reduced(op, round);
        for (range, tile) in &own {
            self.output.store(&self.tl, range, tile);
        }
        for (target, source) in self.others().zip(self.senders()) {
            by_turns(
                own.iter(),
                self.pieces(&self.part_in(source, round)).into_iter(),
                |(_, tile)| self.tl.send(to(target), tile),
                |range| {
                    let tile = self.input.receive(&self.tl, to(source), &range);
                    self.output.store(&self.tl, &range, &tile);
                },
            );
        }
    }

    fn reduce_scatter(&self, op: ReduceOp) {
        let start = self.part(self.rank).start;
        for (range, tile) in self.rounds().flat_map(|round| self.reduced(op, round)) {
            self.output.store(&self.tl, &(range.start - start..range.end - start), &tile);
        }
    }

    fn all_gather(&self) {
        self.keep(0..self.input.elements, self.slot(self.rank));
        let whole = |_| 0..self.input.elements;
        self.exchange(whole, whole, |source, range, tile| {
            let offset = self.slot(source).start;
            self.output.store(&self.tl, &(range.start + offset..range.end + offset), &tile);
        });
    }

    fn all_to_all(&self) {
        let parts = |rank: usize| self.part(rank);
        // Parts may differ by one element, so received parts are stored one after the other.
        let mine = self.part(self.rank);
        let length = mine.end - mine.start;
        self.keep(mine.clone(), self.rank as u64 * length..(self.rank as u64 + 1) * length);
        self.exchange(
            parts,
            |_| mine.clone(),
            |source, range, tile| {
                let offset = source as u64 * length;
                let range = range.start - mine.start + offset..range.end - mine.start + offset;
                self.output.store(&self.tl, &range, &tile);
            },
        );
    }

    fn broadcast(&self, root: usize) {
        for range in self.pieces(&(0..self.input.elements)) {
            let tile = if self.rank == root {
                let tile = self.input.load(&self.tl, &range);
                self.others().for_each(|rank| self.tl.send(to(rank), &tile));
                tile
            } else {
                self.input.receive(&self.tl, to(root), &range)
            };
            self.output.store(&self.tl, &range, &tile);
        }
    }

    fn reduce(&self, op: ReduceOp, root: usize) {
        for range in self.pieces(&(0..self.input.elements)) {
            let mut tile = self.input.load(&self.tl, &range);
            if self.rank != root {
                self.tl.send(to(root), &tile);
                continue;
            }
            for rank in self.others() {
                let come = self.input.receive(&self.tl, to(rank), &range);
                tile = join(&self.tl, op, &tile, &come);
            }
            self.output.store(&self.tl, &range, &finish(&self.tl, op, self.ranks, tile));
        }
    }

    fn gather(&self, root: usize) {
        if self.rank != root {
            for range in self.pieces(&(0..self.input.elements)) {
                self.tl.send(to(root), &self.input.load(&self.tl, &range));
            }
            return;
        }
        self.keep(0..self.input.elements, self.slot(root));
        for range in self.pieces(&(0..self.input.elements)) {
            for rank in self.others() {
                let tile = self.input.receive(&self.tl, to(rank), &range);
                let offset = self.slot(rank).start;
                self.output.store(&self.tl, &(range.start + offset..range.end + offset), &tile);
            }
        }
    }

    fn scatter(&self, root: usize) {
        let mine = self.part(self.rank);
        if self.rank == root {
            self.keep(mine.clone(), 0..mine.end - mine.start);
            for rank in self.others() {
                for range in self.pieces(&self.part(rank)) {
                    self.tl.send(to(rank), &self.input.load(&self.tl, &range));
                }
            }
            return;
        }
        for range in self.pieces(&mine) {
            let tile = self.input.receive(&self.tl, to(root), &range);
            self.output.store(&self.tl, &(range.start - mine.start..range.end - mine.start), &tile);
        }
    }

    /// Copies a range of the input to one of equal length in the output.
    fn keep(&self, from: Range<u64>, to: Range<u64>) {
        for (from, to) in self.pieces(&from).into_iter().zip(self.pieces(&to)) {
            let tile = self.input.load(&self.tl, &from);
            self.output.store(&self.tl, &to, &tile);
        }
    }
}
