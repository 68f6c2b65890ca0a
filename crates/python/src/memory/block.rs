//! Classes `Allocation` and `Pin`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubeyard_memory::{Bytes, flex};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::address::Address;
use super::arguments;
use super::calls::Held;
use super::owner::FlexAllocator;
use super::token::AllocationToken;
use crate::error::{Kind, OrRaise};

/// Owns a block of device memory.
///
/// `free()`, the end of a `with` block, and the end of the last reference (`del`) free it, on any thread. It names its
/// block, not a place: where compaction moves the block, `address` is the new place.
///
/// >>> from cubeyard.memory import Card, FlexAllocator
/// >>> allocator = FlexAllocator(Card(16 << 30))
/// >>> with allocator.allocate(1000) as block:
/// ...     print(block.size, block.requested, block.address)
/// 1024 1000 0x400000000+0x0
/// >>> block.is_live
/// False
#[pyclass(frozen, weakref, module = "cubeyard.memory")]
pub(crate) struct Allocation {
    /// Block; `None` once it is freed. A thread that reads figures shares it briefly. The lock is held with the GIL,
    /// and only to access the option.
    block: Mutex<Option<SharedBlock>>,
    allocator: Py<FlexAllocator>,
}

/// A block that a thread may be reading.
pub(crate) type SharedBlock = Arc<Held<flex::Allocation>>;

impl Allocation {
    pub(crate) fn new(block: flex::Allocation, allocator: &Bound<'_, FlexAllocator>) -> Self {
        let block = Arc::new(Held::new(block, allocator.get().forks()));
        Self { block: Mutex::new(Some(block)), allocator: allocator.clone().unbind() }
    }

    fn cell(&self) -> MutexGuard<'_, Option<SharedBlock>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the block, if it was not freed.
    pub(crate) fn live(&self) -> PyResult<SharedBlock> {
        self.cell().clone().ok_or_else(freed)
    }

    fn look<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&flex::Allocation) -> T + Send,
    ) -> PyResult<T> {
        let block = self.live()?;
        self.allocator.get().call(py, move |_| act(&block))
    }

    /// Takes the block; fails if it has been freed, or if another thread is reading it.
    fn take(&self) -> PyResult<flex::Allocation> {
        let mut cell = self.cell();
        let block = cell.take().ok_or_else(freed)?;
        Arc::try_unwrap(block).map(Held::take).map_err(|block| {
            *cell = Some(block);
            Kind::Busy.error("the block is in use by another thread")
        })
    }
}

fn freed() -> PyErr {
    Kind::Input.error("the block was freed before")
}

#[pymethods]
impl Allocation {
    /// Present address of the block. Pin it to keep it there.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<Address> {
        self.look(py, |block| block.address().into())
    }

    /// Length of the block in bytes: as requested, rounded up to the alignment of the allocator.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |block| block.size().get())
    }

    /// Number of bytes that were asked for.
    #[getter]
    fn requested(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |block| block.requested().get())
    }

    /// Purpose of the block: "tensor", "program" or "staging".
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.look(py, |block| block.kind().name())
    }

    /// Whether the block was not freed.
    #[getter]
    fn is_live(&self) -> bool {
        self.cell().is_some()
    }

    /// Whether the block is paused: it has an address and no memory.
    #[getter]
    fn is_paused(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, flex::Allocation::is_paused)
    }

    /// Frees the block. Freeing it twice is an `InputError`.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> block = FlexAllocator().allocate(1000)
    /// >>> block.free()
    /// >>> block.free()
    /// Traceback (most recent call last):
    ///   ...
    /// cubeyard.errors.InputError: the block was freed before
    fn free(&self, py: Python<'_>) -> PyResult<()> {
        let block = self.cell().take().ok_or_else(freed)?;
        // If another thread is reading the block at this moment, that thread frees it right afterwards.
        let free = move |_: &flex::FlexAllocator| drop(Arc::try_unwrap(block).map(Held::take));
        self.allocator.get().call(py, free)
    }

    /// Gives up ownership without freeing, and returns the address of the block, which `FlexAllocator.free` takes.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator = FlexAllocator()
    /// >>> address = allocator.allocate(1000).leak()
    /// >>> allocator.free(address)
    fn leak(&self, py: Python<'_>) -> PyResult<Address> {
        let block = self.take()?;
        self.allocator.get().call(py, move |_| block.leak().into())
    }

    /// Gives up ownership without freeing, and returns a token, which names the block even after compaction has moved it.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator = FlexAllocator()
    /// >>> token = allocator.allocate(1000).into_token()
    /// >>> allocator.adopt(token).requested
    /// 1000
    #[pyo3(name = "into_token")]
    fn give_up(&self, py: Python<'_>) -> PyResult<AllocationToken> {
        let block = self.take()?;
        self.allocator.get().call(py, move |_| AllocationToken(block.into_token()))
    }

    /// Notes that another stream uses the block too: once freed, it is used again only when that stream has passed
    /// everything that it was given until then.
    fn record_stream(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
    ) -> PyResult<()> {
        self.look(py, |block| block.record_stream(stream))
    }

    /// Changes the requested size of the block in place. Its address and its contents stay.
    ///
    /// A block grows into the range directly behind it. If that is taken, `OutOfMemory` says by what. The end of a block that
    /// becomes shorter is freed.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> block = FlexAllocator().allocate(1000)
    /// >>> block.resize(5000)
    /// >>> block.size
    /// 5120
    fn resize(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::size)] size: u64,
    ) -> PyResult<()> {
        self.look(py, |block| block.resize(Bytes::new(size)))?.or_raise()
    }

    /// Keeps the block in its place, and live even if it is freed, until the pin is released.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> block = FlexAllocator().allocate(1000)
    /// >>> with block.pin() as pin:
    /// ...     assert pin.address == block.address
    fn pin(&self, py: Python<'_>) -> PyResult<Pin> {
        Ok(Pin::new(self.look(py, flex::Allocation::pin)?, self.allocator.bind(py)))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        if self.is_live() { self.free(py) } else { Ok(()) }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if !self.is_live() {
            return Ok("<Allocation, freed>".to_owned());
        }
        self.look(py, |block| format!("<Allocation of {} at {}>", block.size(), block.address()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.allocator)
    }
}

/// Keeps a block live and in its place, until `release()`, the end of a `with` block, or the end of the last reference.
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Pin {
    held: Mutex<Option<Held<flex::Pin>>>,
    /// Address of the block, which stays the same while it is pinned.
    #[pyo3(get)]
    address: Address,
    /// Length of the block in bytes.
    #[pyo3(get)]
    size: u64,
    allocator: Py<FlexAllocator>,
}

impl Pin {
    pub(crate) fn new(pin: flex::Pin, allocator: &Bound<'_, FlexAllocator>) -> Self {
        let (address, size) = (pin.address().into(), pin.size().get());
        let held = Mutex::new(Some(Held::new(pin, allocator.get().forks())));
        Self { held, address, size, allocator: allocator.clone().unbind() }
    }
}

#[pymethods]
impl Pin {
    /// Lets the block go. Releasing a pin twice is an `InputError`.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let pin = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let pin = pin.ok_or_else(|| Kind::Input.error("the pin was released before"))?;
        self.allocator.get().call(py, move |_| drop(pin.take()))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        let released = self.held.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if released { Ok(()) } else { self.release(py) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.allocator)
    }
}
