//! Merging of slices into visible blocks: short adjacent slices are merged, and blocks do not overlap.

use super::{Slice, SliceKind};

/// One or more slices of a lane, as drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block<'a> {
    /// Covered range of the lane, in picoseconds.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Busy time of units within the block, in picoseconds.
    pub(super) busy: u64,
    /// Number of slices that the block represents.
    pub(super) count: usize,
    /// Kind with the largest share of the block's time.
    pub(super) kind: SliceKind,
    /// First slice of the block.
    pub(super) first: &'a Slice,
}

impl Block<'_> {
    /// Returns the busy fraction of the block from 0 to 1, if it is drawn at least `least` picoseconds long.
    pub(super) fn density(&self, least: f64) -> f64 {
        let length = ((self.end - self.start) as f64).max(least);
        if length > 0.0 { self.busy as f64 / length } else { 1.0 }
    }
}

/// Returns the slices in order of time.
pub(super) fn sorted(slices: &[Slice]) -> Vec<&Slice> {
    let mut slices: Vec<_> = slices.iter().collect();
    slices.sort_by_key(|slice| slice.start);
    slices
}

/// Merges the slices of all lanes into at most about `most` blocks. Blocks are as fine as that allows, but slices
/// shorter than `least` are always merged, because they would be too narrow to draw.
///
/// If there are no more than `most` slices, each slice that is long enough becomes a separate block.
pub(super) fn fit<'a>(
    lanes: &[&[&'a Slice]],
    end: u64,
    most: usize,
    least: u64,
) -> Vec<Vec<Block<'a>>> {
    let blocks =
        |cell| -> Vec<Vec<Block<'a>>> { lanes.iter().map(|lane| merge(lane, cell)).collect() };
    let total = |lanes: &[Vec<Block<'_>>]| lanes.iter().map(Vec::len).sum::<usize>();
    if lanes.iter().map(|lane| lane.len()).sum::<usize>() <= most {
        return blocks(least);
    }
    let mut cell = first_cell(lanes, end, most).max(least);
    let mut found = blocks(cell);
    while total(&found) > most && cell < end {
        cell = cell.saturating_add(cell / 4 + 1);
        found = blocks(cell);
    }
    found
}

/// Returns a first estimate of the cell length, on the short side: half of the length that gives one block per
/// cell in the crowded lanes.
fn first_cell(lanes: &[&[&Slice]], end: u64, most: usize) -> u64 {
    let fair = most / lanes.len().max(1);
    let crowded = lanes.iter().filter(|lane| lane.len() > fair).count();
    (end / 2 / (most / crowded.max(1)).max(1) as u64).max(1)
}

/// Merges one lane, whose slices are in order of time. A slice shorter than `cell` joins its predecessors as
/// long as they stay within a cell. Time covered by an earlier slice is not covered again, so there are at most
/// about three blocks per cell.
fn merge<'a>(slices: &[&'a Slice], cell: u64) -> Vec<Block<'a>> {
    let mut merging = Merging { cell, blocks: Vec::new(), open: None, reached: 0 };
    slices.iter().for_each(|slice| merging.add(slice));
    merging.close();
    merging.blocks
}

struct Merging<'a> {
    cell: u64,
    blocks: Vec<Block<'a>>,
    /// Block being extended, with the time of each kind in it.
    open: Option<(Block<'a>, [u64; SliceKind::ALL.len()])>,
    /// End of the covered range.
    reached: u64,
}

impl<'a> Merging<'a> {
    fn add(&mut self, slice: &'a Slice) {
        let (start, end) = (slice.start.ps(), slice.end.max(slice.start).ps());
        if start < self.reached && end <= self.reached {
            return self.count_hidden();
        }
        let start = start.max(self.reached);
        self.reached = end;
        let busy = slice.busy.ps().min(end - start);
        let block = Block { start, end, busy, count: 1, kind: slice.kind, first: slice };
        if end - start >= self.cell {
            self.close();
            self.blocks.push(block);
        } else {
            self.join(&block);
        }
    }

