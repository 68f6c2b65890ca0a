//! Classes `TorchProgram` and `TorchLaunch`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::{self, AllocationToken, Argument, LaunchError};
use cubeyard_memory::{Bytes, VirtualAddress};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::Place;
use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::memory::{Address, Held, figures};

/// Tensor for a launch: the two numbers of its block, and the part of the block that the tensor occupies.
type Operand = (u64, u64, u64, u64);

/// A program in the memory of a device; the base of `torch.ahbm.Program`.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct TorchProgram {
    /// Program; `None` once it has been unloaded.
    program: Mutex<Option<Held<flex::Program>>>,
    place: Place,
}

impl TorchProgram {
    pub(super) fn new(program: flex::Program, place: Place) -> Self {
        Self { program: Mutex::new(Some(Held::new(program, place.forks))), place }
    }

    fn program(&self) -> MutexGuard<'_, Option<Held<flex::Program>>> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, look: impl FnOnce(&flex::Program) -> T) -> PyResult<T> {
        let program = self.program();
        let program =
            program.as_ref().ok_or_else(|| Kind::Closed.error("the program was unloaded"))?;
        Ok(look(program))
    }
}

#[pymethods]
impl TorchProgram {
    /// Present address of the binary.
    #[getter]
    fn address(&self) -> PyResult<Address> {
        self.with(|program| program.memory().address().into())
    }

    /// Length of the binary.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        self.with(|program| program.binary().get())
    }

    /// Number of operands that a launch takes.
    #[getter]
    fn parameters(&self) -> PyResult<usize> {
        self.with(flex::Program::parameters)
    }

    /// Frees its memory, when the last launch of it has ended.
    fn unload(&self) {
        // The program is dropped while no lock is held.
        let program = self.program().take();
        drop(program);
    }

    /// Prepares a launch: keeps the program and its operands in their places, resolves their addresses and writes
    /// these to the corrections on the device.
    fn launch(&self, py: Python<'_>, operands: Vec<Operand>, stream: u32) -> PyResult<TorchLaunch> {
        let arguments: Vec<_> = operands.into_iter().map(argument).collect();
        let launch = self.with(|program| {
            self.place.call(py, |allocator| allocator.launch(program, arguments))
        })??;
        let launch = launch.or_raise()?;
        let (address, buffer) = launch.corrections();
        self.place.write(address, buffer.bytes());
        let launch = Mutex::new(Some(Held::new(launch, self.place.forks)));
        Ok(TorchLaunch { launch, device: self.place.number, stream })
    }
}

fn argument((slot, key, offset, size): Operand) -> Argument<'static> {
    Argument::from(AllocationToken::from_parts(slot, key))
        .part(Bytes::new(offset), Bytes::new(size))
}

impl IntoPyErr for LaunchError {
    fn into_py_err(self) -> PyErr {
        match self {
            Self::Corrections(error) => error.into_py_err(),
            error => Kind::Input.error(error.to_string()),
        }
    }
}

/// A launch that is ready to run; the base of `torch.ahbm.Launch`.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct TorchLaunch {
    /// Launch; `None` once it has ended.
    launch: Mutex<Option<Held<flex::Launch>>>,
    /// Number of the device.
    #[pyo3(get)]
    device: u32,
    /// Number of the stream.
    #[pyo3(get)]
    stream: u32,
}

impl TorchLaunch {
    fn with<T>(&self, look: impl FnOnce(&flex::Launch) -> T) -> PyResult<T> {
        let launch = self.launch.lock().unwrap_or_else(PoisonError::into_inner);
        let launch = launch.as_ref().ok_or_else(|| Kind::Closed.error("the launch has ended"))?;
        Ok(look(launch))
    }
}

#[pymethods]
impl TorchLaunch {
    /// Address of the program.
    #[getter]
    fn program(&self) -> PyResult<Address> {
        self.with(|launch| launch.program().into())
    }

    /// Segment, offset in the region, flat address and size of each operand.
    #[getter]
    fn operands(&self) -> PyResult<Vec<(usize, u64, u64, u64)>> {
        let parts = |operand: &flex::Operand| {
            (operand.segment.0, operand.offset.get(), operand.flat, operand.size.get())
        };
        self.with(|launch| launch.operands().iter().map(parts).collect())
    }

    /// Address and bytes of the corrections: for each operand its flat address and its size, 8 bytes each, the low byte
    /// first.
    #[getter]
    fn corrections<'py>(&self, py: Python<'py>) -> PyResult<(Address, Bound<'py, PyBytes>)> {
        self.with(|launch| {
            let (address, buffer) = launch.corrections();
            (address.into(), PyBytes::new(py, buffer.bytes()))
        })
    }

    /// The segment table of the launch.
    #[getter]
    fn segment_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with(|launch| figures::segments(py, launch.segment_table()))?
    }

    /// Returns the addresses of the tiles of an operand: `tile` bytes each, `stride` bytes apart.
    fn tiles(&self, operand: usize, tile: u64, stride: u64) -> PyResult<Vec<Address>> {
        let (tile, stride) = (Bytes::new(tile), Bytes::new(stride));
        let found = self.with(|launch| launch.tiles(operand, tile, stride))?;
        let none =
            || Kind::Input.error(format!("operand={operand}: the launch has no such operand"));
        Ok(found.ok_or_else(none)?.or_raise()?.map(|place: VirtualAddress| place.into()).collect())
    }

    /// Ends the launch: the device is done with it.
    fn end(&self) {
        // The launch is dropped while no lock is held.
        let launch = self.launch.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(launch);
    }
}
