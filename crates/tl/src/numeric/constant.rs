//! Constants: numbers as elements of a type, and the common type of numbers and tiles.

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;

use super::NumericError;

/// A number as an element of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    dtype: DType,
    /// Bytes of the element, padded with zeros.
    bytes: [u8; 8],
}

impl Constant {
    /// Converts a number: floats are rounded once; integers and bools refuse numbers that they cannot represent.
    pub fn new(number: impl Into<Scalar>, dtype: DType) -> Result<Self, NumericError> {
        let mut encoded = Vec::with_capacity(dtype.width());
        number.into().encode(dtype, &mut encoded)?;
        let mut bytes = [0; 8];
        bytes[..encoded.len()].copy_from_slice(&encoded);
        Ok(Self { dtype, bytes })
    }

    /// Returns 0, whose bytes are 0 in every type.
    pub fn zero(dtype: DType) -> Self {
        Self { dtype, bytes: [0; 8] }
    }

    /// Returns the type of the element.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the little-endian bytes of the element.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.dtype.width()]
    }
}

/// Returns the common type of tiles of `dtype` and numbers, by NumPy's rules for Python numbers.
///
/// A number is converted to the type of the tile if the tile's kind is the same or a later one, in the order bool,
/// integer, float. Otherwise the tile is converted to the default type of the number's kind: a bool tile with whole
/// numbers to `i64`, and any tile with floats to `f64`.
///
/// ```
/// use cubeyard_runtime::dtype::DType;
/// use cubeyard_tl::numeric::promoted;
///
/// assert_eq!(promoted(DType::F16, [0.5.into(), 3.into()]), DType::F16);
/// assert_eq!(promoted(DType::I8, [3.into()]), DType::I8);
/// assert_eq!(promoted(DType::I8, [0.5.into()]), DType::F64);
/// assert_eq!(promoted(DType::Bool, [3.into()]), DType::I64);
/// assert_eq!(promoted(DType::Bool, [true.into()]), DType::Bool);
/// ```
pub fn promoted(dtype: DType, numbers: impl IntoIterator<Item = Scalar>) -> DType {
    numbers.into_iter().fold(dtype, |dtype, number| match number {
        Scalar::Float(_) if !dtype.is_float() => DType::F64,
        Scalar::Int(_) if dtype == DType::Bool => DType::I64,
        _ => dtype,
    })
}

/// Returns `start` plus `count`.
pub(super) fn moved(start: Scalar, count: u64) -> Scalar {
    match start {
        Scalar::Float(value) => Scalar::Float(value + count as f64),
        Scalar::Bool(truth) => Scalar::Int(i128::from(truth) + i128::from(count)),
        Scalar::Int(whole) => Scalar::Int(whole.saturating_add(count.into())),
    }
}
