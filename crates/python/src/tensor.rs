//! Tensors: shape, placement, and values to and from NumPy.

use std::sync::Arc;

use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_runtime as runtime;
use cubeyard_runtime::RuntimeError;
use cubeyard_runtime::dtype::DType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

use crate::bytes::{self, HostBytes, dtype};
use crate::error::OrRaise;
use crate::placement::{Distribution, placed};
use crate::session::{Owned, Session, Shared};

/// A tensor of a context. Shape and element type are kept here, so that reading them needs no lock.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Tensor {
    pub(crate) owned: Owned<runtime::Tensor>,
    shape: PyOnceLock<Py<PyTuple>>,
    dimensions: Vec<u64>,
    dtype: DType,
    #[pyo3(get)]
    nbytes: u64,
    #[pyo3(get)]
    is_deployed: bool,
}

/// Shard: PE, first physical address, size and offset.
type ShardParts = (String, u64, u64, u64);

#[pymethods]
impl Tensor {
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let make = || PyTuple::new(py, &self.dimensions).map(Bound::unbind);
        Ok(self.shape.get_or_try_init(py, make)?.clone_ref(py))
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// Puts the tensor on the machine.
    fn to(&self, py: Python<'_>, placement: Distribution) -> PyResult<Self> {
        let placement = placed(placement)?;
        self.derive(py, |tensor| tensor.to(&placement))
    }

    /// Converts the elements; the result is on the host.
    fn to_dtype(&self, py: Python<'_>, dtype_name: &str) -> PyResult<Self> {
        let dtype = dtype(dtype_name)?;
        self.derive(py, |tensor| tensor.to_dtype(dtype))
    }

    fn view(&self, py: Python<'_>, shape: Vec<u64>) -> PyResult<Self> {
        self.part(py, |tensor| tensor.view(&shape))
    }

    fn rows(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Self> {
        self.part(py, |tensor| tensor.rows(start..end))
    }

    /// Copies the elements into a writable contiguous buffer.
    fn read_into(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        bytes::copy_out(py, &self.bytes(py)?.bytes, buffer)
    }

    /// Returns the bytes of the elements, without a copy where the host holds them.
    fn bytes(&self, py: Python<'_>) -> PyResult<HostBytes> {
        let bytes = self.ask(py, runtime::Tensor::bytes)?;
        Ok(HostBytes { bytes })
    }

    /// Writes the elements from a contiguous buffer.
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes::copy_in(py, buffer)?;
        self.ask(py, |tensor| tensor.write_bytes(bytes))
    }

    fn shards(&self, py: Python<'_>) -> PyResult<Vec<ShardParts>> {
        self.look(py, |tensor| {
            let parts = |shard: &runtime::DeployedShard| {
                let runtime::DeployedShard { at, address, nbytes, offset_bytes, .. } = *shard;
                (at.to_string(), address.to_bits(), nbytes.get(), offset_bytes.get())
            };
            Ok(tensor.shards()?.iter().map(parts).collect())
        })
    }

    fn va_base(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.look(py, |tensor| Ok(tensor.va_base()?.map(DeviceVa::to_bits)))
    }

    /// Returns the duration of installing the mappings, in picoseconds.
    fn mapping_latency_ps(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |tensor| Ok(tensor.mapping_latency()?.ps()))
    }

    /// Reads bytes with the DMA of a PE; returns them, if there is data, and the latency in picoseconds.
    fn read_from(
        &self,
        py: Python<'_>,
        pe: &str,
        start: u64,
        end: u64,
    ) -> PyResult<(Option<HostBytes>, u64)> {
        let read = self.owned.shared.run(py, |session| {
            let pe = session.context.machine(|machine| machine.view().pe(pe));
            let pe = pe.map_err(RuntimeError::from).or_raise()?;
            session.get(&self.owned)?.read_from(pe, start..end).or_raise()
        })?;
        let bytes = read.bytes.map(|bytes| HostBytes { bytes: Arc::new(bytes) });
        Ok((bytes, read.latency.ps()))
    }

    /// Draws the distribution over the PEs as SVG.
    fn draw(&self, py: Python<'_>) -> PyResult<String> {
        self.look(py, |tensor| Ok(cubeyard_diagrams::placement(tensor.layout()?)))
    }
}

impl Tensor {
    pub(crate) fn keep(session: &mut Session, shared: &Shared, tensor: runtime::Tensor) -> Self {
        let (dimensions, dtype) = (tensor.shape().dimensions().to_vec(), tensor.dtype());
        let (nbytes, is_deployed) = (tensor.nbytes().get(), tensor.is_deployed());
        let owned = session.keep(shared, tensor);
        Self { owned, shape: PyOnceLock::new(), dimensions, dtype, nbytes, is_deployed }
    }

    fn derive(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&runtime::Tensor) -> Result<runtime::Tensor, RuntimeError> + Send,
    ) -> PyResult<Self> {
        let shared = &self.owned.shared;
        shared.run(py, |session| {
            let tensor = act(session.get(&self.owned)?).or_raise()?;
            Ok(Self::keep(session, shared, tensor))
        })
    }

    /// Creates a view, which takes no simulated time.
    fn part(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&runtime::Tensor) -> Result<runtime::Tensor, RuntimeError>,
    ) -> PyResult<Self> {
        let shared = &self.owned.shared;
        shared.with(py, |session| {
            let tensor = act(session.get(&self.owned)?).or_raise()?;
            Ok(Self::keep(session, shared, tensor))
        })
    }

    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&runtime::Tensor) -> Result<T, RuntimeError> + Send,
    ) -> PyResult<T> {
        self.owned.shared.run(py, |session| act(session.get(&self.owned)?).or_raise())
    }

    fn look<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&runtime::Tensor) -> Result<T, RuntimeError>,
    ) -> PyResult<T> {
        self.owned.shared.with(py, |session| act(session.get(&self.owned)?).or_raise())
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Tensor>()
}
