//! Figures of an allocator as dictionaries, lists and tuples.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{PoolReport, RegionReport, Segment, SegmentTable};
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

/// Returns the figures of pools, in their order.
pub(crate) fn pools<'py>(py: Python<'py>, reports: &[PoolReport]) -> PyResult<Bound<'py, PyList>> {
    let figures = reports.iter().map(|report| {
        let figures = PyDict::new(py);
        figures.set_item("id", report.id.get())?;
        figures.set_item("name", &report.name)?;
        figures.set_item("limit", report.limit.map(Bytes::get))?;
        figures.set_item("is_closed", report.is_closed)?;
        figures.set_item("blocks", report.blocks)?;
        figures.set_item("regions", report.regions)?;
        figures.set_item("allocated", report.allocated.get())?;
        figures.set_item("reserved", report.reserved.get())?;
        figures.set_item("active", report.active.get())?;
        figures.set_item("requested", report.requested.get())?;
        figures.set_item("paused", report.paused.get())?;
        Ok(figures)
    });
    PyList::new(py, figures.collect::<PyResult<Vec<_>>>()?)
}

/// Returns a segment table: the id, flat address and size of each region; `None` for an empty entry.
pub(crate) fn segments<'py>(
    py: Python<'py>,
    table: &SegmentTable,
) -> PyResult<Bound<'py, PyTuple>> {
    let entry = |segment: Segment| (segment.region_id.get(), segment.base, segment.size.get());
    PyTuple::new(py, table.entries().iter().map(|segment| segment.map(entry)))
}
