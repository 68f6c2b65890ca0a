//! Rows of a matrix, spread over the PEs near to their pages.

use crate::machine::OperatorMachine;

/// Rows of each PE: groups of neighbouring rows at a fixed distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    count: u64,
    pes: u64,
    /// Number of neighbouring rows in a group: the rows of a page, or one.
    group: u64,
    /// Pages of a row whose pages divide the PEs; 1 for rows within a page and for all others.
    pages: u64,
    /// Groups of a tile.
    groups: u64,
}

impl Spread {
    /// Spreads `count` rows of `columns` elements, with tiles of at most `most` rows.
    ///
    /// Rows within a page stay with its PE. A row of several pages goes to a PE that holds one of them, each of them in turn.
    /// Rows that are no multiple or divisor of a page are dealt in turn.
    pub(crate) fn new(
        machine: &OperatorMachine,
        count: u64,
        columns: u64,
        element: u64,
        most: u64,
    ) -> Self {
        let (page, pes, row) = (machine.page(), machine.pes(), columns * element);
        let group = if page % row == 0 { (page / row).min(count.div_ceil(pes)).max(1) } else { 1 };
        let pages = if row % page == 0 && pes % (row / page) == 0 { row / page } else { 1 };
        let held = count.div_ceil(group).div_ceil(pes);
        let groups = (held / 3).clamp(1, (most / group).max(1));
        Self { count, pes, group, pages, groups }
    }

    /// Returns the rows of a tile.
    pub(crate) fn tile(&self) -> u64 {
        self.groups * self.group
    }

    /// Returns the distance of groups of a PE, in rows.
    pub(crate) fn step(&self) -> u64 {
        self.pes * self.group
    }

    /// Returns the number of tiles of a PE with the most rows.
    pub(crate) fn steps(&self) -> u64 {
        self.count.div_ceil(self.group).div_ceil(self.pes).div_ceil(self.groups)
    }

    /// Returns the groups of some rows of a tile, and the rows of a group.
    pub(crate) fn split(&self, rows: u64) -> (u64, u64) {
        if rows.is_multiple_of(self.group) { (rows / self.group, self.group) } else { (1, rows) }
    }

    /// Returns first row and number of rows for each tile of a PE.
    pub(crate) fn tiles(&self, turn: u64, steps: u64) -> Vec<[u64; 2]> {
        let (part, near) = (turn % self.pages, turn / self.pages);
        let first = near + part * (self.pes / self.pages);
        let all = self.count / self.group;
        let held = all.saturating_sub(first).div_ceil(self.pes);
        let tile = |step: u64| {
            let from = step * self.groups;
            [(first + from * self.pes) * self.group, self.groups.min(held - from) * self.group]
        };
        let mut tiles: Vec<_> = (0..held.div_ceil(self.groups).min(steps)).map(tile).collect();
        let rest = self.count % self.group;
        if rest > 0 && all % self.pes == first && (tiles.len() as u64) < steps {
            tiles.push([all * self.group, rest]);
        }
        tiles
    }
}
