//! Classes `Program`, `Launch` and `Operand`.

use std::sync::{Arc, Mutex, PoisonError};

use cubeyard_memory::flex::{self, Argument};
use cubeyard_memory::{Bytes, VirtualAddress};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::address::Address;
use super::block::{Allocation, SharedBlock};
use super::calls::Held;
use super::owner::FlexAllocator;
use super::token::AllocationToken;
use super::{arguments, figures};
use crate::error::{Kind, OrRaise};

/// Memory of a program, until `unload()` or the end of the last reference.
///
/// >>> from cubeyard.memory import FlexAllocator
/// >>> allocator = FlexAllocator()
/// >>> program = allocator.load_program(300_000, parameters=2)
/// >>> program.binary, program.parameters
/// (300000, 2)
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Program {
    /// Program; `None` once it is unloaded. The lock is held with the GIL, and only to access the option.
    held: Mutex<Option<Arc<Held<flex::Program>>>>,
    /// Length of the binary in bytes.
    #[pyo3(get)]
    binary: u64,
    /// Number of operands that a launch takes.
    #[pyo3(get)]
    parameters: usize,
    allocator: Py<FlexAllocator>,
}

impl Program {
    pub(crate) fn new(program: flex::Program, allocator: &Bound<'_, FlexAllocator>) -> Self {
        let (binary, parameters) = (program.binary().get(), program.parameters());
        let held = Mutex::new(Some(Arc::new(Held::new(program, allocator.get().forks()))));
        Self { held, binary, parameters, allocator: allocator.clone().unbind() }
    }

    fn loaded(&self) -> PyResult<Arc<Held<flex::Program>>> {
        let program = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        program.ok_or_else(|| Kind::Input.error("the program was unloaded"))
    }
}

#[pymethods]
impl Program {
    /// Present address of the binary.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<Address> {
        let program = self.loaded()?;
        self.allocator.get().call(py, move |_| program.memory().address().into())
    }

    /// Frees the memory, when the last launch of the program has ended. Unloading twice is an `InputError`.
    fn unload(&self, py: Python<'_>) -> PyResult<()> {
        let program = self.loaded()?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.allocator.get().call(py, move |_| drop(Arc::try_unwrap(program).map(Held::take)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.allocator)
    }
}

/// An operand of a launch, as an address that a program can use.
#[pyclass(frozen, get_all, module = "cubeyard.memory")]
pub(crate) struct Operand {
    /// Entry of the segment table.
    segment: usize,
    /// Offset in the region, in bytes.
    offset: u64,
    /// Flat address of segment and offset.
    flat: u64,
    /// Length in bytes.
    size: u64,
}

impl From<&flex::Operand> for Operand {
    fn from(operand: &flex::Operand) -> Self {
        let flex::Operand { segment, offset, flat, size, .. } = *operand;
        Self { segment: segment.0, offset: offset.get(), flat, size: size.get() }
    }
}

#[pymethods]
impl Operand {
    fn __repr__(&self) -> String {
        let Self { segment, offset, flat, size } = self;
        format!("Operand(segment={segment}, offset={offset:#x}, flat={flat:#x}, size={size})")
    }
}

/// A block for a launch, with the part of it that the operand is.
struct Given {
    block: GivenBlock,
    part: Option<(Bytes, Bytes)>,
}

enum GivenBlock {
    Handle(SharedBlock),
    Token(flex::AllocationToken),
}

impl Given {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok((block, offset, size)) = value.extract::<(Bound<'_, PyAny>, u64, u64)>() {
            let part = Some((Bytes::new(offset), Bytes::new(size)));
            return Ok(Self { part, ..Self::read_block(&block)? });
        }
        Self::read_block(value)
    }

    fn read_block(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let block = if let Ok(block) = value.cast::<Allocation>() {
            GivenBlock::Handle(block.get().live()?)
        } else if let Ok(token) = value.cast::<AllocationToken>() {
            GivenBlock::Token(token.get().0)
        } else {
            let expected =
                "an Allocation, an AllocationToken, or one of them with an offset and a size";
            return Err(arguments::unexpected("operand", value, expected));
        };
        Ok(Self { block, part: None })
    }

    fn argument(&self) -> Argument<'_> {
        let block = match &self.block {
            GivenBlock::Handle(block) => Argument::from(&***block),
            GivenBlock::Token(token) => Argument::from(*token),
        };
        self.part.map_or(block, |(offset, size)| block.part(offset, size))
    }
}

