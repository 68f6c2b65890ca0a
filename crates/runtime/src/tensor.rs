//! Tensors: a shape and an element type on the host, and once deployed, memory on a device.

mod dma;
mod host;
mod values;

pub use dma::DmaRead;
pub use values::Values;

use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::machine::Stage;
use cubeyard_memory::Bytes;
use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_sim::Span;

use crate::context::{Context, DeployedShard, Inner, Storage};
use crate::dtype::{DType, Element};
use crate::error::RuntimeError;
use crate::init::Init;
use crate::placement::{Layout, Placement, Shard};
use crate::shape::Shape;

/// A tensor. Dropping the last one that has a storage gives its memory back.
#[derive(Clone, Debug)]
pub struct Tensor {
    context: Rc<Inner>,
    shape: Shape,
    dtype: DType,
    init: Init,
    storage: Option<Rc<Storage>>,
    /// Where the tensor begins in its storage, for a view.
    offset_bytes: u64,
}

/// Tensors are made on the host, and get memory when they are put onto a device with [`Tensor::to`].
impl Context {
    fn tensor(&self, dimensions: &[u64], dtype: DType, init: Init) -> Result<Tensor, RuntimeError> {
        self.inner.check_open()?;
        let shape = Shape::new(dimensions)?;
        shape.nbytes(dtype)?;
        let context = Rc::clone(&self.inner);
        Ok(Tensor { context, shape, dtype, init, storage: None, offset_bytes: 0 })
    }

    /// A tensor that holds whatever is there.
    pub fn empty(&self, dimensions: &[u64], dtype: DType) -> Result<Tensor, RuntimeError> {
        self.tensor(dimensions, dtype, Init::Empty)
    }

    /// A tensor of zeros.
    pub fn zeros(&self, dimensions: &[u64], dtype: DType) -> Result<Tensor, RuntimeError> {
        self.full(dimensions, dtype, 0.0)
    }

    /// A tensor of ones.
    pub fn ones(&self, dimensions: &[u64], dtype: DType) -> Result<Tensor, RuntimeError> {
        self.full(dimensions, dtype, 1.0)
    }

    /// A tensor of one value.
    pub fn full(
        &self,
        dimensions: &[u64],
        dtype: DType,
        value: f64,
    ) -> Result<Tensor, RuntimeError> {
        dtype.encode(value, &mut Vec::new())?;
        self.tensor(dimensions, dtype, Init::Full(value))
    }

    /// A vector of `count` values from `start` on, `step` apart.
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

    /// A tensor of values evenly spread from 0 to 1, the same for the same seed.
    pub fn rand(
        &self,
        dimensions: &[u64],
        dtype: DType,
        seed: u64,
    ) -> Result<Tensor, RuntimeError> {
        self.tensor(dimensions, dtype, Init::Rand { seed })
    }

    /// A tensor of these elements, row by row.
    pub fn from_slice<T: Element>(
        &self,
        dimensions: &[u64],
        elements: &[T],
    ) -> Result<Tensor, RuntimeError> {
        let data = Init::Data(T::slice_to_bytes(elements).into());
        let tensor = self.tensor(dimensions, T::DTYPE, data)?;
        tensor.check_count(elements.len() as u64)?;
        Ok(tensor)
    }
}

impl Context {
    /// Whether a tensor belongs to this context.
    pub fn owns(&self, tensor: &Tensor) -> bool {
        Rc::ptr_eq(&self.inner, &tensor.context)
    }
}

impl Tensor {
    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What its elements are.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of the elements.
    pub fn nbytes(&self) -> Bytes {
        Bytes::new(self.shape.nbytes(self.dtype).expect("checked when it was made"))
    }

    /// Whether it is on a device.
    pub fn is_deployed(&self) -> bool {
        self.storage.is_some()
    }

    /// The tensor on a device: memory is taken as the placement says, mapped, and written if this one says
    /// what it is to hold. If anything goes wrong, all is given back.
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

