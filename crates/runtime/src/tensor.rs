//! Tensors on the host and on the machine.

mod dma;
mod host;
mod values;

pub use dma::DmaRead;
pub use values::Values;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_device::machine::CommandStage;
use cubeyard_memory::Bytes;
use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_sim::Span;

use crate::context::{Context, DeployedShard, Inner, Storage};
use crate::dtype::{DType, Element};
use crate::error::RuntimeError;
use crate::init::Init;
use crate::placement::{Layout, Placement, Shard};
use crate::shape::Shape;

/// A tensor: shape, element type and initial values on the host, and once deployed, memory on the machine.
///
/// Clones and views share the memory; dropping the last one frees it.
#[derive(Clone, Debug)]
pub struct Tensor {
    context: Rc<Inner>,
    shape: Shape,
    dtype: DType,
    init: Init,
    pub(crate) storage: Option<Rc<Storage>>,
    /// Offset of a view in the storage.
    pub(crate) offset_bytes: u64,
}

/// Constructors of tensors on the host; [`Tensor::to`] deploys them.
impl Context {
    fn tensor(&self, dimensions: &[u64], dtype: DType, init: Init) -> Result<Tensor, RuntimeError> {
        self.inner.check_open()?;
        let shape = Shape::new(dimensions)?;
        shape.nbytes(dtype)?;
        let context = Rc::clone(&self.inner);
        Ok(Tensor { context, shape, dtype, init, storage: None, offset_bytes: 0 })
    }

    /// Creates a tensor without initial values.
    pub fn empty(&self, dimensions: &[u64], dtype: DType) -> Result<Tensor, RuntimeError> {
        self.tensor(dimensions, dtype, Init::Empty)
    }

    /// Creates a tensor of zeros.
    pub fn zeros(&self, dimensions: &[u64], dtype: DType) -> Result<Tensor, RuntimeError> {
        self.full(dimensions, dtype, 0.0)
    }

    /// Creates a tensor of ones.
    pub fn ones(&self, dimensions: &[u64], dtype: DType) -> Result<Tensor, RuntimeError> {
        self.full(dimensions, dtype, 1.0)
    }

    /// Creates a tensor with all elements equal to one value.
    pub fn full(
        &self,
        dimensions: &[u64],
        dtype: DType,
        value: f64,
    ) -> Result<Tensor, RuntimeError> {
        dtype.encode(value, &mut Vec::new())?;
        self.tensor(dimensions, dtype, Init::Full(value))
    }

    /// Creates a vector of `count` values, starting at `start`, `step` apart.
    pub fn arange(
        &self,
        start: f64,
        step: f64,
        count: u64,
        dtype: DType,
    ) -> Result<Tensor, RuntimeError> {
        for value in [start, start + step * count.saturating_sub(1) as f64] {
            dtype.encode(value, &mut Vec::new())?;
        }
        self.tensor(&[count], dtype, Init::Arange { start, step })
    }

    /// Creates a tensor of uniform random values from 0 to 1, determined by the seed.
    pub fn rand(
        &self,
        dimensions: &[u64],
        dtype: DType,
        seed: u64,
    ) -> Result<Tensor, RuntimeError> {
        self.tensor(dimensions, dtype, Init::Rand { seed })
    }

    /// Creates a tensor of these elements, row by row.
    pub fn from_slice<T: Element>(
        &self,
        dimensions: &[u64],
        elements: &[T],
    ) -> Result<Tensor, RuntimeError> {
        self.from_bytes(dimensions, T::DTYPE, T::slice_to_bytes(elements))
    }

    /// Creates a tensor from the little-endian bytes of its elements, row by row, without copying them.
    pub fn from_bytes(
        &self,
        dimensions: &[u64],
        dtype: DType,
        bytes: Vec<u8>,
    ) -> Result<Tensor, RuntimeError> {
        let found = bytes.len() as u64;
        let tensor = self.tensor(dimensions, dtype, Init::Data(Arc::new(bytes)))?;
        tensor.check_bytes(found)?;
        Ok(tensor)
    }
}

impl Context {
    /// Returns whether a tensor belongs to this context.
    pub fn owns(&self, tensor: &Tensor) -> bool {
        Rc::ptr_eq(&self.inner, &tensor.context)
    }
}

impl Tensor {
    /// Returns the shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of the elements in bytes.
    pub fn nbytes(&self) -> Bytes {
        Bytes::new(self.shape.nbytes(self.dtype).expect("checked when it was made"))
    }

    /// Returns whether the tensor has memory on the machine.
    pub fn is_deployed(&self) -> bool {
        self.storage.is_some()
    }

    /// Deploys the tensor: allocates memory by the placement, maps it, and writes the initial values, if any. On an
    /// error everything is freed.
    pub fn to(&self, placement: &Placement) -> Result<Self, RuntimeError> {
        self.context.check_open()?;
        let layout = {
            let machine = self.context.machine.borrow();
            placement.resolve(self.shape, self.dtype, machine.topology())?
        };
        let init = self.contents()?;
        let storage = Some(self.context.deploy(layout, &init)?);
        Ok(Self { storage, init, offset_bytes: 0, context: Rc::clone(&self.context), ..*self })
    }

