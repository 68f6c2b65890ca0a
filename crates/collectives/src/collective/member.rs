//! A PE of a rank in a collective, and the steps that all algorithms share.

use std::ops::Range;

use super::pieces::{Flat, Round, in_round, pieces, shifted};
use super::{Job, ReduceOp};
use cubeyard_tl::kernel::Args;
use cubeyard_tl::{Port, Tile, Tl};

/// A PE of a rank, with its parts of the rank's input and output.
pub(super) struct Member {
    pub(super) tl: Tl,
    pub(super) args: Args,
    pub(super) job: Job,
    pub(super) rank: usize,
    pub(super) input: Flat,
    pub(super) output: Flat,
}

impl Member {
    pub(super) fn new(tl: Tl, args: Args, job: Job) -> Self {
        let [input, output] = Flat::buffers(&args);
        // The rank of the launch's first PE, plus the increments of its cube and PE.
        let cubes = tl.program_id(1) * args.whole(3);
        let pes = tl.program_id(0) * args.whole(4);
        let rank = usize::try_from(args.whole(2) + cubes + pes);
        let rank = rank.expect("fewer ranks than addresses");
        Self { tl, args, job, rank, input, output }
    }

    pub(super) fn ranks(&self) -> usize {
        self.job.world.ranks
    }

    /// Returns the range of the whole input.
    pub(super) fn whole(&self) -> Range<u64> {
        0..self.input.elements
    }

    /// Returns the range of a rank's part of the input.
    pub(super) fn part(&self, rank: usize) -> Range<u64> {
        self.input.part(rank, self.ranks())
    }

    /// Returns the share of a rank's part in a round.
    pub(super) fn part_in(&self, rank: usize, round: Round) -> Range<u64> {
        in_round(&self.part(rank), round)
    }

    /// Returns the length of the longest part, in elements.
    pub(super) fn longest_part(&self) -> u64 {
        self.input.elements.div_ceil(self.ranks() as u64)
    }

    /// Returns the range of a rank's data in an output of all ranks.
    pub(super) fn slot(&self, rank: usize) -> Range<u64> {
        shifted(&self.whole(), 0, rank as u64 * self.input.elements)
    }

    /// Splits a range into pieces, each a message.
    pub(super) fn pieces(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        pieces(range, self.job.piece)
    }

    /// Returns the rounds of an operation that holds `held` elements in the TCM.
    pub(super) fn rounds(&self, held: u64) -> impl Iterator<Item = Round> + use<> {
        let count = self.input.rounds(&self.tl, held, self.job.piece);
        (0..count).map(move |index| Round { index, count })
    }

    /// Loads a range of the input.
    #[track_caller]
    pub(super) fn load(&self, range: &Range<u64>) -> Tile {
        self.input.load(&self.tl, range)
    }

    /// Stores a tile to a range of the output.
    #[track_caller]
    pub(super) fn store(&self, range: &Range<u64>, tile: &Tile) {
        self.output.store(&self.tl, range, tile);
    }

    /// Receives a tile as long as a range.
    #[track_caller]
    pub(super) fn receive(&self, port: Port, range: &Range<u64>) -> Tile {
        self.input.receive(&self.tl, port, range)
    }

    /// Copies a range of the input to the output, beginning at element `offset`.
    pub(super) fn copy(&self, from: &Range<u64>, offset: u64) {
        for range in self.pieces(from) {
            let tile = self.load(&range);
            self.store(&shifted(&range, from.start, offset), &tile);
        }
    }

    /// Combines two tiles.
    #[track_caller]
    pub(super) fn join(&self, op: ReduceOp, a: &Tile, b: &Tile) -> Tile {
        let tl = &self.tl;
        match op {
            ReduceOp::Sum | ReduceOp::Avg => tl.add(a, b),
            ReduceOp::Prod => tl.mul(a, b),
            ReduceOp::Min => tl.minimum(a, b),
            ReduceOp::Max => tl.maximum(a, b),
            ReduceOp::Band => tl.and(a, b),
            ReduceOp::Bor => tl.or(a, b),
            ReduceOp::Bxor => tl.xor(a, b),
        }
    }

    /// Finishes a tile that combines all ranks: divides an average by the number of ranks.
    #[track_caller]
    pub(super) fn finish(&self, op: ReduceOp, tile: Tile) -> Tile {
        if op == ReduceOp::Avg { self.tl.div(&tile, self.ranks() as f64) } else { tile }
    }
}
