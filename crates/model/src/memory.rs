//! Memory use of a model.

use serde::Serialize;

/// Memory use per PE, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Use {
    /// Use of the PE with the highest use.
    #[serde(rename = "most_bytes")]
    pub most: u64,
    /// Mean use over all PEs.
    #[serde(rename = "mean_bytes")]
    pub mean: u64,
    /// Use of all PEs together.
    #[serde(rename = "all_bytes")]
    pub all: u64,
}

impl Use {
    /// Creates a summary of the bytes used by each PE.
    pub(super) fn of(bytes: impl ExactSizeIterator<Item = u64>) -> Self {
        let count = bytes.len() as u64;
        let (most, all) = bytes.fold((0, 0), |(most, all), used| (used.max(most), all + used));
        Self { most, mean: all / count.max(1), all }
    }
}

/// Memory use of a model per PE, as the allocator reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Weights of all layers, table and head.
    pub weights: Use,
    /// Caches of K and V.
    #[serde(rename = "caches")]
    pub cache: Use,
    /// Buffers between the parts of a layer.
    pub activations: Use,
    /// Total use: weights, caches and activations.
    #[serde(rename = "all")]
    pub total: Use,
    /// Memory capacity of a PE, in bytes.
    #[serde(rename = "capacity_bytes")]
    pub capacity: u64,
}