/// Prepares a launch of a program.
pub(crate) fn launch(
    this: &Bound<'_, FlexAllocator>,
    program: &Program,
    operands: &Bound<'_, PyAny>,
) -> PyResult<Launch> {
    let given = operands.try_iter()?.map(|operand| Given::read(&operand?));
    let given = given.collect::<PyResult<Vec<_>>>()?;
    let (program, allocator) = (program.loaded()?, this.get());
    let made = allocator
        .call(this.py(), move |inner| inner.launch(&program, given.iter().map(Given::argument)))?;
    let launch = Mutex::new(Some(Arc::new(Held::new(made.or_raise()?, allocator.forks()))));
    Ok(Launch { launch, allocator: this.clone().unbind() })
}

/// A launch that is ready to run. Until `end()`, the end of a `with` block or of the last reference, the program, the
/// operands and the corrections stay in their places, even if they are freed.
///
/// >>> from cubeyard.memory import FlexAllocator
/// >>> allocator = FlexAllocator()
/// >>> program = allocator.load_program(300_000, parameters=2)
/// >>> weights, batch = allocator.allocate(1 << 20), allocator.allocate(4096).into_token()
/// >>> with allocator.launch(program, [weights, (batch, 1024, 512)]) as launch:
/// ...     print(launch.operands[1])
/// ...     address, corrections = launch.corrections
/// ...     print(len(corrections), [tile.offset for tile in launch.tiles(1, tile=256, stride=128)])
/// Operand(segment=0, offset=0x149800, flat=0x400149800, size=512)
/// 32 [1349632, 1349760, 1349888]
#[pyclass(frozen, module = "cubeyard.memory")]
pub(crate) struct Launch {
    /// Launch; `None` once it has ended. The lock is held with the GIL, and only to access the option.
    launch: Mutex<Option<Arc<Held<flex::Launch>>>>,
    allocator: Py<FlexAllocator>,
}

impl Launch {
    fn running(&self) -> PyResult<Arc<Held<flex::Launch>>> {
        let launch = self.launch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        launch.ok_or_else(|| Kind::Input.error("the launch has ended"))
    }
}

#[pymethods]
impl Launch {
    /// Address of the program.
    #[getter]
    fn program(&self) -> PyResult<Address> {
        Ok(self.running()?.program().into())
    }

    /// Resolved operands, in order.
    #[getter]
    fn operands(&self) -> PyResult<Vec<Operand>> {
        Ok(self.running()?.operands().iter().map(Operand::from).collect())
    }

    /// Address of the launch's block for the operand addresses, and the bytes to write there before the program runs:
    /// for each operand its flat address and its size, 8 bytes each, the low byte first.
    #[getter]
    fn corrections<'py>(&self, py: Python<'py>) -> PyResult<(Address, Bound<'py, PyBytes>)> {
        let launch = self.running()?;
        let (address, buffer) = launch.corrections();
        Ok((address.into(), PyBytes::new(py, buffer.bytes())))
    }

    /// Segment table of the operands, for the device's control block: the id, flat address and size of each region;
    /// `None` for an entry without a region.
    #[getter]
    fn segment_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        figures::segments(py, self.running()?.segment_table())
    }

    /// Returns the addresses of the tiles of an operand: `tile` bytes each, `stride` bytes apart.
    fn tiles(
        &self,
        operand: usize,
        #[pyo3(from_py_with = arguments::tile)] tile: u64,
        #[pyo3(from_py_with = arguments::stride)] stride: u64,
    ) -> PyResult<Vec<Address>> {
        let found = self.running()?.tiles(operand, Bytes::new(tile), Bytes::new(stride));
        let none =
            || Kind::Input.error(format!("operand is {operand}: the launch has no such operand"));
        let tiles = found.ok_or_else(none)?.or_raise()?;
        Ok(tiles.map(|tile: VirtualAddress| tile.into()).collect())
    }

    /// Ends the launch: the device is done with it. Ending it twice is an `InputError`.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let launch = self.running()?;
        *self.launch.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.allocator.get().call(py, move |_| drop(Arc::try_unwrap(launch).map(Held::take)))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        if self.running().is_ok() { self.end(py) } else { Ok(()) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.allocator)
    }
}
