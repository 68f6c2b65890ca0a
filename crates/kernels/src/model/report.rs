//! What a step takes, and what it must take.

use cubeyard_sim::Span;

use super::cut::Cut;
use super::driver::Part;

pub use super::bound::Demand;

/// What something takes of a PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Of the PE that has most.
    pub most: u64,
    /// On average.
    pub mean: u64,
    /// Of all together.
    pub all: u64,
}

impl Use {
    /// Of the bytes of each PE.
    pub(super) fn of(bytes: impl ExactSizeIterator<Item = u64>) -> Self {
        let count = bytes.len() as u64;
        let (most, all) = bytes.fold((0, 0), |(most, all), used| (used.max(most), all + used));
        Self { most, mean: all / count.max(1), all }
    }
}

/// What a model takes of the memory of each PE, as the allocator has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights.
    pub weights: Use,
    /// Caches of K and V.
    pub cache: Use,
    /// What parts leave for each other.
    pub activations: Use,
    /// All of it.
    pub total: Use,
    /// What a PE has.
    pub capacity: u64,
}

/// What a part takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartReport {
    /// The part.
    pub part: Part,
    /// How often it is run.
    pub count: u64,
    /// From the start until the last PE's end, as the first SIP sees it, all of them together.
    pub total: Span,
    /// What all of them together must do.
    pub demand: Demand,
    /// What memory allows for that, and what the matrix engines allow.
    pub least: [Span; 2],
}

impl PartReport {
    /// What it takes each time, on average.
    pub fn each(&self) -> Span {
        Span::from_ps(self.total.ps() / self.count.max(1))
    }

    /// The least that it can take.
    pub fn bound(&self) -> Span {
        self.least[0].max(self.least[1])
    }

    /// How much of its time the bound is; none if it has none.
    pub fn share(&self) -> Option<f64> {
        let bound = self.bound().ps();
        (bound > 0).then(|| bound as f64 / self.total.ps().max(1) as f64)
    }
}

/// What a model takes.
#[derive(Clone, Debug)]
pub struct ModelReport {
    /// How it is cut.
    pub cut: Cut,
    /// In the order in which they are first run.
    pub parts: Vec<PartReport>,
    /// Launches, and what passes between one part's end and the next one's beginning, all together.
    pub launches: u64,
    /// What passes between one part's end and the next one's beginning, all together.
    pub launching: Span,
    /// From the first part's beginning until the last one's end.
    pub total: Span,
    /// What memory allows for all weights and caches that are read.
    pub bandwidth_bound: Span,
    /// What it takes of memory.
    pub memory: Memory,
    /// At how many positions attention was simulated, of how many there are.
    pub positions: (u64, u64),
}

impl ModelReport {
    /// Tokens that were read or made.
    pub fn tokens(&self) -> u64 {
        match self.cut.work.phase {
            super::Phase::Prefill => self.cut.work.batch * self.cut.work.context,
            super::Phase::Decode => self.cut.work.batch,
        }
    }

    /// Tokens in a second.
    pub fn rate(&self) -> f64 {
        self.tokens() as f64 / (self.total.ps().max(1) as f64 / 1e12)
    }

    /// The least that all parts can take, one after the other.
    pub fn bound(&self) -> Span {
        self.parts.iter().map(PartReport::bound).sum()
    }

    /// How much of the time the bound of memory is.
    pub fn bandwidth_share(&self) -> f64 {
        self.bandwidth_bound.ps() as f64 / self.total.ps().max(1) as f64
    }

    /// How much of the time the bound of all parts is.
    pub fn share(&self) -> f64 {
        self.bound().ps() as f64 / self.total.ps().max(1) as f64
    }
}