    /// Counts a slice that earlier slices cover.
    fn count_hidden(&mut self) {
        let open = self.open.as_mut().map(|(block, _)| block);
        if let Some(block) = open.or(self.blocks.last_mut()) {
            block.count += 1;
        }
    }

    fn join(&mut self, block: &Block<'a>) {
        if self.open.as_ref().is_some_and(|(open, _)| block.end - open.start > self.cell) {
            self.close();
        }
        let (open, times) =
            self.open.get_or_insert((Block { busy: 0, count: 0, ..*block }, Default::default()));
        open.end = block.end;
        open.busy += block.busy;
        open.count += 1;
        times[block.kind as usize] += block.busy;
    }

    fn close(&mut self) {
        if let Some((block, times)) = self.open.take() {
            let longest = SliceKind::ALL.into_iter().rev().max_by_key(|kind| times[*kind as usize]);
            let kind = longest.filter(|kind| times[*kind as usize] > 0).unwrap_or(block.kind);
            self.blocks.push(Block { kind, ..block });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cubeyard_sim::Span;

    fn slice(start: u64, end: u64, kind: SliceKind) -> Slice {
        let [start, end] = [start, end].map(Span::from_ps);
        Slice { start, end, busy: end.saturating_sub(start), kind, name: String::new() }
    }

    fn merged(slices: &[Slice], cell: u64) -> Vec<(u64, u64, u64, usize, SliceKind)> {
        let blocks = merge(&sorted(slices), cell);
        blocks.iter().map(|it| (it.start, it.end, it.busy, it.count, it.kind)).collect()
    }

    use SliceKind::{DmaRead as Read, Gemm};

    #[test]
    fn short_neighbours_are_one_block_of_the_kind_that_took_longest() {
        let slices =
            [slice(0, 2, Read), slice(3, 6, Gemm), slice(8, 10, Read), slice(10, 11, Gemm)];
        assert_eq!(merged(&slices, 10), [(0, 10, 7, 3, Read), (10, 11, 1, 1, Gemm)]);
        assert_eq!(merged(&slices, 0).len(), 4);
    }

    #[test]
    fn a_slice_as_long_as_a_cell_stands_alone() {
        let slices = [slice(0, 9, Read), slice(9, 19, Gemm), slice(19, 20, Read)];
        let blocks = merged(&slices, 10);
        assert_eq!(blocks, [(0, 9, 9, 1, Read), (9, 19, 10, 1, Gemm), (19, 20, 1, 1, Read)]);
    }

    #[test]
    fn what_is_covered_is_not_covered_again() {
        let slices =
            [slice(5, 20, Gemm), slice(0, 10, Read), slice(2, 4, Read), slice(30, 25, Read)];
        let blocks = merged(&slices, 0);
        assert_eq!(blocks, [(0, 10, 10, 2, Read), (10, 20, 10, 1, Gemm), (30, 30, 0, 1, Read)]);
    }

    #[test]
    fn instants_are_blocks_too() {
        assert_eq!(merged(&[slice(0, 0, Gemm)], 0), [(0, 0, 0, 1, Gemm)]);
        assert_eq!(merged(&[slice(4, 4, Gemm), slice(4, 4, Gemm)], 9), [(4, 4, 0, 2, Gemm)]);
    }

    #[test]
    fn any_number_of_slices_fits() {
        let lane = |count: u64| -> Vec<Slice> {
            (0..count).map(|at| slice(3 * at, 3 * at + 2, Gemm)).collect()
        };
        let (long, short) = (lane(100_000), lane(50));
        let (long, short) = (sorted(&long), sorted(&short));
        let lanes = [&long[..], &short[..]];
        let blocks = fit(&lanes, 300_000, 1000, 0);
        let total: usize = blocks.iter().map(Vec::len).sum();
        assert!((400..=1000).contains(&total), "{total}");
        assert_eq!(blocks[0].iter().map(|block| block.count).sum::<usize>(), 100_000);
        assert_eq!(blocks[0].iter().map(|block| block.busy).sum::<u64>(), 200_000);
        assert_eq!(fit(&lanes[1..], 300_000, 50, 0)[0].len(), 50);
    }
}
