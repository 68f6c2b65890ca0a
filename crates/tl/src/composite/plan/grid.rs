//! The grid of output tiles, and the box of each operand that a step uses.

use cubeyard_device::topology::CoreSpec;

use super::super::{Composite, CompositeKind};
use super::{Plan, PlanProblem};

/// Number of output tiles, steps per output tile, and the shape of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileGrid {
    /// Number of output tiles from top to bottom.
    pub rows: u32,
    /// Number of output tiles from left to right.
    pub columns: u32,
    /// Number of steps per output tile.
    pub steps: u32,
    /// M, K and N of a full tile for a matrix product; `[rows, columns, columns]` for an elementwise operation,
    /// and `[rows, columns, 1]` for a reduction.
    pub tile: [u64; 3],
}

pub(super) fn grid(composite: &Composite, core: &CoreSpec) -> Result<TileGrid, PlanProblem> {
    let first = composite.sources[0].ty();
    let tiles = |length: u64, edge: u64| {
        u32::try_from(length.div_ceil(edge))
            .map_err(|_| PlanProblem::Text(format!("{length} in tiles of {edge}: too many tiles")))
    };
    let edge = |length: u64, most: u64| length.min(most).max(1);
    let tile = match (&composite.kind, composite.tile) {
        (CompositeKind::Gemm, _) => [core.gemm.m, core.gemm.k, core.gemm.n].map(u64::from),
        (_, Some([rows, columns])) if rows > 0 && columns > 0 => [rows, columns, columns],
        (_, Some(_)) => return Err(PlanProblem::Text("tiles without rows or columns".to_owned())),
        // Whole strips: as many rows as fit in one strip.
        (_, None) => {
            let columns = edge(first.shape[1], core.math.strip.into());
            let rows = edge(first.shape[0], u64::from(core.math.strip) / columns);
            [rows, columns, columns]
        }
    };
    let [m, k, n] = tile;
    Ok(match &composite.kind {
        CompositeKind::Gemm => TileGrid {
            rows: tiles(first.shape[0], m)?,
            columns: tiles(composite.sources[1].ty().shape[1], n)?,
            steps: tiles(first.shape[1], k)?,
            tile,
        },
        CompositeKind::Map(_) => TileGrid {
            rows: tiles(first.shape[0], m)?,
            columns: tiles(first.shape[1], n)?,
            steps: 1,
            tile,
        },
        CompositeKind::Reduce(_) => TileGrid {
            rows: tiles(first.shape[0], m)?,
            columns: 1,
            steps: tiles(first.shape[1], k)?,
            tile: [m, k, 1],
        },
    })
}

impl Plan {
    /// Returns rows and columns of an operand's full tile.
    pub(super) fn tile_shape(&self, index: usize, [m, k, n]: [u64; 3]) -> [u64; 2] {
        match (&self.kind, index) {
            (CompositeKind::Gemm, 0) | (CompositeKind::Reduce(_), _) => [m, k],
            (CompositeKind::Gemm, _) => [k, n],
            (CompositeKind::Map(_), _) => [m, n],
        }
    }

    /// Returns start and shape of the box of an operand that a step uses.
    pub(in crate::composite) fn source_box(
        &self,
        index: usize,
        out: u32,
        step: u32,
    ) -> ([u64; 2], [u64; 2]) {
        let (row, column) = self.place(out);
        let [m, k, n] = self.grid.tile;
        let (row, column) = (u64::from(row) * m, u64::from(column) * n);
        let step = u64::from(step) * k;
        let start = match (&self.kind, index) {
            (CompositeKind::Gemm, 0) | (CompositeKind::Reduce(_), _) => [row, step],
            (CompositeKind::Gemm, _) => [step, column],
            (CompositeKind::Map(_), _) => [row, column],
        };
        clip(start, self.tile_shape(index, self.grid.tile), &self.sources[index].ty().shape)
    }

    /// Returns start and shape of an output tile.
    pub(in crate::composite) fn output_box(&self, out: u32) -> ([u64; 2], [u64; 2]) {
        let (row, column) = self.place(out);
        let [m, _, n] = self.grid.tile;
        clip([u64::from(row) * m, u64::from(column) * n], [m, n], &self.output.shape)
    }

    fn place(&self, out: u32) -> (u32, u32) {
        (out / self.grid.columns, out % self.grid.columns)
    }

    pub(super) fn outs(&self) -> u32 {
        self.grid.rows * self.grid.columns
    }
}

/// Clips a box to the matrix.
fn clip(start: [u64; 2], shape: [u64; 2], whole: &[u64]) -> ([u64; 2], [u64; 2]) {
    let left = |axis: usize| shape[axis].min(whole[axis].saturating_sub(start[axis]));
    (start, [left(0), left(1)])
}
