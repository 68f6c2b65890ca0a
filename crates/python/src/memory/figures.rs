//! Figures of an allocator as dictionaries, lists and tuples.

use cubeyard_memory::flex::{RegionReport, Segment, SegmentTable};
use cubeyard_memory::stats::Stats;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::failure::entry;

/// Returns the statistics, by PyTorch's keys.
pub(crate) fn statistics<'py>(py: Python<'py>, statistics: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let entries = PyDict::new(py);
    for (key, value) in statistics.entries() {
        entries.set_item(key, value)?;
    }
    Ok(entries)
}

/// Returns the figures of regions, in their order.
pub(crate) fn regions<'py>(
    py: Python<'py>,
    reports: &[RegionReport],
) -> PyResult<Bound<'py, PyList>> {
    let regions: PyResult<Vec<_>> = reports.iter().map(|report| entry(py, report)).collect();
    PyList::new(py, regions?)
}

/// Returns a segment table: the id, flat address and size of each region; `None` for an empty entry.
pub(crate) fn segments<'py>(
    py: Python<'py>,
    table: &SegmentTable,
) -> PyResult<Bound<'py, PyTuple>> {
    let entry = |segment: Segment| (segment.region_id.get(), segment.base, segment.size.get());
    PyTuple::new(py, table.entries().iter().map(|segment| segment.map(entry)))
}
