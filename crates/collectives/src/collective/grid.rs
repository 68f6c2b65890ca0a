//! A grid: one ring per dimension in turn, on ever smaller parts.
//!
//! An all-reduce is a reduce-scatter along the first dimension, then a reduce-scatter of the remaining part along
//! the second, and so on; all-gathers follow in reverse order. The fastest dimension comes first, which minimises
//! traffic between SIPs. If a dimension does not wrap around, its ring is folded onto the line.
//!
//! PEs at odd positions swap the first two dimensions, so that the links of both are busy at the same time.

mod stages;
mod stated;

use std::ops::Range;

use smallvec::smallvec;

use super::line::{Held, Line, Ranges, folded};
use super::member::Member;
use super::pieces::{Round, in_round, part, shifted};
use super::{Algorithm, Job, Operation, Orders, PePart, ReduceOp, Schedule, Wire, World, kernel};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Tile};

/// A ring along each dimension in turn.
#[derive(Clone, Copy, Debug)]
pub struct Grid;

impl Algorithm for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn refuses(&self, operation: Operation, _: &World) -> Option<String> {
        match operation {
            Operation::AllReduce(_) | Operation::ReduceScatter(_) | Operation::AllGather => None,
            other => Some(format!("{} is not supported; use direct", other.name())),
        }
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        let dimensions = 0..world.grid.len();
        dimensions.flat_map(|dimension| wires_along(world, dimension)).collect()
    }

    fn kernel(&self, job: &Job) -> Kernel {
        kernel(self, job, run)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        stages::schedule(operation, world)
    }

    fn orders(&self, operation: Operation, world: &World, part: PePart) -> Option<Orders> {
        stated::orders(operation, world, part)
    }
}

/// Returns the ports to the next and to the previous rank of a dimension.
fn ports(dimension: usize) -> [Port; 2] {
    let first = u16::try_from(2 * dimension).expect("few dimensions");
    [Port(first), Port(first + 1)]
}

fn wires_along(world: &World, dimension: usize) -> Vec<Wire> {
    let order = order(world, dimension);
    if order.len() < 2 {
        return Vec::new();
    }
    let [next, last] = ports(dimension);
    let firsts = (0..world.ranks).filter(|&rank| world.coordinate(rank, dimension) == 0);
    let of_line = |first: usize| {
        let at = |place: usize| first + order[place % order.len()] * world.stride(dimension);
        let wire = move |place| Wire { ends: [(at(place), next), (at(place + 1), last)] };
        (0..order.len()).map(wire).collect::<Vec<_>>()
    };
    firsts.flat_map(of_line).collect()
}

/// Returns the coordinates of a dimension in ring order.
fn order(world: &World, dimension: usize) -> Vec<usize> {
    let count = world.grid[dimension];
    if world.wraps[dimension] { (0..count).collect() } else { folded(count) }
}

fn run(pe: &Member) {
    // A rank of one PE has one position.
    let is_odd = pe.args.whole(4) == 0 && pe.tl.program_id(0) % 2 == 1;
    let dimensions = dimensions(pe.job.world.grid.len(), is_odd);
    let grid = GridMember { pe, dimensions };
    match pe.job.operation {
        Operation::AllReduce(op) => grid.all_reduce(op),
        Operation::ReduceScatter(op) => grid.reduce_scatter(op),
        Operation::AllGather => grid.all_gather(),
        other => unreachable!("refused: {other}"),
    }
}

/// Returns the order of dimensions: ascending, or with pairs swapped.
fn dimensions(count: usize, swapped: bool) -> Vec<usize> {
    let swap = |dimension: usize| if (dimension ^ 1) < count { dimension ^ 1 } else { dimension };
    (0..count).map(|dimension| if swapped { swap(dimension) } else { dimension }).collect()
}

/// Returns the part of a range that remains after its division along some dimensions in turn, at a coordinate in each.
fn nested(
    world: &World,
    dimensions: &[usize],
    range: Range<u64>,
    at: impl Fn(usize) -> usize,
) -> Range<u64> {
    dimensions.iter().fold(range, |range, &dimension| {
        let inner = part(range.end - range.start, at(dimension), world.grid[dimension]);
        shifted(&inner, 0, range.start)
    })
}

/// A PE of a rank in the grid.
struct GridMember<'p> {
    pe: &'p Member,
    /// Dimensions in the order of the reduce-scatters.
    dimensions: Vec<usize>,
}

