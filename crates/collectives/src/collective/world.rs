//! Arrangement of ranks in a grid.

/// Arrangement of ranks in a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Number of ranks.
    pub ranks: usize,
    /// Length of each dimension of the grid, the fastest first: rank `x + y * w` is at column `x` of row `y`.
    /// Their product is the number of ranks.
    pub grid: Vec<usize>,
    /// Whether each dimension wraps around.
    pub wraps: Vec<bool>,
}

impl World {
    /// Arranges ranks in a ring.
    pub fn ring(ranks: usize) -> Self {
        Self { ranks, grid: vec![ranks], wraps: vec![true] }
    }

    /// Returns the difference between the ranks of neighbours in a dimension.
    pub fn stride(&self, dimension: usize) -> usize {
        self.grid[..dimension].iter().product()
    }

    /// Returns the coordinate of a rank in a dimension.
    pub fn coordinate(&self, rank: usize, dimension: usize) -> usize {
        rank / self.stride(dimension) % self.grid[dimension]
    }
}
