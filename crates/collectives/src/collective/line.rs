//! A ring of PEs that pass parts around, possibly folded onto a line.

use std::ops::Range;

use smallvec::SmallVec;

use super::ReduceOp;
use super::member::Member;
use super::pieces::by_turns;
use cubeyard_tl::{Port, Tile};

/// Ranges of a buffer, usually a few.
pub(super) type Ranges = SmallVec<[Range<u64>; 2]>;

/// Ranges of a buffer with their tiles.
pub(super) type Held = SmallVec<[(Range<u64>, Tile); 2]>;

/// Tiles to pass on; `None` where the tile originates here.
type Passing = SmallVec<[Option<Tile>; 2]>;

/// One of several PEs wired in a ring: each to the next, the last to the first.
pub(super) struct Line<'a> {
    pub(super) pe: &'a Member,
    /// Port to the next PE.
    pub(super) next: Port,
    /// Port to the previous PE.
    pub(super) last: Port,
    /// Place of this PE in the ring.
    pub(super) place: usize,
    /// Number of PEs in the ring.
    pub(super) count: usize,
}

impl Line<'_> {
    /// Returns the place that is `places` places before this PE's own.
    fn before(&self, places: usize) -> usize {
        (self.place + self.count - places % self.count) % self.count
    }

    /// Splits ranges into pieces, each a message.
    pub(super) fn pieces(&self, ranges: &[Range<u64>]) -> Ranges {
        ranges.iter().flat_map(|range| self.pe.pieces(range)).collect()
    }

    /// Performs a reduce-scatter: parts travel around the ring and are combined with `own` at each place. Each part
    /// arrives complete at its own place. `parts` returns the ranges of a place's part.
    pub(super) fn scatter(
        &self,
        op: ReduceOp,
        parts: impl Fn(usize) -> Ranges,
        own: impl Fn(&Range<u64>) -> Tile,
    ) -> Held {
        let pieces = |places| self.pieces(&parts(self.before(places)));
        let mut passing = Passing::from_elem(None, pieces(1).len());
        let mut joined = Held::new();
        for step in 1..self.count {
            // A tile that originates here is loaded when it leaves; loading all at first would delay the rest.
            let leaving = pieces(step).into_iter().zip(passing);
            joined = Held::new();
            by_turns(
                leaving,
                pieces(step + 1).into_iter(),
                |(range, tile)| self.pe.tl.send(self.next, &tile.unwrap_or_else(|| own(&range))),
                |range| {
                    let mine = own(&range);
                    let come = self.pe.receive(self.last, &range);
                    joined.push((range, self.pe.join(op, &mine, &come)));
                },
            );
            passing = joined.iter().map(|(_, tile)| Some(tile.clone())).collect();
        }
        if self.count == 1 {
            let mine = |range: Range<u64>| (range.clone(), own(&range));
            joined = pieces(0).into_iter().map(mine).collect();
        }
        joined
    }

    /// Performs an all-gather: parts travel around the ring once, this place's part first. `take` handles each part
    /// that arrives.
    pub(super) fn gather(
        &self,
        parts: impl Fn(usize) -> Ranges,
        own: impl Fn(&Range<u64>) -> Tile,
        mut take: impl FnMut(&Range<u64>, &Tile),
    ) {
        let pieces = |places| self.pieces(&parts(self.before(places)));
        let mut passing = Passing::from_elem(None, pieces(0).len());
        for step in 1..self.count {
            let leaving = pieces(step - 1).into_iter().zip(passing);
            let mut come = Passing::new();
            by_turns(
                leaving,
                pieces(step).into_iter(),
                |(range, tile)| self.pe.tl.send(self.next, &tile.unwrap_or_else(|| own(&range))),
                |range| {
                    let tile = self.pe.receive(self.last, &range);
                    take(&range, &tile);
                    come.push(Some(tile));
                },
            );
            passing = come;
        }
    }
}

/// Returns an order of the places of a line that visits even places ascending and odd ones descending, so that
/// no hop of the ring is longer than two.
pub(super) fn folded(count: usize) -> Vec<usize> {
    let back = (0..count).rev().filter(|place| place % 2 == 1);
    (0..count).step_by(2).chain(back).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_line_visits_all_by_hops_of_two() {
        assert_eq!(folded(1), [0]);
        assert_eq!(folded(5), [0, 2, 4, 3, 1]);
        for count in 2..20 {
            let order = folded(count);
            let hops = (0..count).map(|at| order[at].abs_diff(order[(at + 1) % count]));
            assert!(hops.max().unwrap() <= 2);
            let mut sorted = order;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count));
        }
    }
}
