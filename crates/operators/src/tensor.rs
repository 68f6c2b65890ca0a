//! Tensors without their data: shape, strides and type.

use cubeyard_runtime::dtype::DType;

use crate::error::{OperatorError, refused};

/// Most elements that the strides of a tensor may reach, and most bytes of its storage.
const MOST: u64 = 1 << 46;

/// Element types by the names of PyTorch, with their sizes in bytes.
const NAMES: [(&str, u64); 28] = [
    ("float16", 2),
    ("bfloat16", 2),
    ("float32", 4),
    ("float64", 8),
    ("float8_e4m3fn", 1),
    ("float8_e5m2", 1),
    ("float8_e4m3fnuz", 1),
    ("float8_e5m2fnuz", 1),
    ("float8_e8m0fnu", 1),
    ("float4_e2m1fn_x2", 1),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("uint8", 1),
    ("uint16", 2),
    ("uint32", 4),
    ("uint64", 8),
    ("bool", 1),
    ("complex32", 4),
    ("complex64", 8),
    ("complex128", 16),
    ("qint8", 1),
    ("quint8", 1),
    ("qint32", 4),
    ("bits8", 1),
    ("bits16", 2),
    ("quint4x2", 1),
];

/// Tensor without its data. Its storage begins at a page of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Sizes of the dimensions; none is 0.
    pub(crate) shape: Vec<u64>,
    /// Distances of neighbours in each dimension, in elements.
    pub(crate) strides: Vec<u64>,
    /// Type that stands for the tensor's in the vector unit: the float of its size.
    pub(crate) dtype: DType,
    /// Type that stands for the tensor's in the matrix unit, if that has one of its kind.
    pub(crate) factor: DType,
}

impl Tensor {
    /// Checks a tensor; errors call it `name`.
    ///
    /// Types that the engines lack are replaced by one that moves as many bytes: in the vector unit each type by the
    /// float of its size, and an element of 16 bytes by two of 8. In the matrix unit `int8` and `uint8` are `i8`, narrow
    /// floats and `bool` are 8-bit floats, and types of 4 bytes or more are `f32`.
    pub fn new(
        name: &str,
        shape: &[i64],
        strides: &[i64],
        dtype: &str,
        element_bytes: u64,
    ) -> Result<Self, OperatorError> {
        let Some(&(_, size)) = NAMES.iter().find(|(known, _)| *known == dtype) else {
            return refused(format!(
                "{name}: expected a type of PyTorch such as float16, found `{dtype}`"
            ));
        };
        if size != element_bytes {
            return refused(format!(
                "{name}: elements of {element_bytes} bytes, but {dtype} has {size}"
            ));
        }
        if shape.len() != strides.len() {
            let (found, expected) = (strides.len(), shape.len());
            return refused(format!("{name}: {found} strides for {expected} dimensions"));
        }
        let mut this = Self {
            shape: whole(name, "size", shape, 1)?,
            strides: whole(name, "stride", strides, 0)?,
            dtype: float(size.min(8)),
            factor: factor(dtype, size),
        };
        if size == 16 {
            this.strides.iter_mut().for_each(|stride| *stride *= 2);
            this.shape.push(2);
            this.strides.push(1);
        }
        let fits = this.checked_extent().and_then(|all| all.checked_mul(size.min(8)));
        let elements = this.shape.iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
        if fits.is_none_or(|bytes| bytes > MOST) || elements.is_none_or(|all| all > MOST) {
            return refused(format!(
                "{name}: shape {shape:?} with strides {strides:?} is more than {MOST} bytes"
            ));
        }
        Ok(this)
    }

    /// Creates a contiguous tensor of the crate's own.
    pub(crate) fn contiguous(shape: &[u64], dtype: DType) -> Self {
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        Self { shape: shape.to_vec(), strides, dtype, factor: dtype }
    }

    fn checked_extent(&self) -> Option<u64> {
        let reach = |all: u64, (size, stride): (&u64, &u64)| {
            all.checked_add((size - 1).checked_mul(*stride)?)
        };
        self.shape.iter().zip(&self.strides).try_fold(1, reach)
    }

    /// Returns the number of elements from the first to the last in memory.
    pub(crate) fn extent(&self) -> u64 {
        self.checked_extent().unwrap_or(MOST)
    }

    /// Returns the bytes of its storage.
    pub(crate) fn storage(&self) -> u64 {
        self.extent() * self.dtype.size()
    }

    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Returns the bytes of the elements that the tensor can reach; a dimension with stride 0 counts once.
    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.shape.iter().zip(&self.strides);
        let count: u64 = sizes.map(|(size, stride)| if *stride == 0 { 1 } else { *size }).product();
        count.min(self.extent()) * self.dtype.size()
    }
}

fn whole(name: &str, what: &str, numbers: &[i64], least: u64) -> Result<Vec<u64>, OperatorError> {
    let check = |(axis, &number): (usize, &i64)| match u64::try_from(number) {
        Ok(number) if (least..=MOST).contains(&number) => Ok(number),
        _ => refused(format!(
            "{name}: {what} {number} of dimension {axis}: expected {least} to {MOST}"
        )),
    };
    numbers.iter().enumerate().map(check).collect()
}

/// Returns the float of a size in bytes.
fn float(size: u64) -> DType {
    match size {
        1 => DType::Fp8E4m3,
        2 => DType::F16,
        4 => DType::F32,
        _ => DType::F64,
    }
}

fn factor(name: &str, size: u64) -> DType {
    match (name, size) {
        ("int8" | "uint8" | "qint8" | "quint8", _) => DType::I8,
        ("float8_e5m2" | "float8_e5m2fnuz", _) => DType::Fp8E5m2,
        (_, 1) => DType::Fp8E4m3,
        ("bfloat16", _) => DType::Bf16,
        (_, 2) => DType::F16,
        _ => DType::F32,
    }
}
