//! Class `TorchDevice`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{AddressMode, DeviceMemory as _};
use cubeyard_memory::flex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use super::program::TorchProgram;
use super::{Place, hooks, refused, sites};
use crate::error::{Kind, OrRaise};
use crate::forks;
use crate::memory::pool::Pool;
use crate::memory::tag::Tag;
use crate::memory::watch::{self, Subscription};
use crate::memory::{arguments, calls, figures};

/// A device of PyTorch. The functions of `torch.ahbm` call it and document it.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct TorchDevice(Place);

#[pymethods]
impl TorchDevice {
    #[new]
    fn new(py: Python<'_>, number: u32) -> PyResult<Self> {
        let device = calls::call(py, forks::count(), || cubeyard_torch::device(number))?;
        Ok(Self(Place { number, device: device.map_err(refused)?, forks: forks::count() }))
    }

    /// Returns the statistics, by PyTorch's keys.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        figures::statistics(py, &self.0.call(py, flex::FlexAllocator::stats)?)
    }

    /// Sets the peaks to the current figures.
    fn reset_peak_statistics(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call(py, flex::FlexAllocator::reset_peak_stats)
    }

    /// Sets the accumulated figures and the counters to zero.
    fn reset_accumulated_statistics(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call(py, flex::FlexAllocator::reset_accumulated_stats)
    }

    /// Gives all idle memory back to the host, and returns the number of its bytes.
    fn trim(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.call(py, |allocator| allocator.trim().get())
    }

    /// Returns the free and the total memory.
    fn info(&self) -> (u64, u64) {
        let info = self.0.device.memory.info();
        (info.free.get(), info.total.get())
    }

    /// Limits the memory of all regions together to a fraction of the total.
    fn set_limit(&self, fraction: f64) -> PyResult<()> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(
                Kind::Input.error(format!("fraction={fraction}: expected a number from 0 to 1"))
            );
        }
        let total = self.0.device.memory.info().total;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a fraction of the total is not negative and fits"
        )]
        let limit = (total.get() as f64 * fraction) as u64;
        self.0.device.memory.set_limit(Bytes::new(limit));
        // Regions that were refused before may be available now.
        self.0.device.allocator.unlock_regions();
        Ok(())
    }

    /// Returns the memory that all regions may have together.
    fn limit(&self) -> u64 {
        self.0.device.memory.limit().get()
    }

    /// Begins a history of the last `limit` events; ends it if that is 0. With stacks, allocations on all devices are
    /// asked for theirs.
    fn record_history(&self, py: Python<'_>, limit: usize, stacks: bool) -> PyResult<()> {
        cubeyard_torch::record_sites(limit > 0 && stacks);
        self.0.call(py, |allocator| allocator.record_history(limit))
    }

    /// Returns a snapshot as a pickle.
    fn pickled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let snapshot = self.0.call(py, flex::FlexAllocator::snapshot)?;
        let blocks =
            snapshot.segments.iter().flat_map(|segment| &segment.blocks).map(|block| block.site);
        let numbers = blocks.chain(snapshot.history.iter().map(|entry| entry.site));
        let mut stacks = BTreeMap::new();
        for number in numbers.filter(|&number| number != 0) {
            stacks.entry(number).or_insert_with(|| sites::stack(py, number));
        }
        let stack = |number| stacks.get(&number).cloned().unwrap_or_default();
        let mut bytes = Vec::new();
        let written = snapshot.write_pickle_with(self.0.number, &mut bytes, &stack);
        written.map_err(|error| Kind::Internal.error(error.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the figures of the regions, the oldest first.
    fn regions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        figures::regions(py, &self.0.call(py, flex::FlexAllocator::regions)?)
    }

    /// Returns the segment table: the id, flat address and size of each region; nothing for an empty entry.
    fn segment_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        figures::segments(py, &self.0.call(py, flex::FlexAllocator::segment_table)?)
    }

    /// Whether no further region is acquired.
    #[getter]
    fn regions_locked(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.call(py, flex::FlexAllocator::regions_locked)
    }

    /// Forgets that the device has refused all sizes of a region, so that it is asked again.
    fn unlock_regions(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call(py, flex::FlexAllocator::unlock_regions)
    }

    /// Registers a function to be called when memory has run out, with the report: an exception that was not raised.
    fn on_pressure(&self, callback: Bound<'_, PyAny>) -> PyResult<Subscription> {
        watch::on_pressure(hooks::owner(self.0), callback)
    }

    /// Registers a function to be called with every event.
    fn subscribe(&self, callback: Bound<'_, PyAny>) -> PyResult<Subscription> {
        hooks::detach_calls();
        watch::subscribe(hooks::owner(self.0), callback)
    }

    /// Writes allocations and frees to a file, as RMM's logs are written.
    fn subscribe_rmm_log(&self, py: Python<'_>, path: PathBuf) -> PyResult<Subscription> {
        watch::subscribe_log(py, hooks::owner(self.0), path)
    }

    /// Creates a pool.
    fn pool(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = arguments::optional_limit)] limit: Option<u64>,
    ) -> PyResult<Pool> {
        Pool::new(py, hooks::owner(self.0), &name, limit)
    }

    /// Returns the tag of a name.
    fn tag(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = arguments::soft)] soft: Option<u64>,
        #[pyo3(from_py_with = arguments::hard)] hard: Option<u64>,
    ) -> PyResult<Tag> {
        Tag::new(py, hooks::owner(self.0), &name, (soft, hard))
    }

    /// Returns the device in words and numbers.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let settings = &cubeyard_torch::devices().map_err(refused)?.settings;
        let mode = match self.0.device.memory.mode() {
            AddressMode::Physical => "PF",
            AddressMode::Virtual => "VF",
        };
        let about = PyDict::new(py);
        about.set_item("name", format!("AHBM SIP {}", self.0.number))?;
        about.set_item("total_memory", settings.capacity.get())?;
        about.set_item("bounded_by", &settings.bound)?;
        about.set_item("mode", mode)?;
        let summary = settings.topology.summary();
        about.set_item("multi_processor_count", summary.cubes_per_sip * summary.pes_per_cube)?;
        Ok(about)
    }

    /// Allocates memory for a program and writes its binary there.
    fn load_program(
        &self,
        py: Python<'_>,
        binary: &[u8],
        parameters: usize,
    ) -> PyResult<TorchProgram> {
        if binary.is_empty() {
            return Err(Kind::Input.error("binary is empty: expected at least 1 byte"));
        }
        let size = Bytes::new(binary.len() as u64);
        let load = |allocator: &flex::FlexAllocator| allocator.load_program(size, parameters);
        let program = self.0.call(py, load)?.or_raise()?;
        self.0.write(program.memory().address(), binary);
        Ok(TorchProgram::new(program, self.0))
    }
}