    /// The tensor with elements of another type, on the host; one on a device is read back for it. What holds
    /// whatever is there, or values that the context does not have, still does so.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self, RuntimeError> {
        let init = self.contents()?.converted(self.dtype, dtype, self.shape.elements())?;
        let context = Rc::clone(&self.context);
        Ok(Self { context, shape: self.shape, dtype, init, storage: None, offset_bytes: 0 })
    }

    /// What it holds: what is on the device, which is read back, or what it is to hold there.
    fn contents(&self) -> Result<Init, RuntimeError> {
        if self.storage.is_none() {
            return Ok(self.init.clone());
        }
        Ok(match self.read_bytes()? {
            Values::Known(bytes) => Init::Data(bytes.into()),
            Values::Absent => Init::Absent,
        })
    }

    fn deployed(&self) -> Result<&Rc<Storage>, RuntimeError> {
        self.context.check_open()?;
        self.storage.as_ref().ok_or(RuntimeError::NotDeployed)
    }

    /// The storage, if it is of this context.
    pub(crate) fn storage_of(&self, context: &Rc<Inner>) -> Result<Rc<Storage>, RuntimeError> {
        if !Rc::ptr_eq(&self.context, context) {
            return Err(RuntimeError::Foreign);
        }
        self.deployed().cloned()
    }

    /// Returns the first of its contiguous virtual addresses; none where addresses are physical or there are no elements.
    pub fn va_base(&self) -> Result<Option<DeviceVa>, RuntimeError> {
        let base = self.deployed()?.va_base;
        Ok(base.map(|base| DeviceVa::new(base.to_bits() + self.offset_bytes)))
    }

    /// Where its storage is, by offset, and copies of the same part by PE.
    pub fn shards(&self) -> Result<&[DeployedShard], RuntimeError> {
        Ok(&self.deployed()?.shards)
    }

    /// Which PE holds which part of its storage.
    pub fn layout(&self) -> Result<&Layout, RuntimeError> {
        Ok(&self.deployed()?.layout)
    }

    /// How long its mappings took to install, through the fabric.
    pub fn mapping_latency(&self) -> Result<Span, RuntimeError> {
        Ok(self.deployed()?.mapping)
    }

    /// Where that time went, for the mapping that took longest: the stages add up to it.
    pub fn mapping_stages(&self) -> Result<&[(Stage, Span)], RuntimeError> {
        Ok(self.deployed()?.stages.as_ref().map_or(&[], |stages| &stages[..]))
    }

    /// The same memory in another shape.
    pub fn view(&self, dimensions: &[u64]) -> Result<Self, RuntimeError> {
        let shape = self.shape.reshape(dimensions)?;
        if self.storage.is_some() && shape.matrix() != self.shape.matrix() {
            self.check_contiguous()?;
        }
        Ok(Self { shape, ..self.clone() })
    }

    /// Some of its rows, in the same memory, or none of them; a row is all but the first dimension.
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

    /// Whether rows follow each other in its addresses.
    pub(crate) fn is_contiguous(&self) -> bool {
        let Some(storage) = &self.storage else { return true };
        let (_, columns) = storage.layout.shape().matrix();
        let whole = |shard: &Shard| shard.columns.end - shard.columns.start == columns;
        storage.layout.shards().iter().all(whole)
    }

    fn check_contiguous(&self) -> Result<(), RuntimeError> {
        let shape = self.storage.as_ref().map_or(self.shape, |storage| storage.layout.shape());
        self.is_contiguous().then_some(()).ok_or(RuntimeError::NotContiguous { shape })
    }

    pub(crate) fn storage(&self) -> Option<&Rc<Storage>> {
        self.storage.as_ref()
    }

    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    fn check_count(&self, found: u64) -> Result<(), RuntimeError> {
        let expected = self.shape.elements();
        if found == expected {
            return Ok(());
        }
        Err(RuntimeError::Count { shape: self.shape, expected, found })
    }
}
