//! Class `Pool`.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{self, PoolId, PoolSpec};
use cubeyard_memory::policy::{Kind as BlockKind, Request};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::block::Allocation;
use super::calls::Held;
use super::labels::{self, Label};
use super::owner::Owner;
use super::tag::{self, Tag};
use super::{arguments, figures};
use crate::error::{Kind, OrRaise};

/// A pool of an allocator: its blocks lie in regions of their own, with statistics, a limit and a release of their own.
///
/// Inside `with pool:`, the allocations of this thread go to the pool. When the last reference is gone, live blocks stay
/// valid, and each region of the pool is released as soon as it is empty.
///
/// >>> from cubeyard.memory import Card, FlexAllocator
/// >>> allocator = FlexAllocator(Card(16 << 30))
/// >>> pool = allocator.pool("graph", limit=4 << 30)
/// >>> with pool:
/// ...     block = allocator.allocate(1 << 20)
/// >>> pool.statistic("allocated_bytes.all.current"), pool.statistic("reserved_bytes.all.current") >> 30
/// (1048576, 4)
/// >>> block.free()
/// >>> pool.trim() >> 30
/// 4
#[pyclass(frozen, weakref, module = "cubeyard.memory")]
pub(crate) struct Pool {
    // Dropped before its owner, so that regions can still be released to the device.
    pub(super) held: Held<flex::Pool>,
    pub(super) owner: Owner,
}

impl Pool {
    pub(crate) fn new(
        py: Python<'_>,
        owner: Owner,
        name: &str,
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let spec = PoolSpec { limit: limit.map(Bytes::new), ..PoolSpec::new(name) };
        let pool = owner.call(py, |allocator| allocator.pool(spec))?;
        Ok(Self { held: Held::new(pool, owner.forks()), owner })
    }

    /// Calls the pool without the GIL.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&flex::Pool) -> T + Send,
    ) -> PyResult<T> {
        self.owner.call(py, |_| act(&self.held))
    }

    /// Returns the number of the pool, if it belongs to an allocator.
    pub(crate) fn checked(&self, owner: &Owner) -> PyResult<PoolId> {
        if self.owner.identity() == owner.identity() {
            return Ok(self.held.id());
        }
        Err(Kind::Input.error("pool belongs to another allocator: expected a pool of this one"))
    }

    fn label(&self) -> Label {
        Label::Pool(self.held.id())
    }
}

/// Converts an argument to a pool.
pub(crate) fn argument(value: &Bound<'_, PyAny>) -> PyResult<Option<Py<Pool>>> {
    arguments::optional(|value| arguments::number("pool", value, "a Pool, or None"), value)
}

/// Returns the pool of a request: the given one, or the one in effect on this thread.
pub(crate) fn of_request(owner: &Owner, pool: Option<Py<Pool>>) -> PyResult<PoolId> {
    match pool {
        Some(pool) => pool.get().checked(owner),
        None => Ok(labels::current(owner.identity()).0),
    }
}

#[pymethods]
impl Pool {
    /// Number of the pool in events and snapshots; the allocator's own pool is 0.
    #[getter]
    fn id(&self) -> u32 {
        self.held.id().get()
    }

    /// Name in reports.
    #[getter]
    fn name(&self) -> &str {
        self.held.name()
    }

    /// Maximum number of bytes that the pool's regions reserve; `None` without a limit. A pool that has more keeps it.
    #[getter]
    fn limit(&self) -> Option<u64> {
        self.held.limit().map(Bytes::get)
    }

    #[setter]
    fn set_limit(&self, #[pyo3(from_py_with = arguments::optional_limit)] limit: Option<u64>) {
        self.held.set_limit(limit.map(Bytes::new));
    }

