//! Pages of contiguous tensors, and the elements of other tensors that belong to them.

use super::Streams;
use crate::machine::OperatorMachine;
use crate::nest::Nest;

/// Most bytes of a tile. Longer ones hide no more latency, and delay the first store.
const TILE: u64 = 64 << 10;

/// Elements of a tensor that belong to a page of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The same elements.
    Same,
    /// One number for all.
    One,
    /// The same row for all rows.
    Row,
    /// A number for each row.
    Number,
}

impl Reach {
    /// Returns the reach of a tensor with these strides; `None` for another layout.
    pub(super) fn new(nest: &Nest, strides: &[u64]) -> Option<Self> {
        match (&nest.sizes[..], strides) {
            ([_], [1]) => Some(Self::Same),
            ([_], [0]) | ([_, _], [0, 0]) => Some(Self::One),
            ([_, columns], [pitch, 1]) if pitch == columns => Some(Self::Same),
            ([_, _], [0, 1]) => Some(Self::Row),
            ([_, _], [1, 0]) => Some(Self::Number),
            _ => None,
        }
    }
}

/// Pages of a PE.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    /// Elements of a page of the widest tensor, and in all.
    each: u64,
    elements: u64,
    /// Elements of a row, if there are rows.
    columns: Option<u64>,
    pes: u64,
    /// Pages of a tile.
    tile: u64,
}

impl Pages {
    pub(super) fn new(machine: &OperatorMachine, streams: &Streams, nest: &Nest) -> Self {
        let wide = streams.tensors.iter().map(|tensor| tensor.dtype.size()).max().unwrap_or(1);
        let each = (machine.page() / wide).max(1);
        let (pes, elements) = (machine.pes(), nest.sizes.iter().product::<u64>());
        let held = elements.div_ceil(each).div_ceil(pes);
        // Tiles of all operands and results twice, and an expression's sum.
        let most = machine.scratch() / (2 * (streams.tensors.len() as u64 + 1));
        let tile = (held / 4).clamp(1, (TILE.min(most) / (each * wide)).max(1));
        let columns = (nest.sizes.len() == 2).then(|| nest.sizes[1]);
        Self { each, elements, columns, pes, tile }
    }

    /// Returns whether rows are multiples or parts of pages.
    pub(super) fn is_regular(&self) -> bool {
        let fits = |columns: u64| {
            self.each.is_multiple_of(columns)
                || columns.is_multiple_of(self.each) && self.pes.is_multiple_of(columns / self.each)
        };
        self.columns.is_none_or(fits)
    }

    pub(super) fn pages(&self) -> u64 {
        self.elements.div_ceil(self.each)
    }

    /// Returns the elements of a row.
    pub(super) fn row(&self) -> u64 {
        self.columns.unwrap_or(1)
    }

    /// Returns the number of tiles of the PE with the most pages.
    pub(super) fn steps(&self) -> u64 {
        self.pages().div_ceil(self.pes).div_ceil(self.tile)
    }

    /// Returns the PE with the last page, if that is not full.
    pub(super) fn last(&self) -> u64 {
        self.elements / self.each % self.pes
    }

    /// Returns first page, pages, and elements of a page for each tile of a PE; a last page that is not full is a tile.
    pub(super) fn tiles(&self, turn: u64, steps: u64) -> Vec<[u64; 3]> {
        let (full, rest) = (self.elements / self.each, self.elements % self.each);
        let held = full.saturating_sub(turn).div_ceil(self.pes);
        let tile = |step: u64| {
            let first = step * self.tile;
            [turn + first * self.pes, self.tile.min(held - first), self.each]
        };
        let mut tiles: Vec<_> = (0..held.div_ceil(self.tile).min(steps)).map(tile).collect();
        if rest > 0 && full % self.pes == turn && (tiles.len() as u64) < steps {
            tiles.push([full, 1, rest]);
        }
        tiles
    }

    /// Returns first element, shape and strides of a tile: of all its elements, or of a number for each of its rows.
    pub(super) fn view(
        &self,
        [page, pages, length]: [u64; 3],
        is_number: bool,
    ) -> (u64, [u64; 3], [u64; 3]) {
        let columns = self.row_in_page();
        let (rows, wide) = (length / columns.min(length), columns.min(length));
        if !is_number {
            return (page * self.each, [pages, rows, wide], [self.pes * self.each, wide, 1]);
        }
        let (first, step) = match self.columns {
            Some(columns) if columns > self.each => {
                (page * self.each / columns, self.pes * self.each / columns)
            }
            _ => (page * self.each / columns, self.pes * self.each / columns),
        };
        (first, [pages, rows, 1], [step, 1, 1])
    }

    /// Returns the elements of a row that lie in one page.
    fn row_in_page(&self) -> u64 {
        self.columns.map_or(self.each, |columns| columns.min(self.each))
    }

    /// Returns first element and length of the part of a row that all pages of a PE have.
    pub(super) fn part(&self, turn: u64) -> [u64; 2] {
        match self.columns {
            Some(columns) if columns > self.each => {
                [turn % (columns / self.each) * self.each, self.each]
            }
            _ => [0, self.row()],
        }
    }
}
