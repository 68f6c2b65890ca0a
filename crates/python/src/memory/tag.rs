//! Class `Tag`.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{self, Budget, TagError, TagId, TagReport};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use super::arguments;
use super::labels::{self, Label};
use super::owner::Owner;
use crate::error::{IntoPyErr, Kind, OrRaise};

/// A tag of an allocator: the bytes of the blocks that carry it, with a soft and a hard budget.
///
/// Inside `with tag:`, the allocations of this thread carry the tag. A request that would exceed the hard budget raises
/// `BudgetExceeded`. When the soft budget is exceeded, the functions of `on_pressure` are called, and subscribers get the
/// event `budget_exceeded`.
///
/// >>> from cubeyard.errors import BudgetExceeded
/// >>> from cubeyard.memory import Card, FlexAllocator
/// >>> allocator = FlexAllocator(Card(16 << 30))
/// >>> cache = allocator.tag("cache", hard=100 << 20)
/// >>> with cache:
/// ...     first = allocator.allocate(60 << 20)
/// >>> try:
/// ...     allocator.allocate(60 << 20, tag=cache)
/// ... except BudgetExceeded as error:
/// ...     print(str(error).split(":")[0])           # then its bytes, and how many to free
/// tag `cache` is over its hard budget of 100.00 MiB
/// >>> cache.allocated >> 20, cache.blocks
/// (60, 1)
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Tag {
    id: TagId,
    owner: Owner,
}

impl Tag {
    /// Returns the tag of a name. A budget that is given replaces the present one.
    pub(crate) fn new(
        py: Python<'_>,
        owner: Owner,
        name: &str,
        (soft, hard): (Option<u64>, Option<u64>),
    ) -> PyResult<Self> {
        let id = owner.call(py, |allocator| allocator.tag(name))?.or_raise()?;
        let tag = Self { id, owner };
        if soft.is_some() || hard.is_some() {
            tag.set_budget(py, soft, hard)?;
        }
        Ok(tag)
    }

    /// Returns the tag of a report.
    pub(crate) fn of(report: &TagReport, owner: Owner) -> Self {
        Self { id: report.id, owner }
    }

    /// Returns the number of the tag, if it belongs to an allocator.
    pub(crate) fn checked(&self, owner: &Owner) -> PyResult<TagId> {
        if self.owner.identity() == owner.identity() {
            return Ok(self.id);
        }
        Err(Kind::Input.error("tag belongs to another allocator: expected a tag of this one"))
    }

    fn report(&self, py: Python<'_>) -> PyResult<TagReport> {
        let found = self.owner.call(py, |allocator| allocator.tag_report(self.id))?;
        found.ok_or_else(|| TagError::Unknown(self.id).into_py_err())
    }
}

/// Converts an argument to a tag.
pub(crate) fn argument(value: &Bound<'_, PyAny>) -> PyResult<Option<Py<Tag>>> {
    arguments::optional(|value| arguments::number("tag", value, "a Tag, or None"), value)
}

/// Returns the tag of a request: the given one, or the one in effect on this thread.
pub(crate) fn of_request(owner: &Owner, tag: Option<Py<Tag>>) -> PyResult<TagId> {
    match tag {
        Some(tag) => tag.get().checked(owner),
        None => Ok(labels::current(owner.identity()).1),
    }
}

#[pymethods]
impl Tag {
    /// Number of the tag in events.
    #[getter]
    fn id(&self) -> u16 {
        self.id.get()
    }

    /// Name of the tag.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.report(py)?.name)
    }

    /// Bytes of the tag's live allocations, in whole blocks.
    #[getter]
    fn allocated(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.report(py)?.allocated.get())
    }

    /// Highest number of bytes so far.
    #[getter]
    fn peak(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.report(py)?.peak.get())
    }

    /// Number of the tag's live allocations.
    #[getter]
    fn blocks(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.report(py)?.blocks)
    }

    /// Soft budget in bytes; `None` for none.
    #[getter]
    fn soft(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.report(py)?.budget.soft.map(Bytes::get))
    }

    /// Hard budget in bytes; `None` for none.
    #[getter]
    fn hard(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.report(py)?.budget.hard.map(Bytes::get))
    }

    /// Sets both budgets. Blocks that exceed them stay.
    #[pyo3(signature = (soft = None, hard = None))]
    fn set_budget(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::soft)] soft: Option<u64>,
        #[pyo3(from_py_with = arguments::hard)] hard: Option<u64>,
    ) -> PyResult<()> {
        let budget = Budget { soft: soft.map(Bytes::new), hard: hard.map(Bytes::new) };
        self.owner.call(py, |allocator| allocator.set_budget(self.id, budget))?.or_raise()
    }

    /// Returns the memory of the tag's blocks to the device, as `Pool.pause` does.
    fn pause(&self, py: Python<'_>) -> PyResult<u64> {
        let pause = |allocator: &flex::FlexAllocator| allocator.pause_tag(self.id);
        Ok(self.owner.call(py, pause)?.or_raise()?.get())
    }

    /// Brings back the memory of the tag's paused blocks, as `Pool.resume` does.
    fn resume(&self, py: Python<'_>) -> PyResult<u64> {
        let resume = |allocator: &flex::FlexAllocator| allocator.resume_tag(self.id);
        Ok(self.owner.call(py, resume)?.or_raise()?.get())
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        labels::enter(this.get().owner.identity(), Label::Tag(this.get().id));
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        labels::leave(self.owner.identity(), Label::Tag(self.id))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let TagReport { name, allocated, blocks, .. } = self.report(py)?;
        Ok(format!("<Tag {name:?}, {allocated} in {blocks} blocks>"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.traverse(&visit)
    }
}