    /// Returns a tensor on the host with elements of another type; a deployed tensor is read back first. Unknown values
    /// stay unknown.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self, RuntimeError> {
        let init = self.contents()?.converted(self.dtype, dtype, self.shape.elements())?;
        let context = Rc::clone(&self.context);
        Ok(Self { context, shape: self.shape, dtype, init, storage: None, offset_bytes: 0 })
    }

    /// Returns the values, read back if the tensor is deployed.
    fn contents(&self) -> Result<Init, RuntimeError> {
        if self.storage.is_none() {
            return Ok(self.init.clone());
        }
        Ok(match self.read_bytes()? {
            Values::Known(bytes) => Init::Data(Arc::new(bytes)),
            Values::Absent => Init::Absent,
        })
    }

    fn deployed(&self) -> Result<&Rc<Storage>, RuntimeError> {
        self.context.check_open()?;
        self.storage.as_ref().ok_or(RuntimeError::NotDeployed)
    }

    /// Returns the storage, if it belongs to this context.
    pub(crate) fn storage_of(&self, context: &Rc<Inner>) -> Result<Rc<Storage>, RuntimeError> {
        if !Rc::ptr_eq(&self.context, context) {
            return Err(RuntimeError::Foreign);
        }
        self.deployed().cloned()
    }

    /// Returns the first of the tensor's contiguous virtual addresses; `None` if addresses are physical or there are no
    /// elements.
    pub fn va_base(&self) -> Result<Option<DeviceVa>, RuntimeError> {
        let base = self.deployed()?.va_base;
        Ok(base.map(|base| DeviceVa::new(base.to_bits() + self.offset_bytes)))
    }

    /// Returns the shards of the tensor's memory by offset, copies of the same part by PE.
    pub fn shards(&self) -> Result<&[DeployedShard], RuntimeError> {
        Ok(&self.deployed()?.shards)
    }

    /// Returns the layout of the tensor's memory.
    pub fn layout(&self) -> Result<&Layout, RuntimeError> {
        Ok(&self.deployed()?.layout)
    }

    /// Returns the time taken to install the tensor's mappings through the fabric.
    pub fn mapping_latency(&self) -> Result<Span, RuntimeError> {
        Ok(self.deployed()?.mapping)
    }

    /// Returns the stages of the mapping that took longest; they add up to the [mapping
    /// latency](Self::mapping_latency).
    pub fn mapping_stages(&self) -> Result<&[(CommandStage, Span)], RuntimeError> {
        Ok(self.deployed()?.stages.as_ref().map_or(&[], |stages| &stages[..]))
    }

    /// Returns a view of the same memory in another shape.
    pub fn view(&self, dimensions: &[u64]) -> Result<Self, RuntimeError> {
        let shape = self.shape.reshape(dimensions)?;
        if self.storage.is_some() && shape.matrix() != self.shape.matrix() {
            self.check_contiguous()?;
        }
        Ok(Self { shape, ..self.clone() })
    }

    /// Returns a view of a range of rows, possibly empty; a row spans all dimensions except the first.
    pub fn rows(&self, rows: Range<u64>) -> Result<Self, RuntimeError> {
        self.deployed()?;
        self.check_contiguous()?;
        let mut dimensions = self.shape.dimensions().to_vec();
        let Range { start, end } = rows;
        let Some(first) = dimensions.first_mut().filter(|first| start <= end && end <= **first)
        else {
            return Err(RuntimeError::Rows { start, end, shape: self.shape });
        };
        let row_bytes = self.shape.strides()[0] * self.dtype.size();
        *first = end - start;
        let shape = Shape::new(&dimensions)?;
        let offset_bytes = self.offset_bytes + rows.start * row_bytes;
        Ok(Self { shape, offset_bytes, ..self.clone() })
    }

    /// Returns whether the tensor's addresses are row-major.
    pub(crate) fn is_contiguous(&self) -> bool {
        let Some(storage) = &self.storage else { return true };
        let (_, columns) = storage.layout.shape().matrix();
        let whole = |shard: &Shard| shard.columns.end - shard.columns.start == columns;
        storage.layout.shards().iter().all(whole)
    }

    fn check_contiguous(&self) -> Result<(), RuntimeError> {
        let shape = self.storage.as_ref().map_or(self.shape, |storage| storage.layout.shape());
        self.is_contiguous().then_some(()).ok_or(RuntimeError::NotContiguous(shape))
    }

    /// Checks a number of bytes against the number of elements.
    fn check_bytes(&self, bytes: u64) -> Result<(), RuntimeError> {
        let (expected, found) = (self.shape.elements(), bytes / self.dtype.size());
        if bytes == self.nbytes().get() {
            return Ok(());
        }
        Err(RuntimeError::Count { shape: self.shape, expected, found })
    }
}