impl<'p> GridMember<'p> {
    fn world(&self) -> &'p World {
        &self.pe.job.world
    }

    /// Returns this rank's ring along a dimension, and the coordinate of each place on it.
    fn line(&self, dimension: usize) -> (Line<'p>, Vec<usize>) {
        let order = order(self.world(), dimension);
        let here = self.world().coordinate(self.pe.rank, dimension);
        let place = order.iter().position(|&at| at == here).expect("a place for each");
        let [next, last] = ports(dimension);
        (Line { pe: self.pe, next, last, place, count: order.len() }, order)
    }

    /// Returns the range that this rank holds after the first `depth` dimensions, with its coordinate in the last
    /// dimension replaced by `last`.
    fn nested(&self, depth: usize, last: usize) -> Range<u64> {
        let dimensions = &self.dimensions[..depth];
        let here = |dimension: usize| self.world().coordinate(self.pe.rank, dimension);
        nested(self.world(), dimensions, self.pe.whole(), |dimension| {
            if dimensions.last() == Some(&dimension) { last } else { here(dimension) }
        })
    }

    /// Performs an all-reduce. Partial sums are stored in the output between dimensions, so that each dimension
    /// chooses its own pieces.
    fn all_reduce(&self, op: ReduceOp) {
        let depths = 1..=self.dimensions.len();
        for depth in depths.clone() {
            let from = if depth == 1 { &self.pe.input } else { &self.pe.output };
            let (line, order) = self.line(self.dimensions[depth - 1]);
            for round in self.rounds(self.pe.input.elements.div_ceil(self.within(depth))) {
                let nested = |place: usize| self.nested(depth, order[place]);
                let parts = |place: usize| smallvec![in_round(&nested(place), round)];
                for (range, tile) in line.scatter(op, parts, |range| from.load(&self.pe.tl, range))
                {
                    let last = depth == self.dimensions.len();
                    let tile = if last { self.pe.finish(op, tile) } else { tile };
                    self.pe.store(&range, &tile);
                }
            }
        }
        for depth in depths.rev() {
            let (line, order) = self.line(self.dimensions[depth - 1]);
            let longest = self.pe.input.elements.div_ceil(self.within(depth));
            self.spread(&line, longest, |place| smallvec![self.nested(depth, order[place])]);
        }
    }

    /// Returns the number of ranks in the first `depth` dimensions together.
    fn within(&self, depth: usize) -> u64 {
        let inner = self.dimensions[..depth].iter();
        inner.map(|&dimension| self.world().grid[dimension] as u64).product()
    }

    /// Returns the rounds of a step that holds `held` elements in the TCM.
    fn rounds(&self, held: u64) -> impl Iterator<Item = Round> + use<> {
        // Nested parts are at most one element longer.
        self.pe.rounds(held + 1)
    }

    /// Gathers all parts of a ring into the output, which already holds this place's part.
    fn spread(&self, line: &Line<'_>, longest: u64, parts: impl Fn(usize) -> Ranges) {
        let load = |range: &Range<u64>| self.pe.output.load(&self.pe.tl, range);
        for round in self.rounds(longest) {
            let cut = |range: &Range<u64>| in_round(range, round);
            let parts = |place: usize| parts(place).iter().map(cut).collect();
            line.gather(parts, load, |range, tile| self.pe.store(range, tile));
        }
    }

    /// Returns the ranks with this rank's coordinates in the dimensions `same`, and coordinate `at` in `dimension`.
    fn ranks_at(&self, same: &[usize], dimension: usize, at: usize) -> Vec<usize> {
        let world = self.world();
        let here = |&dimension: &usize| world.coordinate(self.pe.rank, dimension);
        let is_like = |rank: usize| same.iter().all(|d| world.coordinate(rank, *d) == here(d));
        let is_at = |rank: usize| world.coordinate(rank, dimension) == at;
        (0..world.ranks).filter(|&rank| is_like(rank) && is_at(rank)).collect()
    }

    /// Performs a reduce-scatter. The parts of the ranks at one place of a ring are not contiguous, so each
    /// message is a piece of one part, and partial sums stay in the TCM.
    fn reduce_scatter(&self, op: ReduceOp) {
        let rounds = self.rounds(self.pe.input.elements.div_ceil(self.within(1)));
        rounds.for_each(|round| self.reduce_scatter_round(op, round));
    }

    fn reduce_scatter_round(&self, op: ReduceOp, round: Round) {
        let mut held: Option<Held> = None;
        for (depth, &dimension) in self.dimensions.iter().enumerate() {
            let (line, order) = self.line(dimension);
            let parts = |place: usize| {
                let ranks = self.ranks_at(&self.dimensions[..depth], dimension, order[place]);
                ranks.into_iter().map(|rank| self.pe.part_in(rank, round)).collect()
            };
            held = Some(line.scatter(op, parts, |range| self.held(held.as_ref(), range)));
        }
        let start = self.pe.part(self.pe.rank).start;
        for (range, tile) in held.unwrap_or_default() {
            let tile = self.pe.finish(op, tile);
            self.pe.store(&shifted(&range, start, 0), &tile);
        }
    }

    fn held(&self, held: Option<&Held>, range: &Range<u64>) -> Tile {
        let Some(held) = held else { return self.pe.load(range) };
        let place = held.binary_search_by_key(&range.start, |(at, _)| at.start);
        held[place.expect("pieces are the same in each dimension")].1.clone()
    }

    fn all_gather(&self) {
        self.pe.copy(&self.pe.whole(), self.pe.slot(self.pe.rank).start);
        for (depth, &dimension) in self.dimensions.iter().enumerate().rev() {
            let (line, order) = self.line(dimension);
            let all = self.pe.input.elements * self.world().ranks as u64;
            self.spread(&line, all / self.within(depth + 1), |place| {
                let ranks = self.ranks_at(&self.dimensions[..depth], dimension, order[place]);
                merged(ranks.into_iter().map(|rank| self.pe.slot(rank)))
            });
        }
    }
}

/// Merges adjacent ranges of a sorted sequence.
fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Ranges {
    let mut merged = Ranges::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => merged.push(range),
        }
    }
    merged
}
