//! Class `HistoryEntry`.

use cubeyard_memory::flex;
use pyo3::prelude::*;

/// One event of an allocator's history.
#[pyclass(frozen, get_all, module = "cubeyard.memory")]
pub(crate) struct HistoryEntry {
    /// Kind of the event, in PyTorch's terms: `alloc`, `free_requested`, `free_completed`, `segment_alloc`,
    /// `segment_free`, `segment_map`, `segment_unmap`, `oom` or `snapshot`.
    action: &'static str,
    /// Flat address of the block or of the part of a region; for `oom` the free memory of the device.
    address: u64,
    /// Number of bytes: as requested for blocks.
    size: u64,
    /// Stream of the block; 0 for events about regions.
    stream: u32,
    /// Time in microseconds, from the allocator's clock.
    time_us: u64,
    /// Call site of the block's allocation; 0 if unknown.
    site: u32,
}

impl From<&flex::HistoryEntry> for HistoryEntry {
    fn from(entry: &flex::HistoryEntry) -> Self {
        let flex::HistoryEntry { action, address, size, stream, time_us, site, .. } = *entry;
        Self { action: action.name(), address, size: size.get(), stream, time_us, site }
    }
}

#[pymethods]
impl HistoryEntry {
    fn __repr__(&self) -> String {
        format!("<HistoryEntry {}, {} bytes at {:#x}>", self.action, self.size, self.address)
    }
}
