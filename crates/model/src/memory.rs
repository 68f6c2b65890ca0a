//! Memory use of a model.

/// Memory use per PE, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Use of the PE that uses most.
    pub most: u64,
    /// Mean use over all PEs.
    pub mean: u64,
    /// Use of all PEs together.
    pub all: u64,
}

impl Use {
    /// Summarises the bytes of each PE.
    pub(super) fn of(bytes: impl ExactSizeIterator<Item = u64>) -> Self {
        let count = bytes.len() as u64;
        let (most, all) = bytes.fold((0, 0), |(most, all), used| (used.max(most), all + used));
        Self { most, mean: all / count.max(1), all }
    }
}

/// Memory use of a model per PE, as the allocator reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights of all layers, table and head.
    pub weights: Use,
    /// Caches of K and V.
    pub cache: Use,
    /// Buffers between the parts of a layer.
    pub activations: Use,
    /// Use of everything together.
    pub total: Use,
    /// Capacity of a PE, in bytes.
    pub capacity: u64,
}
