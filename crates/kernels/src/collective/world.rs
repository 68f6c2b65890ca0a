//! How ranks lie to each other.

/// How ranks lie to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// How many there are.
    pub ranks: usize,
    /// How many ranks lie in a row, for each dimension of a grid, the fastest first: rank `x + y * w` is
    /// at column `x` of row `y`. Their product is the number of ranks.
    pub grid: Vec<usize>,
    /// Whether the ends of each dimension are joined.
    pub wraps: Vec<bool>,
}

impl World {
    /// Ranks in a ring.
    pub fn ring(ranks: usize) -> Self {
        Self { ranks, grid: vec![ranks], wraps: vec![true] }
    }

    /// How far apart the ranks are that are neighbours in a dimension.
    pub fn stride(&self, dimension: usize) -> usize {
        self.grid[..dimension].iter().product()
    }

    /// Where a rank is in a dimension.
    pub fn coordinate(&self, rank: usize, dimension: usize) -> usize {
        rank / self.stride(dimension) % self.grid[dimension]
    }
}
