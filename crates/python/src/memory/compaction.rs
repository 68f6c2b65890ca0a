//! Class `Compaction`.

use std::sync::{Mutex, PoisonError};

use cubeyard_memory::flex;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::address::Address;
use super::calls::Held;
use super::owner::FlexAllocator;
use crate::error::Kind;

/// A plan of moves that bring free memory together, with room taken for all of them.
///
/// The owner of the data copies each of `moves`, in order; then `commit()` makes the blocks name their new places. A
/// plan that is abandoned, or dropped, changes nothing.
///
/// >>> from cubeyard.memory import FlexAllocator
/// >>> allocator = FlexAllocator()
/// >>> first, second = allocator.allocate(1024), allocator.allocate(512)
/// >>> first.free()
/// >>> plan = allocator.compact()
/// >>> [(source.offset, target.offset, size) for source, target, size in plan.moves]
/// [(1024, 0, 512)]
/// >>> plan.commit()
/// 1
/// >>> second.address.offset
/// 0
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Compaction {
    plan: Mutex<Option<Held<flex::Compaction>>>,
    moves: Vec<flex::Move>,
    allocator: Py<FlexAllocator>,
}

impl Compaction {
    pub(crate) fn new(plan: flex::Compaction, allocator: &Bound<'_, FlexAllocator>) -> Self {
        let moves = plan.moves().collect();
        let plan = Mutex::new(Some(Held::new(plan, allocator.get().forks())));
        Self { plan, moves, allocator: allocator.clone().unbind() }
    }

    fn end<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(flex::Compaction) -> T + Send,
    ) -> PyResult<T> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).take();
        let text = "the plan was committed or abandoned before";
        let plan = plan.ok_or_else(|| Kind::Input.error(text))?;
        self.allocator.get().call(py, move |_| act(plan.take()))
    }
}

#[pymethods]
impl Compaction {
    /// Blocks to copy: the present and the new address of each, and the number of bytes.
    #[getter]
    fn moves(&self) -> Vec<(Address, Address, u64)> {
        let shown = |step: &flex::Move| (step.from.into(), step.to.into(), step.size.get());
        self.moves.iter().map(shown).collect()
    }

    /// Number of bytes to copy.
    #[getter]
    fn bytes(&self) -> u64 {
        self.moves.iter().map(|step| step.size.get()).sum()
    }

    /// Makes blocks name their new places, and frees the old ones. A block that was freed or pinned meanwhile stays in
    /// its place. Returns the number of blocks that have moved.
    fn commit(&self, py: Python<'_>) -> PyResult<usize> {
        self.end(py, flex::Compaction::commit)
    }

    /// Gives the room for the moves back, and moves nothing.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, drop)
    }

    fn __len__(&self) -> usize {
        self.moves.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.allocator)
    }
}