    /// Allocates a block in the pool; see `FlexAllocator.allocate`.
    #[expect(clippy::similar_names, reason = "arguments are those of Python")]
    #[expect(clippy::too_many_arguments, reason = "arguments are those of Python")]
    #[pyo3(
        signature = (size, *, alignment = 1, stream = 0, kind = BlockKind::Tensor, site = 0, tag = None),
        text_signature = "($self, size, *, alignment=1, stream=0, kind='tensor', site=0, tag=None)"
    )]
    fn allocate(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::size)] size: u64,
        #[pyo3(from_py_with = arguments::alignment)] alignment: u64,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
        #[pyo3(from_py_with = arguments::kind)] kind: BlockKind,
        #[pyo3(from_py_with = arguments::site)] site: u32,
        #[pyo3(from_py_with = tag::argument)] tag: Option<Py<Tag>>,
    ) -> PyResult<Allocation> {
        let Owner::Object(allocator) = &self.owner else {
            let text = "the pool is of a PyTorch device: use torch.ahbm.use_mem_pool";
            return Err(Kind::Input.error(text));
        };
        let tag = tag::of_request(&self.owner, tag)?;
        let (size, alignment) = (Bytes::new(size), Bytes::new(alignment));
        let request = Request { alignment, kind, stream, site, tag, ..Request::new(size) };
        let block = self.call(py, |pool| pool.allocate_for(&request))?.or_raise()?;
        Ok(Allocation::new(block, allocator.bind(py)))
    }

    /// Gives the pool's idle memory back to the device, and returns the number of its bytes.
    fn trim(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |pool| pool.trim().get())
    }

    /// Returns the memory of the pool's blocks to the device, and keeps their addresses. Their contents are lost. Returns
    /// the number of bytes. Regions must be growable (`preset="grow"`), and no block may be pinned.
    ///
    /// >>> from cubeyard.memory import Card, FlexAllocator
    /// >>> allocator = FlexAllocator(Card(16 << 30), preset="grow")
    /// >>> weights = allocator.pool("weights")
    /// >>> layer = weights.allocate(10 << 30)
    /// >>> weights.pause() >> 30, layer.is_paused
    /// (10, True)
    /// >>> with allocator.allocate(12 << 30):          # in the memory of the weights
    /// ...     pass
    /// >>> weights.resume() >> 30, layer.is_paused
    /// (10, False)
    fn pause(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.call(py, flex::Pool::pause)?.or_raise()?.get())
    }

    /// Brings back the memory of all paused blocks of the pool, at their addresses, or of none: then it raises
    /// `OutOfMemory`. Returns the number of bytes.
    fn resume(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.call(py, flex::Pool::resume)?.or_raise()?.get())
    }

    /// Returns the statistics of the pool.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let entries = figures::statistics(py, &self.call(py, flex::Pool::stats)?)?;
        let class = py.import("cubeyard.memory")?.getattr("Statistics")?;
        class.call_method1("from_dict", (entries,))
    }

    /// Returns one statistic of the pool, by PyTorch's key.
    fn statistic(&self, py: Python<'_>, key: &str) -> PyResult<i64> {
        let found = self.call(py, flex::Pool::stats)?.key(key);
        let text = || format!("key is {key:?}: expected a key of `statistics().to_dict()`");
        found.ok_or_else(|| Kind::Input.error(text()))
    }

    /// Sets the peaks of the pool to the current figures.
    fn reset_peak_statistics(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, flex::Pool::reset_peak_stats)
    }

    /// Sets the accumulated figures and the counters of the pool to zero.
    fn reset_accumulated_statistics(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, flex::Pool::reset_accumulated_stats)
    }

    /// Returns the figures of the pool's regions, the oldest first.
    #[pyo3(name = "_region_figures")]
    fn region_figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        figures::regions(py, &self.call(py, flex::Pool::regions)?)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        labels::enter(this.get().owner.identity(), this.get().label());
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        labels::leave(self.owner.identity(), self.label())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Pool, {}>", self.call(py, |pool| pool.report().to_string())?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.traverse(&visit)
    }
}
